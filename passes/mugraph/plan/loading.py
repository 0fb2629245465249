"""Who loads the tiles of a kernel that is cut, how far ahead, and when the next kernel may start.

:data:`WAYS` lists the ways in which kernels load; the first that suits one is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.costs.chains import chain_ns, gains_blocks, is_chain
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import LAUNCH_NS, estimate, stages_of
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.mugraph.plan.early import (
    FEWEST_BESIDE,
    brings_weights,
    comes_before_states,
    has_long_reads,
    has_weights,
    holds_weights,
    leaves_room,
    lets_next_start,
    multiplies_few_rows,
    rounds_of,
    stages_beside,
    stages_in_flight,
    stages_meanwhile,
    stays_whole_beside,
    stays_whole_beside_as_many,
    streams_weights,
    takes_few_turns,
    waits_for_few_blocks,
    waits_for_shorter,
)
from mugraph.passes.schedule.pipeline_loads.stages import choose_stages
from mugraph.passes.targets import Target

LAUNCHES_LONG = 5
"""Launches that a kernel must last to be long.

A batch norm of 64 x 2048 x 16, estimated at 4.0 us, took 4.04 on an H200 with the next kernel early
and 3.49 with it late (``benchmarks/results/concatenations_h200.md``); a group norm of 64 x 2048 x
16, estimated at 5.7, 4.15 and 4.26."""


FEW_ROWS_OF_F8 = 128
"""Rows of products of f8 of which the start of the next kernel was timed."""


@dataclass(frozen=True)
class CutKernel:
    """A kernel, its plan as far as tiles go, and what blocks of such tiles do."""

    graph: CustomizedOp
    plan: Plan
    shape: KernelShape
    target: Target

    @cached_property
    def lets_next_load(self) -> bool:
        """Whether kernels of its program may load weights while its last blocks end."""
        return has_weights(self.graph) and leaves_room(self.shape, self.target)

    @cached_property
    def takes_few_turns(self) -> bool:
        """Whether all threads load its weights in a few iterations, and nothing is written."""
        is_whole = self.plan.loads is None and self.plan.split_k in (None, 1)
        return is_whole and takes_few_turns(self.graph, self.shape, self.target)

    @cached_property
    def loads_meanwhile(self) -> bool:
        """Whether it loads weights while it waits for a kernel of few blocks."""
        waits = self.lets_next_load and brings_weights(self.graph)
        return waits and waits_for_few_blocks(self.graph, self.target)


Way = Callable[[CutKernel], Plan | None]
"""The parts of a plan with which a kernel loads in one way; ``None`` where that is not for it."""


def with_all_weights(kernel: CutKernel) -> Plan | None:
    """All weights of a block are on their way before it waits: it has as many stages as turns."""
    is_whole = kernel.plan.loads is None and kernel.plan.split_k in (None, 1)
    if not is_whole or not holds_weights(kernel.graph, kernel.shape, kernel.target):
        return None
    return _ahead_of_others(kernel.shape.iterations)


def beside_parts(kernel: CutKernel) -> Plan | None:
    """Sums of few rows, and parts of others in the same launch, have half of the memory each.

    They wait for a kernel of few blocks, such as a norm.  Blocks with a producer share no launch,
    and only last blocks of a launch of several kernels add up parts (``--combine-in-last-blocks``).
    """
    shape, target = kernel.shape, kernel.target
    if kernel.plan.loads is not None or not (kernel.loads_meanwhile and multiplies_few_rows(shape)):
        return None
    if kernel.plan.split_k in (None, 1):
        ways = stays_whole_beside, stays_whole_beside_as_many
        suits = any(way(kernel.graph, shape, target) for way in ways)
    else:
        suits = producer_pays(shape, target)
    stages = stages_beside(shape, target) if suits else 0
    return _ahead_of_others(stages) if stages else None


def by_producer(kernel: CutKernel) -> Plan | None:
    """A producer warp loads, where one is needed for what is written, or pays.

    Of weights that come in few turns all threads load.  ``loads`` stays free where
    ``--lower-threadblock`` takes a producer anyway: a loop of one iteration has one only where that
    is said.
    """
    shape, target = kernel.shape, kernel.target
    pays = producer_pays(shape, target) and not kernel.takes_few_turns
    if not pays and not kernel.plan.needs_producer():
        return None
    loads = None if shape.iterations > 1 else "tma"
    stages = (1,) if loads is None and waits_to_start(shape, target) else None
    parts = (("loads", loads), ("stages", stages))
    preferred = tuple(name for name, part in parts if part) or None
    start = "early" if kernel.lets_next_load and not adds_up_rows(kernel) else "end"
    if reads_weights_once(kernel):
        start = "late"
    return Plan(pdl=start, loads=loads, stages=stages, preferred=preferred)


def adds_up_rows(kernel: CutKernel) -> bool:
    """Whether the next kernel only adds up parts of sums of rows that warp groups multiply.

    It loads no weights, and is in the way of the blocks that it waits for: with constant weights 64
    x 2048 x 2048 behind a gate, in four parts, took 10.5 us on an H200 with it early and 7.9 at the
    end (``benchmarks/results/parts_of_rows_h200.md``).
    """
    divided = (kernel.plan.split_k or 1) > 1
    return divided and kernel.shape.loop.runs_ahead(kernel.shape.threads, kernel.target)


def reads_weights_once(kernel: CutKernel) -> bool:
    """Whether each multiprocessor has one block, which reads f8 for few rows, and nothing follows.

    The next kernel is launched while sums leave.  By 64 rows f8 of 8192 x 8192 took 19.8 us on an
    H200 with the next kernel at the end and 19.1 late, of 14336 x 4096 17.1 and 17.0; by 128 rows
    21.3 and 21.0, 19.05 and 18.7.  Where the loop is divided, late is slower: 64 x 4096 x 14336
    took 19.8 and 21.7, of 128 rows 25.1 and 28.9 (``benchmarks/results/narrow_h200.md``).
    """
    shape, target, products = kernel.shape, kernel.target, kernel.shape.loop.products
    few = len(products) == 1 and products[0].promoted and products[0].sizes[0] <= FEW_ROWS_OF_F8
    alone = kernel.plan.split_k in (None, 1) and shape.blocks <= target.multiprocessors
    waits = shape.product_ns(target) < device_ns(shape.loading.tensor_bytes, target)
    return few and alone and waits and not has_weights(kernel.graph)


def beside_shorter(kernel: CutKernel) -> Plan | None:
    """Weights of a few turns come in half of the memory, beside the shorter kernel before it."""
    if not kernel.takes_few_turns or kernel.loads_meanwhile or not waits_for_shorter(kernel.graph):
        return None
    stages = stages_beside(kernel.shape, kernel.target)
    return _ahead_of_others(stages) if stages else None


def by_threads(kernel: CutKernel) -> Plan:
    """All threads load, as far ahead as memory needs.

    A producer keeps as many bytes on their way as the memory needs, so that what starts beside it
    only takes from it: its next kernel starts at its end.  Where all threads load, they are late.
    A long kernel that only brings and stores each tile once hides the next one's launch, and so
    does one that is to begin it early.  What carries states through a loop begins at the end.
    """
    graph, shape, target = kernel.graph, kernel.shape, kernel.target
    streams = streams_weights(graph, shape, target)
    stages = stages_by_threads(shape, target, meanwhile=kernel.loads_meanwhile, streams=streams)
    preferred = None if stages is None else ("stages",)
    early = kernel.lets_next_load or lets_next_start(graph, shape, target)
    start = "early" if early or streams_long(shape, target) else "late"
    if comes_before_states(graph):
        start = "end"
    return Plan(loads="cp_async", stages=stages, pdl=start, preferred=preferred)


WAYS: tuple[Way, ...] = (
    with_all_weights,
    beside_parts,
    by_producer,
    beside_shorter,
    by_threads,
)
"""Ways to load, of which a kernel takes the first that suits it; the last one suits all."""


def how_it_loads(kernel: CutKernel) -> Plan:
    """The parts of a kernel's plan that say who loads, how far ahead, and when the next starts."""
    return next(parts for way in WAYS if (parts := way(kernel)) is not None)


