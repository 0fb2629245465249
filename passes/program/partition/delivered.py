"""What others wrote into a device's memory, and what a device may read while they still write."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mugraph.dialects import kn


def is_delivered(value: SSAValue) -> bool:
    """Whether a tensor is made of what other devices wrote into this one's memory."""
    return isinstance(value.owner, kn.AllToAllOp) and value.owner.delivered is not None


def pieces_to_copy(op: kn.AllToAllOp, place: int) -> set[SSAValue]:
    """What the member at a place delivers by copies: no kernel of its own stores it there.

    ``kn.copy`` says of a part that the kernel that makes it stores it where it belongs.  Ranges of
    what a kernel makes for several members are copied, also to this one.
    """
    return {
        piece
        for to, piece in enumerate(op.pieces)
        if isinstance(piece.owner, kn.SliceOp)
        or (to != place and not isinstance(piece.owner, kn.CopyOp))
    }
