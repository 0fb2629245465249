"""The choice of a buffer's layout in words."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.dialects.tensor_types import dims, element_type_of, shape_of, value_label
from mugraph.passes.schedule.plan_swizzle.patterns import Pattern
from mugraph.passes.schedule.plan_swizzle.selection import Candidate, LayoutChoice, Method

_NAMES = {Method.NONE: "none", Method.XOR: "xor, best", Method.SHIFT: "shift, best"}


def explanation(value: SSAValue, patterns: Sequence[Pattern], choice: LayoutChoice) -> str:
    """A paragraph: the buffer and its layout, its accesses, and the classes that were compared."""
    lines = [
        f"{value_label(value)} {dims(shape_of(value.type))}x{element_type_of(value.type)}: "
        f"{choice.chosen.layout}, {choice.certificate.value}"
    ]
    for label, times in _counted(patterns).items():
        lines.append(f"  access  {label}, {times} warp instructions")
    rows: list[tuple[str, Candidate]] = [("as it was", choice.given)]
    rows += [(_NAMES[candidate.method], candidate) for candidate in choice.best]
    rows.append(("chosen", choice.chosen))
    for name, candidate in rows:
        cost = candidate.cost
        lines.append(
            f"  {name:<12} {cost.wavefronts:>8} wavefronts  {cost.line_bytes:>7} bytes  "
            f"{candidate.layout}"
        )
    lines.append(f"  {'ideal':<12} {choice.ideal:>8} wavefronts")
    return "\n".join([*lines, ""])


def _counted(patterns: Sequence[Pattern]) -> dict[str, int]:
    """How many warp instructions a block executes, by access, in order."""
    counted: dict[str, int] = {}
    for pattern in patterns:
        times = len(pattern.coordinates) * pattern.executions
        counted[pattern.label] = counted.get(pattern.label, 0) + times
    return counted
