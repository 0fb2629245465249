"""Threads, blocks, barriers and asynchronous copies, under the names of NVIDIA's CuTe DSL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import prod
from typing import Any

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Numeric
from mugraph.cute.machine import kernel_machine, number_of_groups
from mugraph.cute.sizes import grid_at_most
from mugraph.dialects import te
from mugraph.dialects.programming_model import WARP

WARP_SIZE = WARP
_LANES = WARP - 1
_ALL_LANES = (-1, (1 << WARP) - 1)


def _split(number: Any, extents: Sequence[int]) -> tuple[Any, Any, Any]:
    """Along x, y and z; x runs fastest."""
    x, y, _ = extents
    return number % x, number // x % y, number // (x * y)


def thread_idx() -> tuple[Any, Any, Any]:
    """The thread's number in its block along x, y and z."""
    machine = kernel_machine("thread_idx")
    return _split(machine.thread, machine.block_dim)


def block_idx() -> tuple[Any, Any, Any]:
    """The block's number in the grid along x, y and z."""
    machine = kernel_machine("block_idx")
    return _split(machine.block, grid_at_most(machine.grid_dim))


def block_dim() -> tuple[int, int, int]:
    """The threads of a block along x, y and z."""
    return kernel_machine("block_dim").block_dim


def grid_dim() -> tuple[Numeric, Numeric, Numeric]:
    """The blocks of the grid along x, y and z."""
    return kernel_machine("grid_dim").grid_dim


def sync_threads() -> None:
    """All threads of the block meet; what they wrote before is visible to all after."""
    kernel_machine("sync_threads").barrier()


def cp_async_commit_group() -> None:
    """Closes a group: the asynchronous copies that each thread has begun since the one before."""
    kernel_machine("cp_async_commit_group").commit()


def cp_async_wait_group(groups: Numeric) -> None:
    """Waits until at most ``groups`` of the newest groups of the thread are under way."""
    kernel_machine("cp_async_wait_group").wait(number_of_groups("cp_async_wait_group", groups))


def warp_idx() -> Any:
    """The number of the thread's warp in its block."""
    return kernel_machine("warp_idx").thread // WARP


def make_warp_uniform(value: Any) -> Any:
    """The value, which is the same for all threads of a warp: expressions say so themselves."""
    return value


def lane_idx() -> Any:
    """The thread's number in its warp."""
    return kernel_machine("lane_idx").thread % WARP


def elect_one() -> AbstractContextManager[None]:
    """What one thread of each warp does: ``with elect_one(): ...``."""
    machine = kernel_machine("elect_one")
    return machine.when(machine.thread % WARP == 0)


def sync_warp() -> None:
    """All threads of the warp meet."""
    kernel_machine("sync_warp").instruct(te.BarrierOp(te.Scope.WARP))


def barrier(barrier_id: int | None = None, number_of_threads: int | None = None) -> None:
    """So many threads, whole warps, meet at a barrier of the block that has a number, 1 to 15.

    Without numbers all threads of the block meet.  Raises KernelError where one is missing.
    """
    if barrier_id is None and number_of_threads is None:
        return sync_threads()
    if barrier_id is None or number_of_threads is None:
        raise KernelError("barrier: give a number and how many threads meet, or neither")
    kernel_machine("barrier").instruct(te.NamedBarrierOp(barrier_id, number_of_threads))


def mbarrier_init(pointer: Any, arrivals: int) -> None:
    """Sets an mbarrier up, whose phases end when so many arrivals have come."""
    kernel_machine("mbarrier_init").mbarrier_init(pointer, arrivals)


def mbarrier_init_fence() -> None:
    """Copies see the mbarriers that the thread has set up."""
    kernel_machine("mbarrier_init_fence").instruct(te.MbarrierFenceOp())


def mbarrier_arrive(pointer: Any) -> None:
    """Arrives: what the thread did before is known to those who have waited for the phase."""
    kernel_machine("mbarrier_arrive").mbarrier_arrive(pointer, 0)


