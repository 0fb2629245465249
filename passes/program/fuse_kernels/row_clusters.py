"""Few long rows: the blocks of a cluster have a part of a row each, in one launch.

A row is divided as in ``long_rows.py``, into as many parts as a cluster may have blocks.  The
kernel that reduces the parts and the one that goes on with the row are cut alike, so that a block
goes on with the part that it has loaded (``clusters`` of its plan, ``--combine-in-clusters``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from xdsl.dialects.func import FuncOp

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import MAX_THREADS, WARP
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.costs.kernels import LAUNCH_NS
from mugraph.passes.mugraph.plan.choose import time_under
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.program.fuse_kernels.attempts import Attempt
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.groups import Group
from mugraph.passes.program.fuse_kernels.long_rows import SHORTEST_PART, VECTOR
from mugraph.passes.program.fuse_kernels.part import Part
from mugraph.passes.program.fuse_kernels.times import require_cuttable_alone
from mugraph.passes.targets import Target

CLUSTER_NS = 120.0
"""What each cluster takes to be launched and to meet, where two kernels are saved a launch and a
way to memory.  Clusters of eight gained 4 to 26 % of 2 to 7 rows on an H200, and softmaxes of 10
and 16 rows lost 5 to 20 % (``benchmarks/results/rows_h200.md``)."""


def parts_in_clusters(target: Target, rows: int, extent: int) -> int | None:
    """Into how many parts of whole vectors clusters divide rows; ``None`` where they should not.

    All clusters run at once.
    """
    sizes = [2**power for power in range(1, target.blocks_per_cluster.bit_length())]
    fitting = [
        size
        for size in sizes
        if rows * size <= target.multiprocessors
        and extent % (size * VECTOR) == 0
        and extent // size >= SHORTEST_PART
    ]
    return max(fitting, default=None)


def kernel_of(part: Part) -> CustomizedOp | None:
    """The only kernel in the place of some operators."""
    kernels = [op for op in part.block.ops if isinstance(op, CustomizedOp)]
    return kernels[0] if len(kernels) == 1 else None


def plans_of(kernels: Sequence[CustomizedOp], threads: int) -> list[Plan] | None:
    """How a kernel that reduces parts of rows and one that goes on are cut for clusters.

    ``None`` where they are not such a pair: parts are [rows, parts, 1], results [rows, columns].
    """
    first, second = kernels
    parts, result = shape_of(first.results[0].type), shape_of(second.results[0].type)
    if len(parts) != 3 or parts[2] != 1 or len(result) != 2 or result[0] != parts[0]:
        return None
    if any(shape_of(each.type) != parts for each in first.results) or result[1] % parts[1]:
        return None
    rows, size, _ = parts
    cut = Plan(
        grid=(rows, size) if rows > 1 else (size,),
        along=(0, 1) if rows > 1 else (1,),
        forloop=1,
        block=(threads,),
        loads="cp_async",
        pdl="early",
    )
    return [cut, Plan(clusters=True, preferred=("clusters",)).over(cut)]


def share_clusters(fusion: Fusion, groups: Sequence[Group], target: Target) -> bool:
    """Choice: plans the two kernels of divided rows for clusters; whether they are such kernels.

    Each thread has as many vectors of a part as takes the least time.  The times of both kernels
    in ``fusion`` become those of their plans, less what one launch saves.
    """
    found = [(group, part) for group in groups if (part := fusion.attempted(group).part)]
    kernels = [each for _, part in found if (each := kernel_of(part)) is not None]
    if len(found) != 2 or len(kernels) != 2:
        return False
    vectors = shape_of(kernels[0].operands[0].type)[-1] // VECTOR
    warps = math.ceil(vectors / WARP)
    best: tuple[float, list[float], list[Plan]] = (math.inf, [], [])
    for share in range(1, warps + 1):
        threads = WARP * math.ceil(warps / share)
        plans = plans_of(kernels, threads) if threads <= MAX_THREADS else None
        if plans is None:
            continue
        times = [time_alone(*each, target) for each in zip(kernels, plans, strict=True)]
        best = min(best, (sum(times), times, plans), key=lambda each: each[0])
    if best[0] == math.inf or not all(map(can_be_cut, kernels, best[2])):
        return False
    rows = shape_of(kernels[1].results[0].type)[0]
    saved = LAUNCH_NS + target.memory_latency_ns - CLUSTER_NS * rows
    for (group, part), kernel, time, plan in zip(found, kernels, *best[1:], strict=True):
        kernel.decided = plan
        fusion.attempts[group] = Attempt(time - saved * bool(plan.clusters), partial(_same, part))
    return True


def _same(part: Part) -> Part:
    return part


def can_be_cut(kernel: CustomizedOp, plan: Plan) -> bool:
    """Whether a kernel can be cut as a plan says: some have an axis that stays as it is."""
    try:
        require_cuttable_alone(kernel, plan)
    except RetileError:
        return False
    return True


def time_alone(kernel: CustomizedOp, plan: Plan, target: Target) -> float:
    """Nanoseconds of a kernel with a plan, in a launch of its own; infinite where it has none."""
    function = FuncOp("alone", ([value.type for value in kernel.operands], []))
    copy = kernel.clone(dict(zip(kernel.operands, function.args, strict=True)))
    function.body.block.add_op(copy)
    try:
        time = time_under(copy, plan, target)
    finally:
        function.erase()
    return math.inf if time is None else time
