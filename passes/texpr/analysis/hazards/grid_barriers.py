"""Barriers of the grid: which accesses of different blocks they order, as sets of isl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl
from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.texpr.analysis.between import Moment, between, differs_between_blocks
from mugraph.passes.texpr.analysis.domains import domain_of
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.analysis.hazards.touches import named
from mugraph.passes.texpr.analysis.pairs import Pairs


class GridBarriers:
    """The barriers of the grid in a kernel; ``without`` is one to leave out."""

    def __init__(self, kernel: te.KernelOp, without: Operation | None = None) -> None:
        self.kernel = kernel
        self._order = {op: number for number, op in enumerate(kernel.walk())}
        barriers = [
            op
            for op in kernel.walk()
            if isinstance(op, te.BarrierOp) and op.threads is te.Scope.GRID and op is not without
        ]
        self._conditions = {op: domain_of(op).conditions for op in barriers}

    def _is_of_some_blocks(self, op: te.BarrierOp) -> bool:
        return any(differs_between_blocks(one, self.kernel) for one in self._conditions[op])

    def _is_of_some_threads(self, op: te.BarrierOp) -> bool:
        thread = self.kernel.threads.variable
        return any(thread in variables_of(list(one.indices)) for one in self._conditions[op])

    def divergent(self) -> Iterator[Finding]:
        """The barriers that some blocks do not come to; of threads each block is asked."""
        for op in filter(self._is_of_some_blocks, self._conditions):
            yield Finding(
                HazardKind.DIVERGENT_BARRIER,
                (op,),
                f"{named(op)} stands under a condition on the block: blocks for which it does not "
                "hold never come to it",
            )

    def variables(self, pairs: Pairs) -> list[str]:
        """The variables of two accesses that say when each comes, in the names of the pairs."""
        moments = self._moments(pairs)
        return list(dict.fromkeys(name for one in moments for name in one.names.values()))

    def ordered(self, pairs: Pairs, dimensions: Sequence[str]) -> Iterator[isl.Set]:
        """The pairs between which a barrier stands, for each barrier and either order."""
        first, second = self._moments(pairs)
        for op, conditions in self._conditions.items():
            if not self._is_of_some_blocks(op) and not self._is_of_some_threads(op):
                for moments in ((first, second), (second, first)):
                    yield between(op, conditions, moments, self._order, dimensions)

    def _moments(self, pairs: Pairs) -> tuple[Moment, Moment]:
        """When the accesses come, by what all threads share; blocks come as if they were one."""
        block, thread = self.kernel.variable, self.kernel.threads.variable
        shared = [
            {block: pairs.names[0][block]}
            | {value: name for value, name in names.items() if value not in (block, thread)}
            for names in pairs.names
        ]
        return Moment(pairs.one.op, shared[0]), Moment(pairs.other.op, shared[1])
