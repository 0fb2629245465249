"""What to tell the user about a kernel that needs more shared memory than a block has."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.dialects import sched
from mugraph.dialects.programming_model import LINE_BYTES
from mugraph.dialects.tensor_types import dims, op_label, shape_of, value_label
from mugraph.passes.memory.packing.allocate import Request
from mugraph.passes.memory.packing.pack import pack
from mugraph.passes.targets import Target

MAX_FACTOR = 64
"""How many times smaller tiles are looked at."""


def moves_with_the_loop(buffer: sched.AllocOp) -> bool:
    """Whether the buffer holds tiles that the for-loop cuts, so that more iterations shrink it."""
    return any(
        isinstance(copy := use.operation, sched.CopyOp | sched.BulkCopyOp)
        and isinstance(tile := copy.source.owner, sched.LocalTileOp)
        and tile.loop_dim >= 0
        for use in buffer.result.uses
    )


def _peak(requests: Sequence[Request]) -> int:
    return pack(list(requests), LINE_BYTES).plan.peak


def stages_that_fit(requests: dict[sched.AllocOp, Request], limit: int) -> tuple[int, int] | None:
    """The most stages, fewer than there are, with which the kernel fits, and the bytes it needs."""
    most = max((buffer.stage_count for buffer in requests), default=1)
    for stages in range(most - 1, 0, -1):
        peak = _peak(
            [
                request._replace(size=buffer.stage_bytes() * min(buffer.stage_count, stages))
                for buffer, request in requests.items()
            ]
        )
        if peak <= limit:
            return stages, peak
    return None


def iterations_that_fit(
    requests: dict[sched.AllocOp, Request], limit: int
) -> tuple[int, int] | None:
    """How many times as many iterations make the kernel fit, and the bytes it then needs at most.

    Only tiles that the loop cuts are taken to shrink; what is computed from them may, too.
    """
    factor = 2
    while factor <= MAX_FACTOR:
        peak = _peak(
            [
                request._replace(size=-(-request.size // factor))
                if moves_with_the_loop(buffer)
                else request
                for buffer, request in requests.items()
            ]
        )
        if peak <= limit:
            return factor, peak
        factor *= 2
    return None


def advice(requests: dict[sched.AllocOp, Request], peak: int, limit: int) -> str:
    """What would make a kernel fit, tried out where sizes say enough."""
    stages = stages_that_fit(requests, limit)
    if stages is not None:
        return (
            f"With at most {stages[0]} stages a buffer it would need {stages[1]} bytes and fit: "
            "schedule it again for this target."
        )
    iterations = iterations_that_fit(requests, limit)
    if iterations is not None:
        return (
            f"With {iterations[0]} times as many iterations ('forloop') the tiles that the loop "
            f"cuts shrink, and it would need at most {iterations[1]} bytes and fit."
        )
    factor = -(-peak // limit)
    moving = sum(
        request.size for buffer, request in requests.items() if moves_with_the_loop(buffer)
    )
    if not moving:
        return (
            "None of them is a tile that the for-loop cuts: give inputs a 'fordim', or split the "
            f"tensors over about {factor} times as many blocks ('grid')."
        )
    return (
        f"{moving} bytes are tiles that the for-loop cuts: more iterations ('forloop') shrink them "
        f"and what is computed from them, but they alone are not enough; about {factor} times as "
        "many blocks ('grid') shrink the rest, too."
    )


def overflow_message(
    kernel: sched.KernelOp, requests: dict[sched.AllocOp, Request], peak: int, target: Target
) -> str:
    """Which buffers a kernel that does not fit has, how big they are, and what would fit."""
    limit = target.shared_memory_per_block
    rows = [
        f"  {value_label(buffer.result)}: {dims(shape_of(buffer.result.type))} "
        f"x {buffer.stage_count} stages, {request.size} bytes, "
        f"live in regions {request.lifetime.first} to {request.lifetime.last}"
        for buffer, request in sorted(requests.items(), key=lambda item: -item[1].size)
    ]
    return "\n".join(
        [
            f"--plan-stensor-memory: {op_label(kernel)} needs {peak} bytes of shared memory, a "
            f"block of {target.arch} has {limit}:",
            *rows,
            advice(requests, peak, limit),
        ]
    )
