"""Threads, blocks, barriers and asynchronous copies, under the names of NVIDIA's CuTe DSL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mugraph.cute.errors import KernelError
from mugraph.cute.machine import kernel_machine


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
    return _split(machine.block, machine.grid_dim)


def block_dim() -> tuple[int, int, int]:
    """The threads of a block along x, y and z."""
    return kernel_machine("block_dim").block_dim


def grid_dim() -> tuple[int, int, int]:
    """The blocks of the grid along x, y and z."""
    return kernel_machine("grid_dim").grid_dim


def sync_threads() -> None:
    """All threads of the block meet; what they wrote before is visible to all after."""
    kernel_machine("sync_threads").barrier()


def cp_async_commit_group() -> None:
    """Closes a group: the asynchronous copies that each thread has begun since the one before."""
    kernel_machine("cp_async_commit_group").commit()


def cp_async_wait_group(groups: int) -> None:
    """Waits until at most ``groups`` of the newest groups of the thread are under way."""
    if groups < 0:
        raise KernelError(f"cp_async_wait_group: {groups} groups cannot be under way")
    kernel_machine("cp_async_wait_group").wait(groups)


__all__ = [
    "block_dim",
    "block_idx",
    "cp_async_commit_group",
    "cp_async_wait_group",
    "grid_dim",
    "sync_threads",
    "thread_idx",
]