def mbarrier_arrive_and_expect_tx(pointer: Any, tx_bytes: int) -> None:
    """Arrives, and announces bytes of copies without which the phase does not end."""
    kernel_machine("mbarrier_arrive_and_expect_tx").mbarrier_arrive(pointer, tx_bytes)


def mbarrier_wait(pointer: Any, phase: Any) -> None:
    """Waits until the phase of a parity, 0 or 1, has ended; the first one has parity 0.

    It goes on at once where the present phase has the other parity.
    """
    kernel_machine("mbarrier_wait").mbarrier_wait(pointer, phase)


def fence_proxy(kind: str = "async.shared", space: str = "cta") -> None:
    """What the thread wrote to shared memory is seen by copies and products behind a barrier."""
    if (kind, space) != ("async.shared", "cta"):
        raise KernelError(
            f"fence_proxy: only kind 'async.shared' with space 'cta' is there, not {kind!r} "
            f"with {space!r}"
        )
    kernel_machine("fence_proxy").instruct(te.ProxyFenceOp())


def cp_async_bulk_commit_group() -> None:
    """Closes a group: the stores by TMA that the thread has begun since the one before."""
    kernel_machine("cp_async_bulk_commit_group").instruct(te.BulkCommitOp())


def cp_async_bulk_wait_group(groups: Numeric) -> None:
    """Waits until at most ``groups`` of the thread's newest stores by TMA may still read."""
    name = "cp_async_bulk_wait_group"
    kernel_machine(name).instruct(te.BulkWaitOp(number_of_groups(name, groups)))


def shuffle_sync_op(
    kind: str,
    clamp: int,
    value: Any,
    offset: Any,
    mask: Any = -1,
    mask_and_clamp: int | None = None,
) -> Any:
    """What the thread gets of another one of its warp, which ``offset`` says.

    ``shuffle_sync`` takes it of the lane ``offset``, ``..._up`` of the lane so many below,
    ``..._down`` above, and ``..._bfly`` of the lane whose number differs in these bits.  All
    threads of the warp take part.  Raises KernelError for a mask that leaves some out.
    """
    if mask not in _ALL_LANES:
        shown = f"{mask:#x}" if isinstance(mask, int) else mask
        raise KernelError(f"shuffle_sync: all threads of a warp take part, not those of {shown}")
    bounds: Any = clamp if mask_and_clamp is None else mask_and_clamp
    if isinstance(offset, int) and not 0 <= offset < WARP:
        raise KernelError(f"shuffle_sync: lanes have the numbers 0 to {_LANES}, not {offset}")
    if not isinstance(bounds, int):
        raise KernelError(f"shuffle_sync: mask_and_clamp is an integer, not {bounds}")
    machine = kernel_machine("shuffle_sync")
    if (threads := prod(machine.block_dim)) % WARP:
        raise KernelError(f"shuffle_sync: the {threads} threads of the block are no whole warps")
    return machine.shuffle(kind, value, offset, bounds)


shuffle_sync = partial(shuffle_sync_op, "idx", _LANES)
shuffle_sync_up = partial(shuffle_sync_op, "up", 0)
shuffle_sync_down = partial(shuffle_sync_op, "down", _LANES)
shuffle_sync_bfly = partial(shuffle_sync_op, "bfly", _LANES)


def warp_reduction(val: Any, op: Callable[[Any, Any], Any], *, threads_in_group: int = WARP) -> Any:
    """The numbers of groups of so many neighbouring threads combined; each thread gets it.

    Raises KernelError where a warp is no whole number of groups.
    """
    if threads_in_group not in (1, 2, 4, 8, 16, 32):
        raise KernelError(f"warp_reduction: groups have 1, 2, 4 ... 32, not {threads_in_group}")
    offset = threads_in_group // 2
    while offset:
        val = op(val, shuffle_sync_bfly(val, offset))
        offset //= 2
    return val
