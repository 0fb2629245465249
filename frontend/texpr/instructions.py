"""Instructions by which threads hand over, as `.te` text calls them: mbarriers, TMA and WGMMA.

Each is one of the operators of ``te`` that kernels on CuTe tensors have, so that it is checked,
interpreted and printed as there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from mugraph.dialects import te
from mugraph.dialects.cute import Layout, LayoutError
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.tensor_types import dims, row_major_strides
from mugraph.texpr import syntax
from mugraph.texpr.expressions import ExpressionBuilder
from mugraph.texpr.scope import MbarriersBinding, constant_of, fail, index_of, lookup

Place = tuple[SSAValue, list[SSAValue], AffineMapAttr]
"""A buffer or mbarriers, and an index: its operands and its map."""


@dataclass(frozen=True)
class Instruction:
    """How an instruction is written, and what adds it to the program."""

    usage: str
    build: Callable[[InstructionBuilder, syntax.Apply], None]
    fewest: int
    most: int | None
    in_shared_memory: tuple[int, ...] = ()
    """The operands that it takes of shared memory alone."""

    def accepts(self, count: int) -> bool:
        """Whether it takes so many operands."""
        return self.fewest <= count and (self.most is None or count <= self.most)


INSTRUCTIONS: dict[str, Instruction] = {}
"""Every instruction by its name."""


def _instruction(
    name: str,
    usage: str,
    fewest: int,
    most: int | None = -1,
    in_shared_memory: tuple[int, ...] = (),
) -> Callable[[Callable[[InstructionBuilder, syntax.Apply], None]], None]:
    """Registers what builds an instruction of ``fewest`` operands, or up to ``most``."""

    def register(build: Callable[[InstructionBuilder, syntax.Apply], None]) -> None:
        last = fewest if most == -1 else most
        INSTRUCTIONS[name] = Instruction(usage, build, fewest, last, in_shared_memory)

    return register


def buffers_in_shared_memory(statements: Sequence[syntax.Statement]) -> set[str]:
    """The names of buffers that instructions of some statements take of shared memory alone."""
    found: set[str] = set()
    for node in syntax.nodes_of(statements):
        if isinstance(node, syntax.Apply) and (known := INSTRUCTIONS.get(node.function)):
            operands = [
                node.arguments[at] for at in known.in_shared_memory if at < len(node.arguments)
            ]
            found |= {one.buffer for one in operands if isinstance(one, syntax.Section)}
    return found


class InstructionBuilder(ExpressionBuilder):
    """Adds instructions to a block, and finds their operands."""

    def instruction(self, call: syntax.Apply) -> None:
        """Adds the instruction that a call names."""
        known = INSTRUCTIONS.get(call.function)
        if known is None:
            fail(
                call,
                f"there is no instruction {call.function}; there are {', '.join(INSTRUCTIONS)}",
            )
        if not known.accepts(len(call.arguments)):
            fail(call, f"{call.function} is written {call.function}({known.usage})")
        known.build(self, call)

    def number(self, expression: syntax.Expression, what: str) -> int:
        """A constant operand."""
        return constant_of(expression, self._bindings, what)

    def index(self, expression: syntax.Expression) -> tuple[list[SSAValue], AffineMapAttr]:
        """An index as an operand."""
        variables: list[SSAValue] = []
        found = index_of(expression, self._bindings, variables)
        return variables, AffineMapAttr(AffineMap(len(variables), 0, (found,)))

    def is_mbarrier(self, operand: syntax.Name | syntax.Element) -> bool:
        """Whether an operand is one of some mbarriers."""
        name = operand.buffer if isinstance(operand, syntax.Element) else operand.name
        return isinstance(self._bindings.get(name), MbarriersBinding)

    def mbarrier(self, operand: syntax.Expression) -> Place:
        """One of some mbarriers."""
        name = operand.buffer if isinstance(operand, syntax.Element) else None
        name = operand.name if isinstance(operand, syntax.Name) else name
        binding = None if name is None else lookup(operand, name, self._bindings)
        if not isinstance(binding, MbarriersBinding):
            fail(operand, "expected an mbarrier, full[i] of 'new full: mbarrier[4] #arrivals(1)'")
        if isinstance(operand, syntax.Element):
            if len(operand.indices) != 1:
                fail(operand, f"mbarriers have one index, not {len(operand.indices)}")
            return (binding.value, *self.index(operand.indices[0]))
        return binding.value, [], AffineMapAttr(AffineMap.constant_map(0))

    def box(self, operand: syntax.Expression) -> tuple[Place, tuple[int, ...]]:
        """A box of a buffer: its first coordinate, and its extents."""
        if not isinstance(operand, syntax.Section):
            fail(operand, "expected a box of a buffer, a[i * 64 : 64, 0 : 32]")
        binding = self._buffer(operand, operand.buffer)
        variables: list[SSAValue] = []
        starts = tuple(index_of(one, self._bindings, variables) for one in operand.starts)
        rank = len(binding.type.get_shape())
        if len(starts) != rank:
            fail(operand, f"'{operand.buffer}' has {rank} dimensions, its section {len(starts)}")
        map_ = AffineMapAttr(AffineMap(len(variables), 0, starts))
        extents = tuple(self.number(one, "an extent") for one in operand.extents)
        return (binding.value, variables, map_), extents

    def dense_box(self, operand: syntax.Expression) -> tuple[Place, tuple[int, ...]]:
        """A box whose place is the row-major number of its first element."""
        (buffer, variables, map_), extents = self.box(operand)
        strides = row_major_strides(cast(te.BufferType, buffer.type).get_shape())
        number = AffineExpr.constant(0)
        for start, stride in zip(map_.data.results, strides, strict=True):
            number = number + start * stride
        place = (buffer, variables, AffineMapAttr(AffineMap(len(variables), 0, (number,))))
        return place, extents

    def neighbours(self, operand: syntax.Expression, elements: int) -> Place:
        """A box of so many elements that lie one behind the other."""
        place, extents = self.dense_box(operand)
        shape = cast(te.BufferType, place[0].type).get_shape()
        first = next((d for d, extent in enumerate(extents) if extent > 1), len(extents))
        if extents[first + 1 :] != shape[first + 1 :]:
            fail(operand, f"elements of {dims(extents)} of {dims(shape)} are no neighbours")
        if (count := math.prod(extents)) != elements:
            fail(operand, f"a box of {elements} elements is copied, and these are {count}")
        return place

    def matrix(self, operand: syntax.Expression) -> tuple[Place, tuple[int, int], tuple[int, int]]:
        """A matrix in shared memory: its place, its extents (rows, k), and their strides."""
        place, extents = self.dense_box(operand)
        strides = row_major_strides(cast(te.BufferType, place[0].type).get_shape())
        kept = [pair for pair in zip(extents, strides, strict=True) if pair[0] > 1]
        if len(kept) != 2:
            fail(operand, "a matrix is a box with two extents above 1: rows, and elements along k")
        (rows, columns), (row_stride, column_stride) = zip(*kept, strict=True)
        return place, (rows, columns), (row_stride, column_stride)

    def registers(self, operands: Sequence[syntax.Expression]) -> list[SSAValue]:
        """Whole buffers in registers."""
        found: list[SSAValue] = []
        for operand in operands:
            if not isinstance(operand, syntax.Name):
                fail(operand, "expected the name of a 'reg' buffer")
            found.append(self._buffer(operand, operand.name).value)
        return found

    def shifted(self, place: Place, by: int) -> Place:
        """A place so many elements further."""
        buffer, variables, map_ = place
        moved = tuple(one + by for one in map_.data.results)
        return buffer, variables, AffineMapAttr(AffineMap(len(variables), 0, moved))

    def add(self, operation: Operation, node: syntax.Node) -> None:
        """Adds an operator, checked, at a place of the text."""
        self._append(operation, node)


def _alone(name: str, make: Callable[[], Operation]) -> None:
    """Registers an instruction without operands."""
    _instruction(name, "", 0)(lambda builder, call: builder.add(make(), call))


_alone("barrier.warp", lambda: te.BarrierOp(te.Scope.WARP))
_alone("fence.proxy", te.ProxyFenceOp)
_alone("tma.commit", te.BulkCommitOp)
_alone("wgmma.commit", te.WarpgroupCommitOp)


@_instruction("mbarrier.arrive", "full[i]) or mbarrier.arrive(full[i], bytes", 1, 2)
def _arrive(builder: InstructionBuilder, call: syntax.Apply) -> None:
    place = builder.mbarrier(call.arguments[0])
    announced = builder.number(call.arguments[1], "a number of bytes") if call.arguments[1:] else 0
    builder.add(te.MbarrierArriveOp(*place, announced), call)


@_instruction("mbarrier.wait", "full[i], parity", 2)
def _wait(builder: InstructionBuilder, call: syntax.Apply) -> None:
    barrier, parity = call.arguments
    builder.add(te.MbarrierWaitOp(*builder.mbarrier(barrier), *builder.index(parity)), call)


@_instruction("barrier.sync", "number, threads", 2)
def _sync(builder: InstructionBuilder, call: syntax.Apply) -> None:
    number, threads = (builder.number(one, "a number of a barrier") for one in call.arguments)
    builder.add(te.NamedBarrierOp(number, threads), call)


@_instruction(
    *("tma.load", "a[i : 64, k : 64], t[s : 1, 0 : 64, 0 : 64], full[s]", 3),
    in_shared_memory=(1,),
)
def _load(builder: InstructionBuilder, call: syntax.Apply) -> None:
    source, target, barrier = call.arguments
    tensor, extents = builder.box(source)
    place = builder.neighbours(target, math.prod(extents))
    builder.add(te.BulkLoadOp(tensor, place, extents, builder.mbarrier(barrier)), call)


@_instruction("tma.store", "t[0 : 64, 0 : 64], c[i : 64, j : 64]", 2, in_shared_memory=(0,))
def _store(builder: InstructionBuilder, call: syntax.Apply) -> None:
    source, target = call.arguments
    tensor, extents = builder.box(target)
    place = builder.neighbours(source, math.prod(extents))
    builder.add(te.BulkStoreOp(tensor, place, extents), call)


@_instruction("tma.wait", "groups", 1)
def _wait_stores(builder: InstructionBuilder, call: syntax.Apply) -> None:
    builder.add(te.BulkWaitOp(builder.number(call.arguments[0], "a number of groups")), call)


@_instruction("wgmma.fence", "sums", 1, None)
def _fence_products(builder: InstructionBuilder, call: syntax.Apply) -> None:
    builder.add(te.WarpgroupFenceOp(builder.registers(call.arguments)), call)


@_instruction(
    "wgmma.mma", "sums, a[m : 64, k : 64], b[n : 256, k : 64]", 3, in_shared_memory=(1, 2)
)
def _mma(builder: InstructionBuilder, call: syntax.Apply) -> None:
    """As many instructions as the extent along k asks for."""
    (sums,) = builder.registers(call.arguments[:1])
    (a, (rows, depth), a_strides), (b, (columns, b_depth), b_strides) = (
        builder.matrix(one) for one in call.arguments[1:]
    )
    if depth != b_depth:
        fail(call, f"A has {depth} elements along k, and B {b_depth}")
    type_ = element_type_name(cast(te.BufferType, a[0].type).element_type).upper()
    name = f"SM90_64x{columns}x16_F32{type_}{type_}_SS"
    try:
        atom = mma_atom(name)
    except LayoutError:
        fail(
            call,
            f"no instruction of warp groups multiplies {rows} x {depth} by {columns} x {depth} "
            f"elements of {type_.lower()}: of f16 and bf16 B has 8 to 256 rows, a multiple of 8",
        )
    step = atom.tile_shape("A")[1]
    if depth % step:
        fail(call, f"{name} multiplies {step} elements along k, which do not divide {depth}")
    for k in range(0, depth, step):
        builder.add(
            te.WarpgroupMmaOp(
                name,
                sums,
                builder.shifted(a, k * a_strides[1]),
                Layout((rows, step), a_strides),
                builder.shifted(b, k * b_strides[1]),
                Layout((columns, step), b_strides),
            ),
            call,
        )


@_instruction("wgmma.wait", "groups, sums", 1, None)
def _wait_products(builder: InstructionBuilder, call: syntax.Apply) -> None:
    groups = builder.number(call.arguments[0], "a number of groups")
    builder.add(te.WarpgroupWaitOp(groups, builder.registers(call.arguments[1:])), call)
