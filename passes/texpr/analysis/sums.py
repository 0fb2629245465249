"""Sums in no fixed order: floating-point numbers that several threads add to one element."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import i32

from mugraph.dialects import te
from mugraph.dialects.locations import place_of
from mugraph.passes.texpr.analysis.domains import Access, accesses_of
from mugraph.passes.texpr.analysis.pairs import pairs_of


def unordered_sums(kernel: te.KernelOp) -> Iterator[Access]:
    """The additions of a mapped kernel whose results may differ in the last bits from run to run.

    Those of a reduction or an atomic operation to elements of f32, f16 or bf16 that several threads
    add to, of one block or of several.  Integers, minima and maxima are the same in any order.
    Exact for one operator; two of the kernel that add to one element are both named.
    """
    sums = [access for access in accesses_of(kernel) if _is_sum(access)]
    for one in sums:
        if any(other.buffer is one.buffer and _meet(one, other) for other in sums):
            yield one


def _is_sum(access: Access) -> bool:
    return (
        access.kind in (te.AccessKind.RED, te.AccessKind.ATOMIC)
        and access.combines is te.Combination.ADD
        and access.type.element_type != i32
        and access.type.memory_space is not te.Space.REGISTER
    )


def _meet(one: Access, other: Access) -> bool:
    """Whether two threads add to one element."""
    names = one.domain.named("a"), other.domain.named("b")
    kernel, threads = one.domain.loops[0].variable, one.domain.loops[1].variable
    (block, thread), (block_b, thread_b) = ((name[kernel], name[threads]) for name in names)
    # Each block has buffers of its own that are made in the kernel.
    owner = one.buffer.owner
    is_own = isinstance(owner, te.NewOp) and one.domain.loops[0].is_ancestor(owner)
    others = f"{thread} != {thread_b}"
    apart = f"{block} = {block_b} and {others}" if is_own else f"({block} != {block_b} or {others})"
    return pairs_of(one, other, names).exist(apart)


def remark_of(access: Access) -> str:
    """What to tell a user about such an addition."""
    name = access.buffer.name_hint or "a buffer"
    place = place_of(access.op)
    where = "" if place is None else f"{place}: "
    return (
        f"{where}remark: several threads add to an element of {name} in any order, by "
        f"'{access.op.name}': sums of {access.type.element_type} may differ in the last bits from "
        "run to run"
    )
