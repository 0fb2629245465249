"""``--mask-ragged``: where elements that do not exist would be combined with others.

The tiles of a partition that does not divide have their full extents in memory.  Loads put zeros
where no element exists; what operators compute from them is anything, NaN included.  That is of no
consequence until an operator combines elements: sums along a dimension, contracts it, or adds up
iterations of which some have fewer elements.  This pass finds those operands by data flow and puts
a ``tb.mask`` before them, unless what stands there changes no result anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import tb
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr
from mugraph.dialects.interfaces import HasEpilogue, HasRaggedTiles
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.ragged import Bounds, Padding, RaggedDim, ragged_dims
from mugraph.dialects.tb.ragged import check_bounds, function_padding, moving_dims
from mugraph.passes.each import GraphPass


@dataclass
class RaggedTiles:
    """What is known of the tiles of a graph, in the order of its operators."""

    bounds: dict[SSAValue, Bounds] = field(default_factory=dict[SSAValue, Bounds])
    padding: dict[SSAValue, Padding] = field(default_factory=dict[SSAValue, Padding])

    def add(self, op: Operation) -> None:
        """Adds what follows for the results of an operator."""
        if isinstance(op, tb.InputOp):
            bounds = op.bounds()
            self.bounds[op.result] = bounds
            # Loads put zeros where no element exists.
            self.padding[op.result] = {entry.dim: 0.0 for entry in ragged_dims(bounds)}
        elif op.results:
            bounds = check_bounds(op, [self.bounds[value] for value in op.operands])
            padding = padding_of(op, [self.padding[value] for value in op.operands])
            for result in op.results:
                self.bounds[result] = bounds
                self.padding[result] = padding

    def missing(self, value: SSAValue, wanted: Padding) -> list[RaggedDim]:
        """The dimensions along which a mask must put what is wanted."""
        known = self.padding[value]
        return [
            entry
            for entry in ragged_dims(self.bounds[value])
            if entry.dim in wanted and known.get(entry.dim) != wanted[entry.dim]
        ]


def padding_of(op: Operation, operands: list[Padding]) -> Padding:
    """What an operator writes, its epilogue applied, where no element exists."""
    if not isinstance(op, HasRaggedTiles):
        return {}
    padding = op.result_padding(operands)
    epilogue = tb.epilogue_of(op)
    for function in epilogue.functions:
        padding = function_padding(function, [padding])
    if epilogue.accumulates:
        padding = {dim: value for dim, value in padding.items() if value == 0.0}
    return padding


def mask_operands(op: HasRaggedTiles, tiles: RaggedTiles) -> None:
    """Puts masks before the operands of which an operator combines elements."""
    for index, value in enumerate(op.operands):
        by_constant: dict[float, list[RaggedDim]] = {}
        wanted = op.identities(index, tiles.bounds[value])
        for entry in tiles.missing(value, wanted):
            by_constant.setdefault(wanted[entry.dim], []).append(entry)
        for constant, outside in by_constant.items():
            first, between = before_functions(op.operands[index], constant)
            mask = tb.MaskOp(first, constant, outside, Epilogue(), first.type)
            mask.result.name_hint = first.name_hint
            Rewriter.insert_op(mask, InsertPoint.before(between[0] if between else op))
            # What later operators make of a masked tile is known, too.
            first.replace_uses_with_if(
                mask.result, lambda use, own=mask: own.is_before_in_block(use.operation)
            )
            for each in (mask, *between):
                tiles.add(each)


def before_functions(value: SSAValue, constant: float) -> tuple[SSAValue, list[Operation]]:
    """The first tile that a value is made of by functions that keep a constant, and these.

    A product is so masked before it is scaled, which operators after it may do in its place.
    """
    owner = value.owner
    if (
        isinstance(owner, tb.UnaryOp)
        and not tb.epilogue_of(owner)
        and owner.function.at([constant]) == constant != 0.0
    ):
        first, between = before_functions(owner.input, constant)
        return first, [*between, owner]
    return value, []


def mask_before_accumulation(op: Operation, tiles: RaggedTiles) -> tb.MaskOp | None:
    """Moves the accumulation of an epilogue behind a mask, where the result needs one."""
    epilogue = tb.epilogue_of(op)
    if not isinstance(op, HasEpilogue) or not epilogue.accumulates:
        return None
    op.epilogue = EpilogueAttr(Epilogue(epilogue.functions))
    tiles.add(op)
    result = op.results[0]
    outside = tiles.missing(result, dict.fromkeys(moving_dims(tiles.bounds[result]), 0.0))
    if not outside:
        op.epilogue = EpilogueAttr(epilogue)
        tiles.add(op)
        return None
    mask = tb.MaskOp(result, 0.0, outside, Epilogue(accumulates=True), result.type)
    mask.result.name_hint = result.name_hint
    inherit_location(mask, op)
    Rewriter.insert_op_after(mask, op)
    result.replace_uses_with_if(mask.result, lambda use: use.operation is not mask)
    if not epilogue.functions:
        del op.properties["epilogue"]
    return mask


def mask_ragged(graph: CustomizedOp) -> None:
    """Puts masks where elements that do not exist would reach a result of a threadblock graph."""
    tiles = RaggedTiles()
    for op in tuple(graph.body.block.ops):
        if isinstance(op, HasRaggedTiles):
            mask_operands(op, tiles)
        tiles.add(op)
        mask = mask_before_accumulation(op, tiles)
        if mask is not None:
            tiles.add(mask)


class MaskRaggedPass(GraphPass):
    """Keeps elements past the end of ragged tiles out of sums, products and accumulators.

    Loads put zeros where no element exists.  Where an operator combines elements along a ragged
    dimension, or over iterations that have different elements, and data flow does not prove that
    what stands there changes nothing, a ``tb.mask`` puts the identity there.  Graphs whose
    partitions divide stay as they are.

    Before, with rows of ``%x`` split raggedly by the loop::

        %e = tb.exp %x : ...
        %s = tb.forloop_accum none %e : ...

    After::

        %e = tb.exp %x : ...
        %m = tb.mask %e with 0.0 outside [#tb.ragged<...>] : ...
        %s = tb.forloop_accum none %m : ...
    """

    name = "mask-ragged"

    def run(self, graph: CustomizedOp) -> None:
        """Masks in a threadblock graph."""
        mask_ragged(graph)
