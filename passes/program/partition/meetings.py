"""Where devices meet so that what one lays out for others is there, and is not replaced too soon.

A device lays a tensor out at the same place in each call.  All of the group must have read it
before the next call replaces it; a device knows that of another one when it has met it since.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from xdsl.ir import Attribute, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.sharding import part_of
from mugraph.passes.program.partition.delivered import is_delivered
from mugraph.passes.program.partition.segments import (
    Delivery,
    Exchange,
    Fetch,
    Join,
    Meeting,
    Segment,
    Step,
    View,
)

_MEETS = (Exchange, Delivery, Meeting)


class Use(NamedTuple):
    """When in a call a tensor of an exchange is laid out, and when others read it last."""

    laid_out: int
    last_read: int


def uses_of(steps: Sequence[Step], returned: Sequence[SSAValue]) -> dict[Exchange | Delivery, Use]:
    """For each exchange where it is laid out and read; what is returned is copied after all steps.

    What a function of one device makes is laid out by it, anything else as devices meet.  What is
    fetched from another device is read until something takes it.
    """
    uses: dict[Exchange | Delivery, Use] = {}
    for number, step in enumerate(steps):
        if isinstance(step, Exchange | Delivery):
            made = _laid_out(step)
            makers = [n for n in range(number) if not made.isdisjoint(gives(steps[n]))]
            far = far_values_of(step)
            fetches = [each for each in steps if isinstance(each, Fetch) and each.op.input in far]
            far |= {each.op.result for each in fetches}
            views = [each for each in steps if isinstance(each, View) and each.op.input in far]
            far |= {each.op.result for each in views}
            readers = [n for n, other in enumerate(steps) if not far.isdisjoint(reads(other))]
            if not far.isdisjoint(returned):
                readers.append(len(steps))
            laid_out = makers[0] if makers else number
            uses[step] = Use(laid_out, max(readers, default=number))
    return uses


def with_meetings(steps: Sequence[Step], returned: Sequence[SSAValue]) -> list[Step]:
    """The steps, and a meeting before a tensor is laid out where nothing else keeps it in order."""
    found: list[Step] = list(steps)
    while True:
        uses = uses_of(found, returned)
        open_ones = [step for step, use in uses.items() if not _is_guarded(found, step, use)]
        if not open_ones:
            return _beside(found, returned)
        # A meeting before the first of them may be before others, too.
        first = min(open_ones, key=lambda step: uses[step].laid_out)
        found.insert(uses[first].laid_out, Meeting(first.axes))


def _beside(steps: Sequence[Step], returned: Sequence[SSAValue]) -> list[Step]:
    """The steps; no function waits for a meeting that is for copies between devices alone."""
    found = [*steps]
    for number in reversed(range(len(found))):
        step = found[number]
        if isinstance(step, Exchange | Meeting):
            trial = [*found[:number], step._replace(beside=True), *found[number + 1 :]]
            behind = next((n for n in range(number + 1, len(trial)) if _meets(trial[n])), None)
            if _may_be_beside(trial, number, behind) and all(
                _is_guarded(trial, *use) for use in uses_of(trial, returned).items()
            ):
                found = trial
    return found


def _may_be_beside(steps: Sequence[Step], number: int, behind: int | None) -> bool:
    """Whether a meeting may be beside functions, as far as the one behind it is concerned.

    Before that one a device does nothing for others but in stages that all devices do in one order.
    Meetings of a device are one by one.  Those that copies to others wait for are before a meeting
    for these copies, those that copies from others wait for are on the stream of these copies.
    """
    if isinstance(steps[number], Meeting):
        return behind is not None and _is_copied(steps, steps[behind])
    known = known_at(steps, number)
    block = steps[number + 1 : behind]
    made = {value for step in block if not _is_stage(step) for value in gives(step)}
    if any(not made.isdisjoint(_laid_out(s)) for s in steps if isinstance(s, Exchange | Delivery)):
        return False
    if known is None or behind is None:
        return known is not None
    other = steps[behind]
    return known <= behind or (isinstance(other, Exchange) and other.beside)


def _is_stage(step: Step) -> bool:
    """Whether a step is of a part without axes: one of those that each device does in turn."""
    part = step.part if isinstance(step, Segment) else None
    return part is not None and not part.axes


class Gathered(NamedTuple):
    """The numbers of the last exchange of a call, and of what joins its copies and others."""

    exchange: int
    join: int


def gathered_last(steps: Sequence[Step]) -> Gathered | None:
    """The exchange behind all functions, if one step joins the copies that it is for.

    Nothing hides its meeting and its copies: one kernel does both, and joins what is here.
    """
    number = max((n for n, step in enumerate(steps) if _meets(step)), default=None)
    if number is None:
        return None
    step, behind = steps[number], steps[number + 1 :]
    if not isinstance(step, Exchange) or not step.beside or any(map(_is_function, behind)):
        return None
    copies = [other.op for other in behind if isinstance(other, Fetch)]
    uses = {use.operation for op in step.peers for use in op.result.uses}
    users = {use.operation for op in copies for use in op.result.uses}
    joins = [n for n, other in enumerate(steps) if isinstance(other, Join) and other.op in users]
    if uses != {*copies} or len(users) != 1 or len(joins) != 1:
        return None
    return Gathered(number, joins[0])


def _is_function(step: Step) -> bool:
    return isinstance(step, Segment | kn.CollectiveOp)


def _meets(step: Step) -> bool:
    return isinstance(step, _MEETS)


def known_at(steps: Sequence[Step], number: int) -> int | None:
    """When a device knows that it has met the others in an exchange that is for copies alone.

    That is when a step takes one that it copied from another device, at the latest at the end of a
    call; ``None`` where it does more with what others laid out, or copies nothing of theirs.
    """
    exchange = steps[number]
    assert isinstance(exchange, Exchange)
    copies = {step.op for step in steps if isinstance(step, Fetch)}
    uses = [(use.operation, op) for op in exchange.peers for use in op.result.uses]
    if any(use not in copies for use, _ in uses):
        return None
    places: dict[SSAValue, Attribute | None] = {}
    places |= {result: op.place for use, op in uses for result in use.results}
    taken = set[Attribute | None]()
    for behind, step in enumerate(steps[number + 1 :], number + 1):
        if isinstance(step, View) and step.op.input in places:
            places[step.op.result] = places[step.op.input]
            continue
        taken.update(places[value] for value in takes(step) if value in places)
        if _has_others(taken):
            return behind
    return len(steps) if _has_others({op.place for _, op in uses}) else None


def _has_others(places: Collection[Attribute | None]) -> bool:
    """Whether another device's is among tensors of so many places; a shift is never its own."""
    return None in places or len(places) > 1


