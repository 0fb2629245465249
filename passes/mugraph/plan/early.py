"""Kernels of a program whose weights are on their way before they wait for those before them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from mugraph.dialects import tb
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.constant import is_constant
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn import CustomizedOp, RegroupOp
from mugraph.dialects.tensor_types import bytes_of, shape_of
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import LAUNCH_NS, estimate, stages_of
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.costs.residency import resident_blocks
from mugraph.passes.mugraph.plan.tile_choice import NEARLY_ALL
from mugraph.passes.mugraph.retile.dimensions import product_index
from mugraph.passes.schedule.pipeline_loads.stages import MAX_STAGES
from mugraph.passes.targets import Target

ABOUT_ALIKE = 1.03
"""Times of such kernels that tell nothing."""
FILLED = 2 / 3
"""Of the shared memory of a multiprocessor what weights of a kernel that waits may have."""
LITTLE = 0.1
"""Of the bytes of a block's loop what may come after a wait with all weights of the block."""
FEWEST_BESIDE = 3
"""Stages of a kernel that leaves half of the shared memory to the one before it."""
SHORT_NS = 720.0
"""What a kernel that is short takes beside its launch and the latency of memory, at most.

On an H200 with the next kernel early softmaxes of 256 x 128 and 182 x 1024 took 0.78 and 0.82 of
the time with it late, an RMS norm of 64 x 3072 0.86 and a layer norm of 8 x 1152 0.84; softmaxes of
32 x 8192 and 128 x 3584, which take longer, 1.02 (``benchmarks/results/rows_h200.md``)."""
FEW_ROWS = 8
"""Rows of decode steps of which plans were timed.

With what those of one row have, joined parts of queries, keys and values and longer reads of
logits, a step of Llama-3.2-1B of 8 rows takes 889 us on an H200 and not 903, and four layers of
Qwen3-8B 740 and not 753 (``benchmarks/results/decode_layers_h200.md``).
"""
FEWEST_COLUMNS = 8
"""Of a block of several rows: those of an instruction."""
BLOCKS_APART = 8
"""Multiprocessors for each block, at least, of a kernel beside which the next one finds its own.

So a softmax of 8 x 14336 took 0.92 of its time, and an RMS norm of 16 x 25600 0.93."""
FEWEST_THREADS = 128
"""Of a block that loads several matrices: with 64 a layer of Llama-3.2-1B took 1.8 us longer."""


def takes_few_turns(graph: CustomizedOp, shape: KernelShape, target: Target) -> bool:
    """Whether all threads of a kernel load several matrices of weights, in few iterations.

    Nobody waits for their first tiles, and each turn of several rings costs more than is estimated.
    A layer of a decode step takes 1.5 us less on an H200 with gate and up loaded so
    (Llama-3.2-1B), 2.5 (Qwen3-8B) and 0.7 (Qwen3-1.7B), while products of one matrix take as long
    (``benchmarks/results/decode_layers_h200.md``).
    """
    several = len(shape.loop.products) > 1 and not shape.loop.chained
    single = not shape.loop.suits_groups(shape.threads, target) and not shape.loop.converts
    enough = shape.threads >= FEWEST_THREADS
    return several and single and enough and brings_weights(graph) and leaves_room(shape, target)


def brings_weights(graph: CustomizedOp) -> bool:
    """Whether a kernel of a program loads some of its weights."""
    return has_weights(graph) and any(map(is_constant, graph.operands))


def weights_of(graph: CustomizedOp) -> int:
    """The bytes of a kernel's weights."""
    return sum(bytes_of(each.type) for each in graph.operands if is_constant(each))


def brings_mostly_weights(graph: CustomizedOp) -> bool:
    """Whether most bytes of a kernel's operands are weights."""
    return 2 * weights_of(graph) > sum(bytes_of(each.type) for each in graph.operands)


def half_of_memory(shape: KernelShape, target: Target) -> int:
    """The bytes of rings for which half of a multiprocessor's shared memory has room.

    A block that takes no more starts beside one of the kernel before.
    """
    half = target.shared_memory_per_multiprocessor // 2 - target.reserved_shared_memory_per_block
    return half - shape.fixed_bytes(target.warp_size)


