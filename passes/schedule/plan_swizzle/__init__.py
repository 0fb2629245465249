"""``--plan-swizzle``: layouts of shared memory become free of bank conflicts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.dialects.interfaces import (
    HasSharedAccesses,
    RestrictsSharedLayouts,
)
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.mappings import MappingError
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_bytes_of,
    innermost_dimension,
    resolved_layout_of,
    shape_of,
    strides_of,
    with_layout,
)
from mugraph.passes.schedule.plan_swizzle.explain_swizzle import explanation
from mugraph.passes.schedule.plan_swizzle.patterns import (
    Pattern,
    declared_pattern,
    is_plain_enough,
    scheduled_patterns,
)
from mugraph.passes.schedule.plan_swizzle.selection import LayoutChoice, choose_among, choose_layout

__all__ = [
    "ExplainSwizzlePass",
    "PlanSwizzlePass",
    "chosen_layouts",
    "plan_swizzle",
    "planned_types",
]


def declared_patterns(root: Operation) -> dict[SSAValue, list[Pattern]]:
    """What operators of µGraphs say of each tile; nothing where no row is contiguous."""
    patterns: dict[SSAValue, list[Pattern]] = {}
    for op in root.walk():
        for access in op.shared_accesses() if isinstance(op, HasSharedAccesses) else ():
            shape = shape_of(access.value.type)
            found = patterns.setdefault(access.value, [])
            inner = innermost_dimension(shape, strides_of(resolved_layout_of(access.value)))
            if inner is not None:
                size = element_bytes_of(access.value.type)
                found.append(declared_pattern(access, shape, inner, size))
    return patterns


@dataclass(frozen=True)
class Trials:
    """Copies of kernels, one of each, in which layouts are tried."""

    copies: dict[sched.KernelOp, dict[Operation, Operation]] = field(
        default_factory=dict[sched.KernelOp, dict[Operation, Operation]]
    )

    def owner_of(self, value: SSAValue) -> Operation:
        """The owner of a kernel's buffer in the copy of the kernel."""
        owner = value.owner
        assert isinstance(owner, Operation)
        kernel = sched.enclosing_kernel(owner)
        if kernel not in self.copies:
            self.copies[kernel] = dict(zip(kernel.walk(), kernel.clone().walk(), strict=True))
        return self.copies[kernel][owner]


def possible_layouts(value: SSAValue, trials: Trials | None = None) -> list[AnyLayout] | None:
    """The layouts that all operators on a buffer can work with; ``None`` where they take any.

    The one it has where no other is common to all.  Several buffers of a kernel may share
    ``trials``, which spares copies of the kernel.
    """
    asked = [
        use.operation.possible_layouts(value)
        for use in value.uses
        if isinstance(use.operation, RestrictsSharedLayouts)
    ]
    if not asked:
        return None
    first, *others = asked
    common = [layout for layout in first if all(layout in other for other in others)]
    nested = [layout for layout in common if base_layout(layout).depth > 1]
    walked: list[AnyLayout] = []
    if nested:
        walked = walked_layouts((trials or Trials()).owner_of(value), nested)
    found = [layout for layout in common if layout not in nested or layout in walked]
    return found or [resolved_layout_of(value)]


def walked_layouts(owner: Operation, layouts: Sequence[AnyLayout]) -> list[AnyLayout]:
    """The layouts of a buffer in which all operators could find their elements.

    ``owner`` makes the buffer, in a copy of its kernel; it has the type that it had in the end.
    """
    buffer: SSAValue = owner.results[0]
    given = buffer.type
    found: list[AnyLayout] = []
    for layout in layouts:
        buffer = Rewriter.replace_value_with_new_type(buffer, with_layout(given, layout))
        try:
            for use in buffer.uses:
                if isinstance(use.operation, sched.HasThreadAccesses):
                    use.operation.thread_accesses()
        except (sched.AccessError, MappingError, VerifyException):
            continue
        found.append(layout)
    Rewriter.replace_value_with_new_type(buffer, given)
    return found


@dataclass(frozen=True)
class _Key:
    """Arguments of a choice, equal where the choice is."""

    layout: AnyLayout
    shape: tuple[int, ...]
    element_bytes: int
    pattern_keys: tuple[tuple[object, ...], ...]
    patterns: Sequence[Pattern] = field(compare=False)


