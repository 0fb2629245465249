"""What became of a model's operators, for people to read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import wrap
from types import FunctionType
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mugraph.passes.program.fuse_kernels import finish
from mugraph.passes.program.fuse_kernels.choice import Found, find_kernels
from mugraph.passes.program.fuse_kernels.explain import kernel_lines, microseconds
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function
from mugraph.torch.libraries import library_of
from mugraph.torch.measured import Measured, measured

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
    target: str
    """What the estimate is for."""


@dataclass
class Island:
    """A part of a model that became one program."""

    name: str
    operators: Counter[str]
    kernels: Kernels | None
    """``None`` where they are not asked for."""
    seconds: float
    """How long its compilation took."""
    call: Callable[[], object] | None = None
    """Runs it again as the model did last, where that is measured: on a GPU."""
    measured: tuple[Measured, ...] = ()
    """Its kernels on this machine's GPU."""


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
    breaks: Counter[str] = field(default_factory=Counter[str])
    """Why ``torch.compile`` itself ended graphs, and how often: what is there runs in Python."""

    def stays(self, node: Any, reason: str) -> None:
        """Notes a call that stays in torch."""
        target, library = node.target, library_of(node)
        name = target.__name__ if isinstance(target, FunctionType) else str(target)
        what = name, reason if library is None else f"{reason}; computed by {library}"
        self.stayed[what] += 1
        found = _PLACE.findall(node.meta.get("stack_trace") or "")
        if found:
            file, line, text = found[-1]
            self.places.setdefault(what, f"{file}:{line}: {text.strip()}")

    def measure(self) -> None:
        """Runs the programs that are on a GPU again, and takes the times of their kernels."""
        for island in self.islands:
            if island.call is not None:
                island.measured, island.call = measured(island.call), None

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
        if self.breaks:
            lines += ["", "left out by torch.compile, with every backend:"]
        for reason, count in sorted(self.breaks.items()):
            lines += wrap(f"  {count} {reason}", _WIDTH, subsequent_indent="    ")
        return "\n".join(lines)

    def _summary(self) -> str:
        known = [island.kernels for island in self.islands if island.kernels is not None]
        programs = _counted(len(self.islands), "program")
        if known:
            kernels = _counted(sum(each.count for each in known), "kernel")
            time = microseconds(sum(each.time for each in known))
            programs += f", {kernels}, {time} on {known[0].target} by estimate"
        if any(island.measured for island in self.islands):
            total = sum(each.nanoseconds for island in self.islands for each in island.measured)
            programs += f", {microseconds(total)} measured"
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
    if island.measured:
        time = microseconds(sum(each.nanoseconds for each in island.measured))
        head += f" by estimate, {time} measured"
    return [
        f"program {number}: {head}",
        *wrap(calls, _WIDTH, initial_indent="  ", subsequent_indent="  "),
        *(kernels.lines if kernels is not None else ()),
        *(["  as they ran:"] if island.measured else ()),
        *(f"    {_shown(each)}" for each in island.measured),
    ]


def _shown(kernel: Measured) -> str:
    """A kernel's time, how often it runs, and its name without parameters."""
    name = kernel.name.removeprefix("void ").split("(")[0].split("<")[0]
    runs = f", {kernel.runs} runs" if kernel.runs > 1 else ""
    return f"{name}: {microseconds(kernel.nanoseconds)}{runs}"


def fuse_and_explain(module: ModuleOp, target: str) -> Kernels:
    """Makes kernels of a program's operators, and says what ``--explain-fusion`` says of them."""
    function = only_function(module)
    found = find_kernels(function, target_named(target))
    if not found.groups:  # An operator alone is not searched for.
        alone = [1 << place for place in range(len(found.fusion.operators))]
        found = Found(found.fusion, alone)
    time = sum(found.fusion.cost(group) for group in found.kernels)
    kernels = Kernels(len(found.kernels), time, tuple(kernel_lines(found)), target)
    finish(found, target_named(target))
    return kernels