def holds_weights(graph: CustomizedOp, shape: KernelShape, target: Target) -> bool:
    """Whether blocks have all their weights on their way before they wait, and little comes then.

    Weights come while kernels before it leave the memory idle, if all blocks run at once, beside
    those of the kernel before.  So none needs parts of another one, nor a kernel that adds up.  A
    step of Llama-3.2-1B takes 736 us on an H200 with queries, keys and values so, and 761 with
    parts of their depth, if gate and up leave the projection room
    (``benchmarks/results/decode_layers_h200.md``).
    """
    ring = shape.iterations * shape.loop_bytes
    single = bool(shape.loop.products) and not shape.loop.chained and not shape.loop.converts
    fits = single and 1 < shape.iterations <= MAX_STAGES and ring <= half_of_memory(shape, target)
    others = sum(bytes_of(each.type) for each in graph.operands if not is_constant(each))
    little = brings_mostly_weights(graph) and has_weights(graph) and others <= LITTLE * ring
    few = shape.blocks <= target.multiprocessors
    return little and fits and few and leaves_room(shape, target)


def has_weights(graph: CustomizedOp) -> bool:
    """Whether kernels of a program may load something before they wait for others: its weights.

    Where nothing is constant, kernels that begin early only wait, and are in the way: layers of
    ``benchmarks/shapes``, whose weights are not, took 0.97 of the speed on an H200.  A program of
    one kernel has no other to begin early.
    """
    function = enclosing(graph, FuncOp)
    if function is None or not any(map(is_constant, function.args)):
        return False
    kernels = (op for op in function.body.block.ops if isinstance(op, CustomizedOp))
    return len([*islice(kernels, 2)]) > 1


def kernels_before(graph: CustomizedOp) -> Iterator[CustomizedOp]:
    """The kernels whose results a kernel reads."""
    for value in graph.operands:
        while isinstance(value.owner, SharesMemory | RegroupOp):
            value = value.owner.operands[0]
        if isinstance(made := value.owner, CustomizedOp):
            yield made


def lets_next_start(graph: CustomizedOp, shape: KernelShape, target: Target) -> bool:
    """Whether the kernel behind a kernel that reduces rows should start at the same time as it.

    That is so of the first kernel of a program without products, if it is short, and if it is the
    only one and has few blocks.  The launch of the kernel behind, often the same one in the next
    call, is then hidden.  Beside longer kernels of more blocks it is in the way: its blocks come to
    multiprocessors that still have others.  So it is behind the second kernel of a program: a
    softmax of 10 x 65536 took 4.58 us on an H200 with the next one late behind both kernels, 4.13
    with it early behind the first one, and 5.00 behind both.
    """
    function, rows = enclosing(graph, FuncOp), (*shape.loop.rows, *shape.after.rows)
    if function is None or shape.iterations > 1 or not rows:
        return False
    aside = SharesMemory | RegroupOp | ReturnOp
    launched = [op for op in function.body.block.ops if not isinstance(op, aside)]
    if launched[0] is not graph or not all(map(_is_without_products, launched)):
        return False
    time = estimate(shape, target)
    short = time is not None and time <= LAUNCH_NS + target.memory_latency_ns + SHORT_NS
    return short or (len(launched) == 1 and BLOCKS_APART * shape.blocks <= target.multiprocessors)


def _is_without_products(op: Operation) -> bool:
    """Whether an operator is a custom kernel without products."""
    return isinstance(op, CustomizedOp) and all(
        product_index(each) is None for each in op.body.block.ops
    )


def kernels_behind(graph: CustomizedOp) -> Iterator[CustomizedOp]:
    """The kernels that read a kernel's results."""
    users = [use.operation for result in graph.results for use in result.uses]
    for user in users:
        if isinstance(user, CustomizedOp):
            yield user
        elif isinstance(user, SharesMemory | RegroupOp):
            users += [use.operation for result in user.results for use in result.uses]


