"""Well-formed µGraphs with one thing wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import TypeVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    ModuleOp,
    TensorType,
    bf16,
    f16,
    f32,
    i64,
)
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import OptOperandDef
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter

from fuzz.drawing import Chooser
from fuzz.kernel import draw_mugraph
from fuzz.properties import function_of
from mugraph.dialects import kn, tb
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.kn import CustomizedOp, loop_invariant_tiles
from mugraph.dialects.maps import PartitionError, Slicing
from mugraph.dialects.shapes import ShapeError, broadcast_shape, matmul_shape
from mugraph.dialects.tensor_types import element_type_of, shape_of

AnyOp = TypeVar("AnyOp", bound=Operation)


@dataclass(frozen=True)
class Broken:
    """The text of a µGraph, and what was done to it."""

    what: str
    text: str


@dataclass(frozen=True)
class Breaker:
    """Draws one mutation; each returns the text, or ``None`` where it does not apply."""

    chooser: Chooser
    module: ModuleOp

    def one_of(self, kind: type[AnyOp]) -> AnyOp | None:
        """An operator of a class."""
        found = [op for op in self.module.walk() if isinstance(op, kind)]
        return self.chooser.pick(found) if found else None

    def graph(self) -> CustomizedOp | None:
        return self.one_of(CustomizedOp)

    def done(self) -> str:
        return str(self.module)

    # Extents and types.

    def wrong_extent(self) -> str | None:
        """A result one larger than it can be."""
        kinds = (tb.InputOp, tb.ElementwiseOp, tb.MatmulOp, tb.RmsNormOp, tb.ForloopAccumOp)
        found = [op for op in self.module.walk() if isinstance(op, (*kinds, kn.KernelOp))]
        if not found:
            return None
        op = self.chooser.pick(found)
        result = op.results[0]
        shape = list(shape_of(result.type))
        dim = self.chooser.number(0, len(shape) - 1)
        shape[dim] += 1
        if isinstance(op, kn.ReductionOp) and shape_of(op.input.type)[dim] % shape[dim] == 0:
            # Sums of shorter runs of neighbours.
            return None
        if isinstance(result.type, TensorType):
            type_: Attribute = TensorType(element_type_of(result.type), shape)
        else:
            type_ = tb.STensorType(shape, element_type_of(result.type))
        Rewriter.replace_value_with_new_type(result, type_)
        function_of(self.module).update_function_type()
        return self.done()

    def wrong_tile_type(self) -> str | None:
        """A tile of another element type than its tensor."""
        op = self.one_of(tb.InputOp)
        if op is None:
            return None
        other = f32 if element_type_of(op.result.type) == f16 else f16
        type_ = tb.STensorType(shape_of(op.result.type), other)
        Rewriter.replace_value_with_new_type(op.result, type_)
        return self.done()

    def wrong_output(self) -> str | None:
        """A tb.output that stores another tensor than the result."""
        op = self.one_of(tb.OutputOp)
        if op is None:
            return None
        shape = list(shape_of(op.dtensor_type))
        shape[self.chooser.number(0, len(shape) - 1)] += self.chooser.pick((1, 7))
        op.dtensor_type = TensorType(element_type_of(op.dtensor_type), shape)
        return self.done()

    def wrong_binding(self) -> str | None:
        """A block argument of another type than its operand."""
        op = self.graph()
        if op is None or not op.body.block.args:
            return None
        argument = self.chooser.pick(op.body.block.args)
        shape = (*shape_of(argument.type), 2)
        type_ = TensorType(element_type_of(argument.type), shape)
        Rewriter.replace_value_with_new_type(argument, type_)
        return self.done()

    def foreign_element_type(self) -> str | None:
        """f64, or an f8 that is not one of ours."""
        other = self.chooser.pick(("xf64", "xf8E4M3FNUZ"))
        return self.with_elements(other)

    def integers(self) -> str | None:
        """Tensors of integers that are not 8 or 32 bits wide."""
        return self.with_elements("xi16")

    def with_elements(self, other: str) -> str | None:
        """The text with another type of elements, of which there must be some."""
        text, count = re.subn(r"xb?f(16|32)\b", other, self.done())
        return text if count else None

    def no_elements(self) -> str | None:
        """An argument with an extent of 0, or a dynamic one."""
        text = self.done()
        place = re.search(r"tensor<(\d+)x", text)
        if place is None:
            return None
        extent = self.chooser.pick(("0", "?"))
        return re.sub(rf"tensor<{place.group(1)}x", f"tensor<{extent}x", text)

    # Maps and launches.

    def wrong_map(self) -> str | None:
        """A map that names no dimension, or has no three entries."""
        op = self.chooser.pick([self.one_of(tb.InputOp), self.one_of(tb.OutputOp)])
        if op is None:
            return None
        map_ = list(op.map_)
        rank = len(shape_of(op.dtensor.type))
        axis = self.chooser.number(0, 2)
        match self.chooser.number(0, 2):
            case 0:
                map_[axis] = self.chooser.pick((rank, rank + 5, -2))
            case 1:
                map_.pop()
            case _:
                map_.append(-1)
        attribute = DenseArrayBase.from_list(i64, map_)
        if isinstance(op, tb.InputOp):
            op.imap = attribute
        else:
            op.omap = attribute
        return self.done()

    def unmapped_axis(self) -> str | None:
        """Blocks that would overwrite each other."""
        op = self.one_of(tb.OutputOp)
        graph = op.parent_op() if op else None
        if op is None or not isinstance(graph, CustomizedOp):
            return None
        wide = [axis for axis in range(3) if graph.grid_dim[axis] > 1]
        if not wide:
            return None
        axis = self.chooser.pick(wide)
        op.omap = DenseArrayBase.from_list(
            i64, [-1 if place == axis else dim for place, dim in enumerate(op.map_)]
        )
        return self.done()

    def wrong_fordim(self) -> str | None:
        """A loop over a dimension that does not exist."""
        op = self.one_of(tb.InputOp)
        if op is None:
            return None
        rank = len(shape_of(op.dtensor.type))
        op.fordim = IntegerAttr(self.chooser.pick((rank, rank + 2, -2)), i64)
        return self.done()

    def wrong_forloop(self) -> str | None:
        """No iteration at all, or so many that tiles are smaller."""
        op = self.graph()
        if op is None:
            return None
        more = op.forloop_range * 7
        counts = (0, -3, more) if _cuts_other_tiles(op, op.grid_dim, more) else (0, -3)
        op.forloop = IntegerAttr(self.chooser.pick(counts), i64)
        return self.done()

    def wrong_launch(self) -> str | None:
        """A grid or a block that no GPU launches, or a grid with smaller tiles."""
        op = self.graph()
        if op is None:
            return None
        bad = ([0, 1, 1], [1, 1], [1, -1, 1], [1, 1, 1, 1])
        match self.chooser.number(0, 3):
            case 0:
                op.grid = DenseArrayBase.from_list(i64, self.chooser.pick(bad))
            case 1:
                op.block = DenseArrayBase.from_list(i64, self.chooser.pick(bad))
            case 2:
                op.block = DenseArrayBase.from_list(i64, [1025, 1, 1])
            case _:
                grid = list(op.grid_dim)
                grid[self.chooser.number(0, 2)] *= 7
                if not _cuts_other_tiles(op, grid, op.forloop_range):
                    return None
                op.grid = DenseArrayBase.from_list(i64, grid)
        return self.done()

    # Data flow.

    def wrong_phase(self) -> str | None:
        """A value of the loop that is stored, or a value after it that is accumulated."""
        graph = self.graph()
        if graph is None:
            return None
        late = late_values(graph)
        tiles = [x for op in graph.body.block.ops for x in op.results]
        early = [x for x in tiles if x not in late | loop_invariant_tiles(graph.body.block)]
        if early and graph.forloop_range > 1 and self.chooser.chance(50):
            value = self.chooser.pick(early)
            output = self.chooser.pick(
                [op for op in graph.body.block.ops if isinstance(op, tb.OutputOp)]
            )
            if shape_of(value.type) != shape_of(output.stensor.type):
                return None
            output.operands[0] = value
            return self.done()
        last = graph.body.block.last_op
        if not late or last is None:
            return None
        value = self.chooser.pick(sorted(late, key=tiles.index))
        none = tb.AccumulatorKind.NONE
        graph.body.block.insert_op_before(tb.ForloopAccumOp(none, value, value.type), last)
        return self.done()

    def mixed_phases(self) -> str | None:
        """A value of the loop and one after it as operands of one operator."""
        graph = self.graph()
        if graph is None or graph.forloop_range == 1:
            return None
        late = late_values(graph)
        invariant = loop_invariant_tiles(graph.body.block)
        tiles = [x for op in graph.body.block.ops for x in op.results]
        pairs = [
            (one, other)
            for one in tiles
            for other in tiles
            if one in late
            and other not in late
            and other not in invariant
            and shape_of(one.type) == shape_of(other.type)
        ]
        if not pairs:
            return None
        one, other = self.chooser.pick(pairs)
        graph.body.block.add_op(tb.AddOp(one, other, one.type))
        return self.done()

    def use_before_definition(self) -> str | None:
        """An operand that is computed later."""
        graph = self.graph()
        if graph is None:
            return None
        ops = [op for op in graph.body.block.ops if not isinstance(op, (tb.InputOp, tb.OutputOp))]
        pairs = [
            (op, later.results[0])
            for index, op in enumerate(ops)
            for later in ops[index:]
            if op.operands and op.operands[0].type == later.results[0].type
        ]
        if not pairs:
            return None
        op, value = self.chooser.pick(pairs)
        op.operands[0] = value
        return self.done()

    def missing_operand(self) -> str | None:
        """An operator without its last operand."""
        found = [
            op
            for op in self.module.walk()
            if op.operands and op.name.startswith(("tb.", "kn.")) and len(op.operands) < 3
        ]
        if not found:
            return None
        op = self.chooser.pick(found)
        _, last = type(op).get_irdl_definition().operands[-1]
        if isinstance(last, OptOperandDef):
            return None
        op.operands = op.operands[:-1]
        if isinstance(op, CustomizedOp):
            return self.done()
        stream = StringIO()
        Printer(stream, print_generic_format=True).print_op(self.module)
        return stream.getvalue()

    def wrong_operand(self) -> str | None:
        """An operand whose extents do not go with the others."""
        kinds = (tb.BinaryOp, tb.MatmulOp, kn.BinaryOp, kn.MatmulOp)
        found = [op for op in self.module.walk() if isinstance(op, kinds)]
        if not found:
            return None
        op = self.chooser.pick(found)
        values = earlier_values(op)
        place = self.chooser.number(0, 1)
        wrong: list[SSAValue] = []
        for value in values:
            shapes = [shape_of(value.type), shape_of(op.operands[1 - place].type)]
            if place:
                shapes.reverse()
            if _expected_shape(op, shapes) != shape_of(op.results[0].type):
                wrong.append(value)
        if not wrong:
            return None
        op.operands[place] = self.chooser.pick(wrong)
        return self.done()

    def wrong_dimension(self) -> str | None:
        """A reduction along a dimension that does not exist."""
        op = self.one_of(tb.AnyReductionOp)
        if op is None:
            return None
        rank = len(shape_of(op.input.type))
        op.dim = IntegerAttr(self.chooser.pick((rank, -1, rank + 4)), i64)
        return self.done()

    def outside_a_block(self) -> str | None:
        """A threadblock operator at kernel level."""
        function = function_of(self.module)
        last = function.body.block.last_op
        operand = function.body.block.args[0] if function.body.block.args else None
        if operand is None or last is None:
            return None
        tile = tb.STensorType(shape_of(operand.type), element_type_of(operand.type))
        op = tb.InputOp(operand, (-1, -1, -1), -1, tile)
        function.body.block.insert_op_before(op, last)
        return self.done()

    # Results and layouts.

    def missing_output(self) -> str | None:
        """More results than stores."""
        op = self.one_of(tb.OutputOp)
        if op is None:
            return None
        op.detach()
        return self.done()

    def wrong_layout(self) -> str | None:
        """An argument or a result with a layout that it cannot have."""
        function = function_of(self.module)
        results = [
            value
            for op in function.body.block.ops
            if isinstance(op, kn.KernelOp)
            for value in op.results
        ]
        is_written = bool(results) and self.chooser.chance(40)
        values: Sequence[SSAValue] = results if is_written else function.body.block.args
        values = [value for value in values if value.first_use is not None]
        if not values:
            return None
        value = self.chooser.pick(values)
        shape = shape_of(value.type)
        wide = [dim for dim, extent in enumerate(shape) if extent > 1]
        match self.chooser.number(0, 2):
            case 1 if is_written and wide:
                layout = Layout(shape, (0,) * len(shape))
            case 2 if is_written and len(wide) > 1:
                layout = Layout(shape, (1,) * len(shape))
            case _:
                layout = Layout((*shape[:-1], shape[-1] + 1), (1,) * len(shape))
        type_ = TensorType(element_type_of(value.type), shape, LayoutAttr(layout))
        for use in list(value.uses):
            if isinstance(use.operation, CustomizedOp):
                argument = use.operation.body.block.args[use.index]
                Rewriter.replace_value_with_new_type(argument, type_)
        Rewriter.replace_value_with_new_type(value, type_)
        function.update_function_type()
        return self.done()

    def mixed_library_types(self) -> str | None:
        """A matrix product of the library whose tensors differ in element type."""
        op = self.one_of(kn.MatmulOp)
        own = None if op is None else element_type_of(op.lhs.type)
        if op is None or own not in (f16, bf16):
            return None  # products of f8 and of f32 have results of any of these types
        other = bf16 if own == f16 else f16
        type_ = TensorType(other, shape_of(op.result.type))
        users = [use.operation for use in op.result.uses]
        if not all(isinstance(user, (kn.ElementwiseOp, ReturnOp)) for user in users):
            return None
        Rewriter.replace_value_with_new_type(op.result, type_)
        function_of(self.module).update_function_type()
        return self.done()

    # Text.

    def misspelled(self) -> str | None:
        """Text that does not parse."""
        text = self.done()
        edits = (
            (r"\btb\.forloop_accum none\b", "tb.forloop_accum some"),
            (r"\btb\.exp\b", "tb.expp"),
            (r"\btb\.mul\b", "tb.multiply"),
            (r"(tb\.square %\w+)", r"\1 then [exponential]"),
            (r"(tb\.exp %\w+)", r"\1 then [mul_scalar]"),
            (r"(tb\.silu %\w+)", r"\1 then [accum, exp]"),
            (r"(tb\.square %\w+)", r"\1 then [add]"),
            (r"imap \[", "imap [x, "),
            (r"(tb\.output) %\w+", r"\1 %undefined"),
            (r"forloop \d+", "forloop two"),
            (r"!tb\.stensor<(\d+)x", r"!tb.stensor<\1x*"),
            (r"(tb\.mul_scalar %\w+) by", r"\1 times"),
            (r"!tb\.stensor<", "!tb.tile<"),
        )
        pattern, replacement = self.chooser.pick(edits)
        edited = re.sub(pattern, replacement, text, count=1)
        return None if edited == text else edited


def _cuts_other_tiles(graph: CustomizedOp, grid: Sequence[int], iterations: int) -> bool:
    """Whether some tile would have other extents, or some output would not cover its tensor."""
    for op in graph.body.block.ops:
        if isinstance(op, tb.InputOp):
            shape, tile = shape_of(op.dtensor.type), shape_of(op.result.type)
        elif isinstance(op, tb.OutputOp):
            shape, tile = shape_of(op.dtensor_type), shape_of(op.stensor.type)
            if any(blocks > 1 and dim < 0 for blocks, dim in zip(grid, op.map_, strict=True)):
                return True
        else:
            continue
        try:
            Slicing(shape, op.map_, op.loop_dim, tuple(grid), iterations, tile).tile_shape()
        except PartitionError:
            return True
    return False


def _expected_shape(op: Operation, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    try:
        if isinstance(op, (tb.MatmulOp, kn.MatmulOp)):
            return matmul_shape(*shapes)
        return broadcast_shape(shapes)
    except ShapeError:
        return None


def earlier_values(op: Operation) -> list[SSAValue]:
    """The results of the operators before ``op`` in its block."""
    values: list[SSAValue] = []
    block = op.parent_block()
    for other in block.ops if block else ():
        if other is op:
            break
        values.extend(other.results)
    return values


def late_values(graph: CustomizedOp) -> set[SSAValue]:
    """The tiles that exist after the loop."""
    late: set[SSAValue] = set()
    for op in graph.body.block.ops:
        accumulates = isinstance(op, tb.AccumulatorOp) or tb.epilogue_of(op).accumulates
        if accumulates or any(value in late for value in op.operands):
            late.update(op.results)
    return late


def mutations(breaker: Breaker) -> list[Callable[[], str | None]]:
    """All ways to break a µGraph."""
    return [
        breaker.wrong_extent,
        breaker.wrong_tile_type,
        breaker.wrong_output,
        breaker.wrong_binding,
        breaker.foreign_element_type,
        breaker.integers,
        breaker.no_elements,
        breaker.wrong_map,
        breaker.unmapped_axis,
        breaker.wrong_fordim,
        breaker.wrong_forloop,
        breaker.wrong_launch,
        breaker.wrong_phase,
        breaker.mixed_phases,
        breaker.use_before_definition,
        breaker.missing_operand,
        breaker.wrong_operand,
        breaker.wrong_dimension,
        breaker.outside_a_block,
        breaker.missing_output,
        breaker.wrong_layout,
        breaker.mixed_library_types,
        breaker.misspelled,
    ]


def draw_broken_mugraph(chooser: Chooser) -> Broken | None:
    """A µGraph with one mistake in it; ``None`` where the choices led to none."""
    module = draw_mugraph(chooser)
    if module is None:
        return None
    ways = mutations(Breaker(chooser, module))
    for _ in range(8):
        way = chooser.pick(ways)
        text = way()
        if text is not None:
            return Broken(way.__name__, text)
    return None
