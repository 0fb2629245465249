"""Copies into shared memory for later iterations of a loop."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr, IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.passes.texpr.te_map.steps import apply
from mugraph.passes.texpr.te_map.types import index_in_part
from mugraph.passes.texpr.te_prefetch.fragments import (
    Fragments,
    FragmentWriter,
    find_fragments,
)
from mugraph.passes.texpr.te_prefetch.stages import read_stage, stage_of, staged_buffer


@dataclass(frozen=True)
class Prefetch:
    """A loop, the buffers that it fills anew in each iteration, and the steps that do so."""

    loop: te.SeqOp
    buffers: tuple[te.NewOp, ...]
    fills: tuple[te.StepOp, ...]


def find_prefetch(loop: te.SeqOp, kernel: te.KernelOp) -> Prefetch:
    """What a loop of a block's program loads from device memory into shared memory.

    A step that only copies, of buffers that the kernel does not write, into shared buffers made in
    the loop, that no other step writes, and that are read only after it.  Both are empty where
    there is none.
    """
    body = loop.body.block
    position = {op: index for index, op in enumerate(body.ops)}
    written = _written(kernel)
    fills = [op for op in body.ops if isinstance(op, te.StepOp) and _only_copies(op, written)]
    buffers = [
        op
        for op in body.ops
        if isinstance(op, te.NewOp) and op.result.type.memory_space is te.Space.SHARED
    ]

    def at(op: Operation) -> int:
        around = body.find_ancestor_op_in_block(op)
        assert around is not None
        return position[around]

    places = {position[step] for step in fills}
    while True:
        kept: list[te.NewOp] = []
        for new in buffers:
            touching = list(te.touches_of(new.result))
            writes = {at(op) for op, touch in touching if touch.writes}
            reads = {at(op) for op, touch in touching if not touch.writes}
            if writes and writes <= places and max(writes) < min(reads, default=len(position)):
                kept.append(new)
        results = {new.result for new in kept}
        filling = [step for step in fills if _written(step) <= results]
        if len(kept) == len(buffers) and len(filling) == len(fills):
            return Prefetch(loop, tuple(kept), tuple(filling))
        buffers, fills = kept, filling
        places = {position[step] for step in fills}


def _written(root: Operation) -> set[SSAValue]:
    """The buffers that operators write."""
    return {touch.buffer for touch in te.touches_in(root) if touch.writes}


def _only_copies(step: te.StepOp, written: set[SSAValue]) -> bool:
    """Whether a step does nothing but copy elements of buffers that stay as they are."""
    for op in step.body.walk():
        match op:
            case te.SeqOp() | te.IfOp() | te.ApplyOp() | te.IterationOp():
                pass
            case te.ViewOp():
                space = op.buffer_type.memory_space
                if op.buffer in written or space not in (None, te.Space.GLOBAL):
                    return False
            case te.BindOp():
                if not isinstance(op.value.owner, te.ViewOp) or not step.is_ancestor(
                    op.value.owner
                ):
                    return False
            case _:
                return False
    return True


def prefetch(found: Prefetch, ahead: int, *, fragments: bool) -> None:
    """Copies ``ahead`` iterations ahead, into several buffers in the place of each.

    With ``fragments``, registers are loaded from them one part of a step early where that can be;
    the copies of an iteration then begin when all but its last part is done.
    """
    loop = found.loop
    total = loop.iterations
    ahead = min(ahead, total)
    use = _only_step(found)
    split: Fragments | None = None
    if fragments and use is not None and ahead > 1:
        split = find_fragments(use, loop, [new.result for new in found.buffers])
    stages = ahead if split else ahead + 1
    staged: dict[SSAValue, SSAValue] = {
        new.result: staged_buffer(new, stages, loop) for new in found.buffers
    }
    before = InsertPoint.before(loop)

    first = Block(arg_types=[IndexType()])
    first.args[0].name_hint = f"{loop.variable.name_hint or 'i'}_ahead"
    for step in found.fills:
        first.add_op(_copying(step, loop, first.args[0], staged, stages))
    first.add_op(te.CommitOp())
    Rewriter.insert_op(te.SeqOp(ahead, first), before)

    copies: list[Operation] = []
    if ahead < total:
        name = f"{loop.variable.name_hint or 'i'}_ahead"
        next_ = apply(AffineExpr.dimension(0) + ahead, [loop.variable], name)
        steps = [_copying(step, loop, next_.result, staged, stages) for step in found.fills]
        limit = AffineExpr.dimension(0) * -1 + (total - 1 - ahead)
        map_ = AffineMapAttr(AffineMap(1, 0, (limit,)))
        copies.append(te.IfOp([loop.variable], map_, [False], Block([next_, *steps])))
    copies.append(te.CommitOp())
    for step in found.fills:
        Rewriter.erase_op(step)
    for new in found.buffers:
        read_stage(new.result, staged[new.result], loop.variable, stages)
        Rewriter.erase_op(new)
    if split:
        writer = FragmentWriter(split, loop)
        Rewriter.insert_op([te.WaitOp(ahead - 1), writer.first()], before)
        steps_ = [writer.all_but_last(), te.WaitOp(ahead - 2), *copies, writer.last()]
        Rewriter.insert_op(steps_, InsertPoint.before(split.step))
        Rewriter.erase_op(split.step)
    else:
        first_op = loop.body.block.first_op
        assert first_op is not None
        Rewriter.insert_op([te.WaitOp(ahead - 1), *copies], InsertPoint.before(first_op))
    # Nothing is under way any more; what comes behind may use the same bytes.
    Rewriter.insert_op_after(te.WaitOp(0), loop)


def _only_step(found: Prefetch) -> te.StepOp | None:
    """The step that uses what a loop loads, where nothing else stands in it."""
    known = {*found.fills, *found.buffers}
    rest = [op for op in found.loop.body.block.ops if op not in known]
    (use,) = rest if len(rest) == 1 else (None,)
    return use if isinstance(use, te.StepOp) else None


def _copying(
    step: te.StepOp,
    loop: te.SeqOp,
    iteration: SSAValue,
    staged: dict[SSAValue, SSAValue],
    stages: int,
) -> te.StepOp:
    """A step that fills the buffers of an iteration, by asynchronous copies."""
    copy = step.clone({loop.variable: iteration})
    for bind in [op for op in copy.walk() if isinstance(op, te.BindOp)]:
        view = bind.value.owner
        assert isinstance(view, te.ViewOp)
        target = staged[bind.buffer]
        map_ = index_in_part(bind.index_map, bind.buffer_type, target, stage_of(stages))
        send = te.CopyAsyncOp(
            view.buffer,
            list(view.indices),
            view.map,
            target,
            [*bind.indices, iteration],
            AffineMapAttr(map_),
        )
        Rewriter.replace_op(bind, send, [])
    for view in [op for op in copy.walk() if isinstance(op, te.ViewOp)]:
        if not view.result.first_use:
            Rewriter.erase_op(view)
    return copy
