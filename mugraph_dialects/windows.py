"""Windows: the elements of a tensor in any order, some of them often, and zeros outside of it.

Each dimension of what is seen has *modes*, of which the first counts fastest: so many places along
a dimension of the tensor, some elements apart.  The place in the tensor is the origin and the sum
over all modes; where that is outside of the tensor there is a zero.  A convolution is a product of
such a matrix: its rows are places of the result, its columns channels and taps of the filter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.tensor_types import op_label, padded_strides, shape_of

IntArray = npt.NDArray[np.int64]
Numbers = DenseArrayBase[IntegerType]
ModesAttr = ArrayAttr[Numbers]
MOST_PLACES = 2**31 - 1
"""Kernels count places along a dimension in 32 bits."""
MOST_NEIGHBOURS = 16
"""More elements than this are never moved at once."""


class Mode(NamedTuple):
    """``extent`` places along a dimension of the tensor, ``step`` elements apart."""

    extent: int
    dim: int
    step: int


@dataclass(frozen=True)
class Windows:
    """What is seen of a tensor: modes for each dimension, and where the first place is."""

    modes: tuple[tuple[Mode, ...], ...]
    origin: tuple[int, ...]

    @classmethod
    def of(cls, modes: ModesAttr, origin: Numbers) -> Windows:
        """From the properties of an operator."""
        numbers = [[int(one) for one in each.get_values()] for each in modes]
        return cls(
            tuple(
                tuple(Mode(*each[at : at + 3]) for at in range(0, len(each), 3)) for each in numbers
            ),
            tuple(int(one) for one in origin.get_values()),
        )

    def attributes(self) -> tuple[ModesAttr, Numbers]:
        """The properties of an operator."""
        modes = [integer_array([number for mode in each for number in mode]) for each in self.modes]
        return ArrayAttr(modes), integer_array(self.origin)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of what is seen."""
        return tuple(math.prod(mode.extent for mode in each) for each in self.modes)

    def __str__(self) -> str:
        """The same for equal windows."""
        return f"windows {[[tuple(mode) for mode in each] for each in self.modes]} {self.origin}"

    def defect(self, shape: Sequence[int]) -> str | None:
        """What is wrong with windows of a tensor of this shape; ``None`` where nothing is."""
        if len(self.origin) != len(shape):
            return f"the origin has {len(self.origin)} numbers, the tensor {len(shape)} dimensions"
        if any(extent > MOST_PLACES for extent in self.shape):
            return f"a dimension has {max(self.shape)} places, more than {MOST_PLACES}"
        for mode in (mode for each in self.modes for mode in each):
            if mode.extent < 1 or mode.step < 0:
                return f"a mode has {mode.extent} places {mode.step} apart; expected 1 or more"
            if not 0 <= mode.dim < len(shape):
                return f"a mode runs along dimension {mode.dim} of a tensor of {len(shape)}"
        return None

    def places(self, coordinates: Sequence[IntArray]) -> list[IntArray]:
        """Where the elements at these coordinates are along each dimension of the tensor."""
        found: list[IntArray] = [np.asarray(start, np.int64) for start in self.origin]
        for number, each in zip(coordinates, self.modes, strict=True):
            rest = number
            for mode in each:
                found[mode.dim] = found[mode.dim] + rest % mode.extent * mode.step
                rest = rest // mode.extent
        return found

    def exists(self, shape: Sequence[int], places: Sequence[IntArray]) -> npt.NDArray[np.bool_]:
        """Which of the places are in a tensor of this shape."""
        holds = np.asarray(True)
        for place, extent in zip(places, shape, strict=True):
            holds = holds & (place >= 0) & (place < extent)
        return holds

    def regrouped_dims(self, shape: Sequence[int]) -> list[int] | None:
        """The order of dimensions in which what is seen is the tensor, reshaped.

        ``None`` where it is no such order of all elements.
        """
        modes = [mode for each in self.modes for mode in reversed(each)]
        order = [mode.dim for mode in modes]
        whole = all(mode.extent == shape[mode.dim] and mode.step == 1 for mode in modes)
        every = sorted(order) == list(range(len(shape)))
        return order if every and whole and not any(self.origin) else None

    def seen_in(self, tensor: npt.NDArray[Any], zero: Any = 0) -> npt.NDArray[Any]:
        """What is seen of an array."""
        grid = np.meshgrid(*map(np.arange, self.shape), indexing="ij", sparse=True)
        places = self.places(grid)
        exists = np.broadcast_to(self.exists(tensor.shape, places), self.shape)
        sides = zip(places, tensor.shape, strict=True)
        inside = [np.clip(at, 0, extent - 1) for at, extent in sides]
        found = np.broadcast_to(tensor[tuple(inside)], self.shape).copy()
        found[~exists] = zero
        return found

    def contiguous_dim(self, strides: Sequence[int]) -> int:
        """The dimension of what is seen along which neighbours are the tensor's: the last, else."""
        for dim, each in enumerate(self.modes):
            wide = [mode for mode in each if mode.extent > 1]
            if wide and wide[0].step * strides[wide[0].dim] == 1:
                return dim
        return len(self.modes) - 1

    def neighbours(self, shape: Sequence[int], strides: Sequence[int]) -> int:
        """How many neighbours are always together: all in the tensor or none, and aligned to them.

        A power of two.  They are neighbours along :meth:`contiguous_dim`.
        """
        inner = self.contiguous_dim(strides)
        first = next((mode for mode in self.modes[inner] if mode.extent > 1), None)
        if first is None or first.step * strides[first.dim] != 1:
            return 1
        common = math.gcd(MOST_NEIGHBOURS, first.extent, shape[first.dim], self.origin[first.dim])
        for mode in (mode for each in self.modes for mode in each if mode is not first):
            if mode.extent > 1:
                along = mode.step if mode.dim == first.dim else mode.step * strides[mode.dim]
                common = math.gcd(common, along)
        for dim, start in enumerate(self.origin):
            if dim != first.dim:
                common = math.gcd(common, start * strides[dim])
        return common

    def virtual_strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """Strides as if what is seen lay in memory, its contiguous dimension innermost.

        Who moves what, and in which vectors, is chosen by these.
        """
        return padded_strides(self.shape, self.contiguous_dim(strides), 1, MOST_NEIGHBOURS)[0]

    def coordinates_of(self, offsets: IntArray, strides: Sequence[int]) -> list[IntArray]:
        """The coordinates of elements by their offsets in :meth:`virtual_strides`."""
        virtual = self.virtual_strides(strides)
        found: list[IntArray] = [np.zeros_like(offsets) for _ in self.modes]
        wide = [dim for dim, extent in enumerate(self.shape) if extent > 1]
        rest = offsets
        for dim in sorted(wide, key=lambda dim: -virtual[dim]):
            found[dim], rest = rest // virtual[dim], rest % virtual[dim]
        return found

    def offsets_in_memory(
        self, offsets: IntArray, shape: Sequence[int], strides: Sequence[int]
    ) -> IntArray:
        """Where elements lie in the tensor's memory, by their offsets in virtual strides.

        -1 where that is outside of the tensor, and for a coordinate past the end of what is seen.
        """
        coordinates = self.coordinates_of(offsets, strides)
        places = self.places(coordinates)
        exists = self.exists(shape, places)
        for number, extent in zip(coordinates, self.shape, strict=True):
            exists = exists & (number < extent)
        found = sum(place * step for place, step in zip(places, strides, strict=True))
        return np.where(exists, np.asarray(found, np.int64), -1)


def verify_windows(op: Operation, source: SSAValue, modes: ModesAttr, origin: Numbers) -> None:
    """Raises ``VerifyException`` for properties that are no windows of a tensor."""
    for each in modes:
        if len(each.get_values()) % 3:
            raise VerifyException(
                f"{op_label(op)}: the modes {list(each.get_values())} of a dimension; expected "
                "three numbers each: places, the dimension, and how many elements they are apart"
            )
    defect = Windows.of(modes, origin).defect(shape_of(source.type))
    if defect is not None:
        raise VerifyException(f"{op_label(op)}: {defect}")
