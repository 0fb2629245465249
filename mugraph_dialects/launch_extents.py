"""Grid and block of a kernel, the same on a µGraph and on its schedule."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerType, UnitAttr, i64
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import is_given
from mugraph.dialects.maps import Slicing
from mugraph.dialects.programming_model import MAX_BLOCK, MAX_GRID, MAX_THREADS
from mugraph.dialects.tensor_types import kept_with_attribute, op_label


@kept_with_attribute
def extents_of(attribute: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The integers of an array attribute."""
    return tuple(attribute.get_values())


def integer_array(numbers: Iterable[int]) -> DenseArrayBase[I64]:
    """Integers as an array attribute: one for all arrays of the same integers."""
    return _integer_array(tuple(numbers))


@cache
def _integer_array(numbers: tuple[int, ...]) -> DenseArrayBase[I64]:
    return DenseArrayBase.from_list(i64, numbers)


class HeldLength(NamedTuple):
    """A number from 0 to ``largest`` that an argument, a tensor of one element, holds.

    With an ``axis`` of the grid the argument has a number for each block along that.
    """

    argument: int
    largest: int
    axis: int = -1

    @staticmethod
    def of(
        attribute: DenseArrayBase[IntegerType] | None,
        per: DenseArrayBase[IntegerType] | None = None,
    ) -> list[HeldLength]:
        """The lengths that an attribute lists: an argument and a largest number each.

        ``per`` lists the axis of each, or -1.
        """
        numbers = () if attribute is None else extents_of(attribute)
        axes = (-1,) * len(numbers) if per is None else extents_of(per)
        rows = zip(numbers[::2], numbers[1::2], axes, strict=False)
        return [HeldLength(argument, largest, axis) for argument, largest, axis in rows]

    def place(self, block: Sequence[int]) -> int:
        """Which of the argument's numbers is that of a block."""
        return 0 if self.axis < 0 else block[self.axis]


def largest_held(lengths: Sequence[HeldLength], argument: int) -> int | None:
    """What the lengths are at most that an argument holds; ``None`` where it holds none."""
    return min((each.largest for each in lengths if each.argument == argument), default=None)


class GridCut(NamedTuple):
    """Along an axis of the grid: which argument says how many elements there are, and a block's."""

    axis: int
    argument: int
    step: int

    def blocks(self, elements: int, together: int) -> int:
        """How many blocks have some of the elements, in whole runs of ``together``."""
        return -(-elements // (self.step * together)) * together


def cut_grid(
    grid: Sequence[int], cuts: Sequence[GridCut], values: Mapping[int, int], together: int
) -> tuple[int, ...]:
    """The blocks of a grid that compute something where arguments have these values.

    They are in whole runs of ``together``, such as clusters.
    """
    left = list(grid)
    for cut in cuts:
        left[cut.axis] = min(left[cut.axis], cut.blocks(values[cut.argument], together))
    return tuple(left)


class HasLaunchExtents(IRDLOperation, Abstract):
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
        fault = launch_fault(self.grid_dim, self.block_dim)
        if fault is not None:
            raise VerifyException(f"{op_label(self)}: {fault}")


class HoldsLengths(HasLaunchExtents):
    """An operator of which arguments hold lengths, which operators of its body number.

    ``lengths [1, 4096]``: argument 1, of one i32 or i64, holds a number from 0 to 4096.
    ``lengths [1, 4096] per [0]``: argument 1 has such a number for each block along axis 0, x.
    """

    lengths = opt_prop_def(DenseArrayBase.constr(i64))
    per = opt_prop_def(DenseArrayBase.constr(i64))
    interleaved = opt_prop_def(UnitAttr)

    is_interleaved = is_given("interleaved")
    """Whether blocks that divide what the loop cuts have tiles side by side in each iteration.

    Else each has those of all its iterations side by side.
    """

    @property
    def held_lengths(self) -> list[HeldLength]:
        """The lengths, in the order of their numbers."""
        return HeldLength.of(self.lengths, self.per)

    def hold(self, lengths: Sequence[HeldLength]) -> None:
        """Lets arguments hold lengths, and no others."""
        numbers = [number for each in lengths for number in each[:2]]
        axes = [each.axis for each in lengths]
        self.lengths = integer_array(numbers) if lengths else None
        self.per = integer_array(axes) if max(axes, default=-1) >= 0 else None


class HasThreadblockGraph(HasLaunchExtents):
    """An operator whose body is a threadblock graph, which every block runs."""

    @property
    @abstractmethod
    def forloop_range(self) -> int:
        """Iterations of the for-loop; 1 means that there is none."""

    @property
    @abstractmethod
    def is_interleaved(self) -> bool:
        """Whether blocks that divide what the loop cuts have tiles side by side."""

    @property
    @abstractmethod
    def held_lengths(self) -> list[HeldLength]:
        """The lengths that operators of the body number, which arguments of it hold."""

    def slicing(
        self, shape: tuple[int, ...], map_: tuple[int, ...], loop_dim: int, tile: tuple[int, ...]
    ) -> Slicing:
        """How maps cut a tensor of some extents into tiles of others for its blocks and loop."""
        return Slicing(
            shape,
            map_,
            loop_dim,
            self.grid_dim,
            self.forloop_range,
            tile,
            interleaved=self.is_interleaved,
        )

    def verify_extents(self) -> None:
        """Checks grid, block and for-loop; operators of the body call it before they use them."""
        self.verify_launch_extents()
        if self.forloop_range < 1:
            raise VerifyException(
                f"{op_label(self)}: forloop {self.forloop_range} must be at least 1"
            )


@lru_cache(maxsize=4096)
def launch_fault(grid: tuple[int, ...], block: tuple[int, ...]) -> str | None:
    """Why no GPU can launch this grid of such blocks; ``None`` where one can."""
    fault = three_fault("grid", grid) or three_fault("block", block)
    if fault is not None:
        return fault
    threads = math.prod(block)
    if threads > MAX_THREADS:
        return f"a block of {threads} threads exceeds the hardware's {MAX_THREADS}"
    for axis, extent, limit in zip("xyz", block, MAX_BLOCK, strict=True):
        if extent > limit:
            return (
                f"the block has {extent} threads along {axis}, the hardware allows {limit}; move "
                "threads to another axis"
            )
    for axis, extent, limit in zip("xyz", grid, MAX_GRID, strict=True):
        if extent > limit:
            return f"grid axis {axis} has {extent} blocks, the hardware allows {limit}"
    return None


def three_fault(name: str, extents: tuple[int, ...]) -> str | None:
    """What is wrong unless there are three extents of at least 1."""
    if len(extents) != 3 or any(extent < 1 for extent in extents):
        return f"{name} {list(extents)} must have three extents of at least 1, for x, y and z"
    return None
