"""``--te-prefetch``: loops load what later iterations read while they compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, IndexType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.te import (
    AccessOp,
    ApplyOp,
    AsmOp,
    BindOp,
    BufferType,
    CommitOp,
    CopyAsyncOp,
    Direction,
    IfOp,
    IterationOp,
    KernelOp,
    NewOp,
    SectionOp,
    SeqOp,
    Space,
    StepOp,
    ViewOp,
    WaitOp,
    is_texpr,
)
from mugraph.dialects.tensor_types import layout_of


@dataclass(frozen=True)
class Prefetch:
    """A loop, the buffers that it fills anew in each iteration, and the steps that do so."""

    loop: SeqOp
    buffers: tuple[NewOp, ...]
    fills: tuple[StepOp, ...]


def find_prefetch(loop: SeqOp, kernel: KernelOp) -> Prefetch:
    """What a loop of a block's program loads from device memory into shared memory.

    A step that only copies, of buffers that the kernel does not write, into shared buffers made in
    the loop, that no other step writes, and that are read only after it.  Both are empty where
    there is none.
    """
    body = loop.body.block
    position = {op: index for index, op in enumerate(body.ops)}
    written = {buffer for op in kernel.walk() for buffer in _written(op)}
    fills = [op for op in body.ops if isinstance(op, StepOp) and _only_copies(op, written)]
    buffers = [
        op
        for op in body.ops
        if isinstance(op, NewOp) and op.result.type.memory_space is Space.SHARED
    ]

    def at(op: Operation) -> int:
        while op.parent_block() is not body:
            parent = op.parent_op()
            assert parent is not None
            op = parent
        return position[op]

    places = {position[step] for step in fills}
    while True:
        kept: list[NewOp] = []
        for new in buffers:
            writes = {at(op) for op, is_write in _touching(new) if is_write}
            reads = {at(op) for op, is_write in _touching(new) if not is_write}
            if writes and writes <= places and max(writes) < min(reads, default=len(position)):
                kept.append(new)
        results = {new.result for new in kept}
        filling = [
            step for step in fills if {b for op in step.walk() for b in _written(op)} <= results
        ]
        if len(kept) == len(buffers) and len(filling) == len(fills):
            return Prefetch(loop, tuple(kept), tuple(filling))
        buffers, fills = kept, filling
        places = {position[step] for step in fills}


def _written(op: Operation) -> Iterator[SSAValue]:
    """The buffers that an operator writes."""
    if isinstance(op, AccessOp) and op.kind != "read":
        yield op.buffer
    elif isinstance(op, CopyAsyncOp):
        yield op.target
    elif isinstance(op, AsmOp):
        for direction, argument in zip(op.operand_directions, op.arguments, strict=True):
            if direction is not Direction.IN and isinstance(argument.type, BufferType):
                owner = argument.owner
                yield owner.buffer if isinstance(owner, SectionOp) else argument


def _touching(new: NewOp) -> Iterator[tuple[Operation, bool]]:
    """The operators that access a buffer, and whether they write it."""
    for use in new.result.uses:
        op = use.operation
        users = [use.operation for use in op.result.uses] if isinstance(op, SectionOp) else [op]
        for user in users:
            yield user, new.result in list(_written(user))


def _only_copies(step: StepOp, written: set[SSAValue]) -> bool:
    """Whether a step does nothing but copy elements of buffers that stay as they are."""
    for op in step.body.walk():
        match op:
            case SeqOp() | IfOp() | ApplyOp() | IterationOp():
                pass
            case ViewOp():
                space = op.buffer_type.memory_space
                if op.buffer in written or space not in (None, Space.GLOBAL):
                    return False
            case BindOp():
                if not isinstance(op.value.owner, ViewOp) or not step.is_ancestor(op.value.owner):
                    return False
            case _:
                return False
    return True


def prefetch(found: Prefetch, ahead: int) -> None:
    """Copies ``ahead`` iterations ahead, into as many more buffers than one."""
    loop = found.loop
    total = loop.iterations
    ahead = min(ahead, total)
    stages = ahead + 1
    staged: dict[SSAValue, SSAValue] = {
        new.result: _staged(new, stages, loop) for new in found.buffers
    }
    before = InsertPoint.before(loop)

    first = Block(arg_types=[IndexType()])
    first.args[0].name_hint = f"{loop.variable.name_hint or 'i'}_ahead"
    for step in found.fills:
        first.add_op(_copying(step, loop, first.args[0], staged, stages))
    first.add_op(CommitOp())
    Rewriter.insert_op(SeqOp(ahead, first), before)

    head: list[Operation] = [WaitOp(ahead - 1)]
    if ahead < total:
        next_ = ApplyOp([loop.variable], _of_one(AffineExpr.dimension(0) + ahead))
        next_.result.name_hint = f"{loop.variable.name_hint or 'i'}_ahead"
        steps = [_copying(step, loop, next_.result, staged, stages) for step in found.fills]
        limit = _of_one(AffineExpr.dimension(0) * -1 + (total - 1 - ahead))
        head.append(IfOp([loop.variable], limit, [False], Block([next_, *steps])))
    head.append(CommitOp())
    first_op = loop.body.block.first_op
    assert first_op is not None
    Rewriter.insert_op(head, InsertPoint.before(first_op))
    for step in found.fills:
        Rewriter.erase_op(step)
    for new in found.buffers:
        _read_stage(new.result, staged[new.result], loop.variable, stages)
        Rewriter.erase_op(new)
    # Nothing is under way any more; what comes behind may use the same bytes.
    Rewriter.insert_op(WaitOp(0), InsertPoint.after(loop))


def _of_one(expression: AffineExpr) -> AffineMapAttr:
    return AffineMapAttr(AffineMap(1, 0, (expression,)))


def _staged(new: NewOp, stages: int, loop: SeqOp) -> SSAValue:
    """A buffer of several in the place of one, in front of the loop."""
    type_ = new.result.type
    shape = (stages, *type_.get_shape())
    layout = layout_of(type_)
    attribute = None
    if layout is not None:
        plain = Layout(shape, (type_.elements, *type_.strides()))
        attribute = LayoutAttr(
            ComposedLayout(layout.swizzle, layout.offset, plain)
            if isinstance(layout, ComposedLayout)
            else plain
        )
    made = NewOp(BufferType.of(shape, type_.element_type, attribute, Space.SHARED))
    made.result.name_hint = new.result.name_hint
    Rewriter.insert_op(made, InsertPoint.before(loop))
    return made.result


def _at_stage(map_: AffineMap, type_: BufferType, stage: AffineExpr) -> AffineMap:
    """An index in the buffers of all stages; the iteration is one more operand."""
    results = map_.results
    if len(results) == len(type_.get_shape()):
        moved = (stage, *results)
    else:
        moved = (stage * type_.elements + results[0],)
    return AffineMap(map_.num_dims + 1, 0, moved)


def _copying(
    step: StepOp,
    loop: SeqOp,
    iteration: SSAValue,
    staged: dict[SSAValue, SSAValue],
    stages: int,
) -> StepOp:
    """A step that fills the buffers of an iteration, by asynchronous copies."""
    copy = step.clone({loop.variable: iteration})
    for bind in [op for op in copy.walk() if isinstance(op, BindOp)]:
        view = bind.value.owner
        assert isinstance(view, ViewOp)
        dimension = AffineExpr.dimension(bind.index_map.num_dims)
        type_ = bind.buffer_type
        map_ = _at_stage(bind.index_map, type_, dimension % stages)
        send = CopyAsyncOp(
            view.buffer,
            list(view.indices),
            view.map,
            staged[bind.buffer],
            [*bind.indices, iteration],
            AffineMapAttr(map_),
        )
        Rewriter.replace_op(bind, send, [])
    for view in [op for op in copy.walk() if isinstance(op, ViewOp)]:
        if not view.result.first_use:
            Rewriter.erase_op(view)
    return copy


def _read_stage(old: SSAValue, staged: SSAValue, iteration: SSAValue, stages: int) -> None:
    """Makes all that reads the buffer of an iteration read that of its stage."""
    type_ = old.type
    assert isinstance(type_, BufferType)
    for use in list(old.uses):
        op = use.operation
        assert isinstance(op, (AccessOp, SectionOp))
        map_ = op.index_map
        dimension = AffineExpr.dimension(map_.num_dims)
        moved = AffineMapAttr(_at_stage(map_, type_, dimension % stages))
        operands = [*op.indices, iteration]
        if isinstance(op, SectionOp):
            shape = (1, *op.result.type.get_shape())
            section = SectionOp(staged, operands, moved, shape)
            Rewriter.replace_op(op, section)
        else:
            place = op.operands.index(op.buffer)
            op.operands = [*op.operands[:place], staged, *operands]
            op.properties["map"] = moved


def loops_to_prefetch(kernel: KernelOp) -> list[tuple[SeqOp, int]]:
    """The loops of a block's program whose loads are asked to begin earlier, and how much."""
    return [
        (op, op.ahead)
        for op in kernel.threads.walk()
        if isinstance(op, SeqOp) and op.ahead is not None
    ]


