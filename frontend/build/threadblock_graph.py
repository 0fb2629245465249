"""The threadblock graph: what every block of a custom kernel computes on tiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import ParseError

from mugraph.build.append import append_operation
from mugraph.build.elementwise import GraphOperators
from mugraph.build.errors import BuildError, build_errors, require_integers
from mugraph.build.named_numbers import NamedNumber
from mugraph.build.tensors import DTensor, STensor
from mugraph.dialects import kn, tb, te
from mugraph.dialects.indirect import gathered_shape
from mugraph.dialects.launch_extents import HeldLength
from mugraph.dialects.maps import Slicing
from mugraph.dialects.shapes import matmul_shape
from mugraph.dialects.tensor_types import value_label
from mugraph.errors import UserError

_NO_LOOP = -1


def _read_operator(
    operator: str, operands: Sequence[STensor], source: str | Path
) -> tuple[str, list[FuncOp]]:
    """The functions of a `.te` text that an operator of these operands needs; its own by name."""
    from mugraph.texpr import read_operator  # only where it is needed

    text, file = source, "source"
    if isinstance(source, Path):
        try:
            text, file = source.read_text(encoding="utf-8"), str(source)
        except OSError as error:
            raise BuildError(f"custom: {source} cannot be read: {error.strerror}") from error
    for operand in operands:
        if operand.dtype not in te.ELEMENT_TYPES.values():
            raise BuildError(
                f"custom: {operand!r} has elements of {operand.dtype}, but a tensor expression has "
                f"{', '.join(te.ELEMENT_TYPES)}; cast it"
            )
    types = [te.BufferType.of(operand.shape, operand.dtype) for operand in operands]
    try:
        symbol, module = read_operator(str(text), file, operator, types, {})
    except (ParseError, UserError) as error:
        raise BuildError(f"custom: {error}") from error
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    for function in functions:
        function.detach()
    return symbol, functions


def add_function(functions: dict[str, FuncOp], function: FuncOp) -> None:
    """Adds a function; raises ``BuildError`` where another one has its name."""
    known = functions.setdefault(function.sym_name.data, function)
    if str(known) != str(function):
        raise BuildError(
            f"custom: there are two different functions {function.sym_name.data}; give one of them "
            "another name"
        )


def result_of(function: FuncOp) -> tuple[tuple[int, ...], Attribute]:
    """The extents and the element type of what a tensor expression gives."""
    types = function.function_type.inputs.data
    last = types[-1]
    if not te.is_result(function, len(types) - 1) or not isinstance(last, te.BufferType):
        raise BuildError(
            f"custom: {function.sym_name.data} gives nothing; write its result behind the "
            "parameters: fn f(x: f16[M]): f16[M]"
        )
    return last.get_shape(), last.element_type


def new_threadblock_graph(
    grid_dim: Sequence[int],
    block_dim: Sequence[int],
    forloop_range: int = 1,
    reduction_dimx: int = 64,
) -> ThreadblockGraph:
    """An empty threadblock graph.

    ``grid_dim`` blocks of ``block_dim`` threads (x, y, z each), ``forloop_range`` iterations, and
    the extent that the ``todimx`` reductions leave.
    """
    return ThreadblockGraph(grid_dim, block_dim, forloop_range, reduction_dimx)


class ThreadblockGraph(GraphOperators[STensor]):
    """A graph of operators on tiles, built call by call; see :func:`new_threadblock_graph`."""

    OPERATORS: ClassVar[dict[str, Any]] = {
        op.name.removeprefix("tb."): op for op in tb.Tb.operations
    }

    def __init__(
        self,
        grid_dim: Sequence[int],
        block_dim: Sequence[int],
        forloop_range: int,
        reduction_dimx: int,
    ) -> None:
        if reduction_dimx < 1:
            raise BuildError(f"reduction_dimx is {reduction_dimx}; expected at least 1")
        self.reduction_dimx = reduction_dimx
        self._block = Block()
        with build_errors():
            grid_dim = require_integers("grid_dim", grid_dim)
            block_dim = require_integers("block_dim", block_dim)
            (forloop_range,) = require_integers("forloop_range", [forloop_range])
            # The operators of the body read grid and loop from the operator around them.
            self._around = kn.CustomizedOp([], [], grid_dim, block_dim, forloop_range, self._block)
            self._around.verify_extents()
        self._inputs: list[DTensor] = []
        self._numbers: dict[SSAValue, BlockArgument] = {}
        """The body's arguments for the numbers that inputs are read through."""
        self._finished = False
        self.functions: dict[str, FuncOp] = {}
        """The tensor expressions that custom operators call, by name."""

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The operators so far, in order."""
        return tuple(self._block.ops)

    def new_input(
        self,
        dtensor: DTensor,
        input_map: Sequence[int],
        forloop_dim: int = _NO_LOOP,
        store_in_dmem: bool = False,
        *,
        tile: Sequence[int] | None = None,
        through: DTensor | None = None,
        name: str | None = None,
    ) -> STensor:
        """A tile of a device tensor.

        ``input_map`` says which dimension each grid axis splits (-1: none), ``forloop_dim`` which
        one the for-loop walks; without it the tile is loaded once and may be used after the loop.
        ``tile`` has the extents of a whole tile, where they shall be larger than those that divide
        the tensor evenly: the last tiles are then smaller.
        ``through`` has numbers of rows, of int32: the tile is one of what ``gather(dtensor,
        through)`` would be, whose dimensions the maps count, and rows are read where they lie.
        Of :meth:`KernelGraph.customized`'s inputs it stands behind the first tensor that is read
        through it.
        Mirage's ``store_in_dmem``, which keeps a tile in device memory, changes nothing: what it
        computes is the same, and where tiles are is the compiler's choice.
        """
        if not isinstance(dtensor, DTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuildError(f"new_input: expected a DTensor, got {type(dtensor).__name__}")
        grid, loop = self._around.grid_dim, self._around.forloop_range
        shape = dtensor.shape
        named = next((each for each in shape if isinstance(each, NamedNumber)), None)
        if named is not None:
            raise BuildError(
                f"new_input: dimension {shape.index(named)} of the tensor is '{named.text}', which "
                "only a call says, and a block's tile has a number of elements; compute it by "
                "operators on whole tensors, such as x @ w, of which the compiler makes kernels"
            )
        if through is not None:
            _require_numbers("new_input", through)
            shape = gathered_shape(shape, through.shape)
        with build_errors(f"new_input of {dtensor!r}"):
            chosen = None if tile is None else tuple(tile)
            slicing = Slicing(shape, tuple(input_map), forloop_dim, grid, loop, chosen)
            extents = slicing.tile_shape()
        inserted = [self._insert(dtensor)]
        numbers = None if through is None else self._numbers.get(through.value)
        if through is not None and numbers is None:
            numbers = self._insert(through)
            inserted.append(numbers)
        type_ = tb.STensorType(extents, dtensor.dtype)
        op = tb.InputOp(inserted[0], input_map, forloop_dim, type_, numbers)
        try:
            result = self._add(op, name)
        except BuildError:
            for argument in reversed(inserted):
                self._block.erase_arg(argument)
            raise
        self._inputs.append(dtensor)
        if through is not None and numbers is not None and len(inserted) > 1:
            self._inputs.append(through)
            self._numbers[through.value] = numbers
        return result

    def _insert(self, dtensor: DTensor) -> BlockArgument:
        """An argument of the body for a tensor."""
        argument = self._block.insert_arg(dtensor.value.type, len(self._block.args))
        argument.name_hint = dtensor.value.name_hint
        return argument

    def new_output(
        self,
        stensor: STensor,
        output_map: Sequence[int],
        forloop_dim: int = _NO_LOOP,
        epilogue: str | None = None,
        *,
        dims: Sequence[int] | None = None,
        ends: Mapping[int, DTensor] | None = None,
        through: DTensor | None = None,
    ) -> None:
        """Stores a tile into a result of the kernel; the order of calls is that of the results.

        ``output_map`` says which dimension each grid axis splits; every axis of extent over 1 must
        be mapped.  With ``forloop_dim`` every iteration stores what it computed, in a slice of its
        own of that dimension; otherwise the tile must be accumulated, where the loop has several.
        ``dims`` are the extents of the result, to be given where the last tiles are smaller than
        the others.
        ``ends`` are tensors of one int32 or int64, which say behind which element along a dimension
        nothing reads the result: blocks leave that out.  Of :meth:`KernelGraph.customized`'s inputs
        they are the last.
        ``through`` has numbers of rows, of int32: the maps count their dimensions, and then those
        of a row, and each row is stored at the place of ``dims`` that its number says, or nowhere
        if there is none, as for -1.  Each place must have one number.  Of
        :meth:`KernelGraph.customized`'s inputs it stands behind ``ends``, or where an input is read
        through it.
        """
        if epilogue is not None:
            raise BuildError(
                f"new_output: epilogue {epilogue!r} is not supported; µGraphs over several GPUs "
                "are not"
            )
        value = self._value(stensor)
        shape = list(stensor.shape)
        if any(not -1 <= dim < len(shape) for dim in output_map):
            raise BuildError(
                f"new_output: output_map {list(output_map)} names a dimension that a tile of rank "
                f"{len(shape)} does not have; expected -1 to {len(shape) - 1}"
            )
        if not -1 <= forloop_dim < len(shape):
            raise BuildError(
                f"new_output: forloop_dim {forloop_dim} is no dimension of a tile of rank "
                f"{len(shape)}; expected -1 to {len(shape) - 1}"
            )
        for dim, blocks in zip(output_map, self._around.grid_dim, strict=False):
            if dim >= 0:
                shape[dim] *= blocks
        if forloop_dim != _NO_LOOP:
            shape[forloop_dim] *= self._around.forloop_range
        with build_errors():
            type_ = TensorType(stensor.dtype, shape if dims is None else dims)
            extents = type_.get_shape()
            if through is not None:
                _require_numbers("new_output", through)
                extents = gathered_shape(extents, through.shape)
            held = {dim: self._hold(end, extents[dim]) for dim, end in (ends or {}).items()}
            numbers = None if through is None else self._numbers.get(through.value)
            if through is not None and numbers is None:
                numbers = self._numbers[through.value] = self._insert(through)
                self._inputs.append(through)
            op = tb.OutputOp(value, output_map, type_, forloop_dim, held, numbers)
        self._append(op)

    def _hold(self, holder: DTensor, largest: int) -> int:
        """The number of a length that a tensor holds."""
        argument = self._insert(holder)
        self._inputs.append(holder)
        lengths = self._around.held_lengths
        self._around.hold([*lengths, HeldLength(argument.index, largest)])
        return len(lengths)

    def rms_norm(
        self,
        x: STensor,
        weight: STensor | None = None,
        epsilon: float = 0.0,
        *,
        name: str | None = None,
    ) -> STensor:
        """x / sqrt(mean of x² over the last dimension of the tile + epsilon), times a weight."""
        value = self._value(x)
        factor = None if weight is None else self._value(weight)
        with build_errors():
            type_ = self._type_of(x.shape, x.dtype)
            op = tb.RmsNormOp(value, type_, factor, epsilon)
        return self._add(op, name)

    def concat_then_matmul(
        self, a1: STensor, a2: STensor, b1: STensor, b2: STensor, *, name: str | None = None
    ) -> STensor:
        """The product of a1 and a2 side by side and of b1 and b2 below each other."""
        values = [self._value(x) for x in (a1, a2, b1, b2)]
        with build_errors():
            type_ = self._type_of(matmul_shape(a1.shape, b1.shape), a1.dtype)
            op = tb.ConcatThenMatmulOp(values, type_)
        return self._add(op, name)

    def custom(
        self,
        operator: str,
        operands: Sequence[STensor],
        source: str | Path,
        *,
        name: str | None = None,
    ) -> STensor:
        """An operator whose body is a tensor expression: ``fn operator`` of a `.te` text.

        ``source`` is the text, or the path of a file.  Sizes in the extents of the function's
        parameters are those of the operands.  Raises ``BuildError`` with the place of an error in
        the text.  See ``docs/texpr.md``.
        """
        values = [self._value(x) for x in operands]
        with build_errors():
            symbol, functions = _read_operator(operator, operands, source)
            for function in functions:
                add_function(self.functions, function)
            result = result_of(self.functions[symbol])
            op = tb.CustomOp(symbol, values, [tb.STensorType(*result)])
        return self._add(op, name)

    def reduction_max(self, x: STensor, dim: int) -> tuple[STensor, STensor]:
        """The largest element along a dimension in all iterations so far, and by how much the
        largest before was below it (minus infinity in none)."""
        value = self._value(x)
        with build_errors():
            type_ = self._type_of(self._with_extent("reduction_max", x, dim, 1), x.dtype)
            op = tb.ReductionMaxOp(value, dim, (type_, type_))
        maximum, difference = self._add_many(op)
        return maximum, difference

    def reduction(self, x: STensor, dim: int, *, name: str | None = None) -> STensor:
        """The sum over one dimension, whose extent becomes 1."""
        return self.reduce("reduction", x, dim, 1, None, name)

    def reduction_to_dimx(self, x: STensor, dim: int, *, name: str | None = None) -> STensor:
        """Result j of ``reduction_dimx`` sums elements j, j + dimx ... of a dimension."""
        return self.reduce("reduction_to_dimx_strided", x, dim, self.reduction_dimx, None, name)

    def forloop_accum(
        self, x: STensor, acc: str | None = None, *, name: str | None = None
    ) -> STensor:
        """What the for-loop leaves of a value of its body.

        ``acc`` is ``None`` (the sum over the iterations), ``"sum"`` (that, summed over the last
        dimension), ``"mean"`` (the mean over both), ``"rms"`` (the root of the mean square over
        both), ``"max"`` (the largest of each element), or ``"sum_todimx"`` (sums of strided groups
        of the last dimension; ``reduction_dimx`` of them remain).
        """
        value = self._value(x)
        if acc == "sum_todimx":
            type_ = tb.STensorType((*x.shape[:-1], self.reduction_dimx), x.dtype)
            return self._add(tb.ForloopAccumSumToDimxStridedOp(value, type_), name)
        kinds = {kind.value for kind in tb.AccumulatorKind}
        if acc is not None and acc not in kinds:
            known = ", ".join(sorted({*kinds - {"none"}, "sum_todimx"}))
            raise BuildError(f"forloop_accum: unknown acc {acc!r}; expected None or one of {known}")
        kind = tb.AccumulatorKind(acc or "none")
        keeps = kind in (tb.AccumulatorKind.NONE, tb.AccumulatorKind.MAX)
        shape = x.shape if keeps else (*x.shape[:-1], 1)
        return self._add(tb.ForloopAccumOp(kind, value, tb.STensorType(shape, x.dtype)), name)

    def forloop_accum_max(self, x: STensor, *, name: str | None = None) -> STensor:
        """The largest that each element is in any iteration."""
        return self.forloop_accum(x, "max", name=name)

    def forloop_accum_rescale(
        self, x: STensor, rescale: STensor, acc: str | None = None, *, name: str | None = None
    ) -> STensor:
        """A sum over the iterations, in each of which what was summed before is multiplied first.

        ``acc`` is ``None`` or ``"sum"``, as in :meth:`forloop_accum`.
        """
        value, factor = self._value(x), self._value(rescale)
        if acc not in (None, "sum"):
            raise BuildError(f"forloop_accum_rescale: unknown acc {acc!r}; expected None or sum")
        kind = tb.RescaledKind(acc or "none")
        shape = x.shape if acc is None else (*x.shape[:-1], 1)
        type_ = tb.STensorType(shape, x.dtype)
        return self._add(tb.ForloopAccumRescaleOp(kind, value, factor, type_), name)

    def carried(
        self,
        shape: Sequence[int],
        dtype: Attribute = f32,
        start: float = 0.0,
        *,
        name: str | None = None,
    ) -> STensor:
        """The state that the iteration before has left; ``start`` everywhere in the first one.

        :meth:`carry` says what it is in the next iteration.
        """
        with build_errors():
            op = tb.CarriedOp(tb.STensorType(tuple(shape), dtype), start)
        return self._add(op, name)

    def carry(self, x: STensor, state: STensor, *, name: str | None = None) -> STensor:
        """Makes ``x`` the state of the next iteration; what the last one leaves, after the loop.

        ``x`` has the extents and the type of the state.
        """
        with build_errors():
            op = tb.CarryOp(self._value(x), self._value(state))
        return self._add(op, name)

    def finish(self, operands: Sequence[SSAValue]) -> kn.CustomizedOp:
        """The operator around the body, bound to its operands; the graph cannot be used again."""
        if self._finished:
            raise BuildError("customized: this threadblock graph is in a kernel already; build one")
        expected = [tensor.value for tensor in self._inputs]
        if list(operands) != expected:
            listed = ", ".join(value_label(value) for value in expected)
            raise BuildError(
                f"customized: the inputs must be the {len(expected)} tensors of the graph's "
                f"new_input calls, in that order: {listed}"
            )
        outputs = [op for op in self._block.ops if isinstance(op, tb.OutputOp)]
        if not outputs:
            raise BuildError("customized: the graph stores nothing; call new_output")
        types = [op.dtensor_type for op in outputs]
        around = self._around
        body = around.detach_region(around.body)
        self._finished = True
        return kn.CustomizedOp(
            *(operands, types, around.grid_dim, around.block_dim, around.forloop_range, body),
            lengths=around.held_lengths,
        )

    def _type_of(self, shape: Sequence[int], dtype: Attribute) -> Attribute:
        return tb.STensorType(shape, dtype)

    def _handle(self, value: SSAValue) -> STensor:
        return STensor(value, self)

    def _append(self, op: Operation) -> None:
        if self._finished:
            raise BuildError("this threadblock graph is in a kernel already; build another")
        append_operation(self._block, op, self._around.verify_phases)


def _require_numbers(method: str, through: object) -> None:
    """Raises :class:`BuildError` for numbers of rows that are no tensor."""
    if not isinstance(through, DTensor):
        raise BuildError(
            f"{method}: expected a DTensor of numbers of rows for 'through', got "
            f"{type(through).__name__}"
        )
