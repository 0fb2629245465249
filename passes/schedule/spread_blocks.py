"""``--spread-blocks``: as many blocks on each multiprocessor, whatever runs when they start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.dialects.func import FuncOp

from mugraph.dialects import sched
from mugraph.dialects.kn.overlap import LARGEST_CARVEOUT, launches_of
from mugraph.dialects.programming_model import LINE_BYTES
from mugraph.dialects.sched.programs import is_task
from mugraph.dialects.tensor_types import bytes_of
from mugraph.passes.each import TargetPass
from mugraph.passes.targets import Target


def spread_bytes(blocks: int, smem: int, target: Target) -> int:
    """Choice: shared memory of a block with which no multiprocessor takes more than its share.

    ``smem`` is what a block needs, in bytes.  One more block than an even share does not fit.
    """
    share = -(-blocks // target.multiprocessors)
    room = target.shared_memory_per_multiprocessor // (share + 1)
    least = (room - target.reserved_shared_memory_per_block) // LINE_BYTES * LINE_BYTES + LINE_BYTES
    return max(smem, least)


def bytes_of_weights(launch: sched.LaunchOp) -> tuple[int, int]:
    """Analysis: the bytes of the weights that a kernel reads, and of all that it reads."""
    types = [value.type for value in launch.arguments]
    sizes = [0 if isinstance(each, IndexType) else bytes_of(each) for each in types]
    return sum(sizes[index] for index in launch.resolve().constant_inputs), sum(sizes)


def brings_weights(launch: sched.LaunchOp) -> bool:
    """Analysis: whether most of what a kernel reads is loaded before it waits for others."""
    weights, whole = bytes_of_weights(launch)
    return launch.resolve().waits_for_grids() and 2 * weights > whole


def keeps_apart(
    before: Sequence[sched.LaunchOp], launches: Sequence[sched.LaunchOp], target: Target
) -> bool:
    """Analysis: whether one block has room beside one of ``before``, and a second one has none.

    ``before`` is the launch in front, if that is spread; its kernel must bring fewer weights.
    """
    if len(before) != 1 or len(launches) != 1:
        return False
    kernels = (before[0].resolve(), launches[0].resolve())
    few = all(each.task_count() <= target.multiprocessors for each in (*before, *launches))
    taken = [(each.smem_bytes or 0) + target.reserved_shared_memory_per_block for each in kernels]
    rest = target.shared_memory_per_multiprocessor - taken[0]
    one = taken[1] <= rest < 2 * taken[1]
    return few and one and bytes_of_weights(before[0])[0] < bytes_of_weights(launches[0])[0]


def start_at_once(launches: Sequence[sched.LaunchOp], target: Target) -> bool:
    """Analysis: whether the kernels of one launch bring weights, in blocks that all run at once.

    Few blocks do not count, nor does what has no shared memory yet, or is a task.
    """
    kernels = [launch.resolve() for launch in launches]
    if any(kernel.smem_bytes is None for kernel in kernels) or any(map(is_task, launches)):
        return False
    blocks = sum(each.task_count() for each in launches if each.has_blocks)
    resident = kernels[0].resident_blocks or 1  # of all of them, where several share the launch
    many = 2 * blocks > target.multiprocessors
    at_once = blocks <= target.multiprocessors * resident
    return many and at_once and any(map(brings_weights, launches))


def spread_blocks(launches: Sequence[sched.LaunchOp], target: Target) -> None:
    """Rewrite: gives the blocks of one launch more shared memory."""
    kernels = [launch.resolve() for launch in launches]
    blocks = sum(each.task_count() for each in launches if each.has_blocks)
    smem = spread_bytes(blocks, max(kernel.smem_bytes or 0 for kernel in kernels), target)
    kernels[0].smem = IntegerAttr(max(smem, kernels[0].smem_bytes or 0), i64)


def weights_in(several: Iterable[Sequence[sched.LaunchOp]]) -> int:
    """Analysis: the bytes of weights that kernels of some launches read."""
    return sum(bytes_of_weights(each)[0] for launches in several for each in launches)


class SpreadBlocksPass(TargetPass):
    """Gives blocks so much shared memory that a multiprocessor holds no more than its even share.

    A kernel that starts while another one runs gets free places, perhaps two on one multiprocessor
    and none on another; a kernel that loads weights then takes twice as long. A layer of a decode
    step of Qwen3-8B whose kernels all start early takes 112 us on an H200 with this pass, and 143
    without (``benchmarks/results/decode_layers_h200.md``). The pass changes launches whose blocks
    all run at once and load mostly constant tensors; other kernels wait before they load. A
    function of one launch stays unchanged.  Pre-condition:
    ``--join-launches``, which asks how large blocks must be.

    If such launches load most of a function's weights, all kernels that start early get the largest
    carve-out of shared memory (``kn.largest_carveout``), because a multiprocessor must be idle
    before it can divide its memory otherwise. A step of Llama-3.2-1B takes 774 us with it, and 792
    without. Blocks that start beside spread blocks of a kernel with fewer weights then stay
    unchanged, if these leave each multiprocessor room for one.

    Before: ``sched.kernel @gate ... grid [128, 1, 1] ... smem 93056``

    After: ``sched.kernel @gate ... grid [128, 1, 1] ... smem 115840``
    """

    name = "spread-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the kernels of the module."""
        target = self.target
        if not target.has_programmatic_launch:
            return
        for function in op.walk():
            if not isinstance(function, FuncOp) or function.is_declaration:
                continue
            groups = [
                [each for each in launch if isinstance(each, sched.LaunchOp)]
                for launch in launches_of(function.body.block.ops)
            ]
            launches = [kernels for kernels in groups if kernels]
            if len(launches) < 2:
                continue
            together = [kernels for kernels in launches if start_at_once(kernels, target)]
            largest = 2 * weights_in(together) > weights_in(launches)
            if largest:
                function.attributes[LARGEST_CARVEOUT] = UnitAttr()
            last: Sequence[sched.LaunchOp] = ()
            for kernels in launches:
                apart = largest and keeps_apart(last, kernels, target)
                spreads = kernels in together and not apart
                if spreads:
                    spread_blocks(kernels, target)
                last = kernels if spreads else ()
