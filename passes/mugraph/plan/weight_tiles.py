"""Of tiles that are about as fast, those of kernels that read weights of a program.

How early weights are on their way depends on the number of iterations, which the estimate of a
kernel alone does not know.
"""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import fill_ns
from mugraph.passes.mugraph.plan.early import (
    ABOUT_ALIKE,
    brings_weights,
    bytes_ahead,
    has_long_reads,
    stages_beside,
    stages_in_flight,
    stages_meanwhile,
    streams_weights,
    takes_few_turns,
    waits_for_few_blocks,
    waits_for_shorter,
)
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.plan.tile_choice import TileChoice
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.targets import Target


def of_fewest_turns(
    space: TileSpace, choices: Sequence[TileChoice], target: Target
) -> list[TileChoice]:
    """Of kernels that should have few iterations those of the fewest that take about as long.

    Of those that wait for a kernel of few blocks these have most bytes on their way meanwhile;
    those that wait for a shorter one leave it room, where they have as many on their way.
    """
    if not brings_weights(space.graph):
        return []
    waits = waits_for_few_blocks(space.graph, target)
    timed: list[tuple[float, KernelShape, TileChoice]] = []
    for choice in choices:
        shape = shape_under(space, choice.partition)
        if choice.split == 1 and takes_few_turns(space.graph, shape, target):
            fill = fill_ns(shape, target, bulk=shape.prefers_bulk(target))
            timed.append((choice.time - fill, shape, choice))
    longest = ABOUT_ALIKE * min((time for time, _, _ in timed), default=0.0)
    alike = [(shape, choice) for time, shape, choice in timed if time <= longest]
    if not alike:
        return []

    def order(shape: KernelShape) -> tuple[int, float]:
        ahead = bytes_ahead(shape, stages_meanwhile(shape, target)) if waits else 0
        return -ahead, shape.turns

    first = min((shape for shape, _ in alike), key=order)
    if not waits and waits_for_shorter(space.graph):
        ahead = bytes_ahead(first, stages_in_flight(first.blocks, first, target))
        beside = [
            shape
            for shape, _ in alike
            if stages_beside(shape, target)
            and bytes_ahead(shape, stages_beside(shape, target)) >= ahead
        ]
        first = min(beside, key=order, default=first)
    return [choice for shape, choice in alike if order(shape) == order(first)]


def of_longest_reads(
    space: TileSpace, choices: Sequence[TileChoice], target: Target
) -> list[TileChoice]:
    """Of kernels that stream weights for few rows those of the fewest iterations, about as fast.

    They read most of each column at once.  A step of Llama-3.2-1B took 727.9 us on an H200 with
    logits by 1,002 blocks of 128 columns in 16 iterations, and 737.2 by 501 of 256 in 32; two
    layers of Qwen3-8B, whose logits have a depth of 4,096, 491.6, and 502.9 in short tiles of four
    stages (``benchmarks/results/decode_layers_h200.md``).
    """
    if not brings_weights(space.graph):
        return []
    whole = (
        (choice, shape_under(space, choice.partition)) for choice in choices if choice.split == 1
    )
    streams = [each for each in whole if streams_weights(space.graph, each[1], target)]
    longest = ABOUT_ALIKE * min((choice.time for choice, _ in streams), default=0.0)
    alike = [
        choice
        for choice, shape in streams
        if choice.time <= longest and has_long_reads(shape, target)
    ]
    fewest = min((choice.partition.forloop for choice in alike), default=0)
    return [choice for choice in alike if choice.partition.forloop == fewest]
