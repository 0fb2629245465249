"""What a kernel asks of who executes it, beyond the algorithms on tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, cast

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Numeric
from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.cute.machines import current_machine
from mugraph.dialects.cute.tensor import Tensor


class AsyncMachine(Protocol):
    """What a kernel asks where its threads hand work over through mbarriers (sm_90)."""

    def mbarriers(self, count: int, name: str) -> Any:
        """A pointer to new mbarriers of the block."""
        ...

    def mbarrier_init(self, pointer: Any, arrivals: int) -> None:
        """Sets one up."""

    def mbarrier_init_fence(self) -> None:
        """Copies see those that were set up."""

    def mbarrier_arrive(self, pointer: Any, announced: int) -> None:
        """Arrives at one, and announces bytes."""

    def mbarrier_wait(self, pointer: Any, parity: Any) -> None:
        """Waits for the end of a phase."""

    def sync_warp(self) -> None:
        """All threads of the warp meet."""

    def named_barrier(self, number: int, threads: int) -> None:
        """Some warps meet."""

    def proxy_fence(self) -> None:
        """Copies and products see what was written."""

    def bulk_commit(self) -> None:
        """Closes a group of stores by TMA."""

    def bulk_wait(self, groups: int) -> None:
        """Waits for all but so many newest groups of them."""

    def warpgroup_fence(self) -> None:
        """Before the products of a warp group."""

    def warpgroup_commit(self) -> None:
        """Closes a group of products."""

    def warpgroup_wait(self, groups: int) -> None:
        """Waits for all but so many newest groups of them."""


class KernelMachine(AsyncMachine, Protocol):
    """Who executes a kernel: numpy, or what records it."""

    @property
    def thread(self) -> Any:
        """The number of the thread in its block."""
        ...

    @property
    def block(self) -> Any:
        """The number of the block in the grid."""
        ...

    @property
    def block_dim(self) -> tuple[int, int, int]:
        """The threads of a block along x, y and z."""
        ...

    @property
    def grid_dim(self) -> tuple[Numeric, Numeric, Numeric]:
        """The blocks of the grid along x, y and z."""
        ...

    def barrier(self) -> None:
        """All threads of the block meet."""

    def commit(self) -> None:
        """Closes a group of asynchronous copies."""

    def wait(self, groups: int) -> None:
        """Waits for all but so many newest groups."""

    def shared(
        self, dtype: Any, layout: Layout[int] | ComposedLayout, name: str, alignment: int
    ) -> Tensor:
        """A new tensor in the shared memory of the block."""
        ...

    def when(self, condition: Any) -> AbstractContextManager[None]:
        """What runs where a condition holds."""
        ...

    def iterate(self, extent: Numeric, name: str) -> Iterator[Any]:
        """The numbers of a loop of the kernel."""
        ...


def kernel_machine(what: str) -> KernelMachine:
    """The machine that executes a kernel now.  Raises KernelError outside of kernels."""
    machine = current_machine()
    if machine is None:
        raise KernelError(f"'{what}' has a meaning only in a kernel that is launched or recorded")
    return cast("KernelMachine", machine)
