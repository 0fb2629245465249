"""How long a chain of products takes that warp groups multiply, such as attention.

What threads compute between two products is passed on in registers.  Of the groups that share a
multiprocessor some multiply while others take exponentials, or wait.

The numbers were fitted together to 110 plans of attention of 100 to 16,384 tokens and depths 64 to
256 on an H200 (``benchmarks/results/attention_prompts_h200.md``); no script is kept.
"""

from __future__ import annotations

import math

from mugraph.dialects.programming_model import GROUP_ROWS, GROUP_THREADS
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.memory import BULK_BYTES_A_CYCLE, CACHE_FACTOR, device_ns
from mugraph.passes.costs.overlap import side_by_side
from mugraph.passes.costs.products import group_cycles
from mugraph.passes.costs.residency import resident_blocks
from mugraph.passes.costs.work import CHAIN_CYCLES, PhaseWork, operand_cycles
from mugraph.passes.targets import Target

BESIDE = 0.41
"""What the shorter of products and all else takes, in parts of its time: most is beside the rest.
"""
SPECIAL, ELEMENT_CYCLES = 1.17, 0.9
"""What exponentials take, in parts of their own time, and cycles of a group for an element each."""
TURN_CYCLES = (95.0, 160.0, 32.0)
"""What an iteration of a warp group takes besides, in blocks of one, two and three of them: three
have what each waits for beside the others."""
PAIR, PAIRED_CYCLES = 2, 130.0
"""What an iteration takes besides where two groups in blocks of their own share a multiprocessor,
and products take longer than all else: 32 x 5 causal prompts of 2048 tokens and d 128 took 387 us
on an H200 in blocks of 64 rows, and 343 in blocks of 128 (``shapes_candidates_h200.md``)."""
AFTER = 1.4
"""What results take besides that leave at the end of a block, where no other one is beside it."""
BETWEEN_CYCLES = 4.5
"""What several groups of a block take besides for an element each of a tile that they read between
products, such as a bias: with one of 4096 x 4096 for 32 heads tiles of 192 x 128 took 462 us on an
H200 at d 64, blocks of one group with tiles of 64 x 128 took 398, and 330 without a bias."""
SEVERAL_GROUP_ROWS = 1.12
"""How much longer a group takes that has several instructions' rows."""
FEWEST_STAGES = 2
"""With one, an iteration's loads begin behind who reads the one before; other blocks compute."""
FEW_TURNS = 14
"""Iterations of a block with one stage at most, on average: with 16, 64 x 3 causal prompts of 2048
tokens took 428 us on an H200, and 402 in blocks of 128 rows; with 14, 56 of 1725 took 90 and 96."""
IN_A_CHAIN = 6.0
"""How little memory and arithmetic are in each other's way (:mod:`mugraph.passes.costs.overlap`):
tiles of 64 rows bring twice as much from the cache as tiles of 128."""


def is_chain(shape: KernelShape, stages: int, target: Target) -> bool:
    """Whether warp groups multiply a chain, as its tiles come or of all of them at once.

    Where all blocks start at once, too, warps multiply: tiles come at once, and then it is too late
    for groups (``benchmarks/results/h200_plans.md``, ``gqa_bs1``).
    """
    chained = [phase for phase in (shape.loop, shape.after) if phase.chained]
    if (
        not shape.is_chain_of_groups(target)
        or not all(each.stays_in_registers(shape.threads, target.warp_size) for each in chained)
        or any(each.converted for each in shape.loop.products)
    ):
        return False
    at_once = shape.turns <= stages
    several = shape.blocks > resident_blocks(shape, stages, target) * target.multiprocessors
    return several if at_once else shape.loop.chained > 0


def gains_blocks(shape: KernelShape, target: Target) -> bool:
    """Whether more blocks of a warp group that multiplies a chain run at once with one stage."""
    in_loop = shape.loop.chained and shape.is_chain_of_groups(target)
    if not in_loop or shape.threads > GROUP_THREADS or not 1 < shape.turns <= FEW_TURNS:
        return False
    alone, staged = (resident_blocks(shape, each, target) for each in (1, FEWEST_STAGES))
    return alone > staged and shape.blocks > staged * target.multiprocessors


def chain_ns(shape: KernelShape, stages: int, target: Target) -> float:
    """Nanoseconds of a chain by blocks of so many stages, behind its launch.

    Blocks that share a multiprocessor wait for their first tiles at the same time.  A group that
    has one alone waits for each product.
    """
    clock, groups = target.clock_ghz, shape.threads // GROUP_THREADS
    loop_bytes, first_bytes, tensor_bytes, *_ = shape.loading
    blocks = shape.blocks / target.multiprocessors
    # Blocks of a causal mask begin with the longest: all multiprocessors end alike.
    busiest = max(blocks, 1.0) if shape.share < 1 else math.ceil(blocks)
    resident = min(resident_blocks(shape, stages, target), busiest)
    alone = groups * resident < 2
    turn = _cycles(shape.loop, target, 1.0 if alone else BESIDE)
    if shape.loop.passed_on[0] > groups * GROUP_ROWS:
        turn *= SEVERAL_GROUP_ROWS
    besides = groups * TURN_CYCLES[min(groups, len(TURN_CYCLES)) - 1]
    besides += CHAIN_CYCLES if alone else 0.0
    if groups == 1 < resident <= PAIR and _is_of_products(shape.loop, target):
        besides += PAIRED_CYCLES
    if groups > 1 and shape.reads_between_products:
        besides += BETWEEN_CYCLES * math.prod(shape.loop.passed_on) / GROUP_THREADS
    after = _cycles(shape.after, target, 1.0)
    after += besides if shape.after.products else AFTER / resident * after
    computed = (shape.turns * (turn + besides) + after) / clock
    moved = first_bytes + loop_bytes + shape.stored_bytes
    begins = target.memory_latency_ns + moved / (BULK_BYTES_A_CYCLE * clock)
    cached = shape.blocks * (shape.turns * loop_bytes + first_bytes + shape.stored_bytes)
    return begins + side_by_side(
        device_ns(tensor_bytes + shape.blocks * shape.stored_bytes, target),
        device_ns(cached, target) / CACHE_FACTOR,
        busiest * shape.copy_cycles(bulk=True) / clock,
        busiest * (computed + begins / resident),
        power=IN_A_CHAIN,
    )


def _cycles(work: PhaseWork, target: Target, beside: float) -> float:
    """Of a multiprocessor, for what a block computes once, ``beside`` as :data:`BESIDE`."""
    products, others = _product_cycles(work, target), _other_cycles(work, target)
    return max(products, others) + beside * min(products, others)


def _is_of_products(work: PhaseWork, target: Target) -> bool:
    """Whether products take longer than all else that a block computes."""
    return _product_cycles(work, target) > _other_cycles(work, target)


def _product_cycles(work: PhaseWork, target: Target) -> float:
    return math.fsum(
        max(group_cycles(each.macs, target, each.element), operand_cycles(each, target))
        for each in work.products
    )


def _other_cycles(work: PhaseWork, target: Target) -> float:
    special = SPECIAL * work.special / target.special_a_cycle
    return special + work.elements * ELEMENT_CYCLES / GROUP_THREADS
