"""Grid and block of a kernel, the same on a µGraph and on its schedule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.irdl import IRDLOperation, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.tensor_types import op_label

MAX_THREADS = 1024
"""Threads in a block, on every target."""
MAX_BLOCK = (1024, 1024, 64)
"""Threads of a block along x, y, z, on every target."""
MAX_GRID = (2**31 - 1, 65535, 65535)
"""Blocks along x, y, z, on every target."""


@lru_cache
def extents_of(attribute: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The integers of an array attribute."""
    return tuple(attribute.get_values())


class HasLaunchExtents(IRDLOperation):
    """An operator that runs a ``grid`` of blocks of ``block`` threads, along x, y and z."""

    grid = prop_def(DenseArrayBase.constr(i64))
    block = prop_def(DenseArrayBase.constr(i64))

    @property
    def grid_dim(self) -> tuple[int, ...]:
        """Blocks along x, y, z."""
        return extents_of(self.grid)

    @property
    def block_dim(self) -> tuple[int, ...]:
        """Threads along x, y, z."""
        return extents_of(self.block)

    @property
    def threads(self) -> int:
        """Threads in a block."""
        x, y, z = self.block_dim
        return x * y * z

    def verify_launch_extents(self) -> None:
        """Checks that there are three extents each, within the hardware's limits.

        Operators of the body call it, for xDSL verifies a body before the operator around it.
        """
        verify_three(self, "grid", self.grid_dim)
        verify_three(self, "block", self.block_dim)
        if self.threads > MAX_THREADS:
            raise VerifyException(
                f"{op_label(self)}: a block of {self.threads} threads exceeds the hardware's "
                f"{MAX_THREADS}"
            )
        for axis, extent, limit in zip("xyz", self.block_dim, MAX_BLOCK, strict=True):
            if extent > limit:
                raise VerifyException(
                    f"{op_label(self)}: the block has {extent} threads along {axis}, the hardware "
                    f"allows {limit}; move threads to another axis"
                )
        for axis, extent, limit in zip("xyz", self.grid_dim, MAX_GRID, strict=True):
            if extent > limit:
                raise VerifyException(
                    f"{op_label(self)}: grid axis {axis} has {extent} blocks, the hardware allows "
                    f"{limit}"
                )


def verify_three(op: IRDLOperation, name: str, extents: Sequence[int]) -> None:
    """Raises ``VerifyException`` unless there are three extents of at least 1."""
    if len(extents) != 3 or any(extent < 1 for extent in extents):
        raise VerifyException(
            f"{op_label(op)}: {name} {list(extents)} must have three extents of at least 1, for "
            "x, y and z"
        )
