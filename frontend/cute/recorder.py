"""Records what algorithms do with a thread's tensors as operators of the kernel."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, nullcontext
from math import gcd
from typing import Any

from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import f32, i1, i32
from xdsl.ir import SSAValue

from mugraph.cute import instructions
from mugraph.cute.async_recorder import AsyncRecorder
from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Numeric, Predicate, as_index
from mugraph.cute.numbers import (
    Number,
    RecordedEngine,
    TruthRegisters,
    as_value,
    dtype_named,
    element_of,
    stored,
)
from mugraph.cute.recording import conditions_of
from mugraph.cute.sizes import at_most
from mugraph.cute.tensors import RecordedTensor
from mugraph.cute.views import apart, element, engine_of, plain, start_of
from mugraph.dialects import te
from mugraph.dialects.cute import Layout, coalesce, logical_divide
from mugraph.dialects.cute.algorithms import Product
from mugraph.dialects.cute.atoms.copy import CopyAtom
from mugraph.dialects.cute.atoms.mma import MmaAtom
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.cute.engines import TransformEngine
from mugraph.dialects.cute.recast import max_common_vector
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tensor import Tensor
from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.texpr import scalars


class Recorder(AsyncRecorder):
    """Executes algorithms by recording them; one thread's view stands for that of all threads."""

    def barrier(self) -> None:
        """All threads of the block meet."""
        self.recording.between(te.BarrierOp(te.Scope.BLOCK))

    def commit(self) -> None:
        """Closes a group of asynchronous copies."""
        self.recording.between(te.CommitOp())

    def wait(self, groups: int) -> None:
        """Waits for all but so many newest groups of asynchronous copies."""
        self.recording.between(te.WaitOp(groups))

    def shared(self, dtype: Any, layout: Any, name: str, alignment: int) -> Tensor:
        """A new tensor in shared memory; the buffer has the layout's swizzle."""
        found = dtype_named(dtype)
        swizzle = layout.swizzle if isinstance(layout, ComposedLayout) else None
        flat = Layout((layout.cosize(),), (1,))
        lies = None if swizzle is None else LayoutAttr(ComposedLayout(swizzle, 0, flat))
        type_ = te.BufferType.of((layout.cosize(),), element_of(found), lies, te.Space.SHARED)
        if swizzle is not None:
            # The hardware swizzles addresses: the buffer begins where the pattern does.
            period = 1 << (swizzle.bits + swizzle.base + swizzle.shift)
            alignment = max(alignment, period * found.itemsize)
        buffer = self.recording.shared(type_, name, max(alignment, VECTOR_BYTES))
        return RecordedTensor(RecordedEngine(self.recording, buffer, found, swizzle), layout)

    @contextmanager
    def when(self, condition: Any) -> Generator[None]:
        """What runs where a condition holds."""
        if condition is True:
            yield
            return
        if isinstance(condition, Predicate):
            around = self.recording.condition(condition)
            states = self.states.condition(condition)
        elif isinstance(condition, Number) and condition.value.type == i1:
            around = self.recording.truth(condition.value)
            states = self.states.unchanged("a condition on elements")
        elif condition is False:
            around = self.recording.left_out()
            states = self.states.unchanged("a condition that never holds")
        else:
            raise KernelError(
                f"when: {condition!r} is no condition, such as 'thread < 32' on threads, blocks or "
                "iterations, or 'a[i] > 0' on elements"
            )
        with around, states:
            yield

    def iterate(self, extent: Numeric, name: str) -> Iterator[Numeric]:
        """One iteration, which stands for all of a loop."""
        most = at_most(extent)
        if most < 2 and isinstance(extent, int):
            yield from range(extent)
            return
        with (
            self.recording.loop(most, name) if most > 1 else nullcontext(0) as variable,
            self.states.loop(variable, extent),
            self.recording.where(variable < extent),
        ):
            try:
                yield variable
            except GeneratorExit:
                self.recording.left_early = most
                raise

    def registers(self, elements: int, dtype: Any) -> RecordedEngine:
        """New registers of each thread."""
        found = dtype_named(dtype)
        buffer = self.recording.registers(elements, element_of(found))
        kind = TruthRegisters if found.kind == "b" else RecordedEngine
        return kind(self.recording, buffer, found)

    def shuffle(self, kind: str, value: Any, offset: Any, clamp: int) -> Any:
        """What the thread gets of another one of its warp."""
        if isinstance(value, int | float):
            return value  # the same in all threads
        found = scalars.widened(as_value(self.recording, value), self.recording.add)
        if found.type not in (f32, i32):
            raise KernelError(f"shuffle_sync: threads pass on 32 bits, not {found.type}")
        held = self.registers(1, str(found.type))
        lane = [] if isinstance(offset, int) else [as_value(self.recording, offset)]
        if [one for one in lane if one.type != i32]:
            raise KernelError(f"shuffle_sync: {offset} is no lane, which are integers")
        text = f"shfl.sync.{kind}.b32 %0, %1, {'%2' if lane else offset}, {clamp}, 0xffffffff;"
        directions = [te.Direction.OUT, te.Direction.IN, *(te.Direction.IN for _one in lane)]
        self.recording.add(te.AsmOp(text, directions, [held.buffer, found, *lane]))
        return held.load(0)

    # Copies.

    def copy(self, atom: CopyAtom | None, source: Tensor, target: Tensor, where: Any) -> None:
        """Copies elements, in the widest vectors that both sides allow or by an instruction."""
        if isinstance(source.engine, TransformEngine):
            with self._each(target.size(), "i") as index:
                target[index] = source[index]
            return
        sides = engine_of(source, "copy"), engine_of(target, "copy")
        if atom is not None and atom.threads > 1:
            self._move_matrices(atom, source, target)
            return
        instructions.require_copy(atom)
        width = self._width(atom, source, target, where)
        if instructions.is_async(atom):
            spaces = tuple(side.space for side in sides)
            if spaces != (te.Space.GLOBAL, te.Space.SHARED):
                raise KernelError(
                    f"copy: {atom.name if atom else ''} copies from device to shared memory, not "
                    f"from {spaces[0]} to {spaces[1]} memory"
                )
        ratio = 1 if where is None else target.size() // where.size()
        fills = atom is not None and atom.fills_zeros
        move = self._copy_async if instructions.is_async(atom) else self._move
        known = where is not None and isinstance(where.engine, TruthRegisters)
        for vector in range(target.size() // width) if known else [None]:
            with self._each(target.size() // width, "v", vector) as number:
                predicate = True if where is None else where[number * width // ratio]
                if fills and predicate is not True:
                    self._copy_async(source, target, number * width, width, predicate)
                elif predicate is not False:
                    with self._where(predicate):
                        move(source, target, number * width, width)

    @contextmanager
    def _each(self, count: int, name: str, only: int | None = None) -> Generator[Numeric]:
        """A loop that is written out; none for one of its iterations, or a single one."""
        if count == 1 or only is not None:
            yield only or 0
            return
        with self.recording.loop(count, name, unroll=True) as variable:
            yield variable

    def _where(self, predicate: Any) -> Any:
        if predicate is True:
            return nullcontext()
        return self.recording.condition(self._predicate(predicate), in_step=True)

    @staticmethod
    def _predicate(predicate: Any) -> Predicate:
        if predicate is False:
            return Predicate(((as_index(-1), False),))
        if isinstance(predicate, Predicate):
            return predicate
        raise KernelError(
            f"copy_if: {predicate!r} is no condition; predicates are comparisons of indices, as of "
            "elem_less"
        )

    def _width(self, atom: CopyAtom | None, source: Tensor, target: Tensor, where: Any) -> int:
        """How many elements move at once."""
        sides = engine_of(source, "copy"), engine_of(target, "copy")
        ratio = target.size() if where is None else target.size() // where.size()
        bits = 8 * max(side.dtype.itemsize for side in sides)
        wanted = None if atom is None else atom.value_layouts(bits)[2][1].size()
        if all(side.space is te.Space.REGISTER for side in sides):
            return 1
        width = VECTOR_BYTES * 8 // bits if wanted is None else wanted
        if wanted is None:
            width = gcd(width, ratio)
        common = max_common_vector(apart(source), apart(target))
        while width > 1 and not self._is_vector(width, common, source, target):
            if wanted is not None:
                assert atom is not None
                raise KernelError(
                    f"copy: {atom.name} moves {wanted} elements at once; the source "
                    f"{source.layout} and the destination {target.layout} have no {wanted} "
                    f"neighbours in common that begin at multiples of {wanted}"
                )
            width //= 2
        if ratio % width:
            raise KernelError(
                f"copy_if: a predicate is of {ratio} elements, and {width} are copied at once"
            )
        return width

    def _is_vector(self, width: int, common: int, *tensors: Tensor) -> bool:
        if common % width:
            return False
        for tensor in tensors:
            engine = engine_of(tensor, "copy")
            if engine.space is te.Space.REGISTER:
                continue
            steps = coalesce(logical_divide(coalesce(plain(tensor)), width)[1])
            modes = zip(steps.flat_shape, steps.flat_stride, strict=True)
            starts = [stride for extent, stride in modes if extent > 1]
            if any(start % width for start in (as_index(start_of(tensor)).multiple, *starts)):
                return False
            if engine.swizzle is not None and (1 << engine.swizzle.base) % width:
                return False
            # Rows as long as a call says begin where its multiples are.
            row = engine.sizes[-1] if len(engine.sizes) > 1 else None
            if row is not None and row.multiple % width:
                return False
        return True

    def _copy_async(
        self,
        source: Tensor,
        target: Tensor,
        first: Numeric,
        width: int,
        exists: Any = True,
    ) -> None:
        """Sends a vector from ``first`` on; zeros where it does not exist."""
        sides = engine_of(source, "copy"), engine_of(target, "copy")
        # What never exists has no place.
        index = [0] * len(sides[0].type.get_shape()) if exists is False else element(source, first)
        begin, end = sides[0].place(index, width), sides[1].place(element(target, first), width)
        ends = (sides[0].buffer, *begin, sides[1].buffer, *end, width)
        if exists is True:
            self.recording.add(te.CopyAsyncOp(*ends))
        else:
            conditions = conditions_of(self._predicate(exists))
            self.recording.add(te.CopyAsyncOrZeroOp(*ends, conditions))

    def _move(self, source: Tensor, target: Tensor, first: Numeric, width: int) -> None:
        """Moves a vector, from ``first`` on, through registers of its own."""
        begin, end = engine_of(source, "copy"), engine_of(target, "copy")
        if width == 1:
            end.store(element(target, first), begin.load(element(source, first)))
            return
        held = self._row(width, begin)
        if begin.space is te.Space.REGISTER:
            for place in range(width):
                held.store(place, begin.load(element(source, first + place)))
        else:
            where = begin.place(element(source, first), width)
            self.recording.add(te.LoadOp(held.buffer, begin.buffer, *where))
        if end.space is te.Space.REGISTER:
            for place in range(width):
                end.store(element(target, first + place), held.load(place))
            return
        if begin.dtype != end.dtype:
            other = self._row(width, end)
            for place in range(width):
                other.store(place, held.load(place))
            held = other
        where = end.place(element(target, first), width)
        self.recording.add(te.StoreOp(held.buffer, end.buffer, *where))

    def _row(self, width: int, like: RecordedEngine) -> RecordedEngine:
        """Registers for a vector, of this place alone."""
        element = element_of(like.dtype)
        new = self.recording.add(
            te.NewOp(te.BufferType.of((width,), element, None, te.Space.REGISTER))
        )
        new.name_hint = "vector"
        return RecordedEngine(self.recording, new, like.dtype)

    def _move_matrices(self, atom: CopyAtom, source: Tensor, target: Tensor) -> None:
        """``ldmatrix``, ``stmatrix``: each thread has an address of a line and part of matrices."""
        stores = instructions.stores_matrices(atom)
        shared, registers = (target, source) if stores else (source, target)
        sides = engine_of(source, "copy"), engine_of(target, "copy")
        if (engine_of(shared, "copy").space, engine_of(registers, "copy").space) != (
            te.Space.SHARED,
            te.Space.REGISTER,
        ):
            raise KernelError(
                f"copy: {atom.name} {instructions.WAY[stores]}, not from {sides[0].space} to "
                f"{sides[1].space} memory"
            )
        if any(side.dtype.itemsize != 2 for side in sides):
            raise KernelError(f"copy: {atom.name} moves elements of 16 bits, not {sides[0].dtype}")
        of_source, of_target, _ref = (one[1].size() for one in atom.value_layouts(16))
        lines, held = (of_target, of_source) if stores else (of_source, of_target)
        if max_common_vector(plain(shared), Layout(shared.size())) % lines or (
            not self._is_vector(lines, lines, shared)
        ):
            raise KernelError(
                f"copy: {atom.name} moves lines of {lines} neighbours that begin at multiples of "
                f"{lines}; in shared memory is the layout {shared.layout}"
            )
        run = gcd(max_common_vector(plain(registers), Layout(registers.size())), held)
        if run % 2:
            raise KernelError(
                f"copy: {atom.name} has registers of two neighbours; the fragment has the layout "
                f"{registers.layout}"
            )
        # All registers in one operand, or each in one of its own.
        run = run if run == held else 2
        count = held // run
        text = instructions.matrices(atom, count)
        with self._each(shared.size() // lines, "v") as vector:
            line = self._section(shared, vector * lines, lines)
            places = [vector * held + place for place in range(0, held, run)]
            parts = [self._section(registers, place, run) for place in places]
            found = [line, *parts] if stores else [*parts, line]
            written = 1 if stores else count
            directions = [te.Direction.OUT] * written
            directions += [te.Direction.IN] * (len(found) - written)
            self.recording.add(te.AsmOp(text, directions, found))

    def _section(self, tensor: Tensor, coord: Any, width: int) -> SSAValue:
        """Neighbours of a buffer that is flat, from a coordinate of a tensor on."""
        engine = engine_of(tensor, "an instruction")
        where = engine.place(element(tensor, coord), width)
        return self.recording.add(te.SectionOp(engine.buffer, *where, (width,)))

    # Products.

    def multiply(self, product: Product) -> None:
        """Fused multiply-adds of single threads, or instructions of a warp."""
        atom = product.atom
        if atom is not None and not atom.is_scalar:
            self._multiply_together(atom, product)
            return
        a, b, c = product.a, product.b, product.c
        for name, tensor in (("A", a), ("B", b), ("C", c)):
            engine_of(tensor, f"gemm: {name}")
        values, rows, columns = (mode.size() for mode in c.layout)
        with (
            self._each(a.layout[2].size(), "k") as k,
            self._each(rows, "m") as m,
            self._each(columns, "n") as n,
            self._each(values, "i") as v,
        ):
            left, right, total = a[v, m, k], b[v, n, k], c[v, m, n]
            if c.dtype.kind == "i":
                c[v, m, n] = total + left * right
                return
            terms = [scalars.widened(one.value, self.recording.add) for one in (left, right, total)]
            op = math_dialect.FmaOp(terms[0], terms[1], terms[2])
            c[v, m, n] = Number(self.recording, self.recording.add(op))

    def _multiply_together(self, atom: MmaAtom, product: Product) -> None:
        if atom.c_space == "tensor":
            raise KernelError(
                f"gemm: {atom.name} adds up in tensor memory, which kernels do not have; multiply "
                "by SM90_64x... or SM80_16x8x16_..."
            )
        if atom.a_space == "shared":
            self.multiply_warpgroup(atom, product)
            return
        text = instructions.mma(atom)
        tensors = {"A": product.a, "B": product.b, "C": product.c}
        for name, tensor in tensors.items():
            engine = engine_of(tensor, f"gemm: {name}")
            wanted = str(element_of(engine.dtype))
            known = {"A": atom.a_type, "B": atom.b_type, "C": atom.c_type}[name]
            if engine.space is not te.Space.REGISTER or wanted != known:
                raise KernelError(
                    f"gemm: {atom.name} takes {name} as {known} in registers, not as {wanted} in "
                    f"{engine.space} memory"
                )
            values = plain(tensor)[0]
            if max_common_vector(values, Layout(values.size())) < values.size():
                raise KernelError(
                    f"gemm: the {values.size()} values of {name} of {atom.name} are no neighbours "
                    f"in the fragment {tensor.layout}; make it with make_fragment_like"
                )
        a, b, c = product.a, product.b, product.c
        with (
            self._each(a.layout[2].size(), "k") as k,
            self._each(a.layout[1].size(), "m") as m,
            self._each(b.layout[1].size(), "n") as n,
        ):
            places = ((a, (0, m, k)), (b, (0, n, k)), (c, (0, m, n)))
            operands = [
                self._section(tensor, coord, tensor.layout[0].size()) for tensor, coord in places
            ]
            directions = [te.Direction.IN, te.Direction.IN, te.Direction.INOUT]
            self.recording.add(te.AsmOp(text, directions, operands))

    # Element by element.

    def fill(self, tensor: Tensor, value: Any) -> None:
        """Writes a number to every element."""
        engine = engine_of(tensor, "fill")
        with self._each(tensor.size(), "i") as index:
            number = stored(self.recording, value, engine.type.element_type)
            tensor[index] = Number(self.recording, number)

    def combine(self, alpha: Any, x: Tensor, beta: Any, y: Tensor) -> None:
        """``y = alpha * x + beta * y``."""
        engine_of(x, "axpby")
        engine_of(y, "axpby")
        with self._each(y.size(), "i") as index:
            value = x[index] if _is(alpha, 1) else alpha * x[index]
            if not _is(beta, 0):
                value = value + (y[index] if _is(beta, 1) else beta * y[index])
            y[index] = value


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int | float) and value == number
