"""``cost-model=exact``: what layouts cost on the target, in picoseconds a launch.

Every operator says which accesses to memory it will make for given strides of its tensors
(:func:`layout_costs`); they are counted as the finished kernel's are, and priced by the target:

- a sector of device memory takes its 32 bytes' share of the bandwidth;
- a wavefront of shared memory takes one cycle of one of the multiprocessors;
- a warp instruction takes one issue slot of one of their four schedulers;
- a copy into the loop that cannot be asynchronous waits once an iteration for device memory;
- a byte of shared memory takes its share of a multiprocessor's for as long as the kernel's tiles
  take to come and go at full bandwidth.

Times add up as if nothing overlapped, so that a choice is better the less it needs of each.
``docs/layout-resolution.md`` derives the prices and compares both models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from itertools import product
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.cute.atoms import loads_as_stored
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.kn import Phase, accumulates, phases_of
from mugraph.dialects.layout_problem import LayoutProblem, Literal
from mugraph.dialects.partition import (
    VECTOR_BYTES,
    LinearPartition,
    PartitionedOperand,
    choose_lanes,
    choose_partition,
    result_order,
)
from mugraph.dialects.sched.types import accumulators_per_thread
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    innermost_dimension,
    op_label,
    shape_of,
)
from mugraph.passes.analysis.wavefronts import SECTOR_BYTES
from mugraph.passes.resolve_layout.access_work import (
    ProductPartition,
    Tile,
    Work,
    copy_work,
    fragment_store_work,
    kernel_operand_work,
    operand_work,
    partitioned_work,
    reduction_work,
)
from mugraph.passes.resolve_layout.problem import has_layouts, layout_candidates
from mugraph.passes.schedule_threadblock.choose import (
    ACCUMULATOR_REGISTERS,
    MIN_STAGES,
    WarpLayout,
    choose_atom,
    choose_warp_layout,
)
from mugraph.passes.targets import Target

Strides: TypeAlias = tuple[int, ...]
PICOSECONDS = 1000
"""In a nanosecond."""
ACCUMULATOR_BYTES = 4
"""Sums that stay in shared memory are fp32."""


@dataclass(frozen=True)
class AccessCosts:
    """Accesses of one operator whose work depends on the strides of ``values`` together.

    ``work`` takes their strides in order and gives what one launch does.
    """

    values: tuple[SSAValue, ...]
    work: Callable[[Sequence[Strides]], Work]


@dataclass
class Site:
    """Where operators run: the launch of one custom kernel, or of a kernel of its own."""

    target: Target
    graph: kn.CustomizedOp | None = None
    phases: dict[Operation, Phase] = field(default_factory=dict[Operation, Phase])
    in_registers: frozenset[Operation] = frozenset()

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return 1 if self.graph is None else math.prod(self.graph.grid_dim)

    @property
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
        *_, rows, columns = shape_of(op.result.type)
        element = element_type_name(element_type_of(op.lhs.type))
        atom = choose_atom(element, self.threads, ieee=op.is_ieee)
        depth = shape_of(op.lhs.type)[-1]
        return choose_warp_layout(rows, columns, depth, atom, self.threads)

    def picoseconds(self, work: Work) -> dict[str, float]:
        """What the work of a launch takes, by resource."""
        target = self.target
        cycle = PICOSECONDS / target.clock_ghz
        spread = target.multiprocessors
        waves = max(1.0, self.blocks / target.multiprocessors) / self.blocks
        return {
            "device memory": work.sectors * SECTOR_BYTES * PICOSECONDS / target.memory_bytes_per_ns,
            "shared memory": work.wavefronts * cycle / spread,
            "instructions": work.instructions
            * cycle
            / (spread * target.schedulers_per_multiprocessor),
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
        time = moved / self.target.memory_bytes_per_ns * PICOSECONDS
        return time / self.target.shared_memory_per_multiprocessor


def site_of(graph: kn.CustomizedOp, target: Target) -> Site:
    """The launch of a threadblock graph, with its accumulators in registers while they fit."""
    site = Site(target, graph, phases_of(graph.body.block))
    chosen: list[Operation] = []
    used = 0
    for op in graph.body.block.ops:
        if not accumulates(op) or isinstance(op, tb.AnyReductionOp):
            continue
        shape = shape_of(op.results[0].type)
        if isinstance(op, tb.MatmulOp):
            mma = site.warps_of(op).tiled_mma
            needed = accumulators_per_thread(mma, shape[-2], shape[-1])
        else:
            needed = math.ceil(math.prod(shape) / graph.threads)
        if used + needed <= ACCUMULATOR_REGISTERS:
            chosen.append(op)
            used += needed
    site.in_registers = frozenset(chosen)
    return site


def tile_of(value: SSAValue, strides: Strides) -> Tile:
    """A shared tensor under candidate strides."""
    return Tile(shape_of(value.type), strides, element_bytes_of(value.type))


def _shared(op: Operation) -> list[SSAValue]:
    """The shared tensors of an operator, its results first."""
    values = (*op.results, *op.operands)
    return [value for value in values if isinstance(value.type, STensorType)]


@singledispatch
def layout_costs(op: Operation, site: Site) -> Sequence[AccessCosts]:
    """The accesses of an operator, for any strides of its tensors.

    An operator without a function of its own counts as element-wise where the extents of its
    tensors broadcast; otherwise each of its tensors is walked along its innermost dimension.
    Operators of other dialects register theirs.
    """
    values = _shared(op)
    if values:
        try:
            domain = broadcast_shape([shape_of(value.type) for value in values])
        except ShapeError:
            return [walked_alone(op, value, site) for value in values]
        if domain == shape_of(values[0].type) and op.results:
            return elementwise_costs(op, values, site)
        return [walked_alone(op, value, site) for value in values]
    return kernel_costs(op)


def walked_alone(op: Operation, value: SSAValue, site: Site) -> AccessCosts:
    """One tensor that all threads walk through on their own account."""
    writes = value in op.results

    def work(strides: Sequence[Strides]) -> Work:
        tile = tile_of(value, strides[0])
        operand = PartitionedOperand(tile.shape, tile.strides, tile.element_bytes)
        partition = choose_partition(tile.shape, [operand], site.threads)
        once = partitioned_work(tile, tile.shape, partition, writes=writes)
        return once.times(site.executions(op))

    return AccessCosts((value,), work)


def elementwise_costs(
    op: Operation, values: Sequence[SSAValue], site: Site
) -> Sequence[AccessCosts]:
    """An element-wise operator: ``values`` are its result and its operands."""
    sums_up = accumulates(op)

    def work(strides: Sequence[Strides]) -> Work:
        tiles = [tile_of(value, own) for value, own in zip(values, strides, strict=True)]
        domain = tiles[0].shape
        if sums_up and op not in site.in_registers:
            tiles[0] = tiles[0].with_element_bytes(ACCUMULATOR_BYTES)
        operands = [PartitionedOperand(t.shape, t.strides, t.element_bytes) for t in tiles]
        partition = choose_partition(domain, operands, site.threads)
        reads = Work()
        for tile in tiles[1:]:
            reads += partitioned_work(tile, domain, partition, writes=False)
        written = partitioned_work(tiles[0], domain, partition, writes=True)
        if op in site.in_registers:
            return reads.times(site.executions(op)) + written.times(site.blocks)
        if sums_up:
            reads += partitioned_work(tiles[0], domain, partition, writes=False)
        return (reads + written).times(site.executions(op))

    return [AccessCosts(tuple(values), work)]


def kernel_costs(op: Operation) -> Sequence[AccessCosts]:
    """A kernel of its own that walks its result as it lies in memory, and its operands alike."""
    tensors = [value for value in (*op.results, *op.operands) if has_layouts(value.type)]
    if not tensors:
        return []
    result = tensors[0]
    domain = shape_of(result.type)
    alike = [value for value in tensors if len(shape_of(value.type)) == len(domain)]

    def work(strides: Sequence[Strides]) -> Work:
        inner = innermost_dimension(domain, strides[0])
        inner = len(domain) - 1 if inner is None else inner
        contiguous = all(
            own[inner] == 1 or shape_of(value.type)[inner] == 1
            for value, own in zip(alike, strides, strict=True)
        )
        widest = max(element_bytes_of(value.type) for value in alike)
        vector = VECTOR_BYTES // widest if contiguous else 1
        total = Work()
        for value, own in zip(alike, strides, strict=True):
            shape, element_bytes = shape_of(value.type), element_bytes_of(value.type)
            total += kernel_operand_work(shape, own, domain, inner, element_bytes, vector)
        return total

    return [AccessCosts(tuple(alike), work)]


@layout_costs.register
def _(op: kn.MatmulOp, site: Site) -> Sequence[AccessCosts]:
    # cuBLAS takes each operand either way; what it cannot take is a hard constraint.
    return []


@layout_costs.register
def _(op: tb.MatmulOp, site: Site) -> Sequence[AccessCosts]:
    warps, executions = site.warps_of(op), site.executions(op)
    sharing = ProductPartition(warps.atom, warps.m, warps.n)
    as_stored = loads_as_stored(warps.atom, element_type_name(element_type_of(op.lhs.type)))
    sums_up = accumulates(op)

    def load(value: SSAValue, is_a: bool) -> AccessCosts:
        def work(strides: Sequence[Strides]) -> Work:
            once = operand_work(
                tile_of(value, strides[0]),
                sharing,
                is_a=is_a,
                as_stored=as_stored,
                threads=site.threads,
            )
            return once.times(executions)

        return AccessCosts((value,), work)

    def store(strides: Sequence[Strides]) -> Work:
        tile = tile_of(op.result, strides[0])
        if sums_up and op not in site.in_registers:
            tile = tile.with_element_bytes(ACCUMULATOR_BYTES)
        once = fragment_store_work(tile, sharing, threads=site.threads)
        if op in site.in_registers:
            return once.times(site.blocks)
        # A sum in shared memory is read, added to, and written.
        return once.times(2 * executions if sums_up else executions)

    return [load(op.lhs, True), load(op.rhs, False), AccessCosts((op.result,), store)]


@layout_costs.register
def _(op: tb.AnyReductionOp, site: Site) -> Sequence[AccessCosts]:
    groups, sums_up = op.groups(), accumulates(op)
    lanes = choose_lanes(math.prod(shape_of(op.result.type)), groups.count, site.threads)

    def work(strides: Sequence[Strides]) -> Work:
        source, result = tile_of(op.input, strides[0]), tile_of(op.result, strides[1])
        if sums_up:
            result = result.with_element_bytes(ACCUMULATOR_BYTES)
        operand = PartitionedOperand(result.shape, result.strides, result.element_bytes)
        partition = LinearPartition(site.threads, 1, result_order(operand))
        once = reduction_work(
            source, result, groups, op.reduced_dim, lanes, partition, accumulates=sums_up
        )
        return once.times(site.executions(op))

    return [AccessCosts((op.input, op.result), work)]


def _copy_costs(
    op: tb.InputOp | tb.OutputOp, stensor: SSAValue, site: Site, *, stores: bool
) -> Sequence[AccessCosts]:
    executions = site.executions(op)

    def work(strides: Sequence[Strides]) -> Work:
        copy = op.tile_copy(strides[0], strides[1])
        iterations = max(1, executions // site.blocks)
        return copy_work(copy, site.threads, iterations, stores=stores).times(executions)

    return [AccessCosts((op.dtensor, stensor), work)]


@layout_costs.register
def _(op: tb.InputOp, site: Site) -> Sequence[AccessCosts]:
    return _copy_costs(op, op.result, site, stores=False)


@layout_costs.register
def _(op: tb.OutputOp, site: Site) -> Sequence[AccessCosts]:
    return _copy_costs(op, op.stensor, site, stores=True)


def charge_accesses(problem: LayoutProblem, op: Operation, costs: AccessCosts, site: Site) -> None:
    """Charges every combination of candidate layouts with the time of its accesses."""
    values = list(dict.fromkeys(costs.values))
    candidates = [layout_candidates(problem, value) for value in values]
    for choice in product(*candidates):
        strides_by_value = {v: strides for v, (_, strides) in zip(values, choice, strict=True)}
        literals: tuple[Literal, ...] = tuple(x for own, _ in choice for x in own)
        work = costs.work([strides_by_value[value] for value in costs.values])
        for term, picoseconds in site.picoseconds(work).items():
            problem.charge(round(picoseconds), *literals, reason=f"{term}, {op_label(op)}")


def charge_bytes(problem: LayoutProblem, value: SSAValue, site: Site, price: float) -> None:
    """Charges each candidate layout of a shared tensor with the bytes its buffer takes."""
    shape, owner = shape_of(value.type), value.owner
    moves = isinstance(owner, tb.InputOp) and owner.loop_dim >= 0 and site.graph is not None
    stages = min(MIN_STAGES, site.graph.forloop_range) if moves and site.graph else 1
    for literals, strides in layout_candidates(problem, value):
        last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        size = (last + 1) * element_bytes_of(value.type) * stages
        padded = math.ceil(size / VECTOR_BYTES) * VECTOR_BYTES
        problem.charge(round(padded * price), *literals, reason="bytes of shared memory")


def charge_exact_costs(problem: LayoutProblem, function: FuncOp, target: Target) -> None:
    """Charges the accesses of every operator of a µGraph, and the bytes of its shared tensors."""
    for op in function.body.block.ops:
        if not isinstance(op, kn.CustomizedOp):
            _charge_operator(problem, op, Site(target))
            continue
        site = site_of(op, target)
        price = site.price_of_a_byte()
        for inner in op.body.block.ops:
            _charge_operator(problem, inner, site)
            for result in inner.results:
                if isinstance(result.type, STensorType):
                    charge_bytes(problem, result, site, price)


def _charge_operator(problem: LayoutProblem, op: Operation, site: Site) -> None:
    if isinstance(op, HasLayoutConstraints):
        for costs in layout_costs(op, site):
            charge_accesses(problem, op, costs, site)