def comes_before_states(graph: CustomizedOp) -> bool:
    """Whether a kernel that reads a kernel's results carries states through a loop.

    Its blocks are few and last long.  Where they begin early, several come to the multiprocessors
    that are free first, and stay there: linear attention of 16 heads of 4,096 tokens, d 64, took
    66.7 us on an H100 so, and 47.8 where they begin at the end
    (``benchmarks/results/recurrences_h200.md``).
    """
    return any(
        isinstance(op, tb.CarriedOp)
        for kernel in kernels_behind(graph)
        for op in kernel.body.block.ops
    )


def waits_for_few_blocks(graph: CustomizedOp, target: Target) -> bool:
    """Whether a kernel starts beside one that leaves most multiprocessors idle, and waits for it.

    All that has room in shared memory is then loaded meanwhile.
    """
    for made in kernels_before(graph):
        grid, parts = made.decided.grid or made.grid_dim, made.decided.split_k or 1
        if 2 * parts * math.prod(grid) <= target.multiprocessors:
            return True
    return False


def waits_for_shorter(graph: CustomizedOp) -> bool:
    """Whether a kernel waits for one that brings weights, but fewer.

    It loses less by leaving that one half of the shared memory than it gains by starting beside it.
    """
    own = weights_of(graph)
    return any(0 < weights_of(made) < own for made in kernels_before(graph))


def stages_beside(shape: KernelShape, target: Target) -> int:
    """The stages for which half of a multiprocessor's shared memory has room; 0 if too few.

    Where gate and up of Llama-3.2-1B have three stages there, and start beside the projection in
    front of them, a step takes 761 us on an H200, and 773 where two larger stages leave it no room
    (``benchmarks/results/decode_layers_h200.md``).
    """
    if shape.blocks > target.multiprocessors or shape.loading.waited_for:
        return 0
    stages = half_of_memory(shape, target) // max(shape.loop_bytes, 1)
    return min(stages, MAX_STAGES, shape.iterations) if stages >= FEWEST_BESIDE else 0


def stages_in_flight(blocks: int, shape: KernelShape, target: Target) -> int:
    """The stages of a kernel of which so many blocks run, where its shared memory has room."""
    waves = math.ceil(blocks / target.multiprocessors)
    ahead = 2 * target.bytes_in_flight_per_multiprocessor() / max(shape.loop_bytes * waves, 1)
    return min(math.ceil(ahead) + 1, stages_of(shape, target) or 1, shape.iterations)


def rounds_of(shape: KernelShape, stages: int, target: Target) -> list[int]:
    """How many blocks run in each round of those that run at once."""
    at_once = resident_blocks(shape, stages, target) * target.multiprocessors
    return [min(at_once, shape.blocks - first) for first in range(0, shape.blocks, at_once)]


def multiplies_few_rows(shape: KernelShape) -> bool:
    """Whether products of a kernel's loop, and nothing else, take ``FEW_ROWS`` at most."""
    products = shape.loop.products
    plain = bool(products) and not shape.loop.chained and not shape.loop.converts
    return plain and all(product.sizes[0] <= FEW_ROWS for product in products)


def sums_few_rows(graph: CustomizedOp) -> bool:
    """Whether a kernel of a program computes several results of few rows from its weights."""
    rows = {math.prod(shape_of(result.type)[:-1]) for result in graph.results}
    several = len(graph.results) > 1 and max(rows) <= FEW_ROWS
    return several and has_weights(graph) and brings_mostly_weights(graph)


def stays_whole_beside(graph: CustomizedOp, shape: KernelShape, target: Target) -> bool:
    """Whether sums of few rows are whole in blocks that leave parts of others half of the memory.

    As queries and values, beside parts of keys that the last blocks add up: each multiprocessor
    has a block, with some stages on their way.  Two layers of Qwen3-8B take 480.5 us on an H200 so,
    485.3 by half as many blocks that take all of the memory, and 489.2 in parts
    (``benchmarks/results/decode_layers_h200.md``).
    """
    busy = NEARLY_ALL * target.multiprocessors <= shape.blocks
    return busy and _leaves_half(graph, shape, target)


