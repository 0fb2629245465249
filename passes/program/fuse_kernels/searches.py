"""What searches have found, for programs that are compiled more than once.

Where a kernel is refused, its program is compiled anew without it; what the others are is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp

from mugraph.dialects.likeness import likeness_of
from mugraph.passes.program.fuse_kernels.attempts import Attempt
from mugraph.passes.program.fuse_kernels.choice import Found, find_in_buckets, move_body
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.groups import Group
from mugraph.passes.targets import Target


@dataclass(frozen=True)
class _Kept:
    """The kernels of a function."""

    function: FuncOp
    """As it was searched."""
    apart: bool
    groups: Sequence[Group]
    attempts: Mapping[Group, Attempt]
    sequential: Sequence[str]

    @classmethod
    def of(cls, found: Found) -> _Kept:
        """What was found, before its function changes."""
        fusion = found.fusion
        attempts = {group: fusion.attempted(group) for group in found.groups}
        copy = fusion.function.clone()
        return cls(copy, fusion.apart, tuple(found.groups), attempts, found.sequential)

    def again(self, function: FuncOp, target: Target, *, certificates: bool) -> Found:
        """The same kernels of a function that is alike, whose body becomes that one."""
        move_body(self.function.clone(), function)
        fusion = Fusion(function, target, certificates, self.apart, {**self.attempts})
        return Found(fusion, self.groups, self.sequential)


@dataclass
class Searches:
    """What was found of programs and targets, each of which is searched once."""

    known: dict[Hashable, list[_Kept]] = field(default_factory=dict[Hashable, list[_Kept]])

    def find(self, buckets: Sequence[FuncOp], target: Target, *, certificates: bool) -> list[Found]:
        """What :func:`find_in_buckets` finds."""
        look = target.name, certificates, *map(likeness_of, buckets)
        if look in self.known:
            return [
                kept.again(bucket, target, certificates=certificates)
                for kept, bucket in zip(self.known[look], buckets, strict=True)
            ]
        found = find_in_buckets(buckets, target, certificates=certificates)
        self.known[look] = [*map(_Kept.of, found)]
        return found
