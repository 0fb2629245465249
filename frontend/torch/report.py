"""What became of a model's operators, for people to read."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mugraph.passes.program.fuse_kernels.choice import Found, find_kernels
from mugraph.passes.program.fuse_kernels.explain import kernel_lines, microseconds
from mugraph.passes.targets import DEFAULT_TARGET, target_named
from mugraph.runtime.cuda import only_function

_WIDTH = 100

_PLACE = re.compile(r'File "(?:.*[/\\])?(.+?)", line (\d+), in .*\n +(.+)')
"""A place in a stack trace of torch: file, line and what stands there."""


@dataclass(frozen=True)
class Kernels:
    """The kernels that are found for a program."""

    count: int
    time: float
    """In ns, by estimate."""
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Island:
    """A part of a model that became one program."""

    name: str
    operators: Counter[str]
    kernels: Kernels | None
    """``None`` where they are not asked for."""
    seconds: float
    """How long its compilation took."""


@dataclass
class Report:
    """What became of a model's operators.  ``str`` of it is for people."""

    islands: list[Island] = field(default_factory=list[Island])
    stayed: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """Operators that stay in torch, with the reason, and how many there are."""
    places: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Where the model calls the first one of each."""
    explains: bool = False
    """Whether the kernels of each island are to be explained."""

    def stays(self, node: Any, reason: str) -> None:
        """Notes a call that stays in torch."""
        what = str(node.target), reason
        self.stayed[what] += 1
        found = _PLACE.findall(node.meta.get("stack_trace") or "")
        if found:
            file, line, text = found[-1]
            self.places.setdefault(what, f"{file}:{line}: {text.strip()}")

    def __str__(self) -> str:
        lines = [self._summary()]
        for number, island in enumerate(self.islands):
            lines += ["", *_lines_of(number, island)]
        if self.stayed:
            lines += ["", "in torch:"]
        for what, count in sorted(self.stayed.items()):
            name, reason = what
            lines.append(f"  {count} {name}: {reason}")
            if what in self.places:
                lines.append(f"    first at {self.places[what]}")
        return "\n".join(lines)

    def _summary(self) -> str:
        known = [island.kernels for island in self.islands if island.kernels is not None]
        programs = _counted(len(self.islands), "program")
        if known:
            kernels = _counted(sum(each.count for each in known), "kernel")
            time = microseconds(sum(each.time for each in known))
            programs += f", {kernels}, {time} on {DEFAULT_TARGET} by estimate"
        stayed = sum(self.stayed.values())
        return f"{programs}; {_counted(stayed, 'operator')} in torch"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _lines_of(number: int, island: Island) -> list[str]:
    calls = ", ".join(
        f"{count} {name.removeprefix('aten.').removesuffix('.default')}"
        for name, count in sorted(island.operators.items())
    )
    head, kernels = f"compiled in {island.seconds:.1f} s", island.kernels
    if kernels is not None:
        head = f"{_counted(kernels.count, 'kernel')}, {microseconds(kernels.time)}"
    return [
        f"program {number}: {head}",
        *wrap(calls, _WIDTH, initial_indent="  ", subsequent_indent="  "),
        *(kernels.lines if kernels is not None else ()),
    ]


def kernels_of(module: ModuleOp) -> Kernels:
    """What ``--explain-fusion`` says of the kernels of a program, for the default target."""
    function = only_function(module.clone())
    found = find_kernels(function, target_named(DEFAULT_TARGET))
    if not found.groups:  # An operator alone is not searched for.
        alone = [1 << place for place in range(len(found.fusion.operators))]
        found = Found(found.fusion, alone)
    time = sum(found.fusion.cost(group) for group in found.kernels)
    return Kernels(len(found.kernels), time, tuple(kernel_lines(found)))