@lru_cache(1024)
def _choice(key: _Key, *, every: bool) -> LayoutChoice:
    return choose_layout(key.layout, key.shape, key.element_bytes, key.patterns, every=every)


class BufferChoice(NamedTuple):
    """A shared-memory value, the accesses that counted, and the choice of its layout."""

    value: SSAValue
    patterns: Sequence[Pattern]
    choice: LayoutChoice


def choose_layouts(root: Operation, *, every: bool = False) -> list[BufferChoice]:
    """The choice for every shared-memory value under ``root`` whose accesses are known.

    Of a scheduled kernel by the accesses of its threads, of a µGraph by those that its operators
    declare.  ``every`` counts all classes of layouts, for explanations.
    """
    patterns: dict[SSAValue, list[Pattern]] = declared_patterns(root)
    for kernel in root.walk():
        if isinstance(kernel, sched.KernelOp):
            patterns |= {
                buffer.result: found or [] for buffer, found in scheduled_patterns(kernel).items()
            }
    choices: list[BufferChoice] = []
    trials = Trials()
    for value, known in patterns.items():
        layout = resolved_layout_of(value)
        possible = possible_layouts(value, trials)
        if possible is None and not is_plain_enough(layout):
            continue
        if possible is not None:
            choice = choose_among(possible, layout, element_bytes_of(value.type), known)
            choices.append(BufferChoice(value, known, choice))
            continue
        keys = tuple(pattern.key() for pattern in known)
        key = _Key(layout, shape_of(value.type), element_bytes_of(value.type), keys, known)
        choice = _choice(key, every=every)
        choices.append(BufferChoice(value, known, choice))
    return choices


def chosen_layouts(root: Operation) -> dict[SSAValue, AnyLayout]:
    """The layout of every shared-memory value under ``root`` once it is planned."""
    return {found.value: found.choice.chosen.layout for found in choose_layouts(root)}


def planned_types(root: Operation) -> dict[SSAValue, Attribute]:
    """The type of every shared-memory value under ``root`` that planning gives another layout."""
    chosen = chosen_layouts(root).items()
    types = ((value, with_layout(value.type, layout)) for value, layout in chosen)
    return {value: planned for value, planned in types if planned != value.type}


def plan_swizzle(root: Operation) -> None:
    """Chooses and writes the layout of every shared-memory value under ``root``."""
    for value, planned in planned_types(root).items():
        Rewriter.replace_value_with_new_type(value, planned)


@dataclass(frozen=True)
class PlanSwizzlePass(ModulePass):
    """Gives every tile in shared memory the layout that costs its accesses the fewest wavefronts.

    Over all accesses to a buffer at once, weighed by how often they run: every xor swizzle over the
    packed tile that can make a difference, then every padding of its rows; of equals the one with
    the fewest bytes.  What threads move at once stays contiguous, so that no instruction changes.
    Where an operator can work only with some layouts, as bulk copies do, these are the candidates.

    Works on a µGraph, scheduled or not: a schedule's accesses are exact, those of a µGraph are what
    its operators declare.  Running it again changes nothing.  Pre-condition: ``--resolve-layout``.

    Before: ``!tb.stensor<16x128xf16, (16,128):(128,1)>`` as an operand of ``tb.matmul``.
    After: ``!tb.stensor<16x128xf16, S<3,3,4> o (16,128):(128,1)>``.
    """

    name = "plan-swizzle"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Plans the whole module."""
        plan_swizzle(op)


@dataclass(frozen=True)
class ExplainSwizzlePass(ModulePass):
    """Prints, to standard error, what ``--plan-swizzle`` would choose and why; changes nothing.

    For each shared tile: its accesses, the wavefronts that a block spends on them without a
    swizzle, under the best xor swizzle and the best padding, the least that any layout needs, and
    the choice.

    Example line::

        %sx 16x128xf16: S<3,3,4> o (16,128):(128,1), ideal: no layout needs fewer wavefronts
    """

    name = "explain-swizzle"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Explains the whole module."""
        for found in choose_layouts(op, every=True):
            sys.stderr.write(explanation(found.value, found.patterns, found.choice))
