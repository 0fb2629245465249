"""The kernels that a program becomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects.interfaces import HasTileIndices
from mugraph.dialects.kn import CustomizedOp, MatmulOp
from mugraph.dialects.locations import Rewriter
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.groups import (
    Group,
    Program,
    Search,
    Structure,
)
from mugraph.passes.program.fuse_kernels.indices import label
from mugraph.passes.program.fuse_kernels.kernel import KernelBuilder
from mugraph.passes.program.fuse_kernels.sums import can_share
from mugraph.passes.program.fuse_kernels.times import (
    in_a_program,
    least_time,
    time_as_written,
    time_of_kernel,
)
from mugraph.passes.targets import Target


class Attempt(NamedTuple):
    """A kernel that a group of operators could be; if there is none, why."""

    time: float
    kernel: CustomizedOp | None = None
    reasons: tuple[str, ...] = ()


@dataclass
class Fusion:
    """Chooses which operators of a function share kernels."""

    function: FuncOp
    target: Target
    attempts: dict[Group, Attempt] = field(default_factory=dict[Group, Attempt])
    known: dict[Structure, tuple[Attempt, list[SSAValue]]] = field(
        default_factory=dict[Structure, tuple[Attempt, list[SSAValue]]]
    )
    """What was found of groups, whatever their operators and operands are called."""
    spare: list[CustomizedOp] = field(default_factory=list[CustomizedOp])
    """Kernels that were made for their times only."""

    def __post_init__(self) -> None:
        self.operators = [op for op in self.function.body.block.ops if op.results]
        self.program = Program(self.operators)

    def bound(self, group: Group) -> float:
        """What a group adds to a program at least; infinite where it cannot be one kernel."""
        members = self.program.members(group)
        if len(members) == 1:
            return time_as_written(members[0], self.target)
        if not all(map(can_share, members)):
            return math.inf
        loaded, stored = self.program.loaded(group), self.program.stored(group)
        return in_a_program(least_time(loaded, stored, self.target), self.target)

    def cost(self, group: Group) -> float:
        """Nanoseconds that a group adds to a program.

        A kernel as it is written has any extents; what its launch hides pays for that.
        """
        time = self.time(group)
        alone = self.attempts[group].kernel is None
        return time if alone else in_a_program(time, self.target)

    def time(self, group: Group) -> float:
        """Nanoseconds that a group takes; infinite where it is not one kernel."""
        if group not in self.attempts:
            self.attempts[group] = self.attempt(group)
        return self.attempts[group].time

    def attempt(self, group: Group) -> Attempt:
        """The fastest kernel of a group; an operator alone stays as it is written."""
        members = self.program.members(group)
        if len(members) > 1:
            return self.like_others(members, group)
        (op,) = members
        if isinstance(op, CustomizedOp):
            return Attempt(time_of_kernel(op, self.target))
        time = time_as_written(op, self.target)
        if isinstance(op, MatmulOp):
            # A product takes what a custom kernel would.
            as_kernel = self.like_others(members, group)
            if as_kernel.kernel is not None:
                self.spare.append(as_kernel.kernel)
                time = max(time, as_kernel.time)
        return Attempt(time)

    def like_others(self, members: Sequence[Operation], group: Group) -> Attempt:
        """The fastest kernel of some operators, found once for all that are alike."""
        structure, loaded = self.program.structure(group)
        if structure not in self.known:
            self.known[structure] = self.fastest(members, group), loaded
            return self.known[structure][0]
        found, own = self.known[structure]
        if found.kernel is None:
            return found
        return found._replace(kernel=found.kernel.clone(dict(zip(own, loaded, strict=True))))

    def fastest(self, members: Sequence[Operation], group: Group) -> Attempt:
        """The fastest kernel of some operators."""
        reasons: list[str] = []
        best = Attempt(math.inf)
        try:
            builder = KernelBuilder(
                [op for op in members if isinstance(op, HasTileIndices)], self.program.stored(group)
            )
        except NotFusedError as error:
            return Attempt(math.inf, None, (str(error),))
        for looped in builder.loops():
            along = (
                "without a loop" if looped is None else f"along {label(builder.indices, looped)}"
            )
            try:
                kernel = builder.build(looped)
            except NotFusedError as error:
                reasons.append(f"{along}: {error}")
                continue
            time = time_of_kernel(kernel, self.target)
            if time < best.time:
                if best.kernel is not None:
                    best.kernel.erase()
                best = Attempt(time, kernel)
            else:
                kernel.erase()
                if time == math.inf:
                    reasons.append(f"{along}: no tiles fit a block")
        return best._replace(reasons=tuple(reasons))

    def choose(self) -> list[Group]:
        """The groups of least estimated time, in an order in which they can run."""
        return Search(self.program, self.bound, self.cost).run()

    def apply(self, groups: Sequence[Group]) -> None:
        """Puts the kernels of groups in the place of their operators."""
        end = self.function.body.block.last_op
        assert end is not None
        for group in groups:
            kernel = self.attempts[group].kernel
            members = self.program.members(group)
            if kernel is None:
                for op in members:
                    op.detach()
                    Rewriter.insert_op(op, InsertPoint.before(end))
                continue
            Rewriter.insert_op(kernel, InsertPoint.before(end))
            for old, new in zip(self.program.stored(group), kernel.results, strict=True):
                new.name_hint = old.name_hint
                old.replace_all_uses_with(new)
        made = {attempt.kernel for attempt in self.attempts.values()} | {*self.spare}
        for kernel in made - {self.attempts[group].kernel for group in groups}:
            if kernel is not None:
                kernel.erase()
        for group in reversed(groups):
            if self.attempts[group].kernel is not None:
                for op in reversed(self.program.members(group)):
                    Rewriter.erase_op(op)


def fuse_kernels(function: FuncOp, target: Target) -> Fusion:
    """Puts operators of a function into common kernels, where that takes less time.

    Returns what was tried.
    """
    fusion = Fusion(function, target)
    if len(fusion.operators) > 1:
        fusion.apply(fusion.choose())
    return fusion


__all__ = ["Attempt", "Fusion", "fuse_kernels"]
