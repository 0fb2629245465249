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
from functools import cached_property, singledispatch
from itertools import product
from typing import TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.cute import Layout
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
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_bytes_of,
    element_type_of,
    innermost_dimension,
    op_label,
    shape_of,
    strides_of,
)
from mugraph.passes.analysis.registers import register_limit
from mugraph.passes.analysis.wavefronts import SECTOR_BYTES
from mugraph.passes.resolve_layout.access_work import (
    ProductPartition,
    Sums,
    Tile,
    Work,
    copy_work,
    fragment_work,
    kernel_operand_work,
    operand_work,
    partitioned_work,
    reduction_result_work,
    reduction_source_work,
    swizzles_of,
)
from mugraph.passes.resolve_layout.problem import has_layouts, layout_candidates
from mugraph.passes.schedule_threadblock.choose import (
    MIN_STAGES,
    WarpLayout,
)
from mugraph.passes.schedule_threadblock.products import (
    adds_up_plainly,
    choose_layout_of,
    product_work,
    sums_once,
)
from mugraph.passes.schedule_threadblock.registers import Work as RegisterWork
from mugraph.passes.schedule_threadblock.registers import choose_kept
from mugraph.passes.targets import Target

Strides: TypeAlias = tuple[int, ...]
PICOSECONDS = 1000
"""In a nanosecond."""
ACCUMULATOR_BYTES = 4
"""Sums that stay in shared memory are fp32."""


@dataclass(frozen=True)
class SharedUse:
    """Accesses to one shared tensor: what one launch does for any layout it may be swizzled to."""

    value: SSAValue
    work: Callable[[AnyLayout], Work]


@dataclass(frozen=True)
class Uses:
    """What one launch does for given strides: in shared memory by tensor, and otherwise."""

    shared: Sequence[SharedUse] = ()
    other: Work = field(default_factory=Work)


@dataclass(frozen=True)
class AccessCosts:
    """Accesses of one operator that depend on the strides of ``values`` together.

    ``uses`` takes their strides in order.
    """

    values: tuple[SSAValue, ...]
    uses: Callable[[Sequence[Strides]], Uses]


@dataclass
class Site:
    """Where operators run: the launch of one custom kernel, or of a kernel of its own."""

    target: Target
    graph: kn.CustomizedOp | None = None
    phases: dict[Operation, Phase] = field(default_factory=dict[Operation, Phase])
    in_registers: frozenset[Operation] = frozenset()

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
        return choose_layout_of(op, self.threads, iterations)

    def picoseconds(self, work: Work) -> dict[str, float]:
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
    ops = [op for op in graph.body.block.ops if accumulates(op)]
    works = [_work_of(op, site) for op in ops]
    kept = choose_kept(works, register_limit(graph.threads, target.registers_per_multiprocessor))
    site.in_registers = frozenset(ops[index] for index in kept)
    return site


def _work_of(op: Operation, site: Site) -> RegisterWork:
    if isinstance(op, tb.MatmulOp):
        return product_work(op, site.warps_of(op))
    if not adds_up_plainly(op):
        return RegisterWork(0)
    values = math.ceil(math.prod(shape_of(op.results[0].type)) / site.threads)
    return RegisterWork(values, keepable=True)


def shared_use(
    value: SSAValue,
    work: Callable[[Tile], Work],
    times: int,
    element_bytes: int | None = None,
) -> SharedUse:
    """Accesses to one tensor, done ``times`` a launch, ``work`` each."""
    shape, size = shape_of(value.type), element_bytes or element_bytes_of(value.type)
    return SharedUse(value, lambda layout: work(Tile(shape, layout, size)).times(times))


def operand_of(
    value: SSAValue, strides: Strides, element_bytes: int | None = None
) -> PartitionedOperand:
    """A shared tensor under candidate strides, as the choice of a partition sees it."""
    size = element_bytes or element_bytes_of(value.type)
    return PartitionedOperand(shape_of(value.type), strides, size)


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
    shape, writes = shape_of(value.type), value in op.results

    def uses(strides: Sequence[Strides]) -> Uses:
        partition = choose_partition(shape, [operand_of(value, strides[0])], site.threads)

        def work(tile: Tile) -> Work:
            return partitioned_work(tile, shape, partition, writes=writes)

        return Uses([shared_use(value, work, site.executions(op))])

    return AccessCosts((value,), uses)