def stays_whole_beside_as_many(graph: CustomizedOp, shape: KernelShape, target: Target) -> bool:
    """The same of several rows, in blocks of half of the multiprocessors: others have the parts.

    A step of Llama-3.2-1B of 8 rows takes 839 us on an H200 so, 879 by twice as many blocks, which
    have 4 columns of values each, and 870 in parts.
    """
    several = math.prod(shape_of(graph.results[0].type)[:-1]) > 1
    half_busy = NEARLY_ALL * target.multiprocessors <= 2 * shape.blocks
    return several and half_busy and _leaves_half(graph, shape, target)


def _leaves_half(graph: CustomizedOp, shape: KernelShape, target: Target) -> bool:
    """Whether blocks have all of few rows, columns for whole instructions, and half of the memory.

    So none loads weights that another one loads.
    """
    rows, products = math.prod(shape_of(graph.results[0].type)[:-1]), shape.loop.products
    whole = rows == 1 or all(
        each.sizes[0] == rows and each.sizes[1] >= FEWEST_COLUMNS for each in products
    )
    suits = sums_few_rows(graph) and multiplies_few_rows(shape) and whole
    return suits and leaves_room(shape, target) and _fills_half(shape, target)


def _fills_half(shape: KernelShape, target: Target) -> bool:
    """Whether half of the memory has some stages, and not all of a loop."""
    return FEWEST_BESIDE <= stages_beside(shape, target) < shape.iterations


def streams_weights(graph: CustomizedOp, shape: KernelShape, target: Target) -> bool:
    """Whether blocks of several rounds wait for weights that are multiplied by few rows."""
    alone = len(shape.loop.products) == 1 and multiplies_few_rows(shape)
    if not alone or not brings_weights(graph):
        return False
    own = stages_in_flight(shape.blocks, shape, target)
    moved = device_ns(shape.loading.tensor_bytes, target)
    return len(rounds_of(shape, own, target)) > 1 and 2 * shape.product_ns(target) < moved


def has_long_reads(shape: KernelShape, target: Target) -> bool:
    """Whether two blocks of a kernel that streams weights run beside each other, in three stages.

    With fewer stages blocks wait for memory, and one block alone waits in its epilogue, too.
    """
    return FEWEST_BESIDE * shape.loop_bytes <= half_of_memory(shape, target)


def bytes_ahead(shape: KernelShape, stages: int) -> int:
    """What a block has on its way before it waits."""
    return (stages - 1) * shape.loop_bytes


def stages_meanwhile(shape: KernelShape, target: Target) -> int:
    """The stages with which blocks of a multiprocessor take most of its shared memory.

    Blocks of the next kernel start in the rest.  What threads wait for has one.  Four MLP halves
    of Qwen3-8B in f8, behind norms of one block, took 177.5 us on an H200 with gate and up in three
    stages of 256 of the depth, 173.8 in six of 128; and 169.3 with down in five stages, 168.0 in
    eight (``benchmarks/results/narrow_weights_h200.md``).
    """
    if shape.loading.waited_for:
        return 1
    together = math.ceil(shape.blocks / target.multiprocessors)
    share = int(FILLED * target.shared_memory_per_multiprocessor) // together
    free = share - target.reserved_shared_memory_per_block - shape.fixed_bytes(target.warp_size)
    return max(min(free // max(shape.loop_bytes, 1), MAX_STAGES, shape.iterations), 1)


def leaves_room(shape: KernelShape, target: Target) -> bool:
    """Whether memory is what a kernel waits for, and all its blocks run at once.

    The next kernel's blocks then start where one of its has ended, and weights are on their way
    while the last ones end; ``--spread-blocks`` keeps them apart.  All kernels of a decode layer
    are such: with it one of Llama-3.2-1B takes 45.7 us on an H200, and 51.1 where the next kernel
    begins late or at the end (``benchmarks/results/decode_layers_h200.md``).
    """
    resident = resident_blocks(shape, stages_of(shape, target) or 1, target)
    if shape.blocks > resident * target.multiprocessors or not target.has_programmatic_launch:
        return False
    moved = device_ns(shape.loading.tensor_bytes, target)
    return shape.product_ns(target) < LAUNCH_NS + moved