def _laid_out(step: Exchange | Delivery) -> set[SSAValue]:
    """What functions make that others read, whole or in ranges for one member each."""
    if isinstance(step, Exchange):
        return {step.value}
    pieces = step.op.pieces
    ranges = [piece.owner for piece in pieces if isinstance(piece.owner, kn.SliceOp)]
    return {*pieces, *(each.input for each in ranges if part_of(each) is not None)}


def _is_copied(steps: Sequence[Step], step: Step) -> bool:
    """Whether copies beside the functions lay out all that other devices read of an exchange."""
    given = {value for each in steps for value in gives(each)}
    match step:
        case Exchange(value):
            return step.beside and value not in given
        case Delivery(op):
            return all(
                piece in given and piece.has_one_use() and not isinstance(piece.owner, kn.CopyOp)
                for piece in op.pieces
            )
        case _:
            return False


def _is_guarded(steps: Sequence[Step], exchange: Exchange | Delivery, use: Use) -> bool:
    """Whether all who read it are met after they did, and before the next call lays it out."""
    copied = _is_copied(steps, exchange)

    def is_before(number: int, step: Step) -> bool:
        # What is copied to others waits for functions, not for copies from others.
        waits = copied and isinstance(exchange, Exchange)
        if isinstance(step, Exchange) and step.beside and not waits:
            known = known_at(steps, number)
            return known is not None and known <= use.laid_out
        return number < use.laid_out

    return any(
        isinstance(step, _MEETS)
        and (copied or not isinstance(step, Meeting) or not step.beside)
        and set(step.axes) >= set(exchange.axes)
        and (number > use.last_read or is_before(number, step))
        for number, step in enumerate(steps)
    )


def gives(step: Step) -> tuple[SSAValue, ...]:
    """What a function of one device makes, and ranges of it that are for one member each."""
    match step:
        case Segment():
            return step.gives
        case View(op) if part_of(op) is not None:
            return (op.result,)
        case _:
            return ()


def takes(step: Step) -> tuple[SSAValue, ...]:
    """What a step reads: nothing where it only meets."""
    match step:
        case Segment():
            return step.takes
        case Fetch() | View():
            return (step.op.input,)
        case Join():
            return tuple(step.op.inputs)
        case kn.CollectiveOp():
            return (step.input,)
        case _:
            return ()


def reads(step: Step) -> Sequence[SSAValue]:
    """What a step reads, or copies to where others read it."""
    match step:
        case Exchange():
            return [step.value]
        case Delivery():
            return step.op.pieces
        case _:
            return takes(step)


def far_values_of(step: Exchange | Delivery) -> set[SSAValue]:
    """What devices read behind an exchange of what others wrote."""
    if isinstance(step, Delivery):
        return far_values(step.value)
    return set[SSAValue]().union(*(far_values(op.result) for op in step.peers))


def far_values(value: SSAValue) -> set[SSAValue]:
    """A tensor that others wrote, and the parts that are taken of it where it lies."""
    far: set[SSAValue] = set()
    left = [value]
    while left:
        value = left.pop()
        far.add(value)
        left += [
            use.operation.results[0]
            for use in value.uses
            if isinstance(use.operation, kn.AllSliceOp)
            or (isinstance(use.operation, kn.SliceOp) and is_delivered(value))
        ]
    return far
