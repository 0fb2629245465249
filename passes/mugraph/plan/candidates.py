"""Plans that may be the fastest of a kernel, for those who measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.plan.choose import (
    filled_plan,
    require_cuttable,
    space_of,
    tiles_of,
    trial_of,
)
from mugraph.passes.mugraph.plan.tile_choice import TileChoice
from mugraph.passes.mugraph.plan.tiles import least_times
from mugraph.passes.mugraph.retile.dimensions import TileSpace, find_dimensions
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.outline import find_outlined, outline
from mugraph.passes.targets import Target

OTHERS: dict[str, tuple[Any, ...]] = {
    "loads": ("tma", "cp_async"),
    "stages": ((2,), (3,), (4,), (6,), (8,)),
    "swap_ab": (True, False),
    "persistent": (True, False),
    "ping_pong": (1, 2),
    "stores": ("tma", "threads"),
    "pdl": ("early", "late", "end"),
}
"""Values of parts that are no tiles, of which one at a time is another in a variant."""

GO_WITH = {"loads": ("stages",)}
"""Parts that are free again where another one changes."""


def candidates(graph: CustomizedOp, target: Target, count: int) -> list[Plan]:
    """Plans of a kernel whose tiles are estimated to be the fastest, so many, the fastest first.

    What is written in its plan stays.  Other parts are those that ``--plan`` takes for such tiles.
    Empty where its tiles cannot be others.
    """
    written = graph.decided
    if written.tiles is not None or written.cuts():
        return []
    found: list[tuple[float, Plan]] = []
    try:
        with trial_of(graph) as trial:
            space = space_of(trial, written)
            found += _tiled(space, target, written, count)
            if written.outline is None and find_outlined(space.graph):
                with trial_of(space.graph) as other:
                    own = find_dimensions(outline(other)[1])
                    tiled = _tiled(own, target, written, count)
                    found += [(time, replace(plan, outline=True)) for time, plan in tiled]
    except RetileError:
        return []
    plans: list[Plan] = []
    for _, plan in sorted(found, key=lambda pair: pair[0]):
        if len(plans) == count:
            break
        filled = _filled(graph, written.over(plan), target)
        if filled is not None and filled not in plans:
            plans.append(filled)
    return plans


def _tiled(
    space: TileSpace, target: Target, written: Plan, count: int
) -> Iterator[tuple[float, Plan]]:
    for choice in least_times(space, target, written, count):
        yield choice.time, _tiles_of(space, choice)


def _tiles_of(space: TileSpace, choice: TileChoice) -> Plan:
    """The parts that lead to a partition, also to the present one: its block says to keep it."""
    plan = tiles_of(space, choice)
    return plan if plan.cuts() else Plan(block=choice.partition.block)


def _filled(graph: CustomizedOp, plan: Plan, target: Target) -> Plan | None:
    try:
        require_cuttable(graph, plan)
    except RetileError:
        return None
    return filled_plan(graph, plan, target)


def variants(plan: Plan, written: Plan) -> list[Plan]:
    """Plans in which one part that is no tile, and is not written, is another.

    Not each can be: what a kernel can have shows when it is scheduled.
    """
    found: list[Plan] = []
    for part, values in OTHERS.items():
        if getattr(written, part) is not None:
            continue
        free = [name for name in (part, *GO_WITH.get(part, ())) if getattr(written, name) is None]
        present = getattr(plan, part)
        rest = plan.without(*free)
        found += [replace(rest, **{part: value}) for value in values if value != present]
    return found
