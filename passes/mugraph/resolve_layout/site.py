"""Where operators run, and what work there takes of the target."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.kn import Phase, accumulates, phases_of
from mugraph.dialects.programming_model import SECTOR_BYTES
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.costs.kept_sums import RegisterWork, choose_kept, register_limit
from mugraph.passes.costs.memory import device_ns, issue_cycles
from mugraph.passes.costs.warp_layouts import WarpLayout
from mugraph.passes.mugraph.resolve_layout.access_work import AccessWork
from mugraph.passes.schedule.lower_threadblock.products import (
    adds_up_plainly,
    choose_layout_of,
    product_work,
    sums_once,
)
from mugraph.passes.schedule.lower_threadblock.warpgroups import choose_warpgroup_layout
from mugraph.passes.targets import Target

PICOSECONDS = 1000
"""In a nanosecond."""


@dataclass
class Site:
    """Where operators run: the launch of one custom kernel, or of a kernel of its own."""

    target: Target
    graph: kn.CustomizedOp | None = None
    phases: dict[Operation, Phase] = field(default_factory=dict[Operation, Phase])
    in_registers: frozenset[Operation] = frozenset()
    fragments: frozenset[SSAValue] = frozenset()
    """Products of warp groups that element-wise operators read, and what these make of them."""

    @cached_property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return 1 if self.graph is None else math.prod(self.graph.grid_dim)

    @cached_property
    def threads(self) -> int:
        """Threads of a block."""
        return 256 if self.graph is None else self.graph.threads

    def executions(self, op: Operation) -> int:
        """How often all blocks together run an operator in one launch."""
        if self.graph is None:
            return 1
        in_loop = self.phases[op] is Phase.LOOP
        return self.blocks * (self.graph.forloop_range if in_loop else 1)

    def warps_of(self, op: tb.MatmulOp) -> WarpLayout:
        """How the warps of a block share a matrix product."""
        once = self.graph is not None and sums_once(op)
        iterations = self.graph.forloop_range if once and self.graph is not None else 1
        return choose_layout_of(op, self.threads, iterations, self.target)

    def picoseconds(self, work: AccessWork) -> dict[str, float]:
        """What the work of a launch takes, by resource."""
        target = self.target
        cycle = PICOSECONDS / target.clock_ghz
        # Blocks are spread over multiprocessors, some of which a small grid leaves idle.
        spread = (
            target.multiprocessors
            if self.graph is None
            else min(self.blocks, target.multiprocessors)
        )
        waves = max(1.0, self.blocks / target.multiprocessors) / self.blocks
        return {
            "device memory": device_ns(work.sectors * SECTOR_BYTES, target) * PICOSECONDS,
            "shared memory": work.wavefronts * cycle / spread,
            "instructions": issue_cycles(work.instructions, target) * cycle / spread,
            "waiting": work.latencies * waves * target.memory_latency_ns * PICOSECONDS,
        }

    def price_of_a_byte(self) -> float:
        """Of shared memory of every block, for the time of the launch's tiles, in picoseconds."""
        if self.graph is None:
            return 0
        moved = 0
        for op in self.graph.body.block.ops:
            if isinstance(op, (tb.InputOp, tb.OutputOp)):
                tile = op.stensor if isinstance(op, tb.OutputOp) else op.result
                elements = math.prod(shape_of(tile.type))
                moved += elements * element_bytes_of(tile.type) * self.executions(op)
        time = device_ns(moved, self.target) * PICOSECONDS
        return time / self.target.shared_memory_per_multiprocessor


def site_of(graph: kn.CustomizedOp, target: Target) -> Site:
    """The launch of a threadblock graph, with its accumulators in registers while they fit."""
    site = Site(target, graph, phases_of(graph.body.block, graph.forloop_range))
    ops = [op for op in graph.body.block.ops if accumulates(op)]
    works = [_work_of(op, site) for op in ops]
    kept = choose_kept(works, register_limit(graph.threads, target.registers_per_multiprocessor))
    site.in_registers = frozenset(ops[index] for index in kept)
    site.fragments = _fragments(site, graph)
    return site


def _fragments(site: Site, graph: kn.CustomizedOp) -> frozenset[SSAValue]:
    """What threads hold of products until they store it; its layout in memory costs nothing."""
    made: set[SSAValue] = set()
    for op in graph.body.block.ops:
        if isinstance(op, tb.MatmulOp):
            made |= {op.result} if _is_of_groups(op, site) else set()
        elif isinstance(op, tb.ElementwiseOp) and site.phases[op] is Phase.AFTER:
            made |= {*op.results} if any(value in made for value in op.operands) else set()

    def stays(value: SSAValue, user: Operation) -> bool:
        leaves = isinstance(user, tb.OutputOp) and isinstance(value.owner, tb.ElementwiseOp)
        return leaves or not made.isdisjoint(user.results)

    return frozenset(v for v in made if all(stays(v, use.operation) for use in v.uses))


def _is_of_groups(op: tb.MatmulOp, site: Site) -> bool:
    """Whether warp groups add up a product, as far as its extents and types tell."""
    *_, rows, columns = shape_of(op.result.type)
    types, depth = operand_names(op.lhs, op.rhs), shape_of(op.lhs.type)[-1]
    by_groups = site.target.multiplies_in_warpgroups and op in site.in_registers
    layout = choose_warpgroup_layout(rows, columns, depth, types, site.threads)
    return by_groups and layout is not None


def _work_of(op: Operation, site: Site) -> RegisterWork:
    if isinstance(op, tb.MatmulOp):
        return product_work(op, site.warps_of(op))
    if not adds_up_plainly(op):
        return RegisterWork(0)
    values = math.ceil(math.prod(shape_of(op.results[0].type)) / site.threads)
    return RegisterWork(values, keepable=True)
