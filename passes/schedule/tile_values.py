"""Gives tiles in registers their values, for passes that move or replace what computes on them.

Such a pass names tiles by their registers, ``sched.empty``, as operators before and behind each
other come and go: :func:`tiles_by_registers`.  Which value an operator takes, what phases leave
behind and what loops carry follows from the order of the text.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.tile_values import tile_types


@dataclass
class Held:
    """What registers hold, by their ``sched.empty``, and the groups of copies, the newest last."""

    tiles: dict[SSAValue, SSAValue]
    groups: list[SSAValue]

    def copy(self) -> Held:
        """The same, which then changes by itself."""
        return Held(dict(self.tiles), list(self.groups))


@contextmanager
def tiles_by_registers(kernel: sched.KernelOp) -> Generator[None]:
    """Within, all operators of a kernel name tiles by their registers; behind it, by values."""
    name_registers(kernel)
    yield
    name_values(kernel)


def name_registers(kernel: sched.KernelOp) -> None:
    """Lets every operator name the registers of a tile, so that nothing is carried or yielded."""
    for op in kernel.body.walk():
        for index, operand in enumerate(op.operands):
            if sched.is_tile(operand):
                op.operands[index] = sched.registers_of(operand)
    for op in tuple(kernel.body.walk()):
        if isinstance(op, sched.YieldOp):
            Rewriter.erase_op(op)
        elif isinstance(op, sched.WarpgroupWaitOp) and op.sums:
            _take_place(op, sched.WarpgroupWaitOp(op.pending_products))
        elif isinstance(op, sched.WaitOp):
            op.operands = ()
    for op in reversed(tuple(kernel.body.walk())):
        if isinstance(op, sched.PhaseOp | sched.ForloopOp) and op.results:
            body = op.body.block
            for argument in tuple(body.args):
                body.erase_arg(argument)
            _replace(op, ())


def name_values(kernel: sched.KernelOp) -> None:
    """Lets every operator name the tile that registers hold when it runs."""
    for op in tuple(kernel.body.walk()):
        if isinstance(op, sched.WarpgroupWaitOp):
            sums = [value for value in op.complete_sums() if _is_visible(value, op)]
            if sums:
                _take_place(op, sched.WarpgroupWaitOp(op.pending_products, sums))
    _name_in(kernel.body.block, Held({}, []))


def _is_visible(registers: SSAValue, op: Operation) -> bool:
    """Whether an operator may name registers: none of an iteration behind the loop."""
    owner = registers.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return block is not None and block.find_ancestor_op_in_block(op) is not None


def _name_in(block: Block, held: Held) -> None:
    """Names the tiles and tokens of a block, with what is held before it; ``held`` is kept up."""
    for op in tuple(block.ops):
        if isinstance(op, sched.EmptyOp):
            held.tiles[op.result] = op.result
        elif isinstance(op, sched.CommitOp):
            held.groups.append(op.token)
        elif isinstance(op, sched.WaitOp):
            known = op.pending_groups < len(held.groups)
            op.operands = [held.groups[-1 - op.pending_groups]] if known else []
        elif isinstance(op, sched.RoleOp):
            _name_in(op.body.block, Held(dict(held.tiles), []))
        elif isinstance(op, sched.PhaseOp | sched.ForloopOp):
            _name_in_phase(op, held)
        else:
            _name_operands(op, held)


def _newest(groups: list[SSAValue], count: int) -> list[SSAValue]:
    """So many of the newest groups, or all where there are fewer, the oldest of them first."""
    return groups[-count:] if count > 0 else []


def _name_in_phase(op: sched.PhaseOp | sched.ForloopOp, held: Held) -> None:
    body = op.body.block
    written = [
        registers
        for registers in dict.fromkeys(
            tile
            for step in body.ops
            if isinstance(step, sched.WritesTiles)
            for tile in step.destinations()
        )
        if registers in held.tiles
    ]
    inner = held.copy()
    tokens: list[SSAValue] = []
    if isinstance(op, sched.ForloopOp):
        for registers in written:
            argument = body.insert_arg(registers.type, len(body.args))
            argument.name_hint = registers.name_hint
            inner.tiles[registers] = argument
        if any(isinstance(step, sched.CommitOp) for step in body.ops):
            tokens = _newest(held.groups, _groups_wanted_in(body))
            inner.groups = [body.insert_arg(each.type, len(body.args)) for each in tokens]
    _name_in(body, inner)
    if isinstance(op, sched.ForloopOp):
        left = _newest(inner.groups, len(tokens))
    else:
        written = [registers for registers in written if _is_used_behind(op, registers)]
        left = _newest(inner.groups, _groups_wanted_behind(op))
    left = [token for token in left if token not in held.groups]
    if not written and not left:
        return
    body.add_op(sched.YieldOp([*(inner.tiles[registers] for registers in written), *left]))
    named = _replace(op, [*(held.tiles[registers] for registers in written), *tokens])
    for registers, result in zip(written, named.results, strict=False):
        result.name_hint = registers.name_hint
        held.tiles[registers] = result
    held.groups += named.results[len(written) :]


def _groups_wanted_in(body: Block) -> int:
    """How many of the newest groups that iterations begin with waits of a loop ask for."""
    committed = wanted = 0
    for op in body.ops:
        if isinstance(op, sched.CommitOp):
            committed += 1
        elif isinstance(op, sched.WaitOp):
            wanted = max(wanted, op.pending_groups + 1 - committed)
    return wanted


def _groups_wanted_behind(phase: Operation) -> int:
    """How many of the newest groups waits behind a phase leave in flight or are the first for."""
    wanted = 0
    while (following := phase.next_op) is not None:
        waits = (op for op in following.walk() if isinstance(op, sched.WaitOp))
        wanted = max([wanted, *(op.pending_groups + 1 for op in waits)])
        phase = following
    return wanted


def _is_used_behind(op: Operation, registers: SSAValue) -> bool:
    """Whether operators behind a phase, which name registers still, use these."""
    block = op.parent
    assert block is not None
    users = (block.find_ancestor_op_in_block(use.operation) for use in registers.uses)
    return any(user is not None and op.is_before_in_block(user) for user in users)


def _replace(op: sched.PhaseOp | sched.ForloopOp, carried: list[SSAValue] | tuple[()]) -> Operation:
    """The phase, or the loop with what it carries, as its body now says."""
    body = op.body.block
    op.body.detach_block(body)
    if isinstance(op, sched.ForloopOp):
        named = sched.ForloopOp(op.trip_count, body, carried, peeled=op.is_peeled, step=op.step_of)
    else:
        named = type(op)(body)
    _take_place(op, named)
    return named


def _name_operands(op: Operation, held: Held) -> None:
    destinations = op.destinations() if isinstance(op, sched.WritesTiles) else []
    types = tile_types(*destinations)
    if isinstance(op, sched.WritesTiles) and [result.type for result in op.results] != types:
        fresh = type(op).create(
            operands=op.operands,
            result_types=types,
            properties=op.properties,
            attributes=op.attributes,
        )
        _take_place(op, fresh)
        op = fresh
    for index, operand in enumerate(op.operands):
        op.operands[index] = held.tiles.get(operand, operand)
    for registers, result in zip(destinations, op.results, strict=False):
        result.name_hint = registers.name_hint
        held.tiles[registers] = result


def _take_place(op: Operation, other: Operation) -> None:
    """Puts an operator in the place of one of which nothing uses a result."""
    Rewriter.replace_op(op, other, [None] * len(op.results))
