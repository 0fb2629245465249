"""A product's sums as two fragments of half its columns, which leave one after the other.

Blocks that go on to other blocks of the grid keep their rings while a result leaves.  A buffer of
the whole tile may not fit beside these where one of half of it does (``--bulk-stores``).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.types import TileType
from mugraph.dialects.tensor_types import element_type_of, shape_of


@dataclass(frozen=True)
class Halves:
    """The accumulator of a product of warp groups, its users, and the type of each half."""

    fragment: sched.EmptyOp
    users: tuple[sched.FillOp | sched.WarpgroupMmaOp, ...]
    type_: TileType


def find_halves(store: sched.StoreOp) -> Halves | None:
    """What a fragment that is written out can be halved into; ``None`` where it cannot.

    It is only filled, added to by products whose instructions are as long as it has columns, and
    written out once.
    """
    fragment = store.source.owner
    mma = store.source.type.tiled_mma if isinstance(store.source.type, TileType) else None
    if not isinstance(fragment, sched.EmptyOp) or mma is None:
        return None
    users: list[sched.FillOp | sched.WarpgroupMmaOp] = []
    for use in fragment.result.uses:
        user = use.operation
        if isinstance(user, sched.FillOp):
            users.append(user)
        elif isinstance(user, sched.WarpgroupMmaOp):
            if user.is_fresh or user.lhs_in_registers or len(user.accumulators) != 1:
                return None
            users.append(user)
        elif user is not store:
            return None
    *rows, columns = shape_of(fragment.result.type)
    length = mma_atom(mma.atom).shape_mnk[1]
    if columns != length or length % 2 or mma.thr_layout[1:] != (1, 1):
        return None
    half = mma.atom.replace(f"x{length}x", f"x{length // 2}x")
    try:
        mma_atom(half)
    except LayoutError:
        return None
    element = element_type_of(fragment.result.type)
    layout = TiledMmaAttr(half, mma.thr_layout)
    return Halves(fragment, tuple(users), TileType.of((*rows, columns // 2), element, layout))


def halve(found: Halves) -> tuple[SSAValue, SSAValue]:
    """Rewrite: two fragments in place of one; returns them, the left columns first.

    What writes the whole out is left to the caller.
    """
    parts = [sched.EmptyOp(found.type_) for _ in range(2)]
    for name, part in zip(("left", "right"), parts, strict=True):
        part.result.name_hint = name
    Rewriter.insert_op(parts, InsertPoint.before(found.fragment))
    left, right = (part.result for part in parts)
    for user in found.users:
        again: list[Operation]
        if isinstance(user, sched.FillOp):
            again = [sched.FillOp(part, user.value.value.data) for part in (left, right)]
        else:
            product = sched.WarpgroupMmaOp(
                user.lhs,
                user.rhs,
                left,
                right,
                asynchronous=user.is_async,
                ahead=user.ahead_of,
                iteration=user.fixed_iteration,
            )
            again = [product]
        Rewriter.insert_op(again, InsertPoint.before(user))
        Rewriter.erase_op(user)
    return left, right
