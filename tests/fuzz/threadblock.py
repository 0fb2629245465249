"""Random threadblock graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import TensorType, f32, i8, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from fuzz.drawing import (
    MAX_TENSOR,
    MAX_TILE,
    Chooser,
    Partition,
    bounds_of,
    draw_output_map,
    draw_partition,
    draw_partition_of_tile,
)
from fuzz.ranges import OutOfRangeError, Range, combines_some_elements, range_of_result
from mugraph.dialects import tb
from mugraph.dialects.elementwise import (
    UNARY_FUNCTIONS,
    Epilogue,
    EpilogueAttr,
    ScalarFunction,
)
from mugraph.dialects.interfaces import HasEpilogue
from mugraph.dialects.kn import CustomizedOp, loop_invariant_tiles
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tb.ragged import check_bounds
from mugraph.dialects.tensor_types import element_type_of, shape_of

NewArgument = Callable[[TensorType[Any]], SSAValue]
"""Makes an argument of the function of that type."""

GRIDS = ((1, 1, 1), (2, 1, 1), (3, 1, 1), (1, 2, 1), (2, 2, 1), (2, 1, 3), (1, 3, 2), (5, 1, 1))
BLOCKS = (
    (128, 1, 1),
    (32, 1, 1),
    (64, 1, 1),
    (96, 1, 1),
    (256, 1, 1),
    (16, 4, 1),
    (8, 2, 4),
    (48, 1, 1),
    (33, 1, 1),
    (1, 1, 1),
    (7, 1, 1),
    (20, 1, 1),
)
UNARY = tuple(
    operator for name, operator in tb.UNARY_OPERATORS.items() if not UNARY_FUNCTIONS[name].constants
)
CLAMPS = ((-0.5, 0.5), (0.25, 6.0), (0.0, 0.0))
"""The bounds of clamps."""
BINARY = tuple(tb.BINARY_OPERATORS.values())
SCALARS = (0.5, -0.25, 1.5, 0.0625, 0.1)


@dataclass
class ThreadblockDrawer:
    """Draws the body of one ``kn.customized``.

    ``dtensors`` are what its inputs may read beside new arguments of the function; ``ranges``
    holds their ranges and gets those of all values drawn.
    """

    chooser: Chooser
    dtensors: Sequence[SSAValue]
    ranges: dict[SSAValue, Range]
    new_argument: NewArgument
    grid: tuple[int, int, int] = (1, 1, 1)
    block_dim: tuple[int, int, int] = (128, 1, 1)
    iterations: int = 1
    block: Block = field(default_factory=Block)
    bounds: dict[SSAValue, Bounds] = field(default_factory=dict[SSAValue, Bounds])
    """Which elements of the tiles exist."""
    operands: list[SSAValue] = field(default_factory=list[SSAValue])
    looped: list[SSAValue] = field(default_factory=list[SSAValue])
    """Tiles of the loop body, and those that the loop does not move."""
    after: list[SSAValue] = field(default_factory=list[SSAValue])
    """Tiles that exist after the loop."""

    def draw(self) -> CustomizedOp | None:
        """The operator; ``None`` where no value was fit to be stored."""
        choose = self.chooser
        self.grid = choose.pick(GRIDS)
        self.block_dim = choose.pick(BLOCKS)
        self.iterations = choose.number(1, 5)
        self.draw_input()
        for _ in range(choose.number(1, 9)):
            self.draw_step()
        self.accumulate_leftovers()
        results = self.draw_outputs()
        if not results:
            return None
        op = CustomizedOp(
            self.operands, results, self.grid, self.block_dim, self.iterations, self.block
        )
        for output, result in zip(
            [op for op in self.block.ops if isinstance(op, tb.OutputOp)], op.outputs, strict=True
        ):
            stored = self.ranges[output.stensor].rounded(element_type_of(result.type))
            self.ranges[result] = stored
        return op

    # Inputs.

    def draw_input(
        self, tile: tuple[int, ...] | None = None, bounds: Bounds | None = None
    ) -> SSAValue | None:
        """A tile, of given extents where the caller needs them, of an old or a new tensor.

        ``bounds`` is which elements must exist, where the caller needs that.
        """
        if self.dtensors and self.chooser.chance(60):
            found = self.draw_input_of_existing(tile)
            if found is not None or self.block.args:
                return found
        extents = tile or self.chooser.shape(self.chooser.pick((2, 2, 3, 1, 4)))
        wanted = None if bounds is None or not any(bounds) else bounds
        drawn = draw_partition_of_tile(self.chooser, extents, self.grid, self.iterations, wanted)
        if drawn is None:
            return None
        partition, shape = drawn
        type_ = self.chooser.tensor_type(shape, self.chooser.element_type())
        return self.add_input(self.new_argument(type_), partition, extents)

    def draw_input_of_existing(self, tile: tuple[int, ...] | None) -> SSAValue | None:
        dtensor = self.chooser.pick(self.dtensors)
        shape = shape_of(dtensor.type)
        partition, cut = draw_partition(self.chooser, shape, self.grid, self.iterations)
        if math.prod(cut) > MAX_TILE or tile not in (None, cut):
            return None
        return self.add_input(dtensor, partition, cut)

    def add_input(self, dtensor: SSAValue, partition: Partition, tile: tuple[int, ...]) -> SSAValue:
        if dtensor in self.operands and not self.chooser.chance(15):
            argument = self.block.args[self.operands.index(dtensor)]
        else:
            self.operands.append(dtensor)
            argument = self.block.insert_arg(dtensor.type, len(self.block.args))
            self.ranges[argument] = self.ranges[dtensor]
        type_ = tb.STensorType(tile, element_type_of(dtensor.type))
        op = tb.InputOp(argument, partition.map_, partition.fordim, type_)
        self.block.add_op(op)
        self.ranges[op.result] = self.ranges[dtensor]
        extents = shape_of(dtensor.type)
        bounds = bounds_of(extents, partition, self.grid, self.iterations, tile)
        assert bounds is not None  # the tile was drawn for the tensor
        self.bounds[op.result] = bounds
        self.looped.append(op.result)
        return op.result

    # Operators.

    def cast(self, operand: SSAValue, type_: Attribute) -> SSAValue | None:
        """A tile in another element type; ``None`` where it would be too inexact there."""
        return self.add(tb.CastOp(operand, tb.STensorType(shape_of(operand.type), type_)))

    def join(self, operands: Sequence[SSAValue], *, strictly: bool) -> list[SSAValue] | None:
        """Operands of types that may meet, some of them cast; ``None`` where that is no use.

        f32 may stand beside another type unless they must be the same (``strictly``).
        """
        first, second = operands
        one, other = (element_type_of(value.type) for value in operands)
        if one == other or (not strictly and f32 in (one, other)):
            return [first, second]
        type_ = self.chooser.pick((f32, one, other))
        joined = [
            value if element_type_of(value.type) == type_ else self.cast(value, type_)
            for value in operands
        ]
        return [value for value in joined if value is not None] if None not in joined else None

    def draw_cast(self) -> None:
        operand = self.draw_operand()
        type_ = self.chooser.element_type()
        if type_ != element_type_of(operand.type):
            self.cast(operand, type_)

    def draw_integers(self) -> None:
        """A product of i8 or a sum of i32, cast to f32: integers take part in nothing else."""
        tile = self.chooser.shape(2, 256)
        if self.chooser.chance(50):
            whole = self.draw_new_input(tile, i32)
            type_ = tb.STensorType((tile[0], 1), i32)
            self.add_sum(tb.ReductionOp(whole, 1, type_) if self.chooser.chance(50) else whole)
        else:
            (free,) = self.chooser.shape(1, 32)
            lhs, rhs = (self.draw_new_input(shape, i8) for shape in (tile, (tile[1], free)))
            self.add_sum(tb.MatmulOp(lhs, rhs, tb.STensorType((tile[0], free), i32)))
        for values in (self.looped, self.after):
            values[:] = [value for value in values if element_type_of(value.type) not in (i8, i32)]

    def add_sum(self, summed: Operation | SSAValue) -> None:
        """Integers, perhaps summed over the iterations, and cast."""
        value = self.add(summed) if isinstance(summed, Operation) else summed
        if value is not None and self.chooser.chance(50):
            none = tb.AccumulatorKind.NONE
            value = self.add(tb.ForloopAccumOp(none, value, value.type), accumulates=True)
        if value is not None:
            self.cast(value, f32)

    def draw_new_input(self, tile: tuple[int, ...], type_: Attribute) -> SSAValue:
        """A tile of a new tensor."""
        partition, shape = draw_partition_of_tile(self.chooser, tile, self.grid, self.iterations)
        return self.add_input(self.new_argument(TensorType(type_, shape)), partition, tile)

    def draw_step(self) -> None:
        """Adds one operator, if what was drawn fits."""
        if not self.looped:
            self.draw_input()
            return
        kinds = [
            self.draw_unary,
            self.draw_binary,
            self.draw_accumulator,
            self.draw_reduction,
            self.draw_accumulator,
            self.draw_unary,
            self.draw_binary,
            self.draw_rms_norm,
            self.draw_cast,
            self.draw_integers,
            self.draw_input,
        ]
        kinds.extend([self.draw_matmul] * 4)
        self.chooser.pick(kinds)()

    def draw_operand(self, *, of_loop: bool = False) -> SSAValue:
        """A tile, preferably one of the latest."""
        values = self.looped if of_loop or not self.after or self.chooser.chance(50) else self.after
        if self.chooser.chance(60):
            return values[-1]
        return self.chooser.pick(values)

    def is_late(self, operands: Sequence[SSAValue]) -> bool | None:
        """Whether an operator on these operands runs after the loop; ``None`` where it may not."""
        late = any(value in self.after for value in operands)
        invariant = loop_invariant_tiles(self.block)
        early = any(value not in self.after and value not in invariant for value in operands)
        return None if late and early and self.iterations > 1 else late

    def add(self, op: Operation, *, accumulates: bool = False) -> SSAValue | None:
        """Adds an operator unless it mixes phases or leaves the range of useful numbers."""
        operands = list(op.operands)
        late = self.is_late(operands)
        is_sum = element_type_of(op.results[0].type) == i32
        if isinstance(op, HasEpilogue) and not is_sum and self.chooser.chance(10):
            op.epilogue = EpilogueAttr(self.draw_epilogue())
            accumulates = op.epilogue.data.accumulates
        try:
            if late is None or (accumulates and late):
                raise OutOfRangeError("the phases do not fit")
            ranges = [self.ranges[operand] for operand in operands]
            bounds = [self.bounds[operand] for operand in operands]
            if has_uneven_mean(op, bounds):
                raise OutOfRangeError("tiles have means of different numbers of elements")
            self.bounds[op.results[0]] = check_bounds(op, bounds)
            is_partial = combines_some_elements(op, bounds)
            self.ranges[op.results[0]] = range_of_result(
                op, ranges, self.iterations, is_partial=is_partial
            )
        except (OutOfRangeError, VerifyException):
            op.erase()
            return None
        self.block.add_op(op)
        (self.after if late or accumulates else self.looped).append(op.results[0])
        return op.results[0]

    def draw_epilogue(self) -> Epilogue:
        """What fusion makes, and a user may write as well."""
        functions = [
            ScalarFunction("square"),
            ScalarFunction("mul_scalar", (0.5,)),
            ScalarFunction("clamp", (-0.5, 0.75)),
            ScalarFunction("gelu"),
            ScalarFunction("relu"),
            ScalarFunction("sigmoid"),
        ]
        count = self.chooser.number(0, 2)
        accumulates = self.chooser.chance(50) or count == 0
        return Epilogue(tuple(self.chooser.pick(functions) for _ in range(count)), accumulates)

    def stensor(self, shape: Sequence[int]) -> tb.STensorType:
        return tb.STensorType(shape, self.chooser.element_type())

    def draw_unary(self) -> None:
        operand = self.draw_operand()
        type_ = self.stensor(shape_of(operand.type))
        if self.chooser.chance(25):
            self.add(tb.MulScalarOp(operand, type_, (self.chooser.pick(SCALARS),)))
        elif self.chooser.chance(10):
            self.add(tb.UNARY_OPERATORS["clamp"](operand, type_, self.chooser.pick(CLAMPS)))
        else:
            self.add(self.chooser.pick(UNARY)(operand, type_))

    def draw_rms_norm(self) -> None:
        operand = self.draw_operand()
        self.add(tb.RmsNormOp(operand, self.stensor(shape_of(operand.type))))

    def draw_partner(self, operand: SSAValue) -> SSAValue | None:
        """A tile that goes with another in an element-wise operator."""
        if self.chooser.chance(35):
            shape = tuple(
                1 if self.chooser.chance(25) else extent for extent in shape_of(operand.type)
            )
            bounds = tuple(
                None if extent == 1 else bound
                for extent, bound in zip(shape, self.bounds[operand], strict=True)
            )
            return self.draw_input(shape, bounds)
        fits = [
            value
            for value in (*self.after, *self.looped)
            if _broadcast(operand.type, value.type) is not None
            and self.is_late([operand, value]) is not None
        ]
        return self.chooser.pick(fits) if fits else None

    def draw_binary(self) -> None:
        operands = [self.draw_operand()]
        partner = self.draw_partner(operands[0])
        if partner is None:
            return
        operands.append(partner)
        if self.chooser.chance(50):
            operands.reverse()
        shape = _broadcast(operands[0].type, operands[1].type)
        if shape is None or math.prod(shape) > MAX_TILE:
            return
        joined = self.join(operands, strictly=False)
        if joined is not None:
            self.add(self.chooser.pick(BINARY)(*joined, self.stensor(shape)))

    def draw_matmul(self) -> None:
        matrices = [
            value
            for value in (*self.looped, *self.after)
            if _is_matrix(value.type) and math.prod(shape_of(value.type)) > 0
        ]
        if not matrices:
            return
        first = self.chooser.pick(list(reversed(matrices)))
        shape = shape_of(first.type)
        is_left = not self.chooser.chance(40)
        inner = shape[-1] if is_left else shape[-2]
        fits = [value for value in matrices if _inner_extent(value.type, is_left) == inner]
        fits = [
            value
            for value in fits
            if len(shape_of(value.type)) == len(shape) and self.is_late([first, value]) is not None
        ]
        if fits and self.chooser.chance(40):
            second: SSAValue | None = self.chooser.pick(fits)
        else:
            (free,) = self.chooser.shape(1, max(MAX_TILE // inner, 1))
            new = (inner, free) if is_left else (free, inner)
            bound = self.bounds[first][-1 if is_left else -2]
            bounds = (bound, None) if is_left else (None, bound)
            second = self.draw_input((*shape[:-2], *new), (*(None for _ in shape[:-2]), *bounds))
        if second is None:
            return
        lhs, rhs = (first, second) if is_left else (second, first)
        result = (*shape[:-2], shape_of(lhs.type)[-2], shape_of(rhs.type)[-1])
        joined = self.join([lhs, rhs], strictly=True)
        if math.prod(result) <= MAX_TILE and joined is not None:
            op = tb.MatmulOp(*joined, self.stensor(result))
            if element_type_of(joined[0].type) == f32 and self.chooser.chance(30):
                op.precision = tb.PrecisionAttr(tb.Precision.IEEE)
            self.add(op)

    def draw_reduction(self) -> None:
        operand = self.draw_operand()
        shape = list(shape_of(operand.type))
        dim = self.chooser.number(0, len(shape) - 1)
        extent = shape[dim]
        if not self.chooser.chance(50):
            shape[dim] = 1
            self.add(tb.ReductionOp(operand, dim, self.stensor(shape)))
            return
        shape[dim] = self.chooser.pick([n for n in range(1, extent + 1) if extent % n == 0])
        kinds = (tb.ReductionToDimxStridedOp, tb.ReductionToDimxContiguousOp)
        self.add(self.chooser.pick(kinds)(operand, dim, self.stensor(shape)))

    def draw_accumulator(self) -> None:
        operand = self.draw_operand(of_loop=True)
        shape = list(shape_of(operand.type))
        kind = self.chooser.number(0, 4)
        if kind == 0:
            none = tb.AccumulatorKind.NONE
            self.add(tb.ForloopAccumOp(none, operand, self.stensor(shape)), accumulates=True)
            return
        if kind <= 2:
            which = (tb.AccumulatorKind.SUM, tb.AccumulatorKind.RMS)[kind - 1]
            type_ = self.stensor((*shape[:-1], 1))
            self.add(tb.ForloopAccumOp(which, operand, type_), accumulates=True)
            return
        extent = shape[-1]
        shape[-1] = self.chooser.pick([n for n in range(1, extent + 1) if extent % n == 0])
        kinds = (tb.ForloopAccumSumToDimxStridedOp, tb.ForloopAccumSumToDimxContiguousOp)
        self.add(kinds[kind - 3](operand, self.stensor(shape)), accumulates=True)

    # Results.

    def accumulate_leftovers(self) -> None:
        """Most tiles of the loop that nothing uses are accumulated; some stay without use."""
        for value in list(self.looped):
            is_leftover = value.first_use is None and not self.chooser.chance(25)
            if is_leftover or (not self.after and value is self.looped[-1]):
                none = tb.AccumulatorKind.NONE
                type_ = self.stensor(shape_of(value.type))
                self.add(tb.ForloopAccumOp(none, value, type_), accumulates=True)

    def draw_outputs(self) -> list[Attribute]:
        """Stores some tiles; returns the types of the results."""
        unused = [value for value in reversed(self.after) if value.first_use is None]
        others = [value for value in self.after if value.first_use is not None]
        stored = unused[:3]
        if others and self.chooser.chance(15):
            stored.append(self.chooser.pick(others))
        tiles = loop_invariant_tiles(self.block)
        invariant = [value for value in self.looped if value in tiles]
        if invariant and self.chooser.chance(10):
            stored.append(self.chooser.pick(invariant))
        if self.iterations == 1 and self.chooser.chance(30):
            stored.append(self.chooser.pick(self.looped))
        if stored and self.chooser.chance(5):
            stored.append(stored[0])
        in_loop = [
            value for value in self.looped if self.chooser.chance(15) and value not in self.after
        ]
        results: list[Attribute] = []
        for value in (*stored, *in_loop[:2]):
            element_type = element_type_of(value.type)
            if self.chooser.chance(10):
                element_type = self.chooser.element_type()
            drawn = draw_output_map(
                self.chooser,
                shape_of(value.type),
                self.grid,
                self.bounds[value],
                self.iterations,
                each_iteration=value in in_loop,
            )
            if drawn is None or math.prod(drawn[1]) > 8 * MAX_TENSOR:
                continue
            partition, shape = drawn
            try:
                self.ranges[value].rounded(element_type)
            except OutOfRangeError:
                continue
            type_ = self.chooser.tensor_type(shape, element_type, laid_out=15)
            self.block.add_op(tb.OutputOp(value, partition.map_, type_, partition.fordim))
            results.append(type_)
        return results


def has_uneven_mean(op: Operation, bounds: Sequence[Bounds]) -> bool:
    """Whether an operator's mean is over numbers of elements that differ between tiles."""
    is_norm = isinstance(op, tb.RmsNormOp)
    is_mean = isinstance(op, tb.ForloopAccumOp) and op.kind.data is tb.AccumulatorKind.RMS
    if not is_norm and not is_mean:
        return False
    bound = bounds[0][-1]
    return bound is not None and (math.prod(bound.blocks) > 1 or (is_norm and bound.moves))


def _broadcast(one: Attribute, other: Attribute) -> tuple[int, ...] | None:
    try:
        return broadcast_shape([shape_of(one), shape_of(other)])
    except ShapeError:
        return None


def _is_matrix(type_: Attribute) -> bool:
    shape = shape_of(type_)
    return len(shape) >= 2 and all(extent == 1 for extent in shape[:-2])


def _inner_extent(type_: Attribute, is_right: bool) -> int:
    shape = shape_of(type_)
    return shape[-2] if is_right else shape[-1]
