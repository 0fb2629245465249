"""``--end-loads``: tiles that a mask clears behind a length are loaded with zeros there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AffineSetAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from mugraph.dialects import tb
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.interfaces import HasTileIndices, IndexKind
from mugraph.dialects.kn import CustomizedOp, ExtentOp
from mugraph.dialects.linear_forms import LinearForm, set_of
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import named_extents, said_extents
from mugraph.dialects.tensor_types import shape_of


def end_of_mask(mask: tb.MaskOp) -> tuple[int, int] | None:
    """The dimension of which a mask replaces what lies behind a length, and the length's number.

    ``None`` for a mask that does something else.
    """
    forms = mask.forms()
    if len(forms) != 1:
        return None
    (form,), rank = forms, len(shape_of(mask.result.type))
    places, lengths = form.coefficients[:rank], form.coefficients[rank:]
    steps = [step for step in form.coefficients if step]
    if sorted(steps) != [-1, 1] or -1 not in places or 1 not in lengths or form.constant != -1:
        return None
    return places.index(-1), lengths.index(1)


def load_of_mask(mask: tb.MaskOp) -> tb.InputOp | None:
    """The load of which a mask alone uses the tile, if it masks places in the loaded tensor."""
    load = mask.input.owner
    if not isinstance(load, tb.InputOp) or load.through is not None or load.windows is not None:
        return None
    alone = all(use.operation is mask for use in load.result.uses)
    same_type = load.result.type == mask.result.type
    is_zero = mask.constant == 0 and not tb.epilogue_of(mask)
    is_load = alone and same_type and load.slicing() == mask.slicing()
    return load if is_load and is_zero else None


def loads_along(value: SSAValue, dim: int) -> Iterator[tuple[tb.InputOp, int]]:
    """The loads that nothing but a tile is made of, and the dimension that is one of the tile's.

    An element of the tile is made of those at the same place along it.
    """
    owner = value.owner
    if not value.has_one_use():
        return
    if isinstance(owner, tb.InputOp) and owner.through is None and owner.windows is None:
        yield owner, dim
    if isinstance(owner, HasTileIndices):
        for index in owner.tile_indices():
            if index.result == dim and index.kind is IndexKind.PARALLEL:
                for operand, own in zip(owner.operands, index.operands, strict=True):
                    if own is not None:
                        yield from loads_along(operand, own)


def end_factors(op: Operation) -> None:
    """Ends the loads of what a mask replaces behind a length, such as keys of scores.

    So in kernels of which another load ends there, by which TMA loads no tiles.
    """
    graph = op.parent_op()
    if not isinstance(op, tb.MaskOp) or op.condition is None or (end := end_of_mask(op)) is None:
        return
    assert isinstance(graph, CustomizedOp)  # as masks stand in graphs
    dim, number = end
    inputs = [each for each in graph.body.block.ops if isinstance(each, tb.InputOp)]
    if not any(number in each.ends.values() for each in inputs):
        return
    for load, own in loads_along(op.input, dim):
        same = load.slicing().split(own) == op.slicing().split(dim)
        if load.result is not op.input and same and may_end(graph, load, own, number):
            load.end_at({**load.ends, own: number})


def may_end_elsewhere(graph: CustomizedOp, extent: int, number: int) -> bool:
    """Whether a dimension of an extent may end where a call says, too, and not where memory says.

    A tile ends at one value along a dimension.
    """
    length = graph.inputs[graph.held_lengths[number].argument]
    function = enclosing(graph, FuncOp)
    if function is None or isinstance(length.owner, ExtentOp):
        return False
    return any(extent == said.largest for said in said_extents(named_extents(function).values()))


def may_end(graph: CustomizedOp, load: tb.InputOp, dim: int, number: int) -> bool:
    """Whether a load may end at a length along a dimension, at which it ends nowhere yet."""
    extent = load.tensor_shape[dim]
    fits = graph.held_lengths[number].largest <= extent
    return fits and dim not in load.ends and not may_end_elsewhere(graph, extent, number)


def end_load(op: Operation) -> None:
    """Leaves out a mask that a load can do the work of."""
    if not isinstance(op, tb.MaskOp) or op.condition is None:
        return
    end, load = end_of_mask(op), load_of_mask(op)
    graph = op.parent_op()
    if end is None or load is None or not isinstance(graph, CustomizedOp):
        return
    dim, number = end
    if not may_end(graph, load, dim, number):
        return
    load.end_at({**load.ends, dim: number})
    op.result.replace_all_uses_with(load.result)
    Rewriter.erase_op(op)


def mask_instead(load: Operation) -> None:
    """Masks a tile in the place of an end at a length along a dimension that may end elsewhere."""
    graph = load.parent_op()
    if not isinstance(load, tb.InputOp) or not isinstance(graph, CustomizedOp):
        return
    for dim, number in load.ends.items():
        if not may_end_elsewhere(graph, load.tensor_shape[dim], number):
            continue
        load.end_at({own: end for own, end in load.ends.items() if own != dim})
        shape = load.tensor_shape
        *coordinates, length = LinearForm.coordinates(len(shape) + 1)
        condition = AffineSetAttr(set_of([length - coordinates[dim] - 1], len(shape)))
        lie = load.map_, load.loop_dim
        mask = tb.MaskOp.at_places(load.result, 0.0, condition, shape, *lie, [number])
        Rewriter.insert_op(mask, InsertPoint.after(load))
        load.result.replace_uses_with_if(mask.result, lambda use, m=mask: use.operation is not m)


@dataclass(frozen=True)
class EndLoadsPass(ModulePass):
    """Lets loads write zeros past a length, instead of a mask.

    A ``tb.mask`` with 0 past a length costs a pass over the tile in shared memory. A load can skip
    those elements and write zeros, without access to device memory.

    Loads whose values a later mask replaces end there, too, such as keys whose scores are masked.

    A tile has one end along a dimension. If the call gives the number of rows, a length of the same
    dimension stays a mask.

    Before::

        %x = tb.input %a imap [0, -1, -1] fordim 1 : tensor<4x384xf16> -> !tb.stensor<1x64xf16>
        %y = tb.mask %x with 0.0 where affine_set<(i, j)[n] : (n - j - 1 >= 0)> at [0] ...

    After::

        %x = tb.input %a imap [0, -1, -1] fordim 1 ending [1, 0] : ...
    """

    name = "end-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Ends loads in every threadblock graph of the module."""
        for end in (mask_instead, end_load, end_factors):
            for inner in tuple(op.walk()):
                end(inner)