def _ahead_of_others(stages: int) -> Plan:
    """All threads load so many stages, and the next kernel may start at once."""
    return Plan(loads="cp_async", stages=(stages,), pdl="early", preferred=("stages",))


def streams_long(shape: KernelShape, target: Target) -> bool:
    """Whether a kernel without products loads all tiles at once, and lasts some launches.

    Beside a shorter one the blocks of the next kernel are only in the way.
    Source: ``benchmarks/results/h200_plans.md``, of two kernels.
    """
    time = estimate(shape, target)
    products = shape.loop.products or shape.after.products
    once = shape.iterations == 1 and not products
    return once and time is not None and time > LAUNCHES_LONG * LAUNCH_NS


def stages_by_threads(
    shape: KernelShape, target: Target, *, meanwhile: bool = False, streams: bool = False
) -> tuple[int, ...] | None:
    """More stages than ``--lower-threadblock`` takes where few blocks load, or for either reason.

    It takes as many bytes as Little's law says of all multiprocessors; requests come in bursts.
    Where threads wait for what they load, more stages leave room for fewer blocks: 1 x 50257 x 1001
    took 37.8 us on an H200, with two stages 46.4 and with three 56.7.

    Where few blocks run in the last round, they need more stages than all of them do: as many more
    are taken as leave the number of rounds.  Decode of 64 x 8 heads over 16,384 keys took 1121 us
    on an H200 in two rounds of three blocks and two stages, 959 in two rounds of two blocks and
    three stages, 1029 in four of one and four stages; of 53 x 8 heads over 10,000 keys 657, 519 and
    608.
    """
    if shape.loading.waited_for:
        return (1,)
    own = stages_in_flight(shape.blocks, shape, target)
    rounds = rounds_of(shape, own, target)
    last = shape.blocks - sum(rounds[:-1])
    most = max(own, stages_in_flight(last, shape, target))
    alike = (n for n in range(own, most + 1) if len(rounds_of(shape, n, target)) == len(rounds))
    wanted = max(*alike, stages_meanwhile(shape, target) if meanwhile else 1)
    if streams and has_long_reads(shape, target):
        wanted = max(wanted, FEWEST_BESIDE)
    taken = choose_stages(shape.loop_bytes, shape.blocks, shape.iterations, 0, target)
    return (wanted,) if wanted > taken else None