def elementwise_costs(
    op: Operation, values: Sequence[SSAValue], site: Site
) -> Sequence[AccessCosts]:
    """An element-wise operator: ``values`` are its result and its operands."""
    result, *sources = values
    domain, executions = shape_of(result.type), site.executions(op)
    in_registers = op in site.in_registers
    sums_in_memory = accumulates(op) and not in_registers
    result_bytes = ACCUMULATOR_BYTES if sums_in_memory else None

    def uses(strides: Sequence[Strides]) -> Uses:
        operands = [operand_of(result, strides[0], result_bytes)]
        operands += [operand_of(v, own) for v, own in zip(sources, strides[1:], strict=True)]
        partition = choose_partition(domain, operands, site.threads)

        def reads(tile: Tile) -> Work:
            return partitioned_work(tile, domain, partition, writes=False)

        def writes(tile: Tile) -> Work:
            written = partitioned_work(tile, domain, partition, writes=True)
            return written + reads(tile) if sums_in_memory else written

        shared = [shared_use(value, reads, executions) for value in sources]
        times = site.blocks if in_registers else executions
        return Uses([*shared, shared_use(result, writes, times, result_bytes)])

    return [AccessCosts(tuple(values), uses)]


def kernel_costs(op: Operation) -> Sequence[AccessCosts]:
    """A kernel of its own that walks its result as it lies in memory, and its operands alike."""
    tensors = [value for value in (*op.results, *op.operands) if has_layouts(value.type)]
    if not tensors:
        return []
    result = tensors[0]
    domain = shape_of(result.type)
    alike = [value for value in tensors if len(shape_of(value.type)) == len(domain)]

    def uses(strides: Sequence[Strides]) -> Uses:
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
        return Uses(other=total)

    return [AccessCosts(tuple(alike), uses)]


@layout_costs.register
def _(op: kn.MatmulOp, site: Site) -> Sequence[AccessCosts]:
    # cuBLAS takes each operand either way; what it cannot take is a hard constraint.
    return []


@layout_costs.register
def _(op: tb.MatmulOp, site: Site) -> Sequence[AccessCosts]:
    warps, executions, threads = site.warps_of(op), site.executions(op), site.threads
    sharing = ProductPartition(warps.atom, warps.m, warps.n, warps.k)
    as_stored = loads_as_stored(warps.atom, element_type_name(element_type_of(op.lhs.type)))
    in_registers = op in site.in_registers
    sums_in_memory = accumulates(op) and not in_registers

    def load(value: SSAValue, is_a: bool) -> AccessCosts:
        def work(tile: Tile) -> Work:
            return operand_work(tile, sharing, is_a=is_a, as_stored=as_stored, threads=threads)

        return AccessCosts((value,), lambda _: Uses([shared_use(value, work, executions)]))

    def store(tile: Tile) -> Work:
        if warps.k > 1:
            # What writes the result is the sum over the warps along k, element by element.
            operand = operand_of(op.result, strides_of(tile.layout), tile.element_bytes)
            partition = choose_partition(tile.shape, [operand], threads)
            return partitioned_work(tile, tile.shape, partition, writes=True)
        return fragment_work(tile, sharing, threads=threads, accumulates=sums_in_memory)

    stored = shared_use(
        op.result,
        store,
        site.blocks if in_registers else executions,
        ACCUMULATOR_BYTES if sums_in_memory else None,
    )
    return [
        load(op.lhs, True),
        load(op.rhs, False),
        AccessCosts((op.result,), lambda _: Uses([stored])),
    ]


@layout_costs.register
def _(op: tb.AnyReductionOp, site: Site) -> Sequence[AccessCosts]:
    groups, sums_up, executions = op.groups(), accumulates(op), site.executions(op)
    results = shape_of(op.result.type)
    lanes = choose_lanes(math.prod(results), groups.count, site.threads)
    result_bytes = ACCUMULATOR_BYTES if sums_up else None

    def uses(strides: Sequence[Strides]) -> Uses:
        order = result_order(operand_of(op.result, strides[1], result_bytes))
        sums = Sums(groups, op.reduced_dim, lanes, LinearPartition(site.threads, 1, order))

        def read(tile: Tile) -> Work:
            return reduction_source_work(tile, results, sums)

        def write(tile: Tile) -> Work:
            return reduction_result_work(tile, sums, accumulates=sums_up)

        return Uses(
            [
                shared_use(op.input, read, executions),
                shared_use(op.result, write, executions, result_bytes),
            ]
        )

    return [AccessCosts((op.input, op.result), uses)]


