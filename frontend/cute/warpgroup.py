"""Products of warp groups, which run behind the program: ``cute.nvgpu.warpgroup`` of the CuTe DSL.

``fence()`` before the first product, ``commit_group()`` behind the last one of a group, and
``wait_group(n)`` until at most n groups are under way: then the sums of the others are there, and
their operands may be overwritten.
"""

from __future__ import annotations

from mugraph.cute.indices import Numeric
from mugraph.cute.machine import kernel_machine, number_of_groups


def fence() -> None:
    """Before products, where registers of their sums were touched."""
    kernel_machine("warpgroup.fence").warpgroup_fence()


def commit_group() -> None:
    """Closes a group: the products that the warp group has begun since the one before."""
    kernel_machine("warpgroup.commit_group").warpgroup_commit()


def wait_group(groups: Numeric) -> None:
    """Waits until at most ``groups`` of the newest groups are under way."""
    name = "warpgroup.wait_group"
    kernel_machine(name).warpgroup_wait(number_of_groups(name, groups))