def producer_pays(shape: KernelShape, target: Target) -> bool:
    """Whether a producer would pay where bulk copies can bring the tiles.

    A loop whose tiles are all on their way before it begins needs nobody to load.  Where warps
    exchange what products pass on through shared memory, the block's barriers hold up a producer's
    stages as long as they hold up its own loads.  Source: ``benchmarks/results/h200_plans.md``.
    """
    stages = stages_of(shape, target) or 1
    meets = any(
        work.chained and not work.stays_in_registers(shape.threads, target.warp_size)
        for work in (shape.loop, shape.after)
    )
    waits = shape.iterations > stages or is_chain(shape, stages, target)
    return waits and not meets and shape.prefers_bulk(target)


def waits_to_start(shape: KernelShape, target: Target) -> bool:
    """Whether more blocks beside each other gain more than stages do.

    A warp group that multiplies a chain of a few iterations waits for its first tiles about as long
    as it computes.  With one stage, and so three blocks instead of two, 160 x 4 prompts of 743
    tokens took 234 us on an H200 instead of 274, and 64 x 5 of 1024 tokens 194 instead of 218.
    """
    stages = stages_of(shape, target) or 1
    return (
        is_chain(shape, stages, target)
        and gains_blocks(shape, target)
        and chain_ns(shape, 1, target) < chain_ns(shape, stages, target)
    )