@dataclass(frozen=True)
class TePrefetchPass(ModulePass):
    """Loads what iterations of a loop read from device memory some iterations ahead.

    For loops with ``prefetch n`` (``#prefetch(n)`` in a ``.te`` text): the steps of an iteration
    that only copy from device memory into shared buffers made in the loop become asynchronous
    copies for the iteration n later.  There are n + 1 buffers in the place of each, used in turn;
    the first n iterations' copies begin before the loop.  The copies of an iteration are a group,
    and each iteration waits until its own has landed.  ``--te-sync`` puts the barriers, and checks
    that what is read has landed.  Pre-condition: ``--te-map``, before ``--te-promote``.

    Before::

        te.seq %k = 128 prefetch 3 {
          %t = te.new : !te.buffer<256xf16, shared>
          te.step "load" { ... te.bind %0, %t[%thread] ... }
          te.step "use" { ... te.view %t[%thread] ... }
        }

    After::

        %t = te.new : !te.buffer<4x256xf16, shared>
        te.seq %k_ahead = 3 {
          te.step "load" { te.copy_async 1, %a[...] to %t[%k_ahead mod 4, %thread] }
          te.commit
        }
        te.seq %k = 128 {
          te.wait 2
          te.if 124 - %k >= 0 {
            te.step "load" { ... te.copy_async ... }
          }
          te.commit
          te.step "use" { ... te.view %t[%k mod 4, %thread] ... }
        }
        te.wait 0
    """

    name = "te-prefetch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pass on the kernels of every mapped function."""
        for function in op.ops:
            if not (isinstance(function, FuncOp) and is_texpr(function)):
                continue
            for kernel in [one for one in function.walk() if isinstance(one, KernelOp)]:
                for loop, ahead in loops_to_prefetch(kernel):
                    found = find_prefetch(loop, kernel)
                    if not found.fills:
                        raise PassFailedException(
                            "--te-prefetch: the loop over "
                            f"{loop.variable.name_hint or 'i'} has #prefetch({ahead}), but no "
                            "parallel loop in it that only copies a buffer which the kernel does "
                            "not write into one that is made in it with 'new ... #shared'"
                        )
                    loop.prefetch = None
                    if loop.iterations > 1:
                        prefetch(found, ahead)
