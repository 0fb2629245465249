"""What a search has found of groups of operators."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mugraph.passes.program.fuse_kernels.kernel import KernelBuilder
from mugraph.passes.program.fuse_kernels.part import Part
from mugraph.passes.program.fuse_kernels.structures import Structure


@dataclass
class Attempt:
    """A kernel that a group of operators could be; if there is none, why."""

    time: float
    write: Callable[[], Part] | None = None
    """Writes the kernel, in the place of the operators; ``None`` where there is none."""
    reasons: tuple[str, ...] = ()
    looped: int | None = None
    """The index that its loop walks along."""

    @cached_property
    def part(self) -> Part | None:
        """The kernel, in the place of the operators."""
        return self.write and self.write()


class Tried(NamedTuple):
    """What another process has found of a group."""

    time: float
    is_kernel: bool
    looped: int | None
    reasons: tuple[str, ...]
    core: Sequence[int] | None
    """The places of the operators that are to blame."""


@dataclass
class Known:
    """What is known of groups that are alike, in a program and in copies of it."""

    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    """Of what structures are made of."""
    attempts: dict[Structure, Attempt] = field(default_factory=dict[Structure, Attempt])
    bounds: dict[Structure, float] = field(default_factory=dict[Structure, float])
    """Sharper bounds of groups."""
    builders: dict[Structure, tuple[Part, KernelBuilder]] = field(
        default_factory=dict[Structure, tuple[Part, KernelBuilder]]
    )
    """What writes kernels that were bounded lately, and may be built next."""
    cores: dict[Structure, Sequence[int]] = field(default_factory=dict[Structure, Sequence[int]])
    """Which operators of groups that are no kernels are to blame, by their places in order."""
    parts_of_none: dict[Structure, bool] = field(default_factory=dict[Structure, bool])
    """Whether no kernel has a group, of those whose views go together."""