def _copy_costs(
    op: tb.InputOp | tb.OutputOp, stensor: SSAValue, site: Site, *, stores: bool
) -> Sequence[AccessCosts]:
    executions = site.executions(op)
    iterations = max(1, executions // site.blocks)

    def uses(strides: Sequence[Strides]) -> Uses:
        copy = op.tile_copy(strides[0], strides[1])

        def work(tile: Tile) -> Work:
            return copy_work(copy, tile.layout, site.threads, iterations, stores=stores)

        return Uses([shared_use(stensor, work, executions)])

    return [AccessCosts((op.dtensor, stensor), uses)]


@layout_costs.register
def _(op: tb.InputOp, site: Site) -> Sequence[AccessCosts]:
    # A tile that nothing reads is not loaded.
    return [] if op.result.first_use is None else _copy_costs(op, op.result, site, stores=False)


@layout_costs.register
def _(op: tb.OutputOp, site: Site) -> Sequence[AccessCosts]:
    return _copy_costs(op, op.stensor, site, stores=True)


@dataclass(frozen=True)
class _Charge:
    """A use of a shared tensor of given strides, where ``literals`` hold."""

    op: Operation
    literals: tuple[Literal, ...]
    use: SharedUse
    strides: Strides


class _Charger:
    """Charges a problem with the accesses of one launch.

    Where accesses to a tensor conflict in its plain layout, which of its swizzles it gets becomes
    a choice of its own: all its accesses share it.
    """

    def __init__(self, problem: LayoutProblem, site: Site) -> None:
        self.problem = problem
        self.site = site
        self.charges: list[_Charge] = []
        self.conflicting: set[tuple[int, Strides]] = set()

    def add(self, op: Operation) -> None:
        """Charges what strides alone decide of an operator, and notes the rest."""
        for costs in layout_costs(op, self.site):
            values = list(dict.fromkeys(costs.values))
            candidates = [layout_candidates(self.problem, value) for value in values]
            for choice in product(*candidates):
                strides = {v: own for v, (_, own) in zip(values, choice, strict=True)}
                literals: tuple[Literal, ...] = tuple(x for own, _ in choice for x in own)
                uses = costs.uses([strides[value] for value in costs.values])
                self.charge(op, uses.other, literals)
                for use in uses.shared:
                    self.note(_Charge(op, literals, use, strides[use.value]))

    def note(self, charge: _Charge) -> None:
        """Keeps a use for later; finds out whether its tensor needs a swizzle."""
        value = charge.use.value
        self.charges.append(charge)
        plain = Layout(shape_of(value.type), charge.strides)
        if charge.use.work(plain).conflicts:
            self.conflicting.add((self.problem.number_of(value), charge.strides))

    def charge(self, op: Operation, work: Work, literals: tuple[Literal, ...]) -> None:
        """Charges an operator's work where all literals hold."""
        label = op_label(op)
        for term, picoseconds in self.site.picoseconds(work).items():
            self.problem.charge(round(picoseconds), *literals, reason=f"{term}, {label}")

    def settle(self) -> None:
        """Charges the uses of shared tensors, for each of the swizzles that matter."""
        counts: dict[SSAValue, int] = {}
        for charge in self.charges:
            value = charge.use.value
            shape = shape_of(value.type)
            layouts: Sequence[AnyLayout] = (Layout(shape, charge.strides),)
            if (self.problem.number_of(value), charge.strides) in self.conflicting:
                layouts = swizzles_of(shape, charge.strides, element_bytes_of(value.type))
            works = [charge.use.work(layout) for layout in layouts]
            if all(work == works[0] for work in works):
                self.charge(charge.op, works[0], charge.literals)
                continue
            swizzles = [self.problem.permuted(value, k) for k in range(1, len(layouts))]
            plain = tuple(literal.negated() for literal in swizzles)
            self.charge(charge.op, works[0], (*charge.literals, *plain))
            for work, swizzle in zip(works[1:], swizzles, strict=True):
                self.charge(charge.op, work, (*charge.literals, swizzle))
            counts[value] = max(counts.get(value, 0), len(swizzles))
        for value, count in counts.items():
            self.problem.require_at_most_one(
                [self.problem.permuted(value, k) for k in range(1, count + 1)]
            )


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
        if isinstance(op, kn.CustomizedOp):
            _charge_graph(problem, op, target)
        elif isinstance(op, HasLayoutConstraints):
            _Charger(problem, Site(target)).add(op)


def _charge_graph(problem: LayoutProblem, graph: kn.CustomizedOp, target: Target) -> None:
    site = site_of(graph, target)
    price = site.price_of_a_byte()
    charger = _Charger(problem, site)
    for op in graph.body.block.ops:
        if isinstance(op, HasLayoutConstraints):
            charger.add(op)
        for result in op.results:
            if isinstance(result.type, STensorType):
                charge_bytes(problem, result, site, price)
    charger.settle()
