"""What blocks of a cluster or a grid touch together, and while their shared memory is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Block
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.passes.texpr.analysis.domains import Access, domain_of
from mugraph.passes.texpr.analysis.pairs import Pairs, pairs_of
from mugraph.passes.texpr.te_sync.leaves import Leaf


def life_of_parts(kernel: te.KernelOp) -> list[Leaf]:
    """The beginning and the end of a block's program, as accesses to its parts of buffers.

    A part is there from the first to the last of them; both are steps that do nothing.  Nothing
    where no buffer is of a cluster.
    """
    news = [
        op
        for op in kernel.walk()
        if isinstance(op, te.NewOp) and op.result.type.memory_space is te.Space.CLUSTER
    ]
    if not news:
        return []
    body = kernel.threads.body.block
    ends = [te.StepOp("beginning", Block()), te.StepOp("end", Block())]
    Rewriter.insert_op(ends[0], InsertPoint.at_start(body))
    Rewriter.insert_op(ends[1], InsertPoint.at_end(body))
    return [Leaf(op, tuple(_parts(op, kernel, news)), (), ()) for op in ends]


def _parts(op: te.StepOp, kernel: te.KernelOp, news: Sequence[te.NewOp]) -> Iterator[Access]:
    """The parts of a block, as if a step wrote them."""
    rank = AffineExpr.dimension(0) % kernel.cluster_blocks
    for new in news:
        _, *rest = new.result.type.get_shape()
        expressions = (rank, *(AffineExpr.constant(0) for _ in rest))
        indices, box = (kernel.variable,), (1, *rest)
        kind, domain = te.AccessKind.WRITE, domain_of(op)
        yield Access(new.result, kind, expressions, indices, box, op=op, domain=domain)


def pairs_across(
    one: Access, other: Access, holder: te.ThreadsOp, common: Sequence[te.SeqOp]
) -> Pairs | None:
    """The iterations in which two blocks that may meet touch one element; ``None`` for none.

    The variable of the kernel has the name that both have in one block, and is that of the first.
    """
    kernel = holder.parent_op()
    assert isinstance(kernel, te.KernelOp)
    blocks = kernel.blocks_that_meet
    is_own = one.type.memory_space in (te.Space.SHARED, te.Space.REGISTER)
    if blocks == 1 or one.buffer is not other.buffer or is_own:
        return None
    names = one.domain.named("a", {*common}), other.domain.named("b", {*common})
    pairs = pairs_of(one, other, names)
    first, second = (name[kernel.variable] for name in names)
    both = one.domain.named("a", {kernel})[kernel.variable]
    together = f"floor({first} / {blocks}) = floor({second} / {blocks})"
    pairs.constraints.extend([together, f"{first} != {second}", f"{both} = {first}"])
    return pairs
