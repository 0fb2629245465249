"""Mutants of a schedule: one change at a time to what keeps it right.

A mutant is a whole module in which one operator was removed, moved or weakened, or one planned
number changed.  Not every mutant is wrong: a barrier may be superfluous, an offset may be free.
Which are is asked of the interpreter (:mod:`harm`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from random import Random
from typing import TypeVar

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.dialects.cute import ComposedLayout, Swizzle
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.kn.workspace import places_of, workspace_size
from mugraph.dialects.tensor_types import AnyLayout, op_label, resolved_layout_of, value_label
from mugraph.passes.schedule.tile_values import name_registers, name_values

Op = TypeVar("Op", bound=Operation)
Edit = Callable[[Operation], None]
Change = tuple[str, str, Edit]
"""The kind of a mutation, what it does, and the edit of the operator that does it."""

MOVES = (-2, -1, 1, 2)
"""How many operators a barrier or wait is moved over, backwards or forwards."""


@dataclass(frozen=True)
class Mutant:
    """A module that differs from a schedule in one place; it is made when it is asked for."""

    kind: str
    description: str
    kernel: str | None
    """The name of the kernel that was changed; ``None`` for the workspace of the function."""
    make: Callable[[], ModuleOp]

    @cached_property
    def module(self) -> ModuleOp:
        """The changed module."""
        return self.make()

    @property
    def verifies(self) -> bool:
        """Whether the module passes the verifier, which is a way to be found."""
        try:
            self.module.verify()
        except VerifyException:
            return False
        return True


def mutants_of(module: ModuleOp) -> Iterator[Mutant]:
    """Every mutant of every kernel of a scheduled and planned module, which is left as it is."""
    module = by_registers(module)
    for position, op in enumerate(module.walk()):
        kernel = op if isinstance(op, sched.KernelOp) else _kernel_of(op)
        if kernel is None and not isinstance(op, HasWorkspace):
            continue
        for kind, description, edit in _changes_of(op):
            name = None if kernel is None else kernel.sym_name.data
            yield Mutant(kind, description, name, partial(_mutated, module, position, edit))


def _mutated(module: ModuleOp, position: int, edit: Edit) -> ModuleOp:
    """A copy of what :func:`by_registers` gives, with the edit of an operator, by values again."""
    copy = module.clone()
    edit(_operator_at(copy, position))
    by_values(copy)
    return copy


def by_registers(module: ModuleOp) -> ModuleOp:
    """A copy whose operators name tiles by their registers, so that each can go or move alone."""
    copy = module.clone()
    for kernel in _kernels_of(copy):
        name_registers(kernel)
    return copy


def by_values(module: ModuleOp) -> None:
    """Gives the tiles of such a copy the values that they now have."""
    for kernel in _kernels_of(module):
        name_values(kernel)


def _kernels_of(module: ModuleOp) -> list[sched.KernelOp]:
    return [op for op in module.walk() if isinstance(op, sched.KernelOp)]


def random_mutant(module: ModuleOp, random: Random, changes: int) -> Mutant:
    """A module in which so many steps of synchronisation, chosen at random, were changed."""
    copy = by_registers(module)
    descriptions: list[str] = []
    name = ""
    for _ in range(changes):
        steps = [op for op in copy.walk() if isinstance(op, _SYNCHRONISATION) and _kernel_of(op)]
        target = random.choice(steps)
        kernel = _kernel_of(target)
        assert kernel is not None
        name = kernel.sym_name.data
        possible = list(_changes_of(target))
        if possible:
            kind, description, edit = random.choice(possible)
            edit(target)
            descriptions.append(f"{kind}: {description}")
    by_values(copy)
    return Mutant("several", "; ".join(descriptions), name, lambda: copy)


_SYNCHRONISATION = (sched.BarrierOp, sched.BulkCopyOp, sched.ChannelStepOp, sched.OrderStepOp)


def _kernel_of(op: Operation) -> sched.KernelOp | None:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, sched.KernelOp):
        parent = parent.parent_op()
    return parent


def _operator_at(module: ModuleOp, position: int) -> Operation:
    return next(op for at, op in enumerate(module.walk()) if at == position)


def _changes_of(op: Operation) -> Iterator[Change]:
    """All mutations of one operator."""
    if isinstance(op, sched.BarrierOp):
        yield from _removal("barrier", op)
        yield from _moves("barrier", op)
    elif isinstance(op, sched.WaitOp):
        yield from _removal("wait", op)
        yield from _moves("wait", op)
        pending = op.pending_groups + 1
        what = f"{_place(op)}: pending {pending}"
        yield "wait weakened", what, _set_property("pending", pending)
    elif isinstance(op, sched.ChannelStepOp | sched.BulkCopyOp):
        name = op.name.partition(".")[2]
        # A result that nobody writes is no hazard, but another function.
        if not isinstance(op, sched.BulkCopyOp) or op.is_load:
            yield from _removal(name, op)
        yield from _moves(name, op)
        yield f"{name} doubled", _place(op), _double
        yield from _other_iterations(name, op)
    elif isinstance(op, sched.ProxyFenceOp | sched.BulkWaitOp):
        yield from _removal(op.name.partition(".")[2], op)
        yield from _moves(op.name.partition(".")[2], op)
    elif isinstance(op, sched.WarpgroupWaitOp):
        yield from _removal("warpgroup_wait", op)
        yield from _moves("warpgroup_wait", op)
        pending = op.pending_products + 1
        yield "warpgroup_wait weakened", _place(op), _set_property("pending", pending)
    elif isinstance(op, sched.OrderStepOp):
        name = op.name.partition(".")[2]
        yield from _removal(name, op)
        yield from _moves(name, op)
        yield f"{name} in another phase", _place(op), _move_past_the_loop
    elif isinstance(op, sched.ChannelOp):
        yield from _channel_offsets(op, "channel offset")
    elif isinstance(op, sched.OrderBarrierOp):
        yield from _channel_offsets(op, "order_barrier offset")
    elif isinstance(op, sched.CommitOp):
        yield from _removal("commit", op)
    elif isinstance(op, sched.AllocOp):
        yield from _offsets(op)
        yield from _stages(op)
    elif isinstance(op, sched.ForloopOp):
        for bound in (op.iterations - 1, op.iterations + 1):
            yield "loop bound", f"{bound} iterations", _set_property("range", bound)
    elif isinstance(op, sched.FillOp) and isinstance(op.destination.type, sched.TileType):
        yield from _fills_of_persistent_kernels(op)
    elif isinstance(op, sched.KernelOp):
        yield from _clusters(op)
    elif isinstance(op, HasWorkspace):
        yield from _workspace_offsets(op)
    elif isinstance(op, sched.CopyOp) and op.ahead is not None:
        for ahead in (op.ahead_of - 1, op.ahead_of + 1):
            what = f"copy to {value_label(op.destination)} ahead {ahead}"
            yield "ahead", what, _set_property("ahead", ahead)
    if isinstance(op, sched.CopyOp) and op.checked_dims:
        what = f"copy to {value_label(op.destination)} also of what does not exist"
        yield "within removed", what, _drop_within
    yield from _swizzles(op)


def _drop_within(op: Operation) -> None:
    del op.properties["within"]


def _place(op: Operation) -> str:
    """Where an operator stands: its phase, and what comes before it."""
    phase = op.parent_op()
    before = op.prev_op
    after = "at the start" if before is None else f"after {op_label(before)}"
    return f"{op.name} {after} of {phase.name if phase is not None else 'nothing'}"


def _set_property(name: str, value: int) -> Edit:
    def edit(op: Operation) -> None:
        op.properties[name] = IntegerAttr(value, i64)

    return edit


def _remove(op: Operation) -> None:
    op.detach()
    op.erase()


def _removal(what: str, op: Operation) -> Iterator[Change]:
    yield f"{what} removed", _place(op), _remove


def _double(op: Operation) -> None:
    block = op.parent_block()
    assert block is not None
    block.insert_op_after(op.clone(), op)


def _other_iterations(what: str, op: sched.ChannelStepOp | sched.BulkCopyOp) -> Iterator[Change]:
    """The iteration before and the one after the one meant."""
    name = "ahead" if op.fixed_iteration is None else "iteration"
    meant = op.ahead_of if op.fixed_iteration is None else op.fixed_iteration
    for other in (meant - 1, meant + 1):
        if other >= 0 and (name == "iteration" or sched.enclosing_loop(op) is not None):
            change = f"{_place(op)}: {name} {other}, not {meant}"
            yield f"{what} of another iteration", change, _set_property(name, other)


def _move_past_the_loop(op: Operation) -> None:
    """From the end of the prologue to that of the epilogue, or the other way round."""
    role = sched.enclosing_role(op)
    assert role is not None
    phases = [each for each in role.phases if each is not op.parent_op()]
    target = next(each for each in phases if not isinstance(each, sched.ForloopOp))
    op.detach()
    target.regions[0].block.add_op(op)


def _channel_offsets(op: sched.ChannelOp | sched.OrderBarrierOp, kind: str) -> Iterator[Change]:
    """The mbarriers in each buffer, and in the words next to theirs."""
    kernel = _kernel_of(op)
    assert kernel is not None and op.byte_offset is not None and kernel.smem_bytes is not None
    offsets = {op.byte_offset - 8, op.byte_offset + 8}
    for other in kernel.body.walk():
        if isinstance(other, sched.AllocOp) and other.byte_offset is not None:
            offsets |= {other.byte_offset, other.byte_offset + other.total_bytes() // 2}
        elif (
            isinstance(other, sched.ChannelOp | sched.OrderBarrierOp)
            and other.byte_offset is not None
        ):
            offsets.add(other.byte_offset)
    size = op.barrier_bytes()
    for offset in sorted(offsets):
        if offset != op.byte_offset and 0 <= offset <= kernel.smem_bytes - size:
            what = f"{value_label(op.result)} at {offset}, not {op.byte_offset}"
            yield kind, what, _set_property("offset", offset)


def _fills_of_persistent_kernels(op: sched.FillOp) -> Iterator[Change]:
    """Once for all blocks of the grid that a block takes."""
    kernel = _kernel_of(op)
    if kernel is not None and kernel.persistent_blocks is not None:
        yield "fill before the phases", _place(op), _move_before_the_phase


def _move_before_the_phase(op: Operation) -> None:
    phase = op.parent_op()
    assert phase is not None
    op.detach()
    Rewriter.insert_op(op, InsertPoint.before(phase))


def _clusters(kernel: sched.KernelOp) -> Iterator[Change]:
    """Clusters along another axis, and launches of one block more or less."""
    if kernel.cluster is None:
        return
    dims = kernel.cluster_dim
    for turned in {(dims[1], dims[0], dims[2]), (dims[2], dims[1], dims[0])} - {dims}:
        yield "cluster", f"cluster {turned}, not {dims}", _set_array("cluster", turned)
    for blocks in (kernel.persistent_blocks or 0) + 1, (kernel.persistent_blocks or 0) - 1:
        if kernel.persistent_blocks is not None:
            yield "persistent", f"persistent {blocks}", _set_property("persistent", blocks)


def _set_array(name: str, values: Sequence[int]) -> Edit:
    def edit(op: Operation) -> None:
        op.properties[name] = DenseArrayBase.from_list(i64, list(values))

    return edit


def _workspace_offsets(op: HasWorkspace) -> Iterator[Change]:
    """Each result in the place of another one, in half of it, and past the workspace."""
    block = op.parent_block()
    assert block is not None
    places = [
        place
        for other in block.ops
        if isinstance(other, HasWorkspace)
        for place in places_of(other).values()
    ]
    offsets = {place.start for place in places} | {place.start + 128 for place in places}
    offsets |= {workspace_size(op) or 0}
    for number, result in enumerate(op.results):
        planned = list(op.workspace_offsets() or ())
        for offset in sorted(offsets - set(planned)) if result in places_of(op) else ():
            changed = [*planned[:number], offset, *planned[number + 1 :]]
            what = f"{value_label(result)} at {offset}, not {planned[number]}"
            yield "workspace", what, _set_array("workspace", changed)


def _neighbour(op: Operation, distance: int) -> Operation | None:
    """The operator so many steps later, or earlier for a negative distance."""
    found: Operation | None = op
    for _ in range(abs(distance)):
        found = (found.next_op if distance > 0 else found.prev_op) if found is not None else None
    return found


def _moves(what: str, op: Operation) -> Iterator[Change]:
    for distance in MOVES:
        if _neighbour(op, distance) is not None:
            yield f"{what} moved", f"{_place(op)} by {distance:+d}", _move_by(distance)


def _move_by(distance: int) -> Edit:
    def edit(op: Operation) -> None:
        neighbour = _neighbour(op, distance)
        block = op.parent_block()
        assert neighbour is not None and block is not None
        op.detach()
        if distance > 0:
            block.insert_op_after(op, neighbour)
        else:
            block.insert_op_before(op, neighbour)

    return edit


def _offsets(op: sched.AllocOp) -> Iterator[Change]:
    """The offsets of the other buffers, and the next ones that are still aligned."""
    kernel = _kernel_of(op)
    assert kernel is not None and op.byte_offset is not None and kernel.smem_bytes is not None
    allocs = [other for other in kernel.body.walk() if isinstance(other, sched.AllocOp)]
    offsets = {other.byte_offset for other in allocs}
    offsets |= {op.byte_offset + step for step in (-128, -16, 16, 128)}
    for offset in sorted(known for known in offsets if known is not None):
        if offset != op.byte_offset and 0 <= offset <= kernel.smem_bytes - op.total_bytes():
            what = f"{value_label(op.result)} at {offset}, not {op.byte_offset}"
            yield "offset", what, _set_property("offset", offset)


def _stages(op: sched.AllocOp) -> Iterator[Change]:
    for stages in {op.stage_count - 1, op.stage_count // 2} - {0}:
        if stages < op.stage_count:
            what = f"{value_label(op.result)} with {stages} stages, not {op.stage_count}"
            yield "stages", what, _set_property("stages", stages)


def _swizzles(op: Operation) -> Iterator[Change]:
    """Another swizzle for one operand of one operator, on the same bytes."""
    if isinstance(op, sched.ChannelOp):
        return
    for index, operand in enumerate(op.operands):
        if not isinstance(operand.owner, sched.AllocOp):
            continue
        for layout in _other_swizzles(resolved_layout_of(operand)):
            what = f"operand {index}, {value_label(operand)}, of {op_label(op)} with {layout}"
            yield "swizzle", what, _use_other_layout(index, layout)


def _other_swizzles(layout: AnyLayout) -> Iterator[AnyLayout]:
    if not isinstance(layout, ComposedLayout) or not layout.swizzle.bits:
        return
    yield layout.layout
    swizzle = layout.swizzle
    if swizzle.bits > 1:
        fewer = Swizzle(swizzle.bits - 1, swizzle.base, swizzle.shift)
        yield ComposedLayout(fewer, layout.offset, layout.layout)


def _use_other_layout(index: int, layout: AnyLayout) -> Edit:
    def edit(op: Operation) -> None:
        op.operands[index] = _alias(op.operands[index], layout)

    return edit


def _alias(buffer: SSAValue, layout: AnyLayout) -> SSAValue:
    """A second buffer on the bytes of a first one."""
    owner, type_ = buffer.owner, buffer.type
    assert isinstance(owner, sched.AllocOp) and isinstance(type_, sched.SharedType)
    alias = sched.AllocOp(type_.with_layout(LayoutAttr(layout)), owner.stage_count)
    alias.offset = owner.offset
    block = owner.parent_block()
    assert block is not None
    block.insert_op_after(alias, owner)
    alias.result.name_hint = f"{buffer.name_hint or 'buffer'}_alias"
    return alias.result
