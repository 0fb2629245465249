"""``--end-loads``: tiles that a mask clears behind a length are loaded with zeros there."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter
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


def end_load(op: Operation) -> None:
    """Leaves out a mask that a load can do the work of."""
    if not isinstance(op, tb.MaskOp) or op.condition is None:
        return
    end, load = end_of_mask(op), load_of_mask(op)
    graph = op.parent_op()
    if end is None or load is None or not isinstance(graph, CustomizedOp):
        return
    dim, number = end
    fits = graph.held_lengths[number].largest <= load.tensor_shape[dim]
    if not fits or dim in load.ends:
        return
    load.end_at({**load.ends, dim: number})
    op.result.replace_all_uses_with(load.result)
    Rewriter.erase_op(op)


@dataclass(frozen=True)
class EndLoadsPass(ModulePass):
    """Lets loads write zeros behind a length, in the place of a mask.

    A ``tb.mask`` with 0 of what is behind a length costs a pass over the tile in shared memory.  A
    load leaves those elements out anyway, element by element at the end: nothing of device memory
    is touched there.

    Before::

        %x = tb.input %a imap [0, -1, -1] fordim 1 : tensor<4x384xf16> -> !tb.stensor<1x64xf16>
        %y = tb.mask %x with 0.0 where affine_set<(i, j)[n] : (n - j - 1 >= 0)> at [0] ...

    After::

        %x = tb.input %a imap [0, -1, -1] fordim 1 ending [1, 0] : ...
    """

    name = "end-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Ends loads in every threadblock graph of the module."""
        for inner in tuple(op.walk()):
            end_load(inner)
