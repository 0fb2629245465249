"""What others wrote into a device's memory, and what a device may read while they still write."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mugraph.dialects import kn


def is_delivered(value: SSAValue) -> bool:
    """Whether a tensor is made of what other devices wrote into this one's memory."""
    return isinstance(value.owner, kn.AllToAllOp) and value.owner.delivered is not None


def pieces_to_copy(op: kn.AllToAllOp, place: int) -> set[SSAValue]:
    """What the member at a place delivers by copies: no kernel of its own stores it at the other.

    ``kn.copy`` says of a part that the kernel that makes it stores it where it belongs.
    """
    pieces = enumerate(op.pieces)
    return {p for to, p in pieces if to != place and not isinstance(p.owner, kn.CopyOp)}
