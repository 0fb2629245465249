"""Who holds what of a tile: layouts from (thread, value) to elements, and slices of them.

A distribution of a tile over threads is one layout with two modes, threads and values, whose
offsets are positions in the tile.  What is reduced along a dimension is held by every thread that
held an element of it: a slice is the same layout with the strides along that dimension set to 0.
Where elements are not evenly dealt out the layout runs past the tile; its extents are the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mugraph.dialects.cute.atoms.mma import MmaAtom
from mugraph.dialects.cute.chaining import tiled_accumulator
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout, make_layout

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_CACHED = 512

_Mode = tuple[int, int]
"""An extent and a stride."""


class ThreadValues(NamedTuple):
    """Which element of a tensor each value of each thread is.

    ``layout`` maps (thread, value) to a position.  Positions walk the extents ``tile`` in
    ``order``, the first dimension fastest; the last one has no end.  Elements past ``shape``, the
    tensor's extents, do not exist.
    """

    layout: Layout[int]
    tile: tuple[int, ...]
    order: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def threads(self) -> int:
        """How many threads hold values."""
        return self.layout[0].size()

    @property
    def values(self) -> int:
        """How many values each thread holds, those that do not exist included."""
        return self.layout[1].size()

    @property
    def holders(self) -> int:
        """How many threads hold each element."""
        return math.prod(extent for extent, stride in modes_of(self.layout[0]) if not stride)

    @property
    def is_shared_by_neighbours(self) -> bool:
        """Whether those that hold an element are a power of two of threads in a row."""
        strides = [stride for _, stride in modes_of(self.layout[0])]
        first = next((at for at, stride in enumerate(strides) if stride), len(strides))
        return all(strides[first:]) and self.holders & (self.holders - 1) == 0

    def has_pairs(self, dim: int) -> bool:
        """Whether values 2 i and 2 i + 1 are neighbours along a dimension, the first one even."""
        step = self._below(dim)
        values = modes_of(self.layout[1])
        if not values or self.tile[dim] % 2:
            return False
        first, *others = (*values, *modes_of(self.layout[0]))
        above = step * self.tile[dim]
        return (
            first[1] == step
            and first[0] % 2 == 0
            and all(not step <= stride < above or stride % (2 * step) == 0 for _, stride in others)
        )

    def coordinates(self) -> tuple[IntArray, ...]:
        """The coordinate along each dimension, ``[values, threads]``; some past ``shape``."""
        return _coordinates(self)

    def exists(self) -> BoolArray:
        """Which values exist, ``[values, threads]``."""
        inside = np.ones((self.values, self.threads), dtype=np.bool_)
        for along, extent in zip(self.coordinates(), self.shape, strict=True):
            inside &= along < extent
        return inside

    def is_first(self) -> BoolArray:
        """Which threads are the first of those that hold the same elements, ``[threads]``."""
        thread = np.arange(self.threads, dtype=np.int64)
        first = np.ones(self.threads, dtype=np.bool_)
        for extent, stride in modes_of(self.layout[0]):
            thread, digit = np.divmod(thread, extent)
            if not stride:
                first &= digit == 0
        return first

    def value_of(self, whole: ThreadValues) -> IntArray:
        """For each value of a thread in ``whole``, which of its values here stands for it.

        Both are held by the same threads, and this one is a slice of the other or of a tile that
        is held alike.
        """
        mine = np.zeros(self.values, dtype=np.int64)
        theirs = np.zeros(whole.values, dtype=np.int64)
        places = zip(self.coordinates(), whole.coordinates(), self.tile, whole.tile, strict=True)
        for one, other, extent, whole_extent in places:
            held, wanted = one[:, 0], other[:, 0]
            if extent != whole_extent:
                if (held == held[0]).all():
                    continue  # all that a thread holds is of one run of this dimension
                wanted = wanted // (whole_extent // extent)
            size = max(int(held.max()), int(wanted.max())) + 1
            mine, theirs = mine * size + held, theirs * size + wanted
        place = {key: value for value, key in enumerate(mine.tolist())}
        return np.array([place[key] for key in theirs.tolist()], dtype=np.int64)

    def sliced(self, dim: int, results: int = 1) -> ThreadValues:
        """Who holds what is reduced along a dimension: one number, or one for each equal run.

        A single number that cannot be shared out evenly is held by all threads.  Raises LayoutError
        where several runs end within what a mode of threads or values deals out.
        """
        inner, extent = self._below(dim), self.tile[dim]
        run = extent // results

        def stride_in_slice(stride: int) -> int:
            if stride < inner:
                return stride
            return 0 if stride < inner * run else stride // run

        try:
            return self._with_strides(dim, results, (inner, inner * run), stride_in_slice)
        except LayoutError:
            if math.prod(self.shape) > self.shape[dim] // results:
                raise
            single = make_layout(Layout(self.threads, 0), Layout(1, 0))
            return ThreadValues(single, (1,) * len(self.shape), self.order, (1,) * len(self.shape))

    def sliced_by_threads(self, dim: int) -> ThreadValues:
        """Who holds what threads make of their parts of a dimension: a number for each of them.

        Of the threads that share a row, the one at place q holds what stands at q along ``dim``.
        """
        inner, extent = self._below(dim), self.tile[dim]
        places: dict[int, int] = {}
        results = 1
        for size, stride in _cut(modes_of(self.layout[0]), (inner, inner * extent)):
            if inner <= stride < inner * extent:
                places[stride] = inner * results
                results *= size

        def stride_in_slice(stride: int) -> int:
            if stride < inner:
                return stride
            above = stride // extent * results
            return places.get(stride, 0) if stride < inner * extent else above

        return self._with_strides(dim, results, (inner, inner * extent), stride_in_slice)

    def _below(self, dim: int) -> int:
        """How many positions there are before the next one along a dimension."""
        return math.prod(self.tile[other] for other in self.order[: self.order.index(dim)])

    def _with_strides(
        self, dim: int, results: int, cuts: Sequence[int], stride_in_slice: Callable[[int], int]
    ) -> ThreadValues:
        """The slice in which modes, cut at some positions, have other strides.

        Values of a thread that become the same element are one.
        """
        threads, values = (
            [(size, stride_in_slice(stride)) for size, stride in _cut(modes_of(mode), cuts)]
            for mode in (self.layout[0], self.layout[1])
        )
        layout = make_layout(_layout_of(threads), _layout_of([m for m in values if m[1]]))
        shape, tile = list(self.shape), list(self.tile)
        shape[dim] = tile[dim] = results
        return ThreadValues(layout, tuple(tile), self.order, tuple(shape))


def modes_of(layout: Layout[int]) -> list[_Mode]:
    """The extents over 1 and their strides, in order."""
    modes = zip(layout.flat_shape, layout.flat_stride, strict=True)
    return [(extent, stride) for extent, stride in modes if extent > 1]


def _layout_of(modes: Sequence[_Mode]) -> Layout[int]:
    if not modes:
        return Layout(1, 0)
    return Layout(tuple(extent for extent, _ in modes), tuple(stride for _, stride in modes))


def _cut(modes: Sequence[_Mode], cuts: Sequence[int]) -> list[_Mode]:
    """The modes, those that run across a position cut in two there."""
    parts = list(modes)
    for cut in cuts:
        halves: list[_Mode] = []
        for extent, stride in parts:
            if not 0 < stride < cut < extent * stride:
                halves.append((extent, stride))
                continue
            if cut % stride or extent % (cut // stride):
                raise LayoutError(
                    f"{extent} elements, {stride} apart, are not shared out evenly at {cut}."
                )
            halves += [(cut // stride, stride), (extent * stride // cut, cut)]
        parts = halves
    return parts


@lru_cache(_CACHED)
def _coordinates(held: ThreadValues) -> tuple[IntArray, ...]:
    positions = _offsets(held.layout[1])[:, None] + _offsets(held.layout[0])[None, :]
    found: dict[int, IntArray] = {}
    *walked, last = held.order
    for dim in walked:
        positions, found[dim] = np.divmod(positions, held.tile[dim])
    found[last] = positions
    for along in found.values():
        along.setflags(write=False)
    return tuple(found[dim] for dim in range(len(held.shape)))


def _offsets(layout: Layout[int]) -> IntArray:
    """The offset of every 1-D coordinate, in order."""
    offsets = np.zeros(1, dtype=np.int64)
    for extent, stride in modes_of(layout):
        offsets = (np.arange(extent, dtype=np.int64)[:, None] * stride + offsets).reshape(-1)
    return offsets


def linear_values(
    threads: int, vector: int, order: Sequence[int], shape: Sequence[int]
) -> ThreadValues:
    """Vectors of neighbours dealt out in turn: thread t holds the vectors t, t + threads, ..."""
    size = math.prod(shape)
    rounds = math.ceil(size / vector / threads)
    values = Layout((vector, rounds), (1, threads * vector))
    layout = make_layout(Layout(threads, vector), values)
    return ThreadValues(layout, tuple(shape), tuple(order), tuple(shape))


def accumulator_values(
    atom: MmaAtom, groups: tuple[int, int, int], shape: Sequence[int]
) -> ThreadValues:
    """The accumulator of a product over the last two dimensions, in whole instructions.

    With several ``groups`` along k, the first dimension has so many partial sums.
    """
    groups_m, groups_n, groups_k = groups
    tile = [1] * len(shape)
    tile[0] = groups_k
    tile[-2] = _up(shape[-2], atom.shape_mnk[0] * groups_m)
    tile[-1] = _up(shape[-1], atom.shape_mnk[1] * groups_n)
    held = tiled_accumulator(atom, (groups_m, groups_n), tile[-2], tile[-1])
    parts = Layout(groups_k, tile[-2] * tile[-1])
    rank = len(shape)
    order = (rank - 2, rank - 1, *reversed(range(rank - 2)))
    layout = make_layout(make_layout(held[0], parts), held[1])
    return ThreadValues(layout, tuple(tile), order, tuple(shape))


def _up(extent: int, step: int) -> int:
    return math.ceil(extent / step) * step
