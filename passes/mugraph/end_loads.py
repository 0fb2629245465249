"""``--end-loads``: tiles that a mask clears behind a length are loaded with zeros there."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AffineSetAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from mugraph.dialects import tb
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.kn import CustomizedOp, ExtentOp
from mugraph.dialects.linear_forms import LinearForm, set_of
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import named_extents, said_extents
from mugraph.dialects.tensor_types import shape_of


def end_of_mask(mask: tb.MaskOp) -> tuple[int, int] | None:
    """The dimension of which a mask clears what lies behind a length, and the length's number.

    ``None`` for a mask that does something else.
    """
    forms = mask.forms()
    if len(forms) != 1 or mask.constant != 0 or tb.epilogue_of(mask):
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
    return load if alone and same_type and load.slicing() == mask.slicing() else None


def may_end_elsewhere(graph: CustomizedOp, extent: int, number: int) -> bool:
    """Whether a dimension of an extent may end where a call says, too, and not where memory says.

    A tile ends at one value along a dimension.
    """
    length = graph.inputs[graph.held_lengths[number].argument]
    function = enclosing(graph, FuncOp)
    if function is None or isinstance(length.owner, ExtentOp):
        return False
    return any(extent == said.largest for said in said_extents(named_extents(function).values()))


def end_load(op: Operation) -> None:
    """Leaves out a mask that a load can do the work of."""
    if not isinstance(op, tb.MaskOp) or op.condition is None:
        return
    end, load = end_of_mask(op), load_of_mask(op)
    graph = op.parent_op()
    if end is None or load is None or not isinstance(graph, CustomizedOp):
        return
    dim, number = end
    extent = load.tensor_shape[dim]
    fits = graph.held_lengths[number].largest <= extent
    if not fits or dim in load.ends or may_end_elsewhere(graph, extent, number):
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
    """Lets loads write zeros behind a length, in the place of a mask.

    A ``tb.mask`` with 0 of what is behind a length costs a pass over the tile in shared memory.  A
    load leaves those elements out anyway, element by element at the end: nothing of device memory
    is touched there.

    A tile ends at one value along a dimension.  Where a call says how many rows there are, a length
    of the same dimension is a mask again.

    Before::

        %x = tb.input %a imap [0, -1, -1] fordim 1 : tensor<4x384xf16> -> !tb.stensor<1x64xf16>
        %y = tb.mask %x with 0.0 where affine_set<(i, j)[n] : (n - j - 1 >= 0)> at [0] ...

    After::

        %x = tb.input %a imap [0, -1, -1] fordim 1 ending [1, 0] : ...
    """

    name = "end-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Ends loads in every threadblock graph of the module."""
        for end in (mask_instead, end_load):
            for inner in tuple(op.walk()):
                end(inner)
