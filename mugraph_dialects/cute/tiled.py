"""Tiled operations: instructions repeated over warps and over values, and their partitioning.

A :class:`TiledMma` is an MMA atom, a layout of copies of it along M, N and K (each copy with its
own threads), and a permutation of each axis.  From it follow, for each operand, the layout from
(thread, value) to the tile (``layout_tv``), and a thread's share of a tensor (``ThrMma``).
A :class:`TiledCopy` is the same for a copy atom and a layout of threads and values.

Everything is composition and slicing: a tensor's modes are divided by the axis permutations, then
by the atom's tile, the atom's tile is composed with the atom's thread-value layout, and the rest is
divided by the layout of threads.

Source: C. Cecka, "CuTe: CUDA Tensors" (NVIDIA), slides "MMA_Atom", "TiledMMA", "ThrMMA".
"""

from __future__ import annotations

from functools import cached_property, partial, partialmethod
from math import prod
from typing import TYPE_CHECKING, Any, cast

from mugraph.dialects.cute.algebra import coalesce, composition
from mugraph.dialects.cute.algorithms import call_mma
from mugraph.dialects.cute.atoms.copy import CopyAtom, copy_atom
from mugraph.dialects.cute.atoms.mma import MmaAtom, mma_atom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import IntTuple, _, is_tuple, product_each, size, to_text
from mugraph.dialects.cute.inverses import complement, is_injective, right_inverse
from mugraph.dialects.cute.layout import Layout, make_layout, make_unchecked
from mugraph.dialects.cute.shown import Shown
from mugraph.dialects.cute.tensor import (
    Tensor,
    make_counting_tensor,
    make_fragment_like,
    make_fragment_of_shape,
)
from mugraph.dialects.cute.tiling import (
    logical_divide,
    raked_product,
    tiled_product,
    zipped_divide,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

_AXES = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}
"""The axes (0 M, 1 N, 2 K) of each operand's rows and columns."""
_SUM_DTYPES = {"f16": "float16", "f32": "float32", "f64": "float64", "s32": "int32"}
"""numpy's names of the types in which instructions sum up."""


def _with_modes(layout: Layout[int], count: int) -> Layout[int]:
    """The layout with modes ``1:0`` appended up to ``count``."""
    modes = list(layout) if is_tuple(layout.shape) else [layout]
    if len(modes) > count:
        raise LayoutError(f"{layout} has {len(modes)} modes; at most {count} (M, N, K) fit here.")
    return make_layout(*modes, *([Layout(1, 0)] * (count - len(modes))))


class _Fragments:
    """The fragments of an instruction, the same for each thread."""

    atom: MmaAtom

    def make_fragment_a(self, partitioned: Tensor, dtype: DTypeLike | None = None) -> Tensor:
        """Registers for a partitioned A, laid out like it.

        The tensor itself where the instruction reads A from shared memory through a descriptor.
        """
        in_shared = self.atom.a_space == "shared"
        return partitioned if in_shared else make_fragment_like(partitioned, dtype)

    def make_fragment_b(self, partitioned: Tensor, dtype: DTypeLike | None = None) -> Tensor:
        """Registers for a partitioned B, laid out like it, or the tensor itself: as with A."""
        in_shared = self.atom.b_space == "shared"
        return partitioned if in_shared else make_fragment_like(partitioned, dtype)

    def make_fragment_c(self, partitioned: Tensor, dtype: DTypeLike | None = None) -> Tensor:
        """Registers for a partitioned C: dense, column-major.

        Their element type is ``dtype``, or that of the instruction's sums.
        """
        element = _SUM_DTYPES[self.atom.c_type] if dtype is None else dtype
        return make_fragment_of_shape(partitioned.layout.shape, element, partitioned)

    make_fragment_A, make_fragment_B = make_fragment_a, make_fragment_b  # noqa: N815
    make_fragment_C = make_fragment_c  # noqa: N815


class TiledMma(_Fragments, Shown):
    """An MMA atom repeated along M, N and K.

    ``atom_layout`` maps (M,N,K) to the number of the atom: ``(2,2)`` is two by two atoms, so four
    times the atom's threads.  ``permutation`` has, for each axis, ``_``, an extent (a larger tile),
    or a layout that says in which order the tile's coordinates are dealt out.

    Raises LayoutError for an unknown atom or a permutation that does not cover the atoms.
    """

    def __init__(
        self,
        atom: MmaAtom | str,
        atom_layout: Layout[int] | IntTuple = (1, 1, 1),
        permutation: tuple[int | Layout[int] | None, ...] = (_, _, _),
    ):
        self.atom = mma_atom(atom) if isinstance(atom, str) else atom
        if not isinstance(atom_layout, Layout):
            atom_layout = Layout(atom_layout)
        self.atom_layout = _with_modes(atom_layout, 3)
        self.permutation = (*permutation, _, _, _)[:3]
        for axis in range(3):
            covered = self.atom.shape_mnk[axis] * self.thr_layout_vmnk[axis + 1].size()
            if self.tile_extent(axis) % covered:
                raise LayoutError(
                    f"{self}: the permutation of {'MNK'[axis]} has {self.tile_extent(axis)} "
                    f"coordinates, which is no multiple of the {covered} that the atoms cover."
                )

    def __str__(self) -> str:
        parts = [self.atom.name]
        if self.atom_layout.size() > 1:
            parts.append(str(self.atom_layout))
        if any(part is not _ for part in self.permutation):
            parts.append("<" + ",".join(map(to_text, self.permutation)) + ">")
        return ", ".join(parts)

    @cached_property
    def thr_layout_vmnk(self) -> Layout[int]:
        """From (lane of the atom, atom along M, N, K) to the thread."""
        return tiled_product(self.atom.thr_id, self.atom_layout)

    @property
    def threads(self) -> int:
        """The number of threads that take part."""
        return self.thr_layout_vmnk.size()

    size = threads

    @property
    def thread_span(self) -> int:
        """One more than the largest thread: equal to ``threads`` where they have no gaps."""
        return self.thr_layout_vmnk.cosize()

    def tile_extent(self, axis: int) -> int:
        """The extent of the whole tile along M (0), N (1) or K (2)."""
        part = self._permutation(axis)
        return part.size() if isinstance(part, Layout) else part

    def tile_shape(self, operand: str) -> tuple[int, int]:
        """The shape of the tile of operand "A" (M,K), "B" (N,K) or "C" (M,N)."""
        rows, columns = _AXES[operand]
        return (self.tile_extent(rows), self.tile_extent(columns))

    def _permutation(self, axis: int) -> int | Layout[int]:
        part = self.permutation[axis]
        if part is None:
            return self.atom.shape_mnk[axis] * self.thr_layout_vmnk[axis + 1].size()
        return part

    def thrfrg(self, operand: str, layout: Any) -> Any:
        """The layout of an operand's tensor as ((lane,(atoms)),(value,(rests))).

        ``layout`` has modes (M,K), (N,K) or (M,N), and perhaps more, which stay at the end.
        """
        rows, columns = _AXES[operand]
        permuted = logical_divide(layout, (self._permutation(rows), self._permutation(columns)))
        atom_tile = tuple(Layout(extent) for extent in self.atom.tile_shape(operand))
        atoms = zipped_divide(permuted, atom_tile)
        by_value = composition(atoms, (self.atom.layout(operand), _))
        grid = tuple(Layout(self.thr_layout_vmnk[axis + 1].size()) for axis in (rows, columns))
        return zipped_divide(by_value, (_, grid))

    def layout_tv(self, operand: str) -> Layout[int]:
        """From (thread, value) to the 1-D (column-major) coordinate of the operand's tile.

        Threads are 0 ... ``thread_span - 1``; where the atom's lanes leave gaps, the threads
        between repeat lane 0.  Threads that differ only along the axis that the operand lacks
        share its elements.
        """
        rows, columns = _AXES[operand]
        extents = [self.thr_layout_vmnk[axis + 1].size() for axis in range(3)]
        strides = [0, 0, 0]
        strides[rows] = 1
        strides[columns] = extents[rows]
        kept = Layout(tuple(extents), tuple(strides))
        reference = self.thrfrg(operand, Layout(self.tile_shape(operand)))
        spread = composition(reference, ((_, kept), _))
        return composition(spread, (self._thread_to_vmnk(), _))

    def _thread_to_vmnk(self) -> Layout[int]:
        """From a thread to the 1-D coordinate (lane, M, N, K)."""
        whole = make_layout(self.thr_layout_vmnk, complement(self.thr_layout_vmnk))
        keep = Layout((self.threads, 1), (1, 0))
        return composition(keep, right_inverse(whole))

    def call(self, *tensors: Tensor) -> None:
        """``call(A, B, C)`` or ``call(D, A, B, C)``: one instruction on a thread's values (V)."""
        call_mma(self, *tensors)

    def _partition_shape(self, operand: str, shape: IntTuple) -> IntTuple:
        """The shape of a thread's part of an operand of so many rows and columns."""
        return self.get_slice(0).partition(operand, make_counting_tensor(Layout(shape))).shape

    partition_shape_A = partialmethod(_partition_shape, "A")  # noqa: N815
    partition_shape_B = partialmethod(_partition_shape, "B")  # noqa: N815
    partition_shape_C = partialmethod(_partition_shape, "C")  # noqa: N815

    def get_slice(self, thread: Any) -> ThrMma:
        """One thread's view, or that of each of an array of threads.

        Raises LayoutError if there is no such thread.
        """
        if isinstance(thread, int) and not 0 <= thread < self.thread_span:
            raise LayoutError(f"{self}: there is no thread {thread} of {self.thread_span}.")
        return ThrMma(self, self.thr_layout_vmnk.get_flat_coord(thread))


class ThrMma(_Fragments):
    """One thread's share of a :class:`TiledMma`'s tensors."""

    def __init__(self, tiled_mma: TiledMma, thr_vmnk: tuple[Any, ...]):
        self.tiled_mma = tiled_mma
        self.atom = tiled_mma.atom
        self.thr_vmnk = thr_vmnk

    def partition(self, operand: str, tensor: Tensor) -> Tensor:
        """The thread's values of operand "A", "B" or "C"."""
        rows, columns = _AXES[operand]
        thrfrg = partial(self.tiled_mma.thrfrg, operand)
        divided = tensor.apply(thrfrg)
        place = (self.thr_vmnk[0], (self.thr_vmnk[rows + 1], self.thr_vmnk[columns + 1]))
        rests = divided.layout[1][1]
        return divided[(place, (_, (_,) * rests.rank))]

    def partition_a(self, tensor: Tensor) -> Tensor:
        """The thread's values of A (M,K): shape (values, rest of M, rest of K)."""
        return self.partition("A", tensor)

    def partition_b(self, tensor: Tensor) -> Tensor:
        """The thread's values of B (N,K): shape (values, rest of N, rest of K)."""
        return self.partition("B", tensor)

    def partition_c(self, tensor: Tensor) -> Tensor:
        """The thread's values of C (M,N): shape (values, rest of M, rest of N)."""
        return self.partition("C", tensor)

    partition_A, partition_B, partition_C = partition_a, partition_b, partition_c  # noqa: N815


class TiledCopy(Shown):
    """A copy atom repeated over threads and values.

    ``layout_tv`` maps (thread, value) to the 1-D coordinate of a tile of shape ``tiler``.
    ``element_bits`` is the width of the elements that are counted.

    Raises LayoutError if the atom needs more threads or values than there are.
    """

    def __init__(
        self,
        atom: CopyAtom | str,
        element_bits: int,
        layout_tv: Layout[int],
        tiler: tuple[Any, ...],
    ):
        self.atom = copy_atom(atom) if isinstance(atom, str) else atom
        self.element_bits = element_bits
        self.tiled_layout_tv = layout_tv
        self.tiler = tiler
        self._src, self._dst, self._ref = self.atom.value_layouts(element_bits)
        for what, mode in (("threads", 0), ("values", 1)):
            whole, part = layout_tv[mode].size(), self._ref[mode].size()
            if whole % part:
                raise LayoutError(
                    f"TiledCopy of {self.atom.name}: the layout {layout_tv} has {whole} {what}, "
                    f"which is no multiple of the atom's {part}."
                )

    @property
    def threads(self) -> int:
        """The number of threads that take part."""
        return self.tiled_layout_tv[0].size()

    size = threads

    def _tile_to_thrfrg(self, tensor: Any, target: Layout[int]) -> Any:
        reference_to_target = composition(right_inverse(self._ref), target)
        atom_shape = (self._ref[0].size(), self._ref[1].size())
        atoms = zipped_divide(self.tiled_layout_tv, atom_shape)
        by_target = composition(atoms, (reference_to_target, _))
        thrval_to_tile = coalesce(_transposed(by_target), (1, (1, 1)))
        composed = composition(tensor, (thrval_to_tile, _))
        return composed.slice((_, _), _)

    def thrfrg_source(self, layout: Any) -> Any:
        """A source tensor's layout as (thread, (values, rests), rest tiles ...)."""
        return self._tile_to_thrfrg(zipped_divide(layout, self.tiler), self._src)

    def thrfrg_destination(self, layout: Any) -> Any:
        """A destination tensor's layout as (thread, (values, rests), rest tiles ...)."""
        return self._tile_to_thrfrg(zipped_divide(layout, self.tiler), self._dst)

    def retile(self, layout: Layout[Any]) -> Layout[Any]:
        """A fragment ``(V, rests ...)`` as ``((values of an atom, atoms), rests ...)``.

        V of the fragment counts the thread's values of a tile of its own, whose values here are
        counted by the atom: those of the atom's reference within V, then those of V, then rests.
        Raises LayoutError where the fragment's values are not whole ones of this copy.
        """
        own = layout[0].size()
        held = self.tiled_layout_tv[1].size()
        if held % own:
            raise LayoutError(
                f"retile: a thread of this copy holds {held} values of a tile, which is no "
                f"multiple of the {own} in the first mode of {layout}."
            )
        # The copy's further values are the fragment's next ones along some axis of the tile.
        taken = [1] * (layout.rank - 1)
        values: list[Layout[Any]] = [layout[0]]
        for extent, axis in self._axes_of(logical_divide(self.tiled_layout_tv[1], own)[1]):
            if axis >= len(taken) or layout[1 + axis].size() % (taken[axis] * extent):
                raise LayoutError(
                    f"retile: {layout} has no {taken[axis] * extent} tiles along mode {axis + 1}, "
                    "which this copy moves together."
                )
            values.append(composition(layout[1 + axis], Layout(extent, taken[axis])))
            taken[axis] *= extent
        rests = [
            composition(mode, Layout(mode.size() // count, count))
            for mode, count in zip(list(layout)[1:], taken, strict=True)
        ]
        atoms = logical_divide(coalesce(make_layout(*values)), self._ref[1].size())
        return make_layout(atoms, *rests)

    def _axes_of(self, values: Layout[int]) -> list[tuple[int, int]]:
        """The modes of a layout of values over the tile: extents, and the axes they run along."""
        ends = [prod(self.tile_shape[: axis + 1]) for axis in range(len(self.tiler))]
        found: list[tuple[int, int]] = []
        for extent, step in zip(values.flat_shape, values.flat_stride, strict=True):
            while extent > 1:
                axis = next(axis for axis, end in enumerate(ends) if step < end)
                within = min(extent, ends[axis] // step)
                found.append((within, axis))
                extent, step = extent // within, step * within
        return found

    @property
    def tile_shape(self) -> tuple[int, ...]:
        """The extents of the tile that is copied at once."""
        return tuple(
            part.size() if isinstance(part, Layout) else size(cast("IntTuple", part))
            for part in self.tiler
        )

    def layout_tv(self, side: str) -> Layout[int]:
        """From (thread, value) to the tile's 1-D coordinate, for side "S" or "D"."""
        target = self._src if side == "S" else self._dst
        reference = make_layout(Layout(self.tile_shape), Layout(1, 0))
        divided = self._tile_to_thrfrg(reference, target)
        return divided.slice(_, _, 0)

    def get_slice(self, thread: Any) -> ThrCopy:
        """One thread's view, or that of each of an array of threads.

        Raises LayoutError if there is no such thread.
        """
        if isinstance(thread, int) and not 0 <= thread < self.threads:
            raise LayoutError(f"TiledCopy: there is no thread {thread} of {self.threads}.")
        return ThrCopy(self, thread)


class ThrCopy:
    """One thread's share of a :class:`TiledCopy`'s tensors."""

    def __init__(self, tiled_copy: TiledCopy, thread: Any):
        self.tiled_copy = tiled_copy
        self.thread = thread

    def _partition(self, tensor: Tensor, operation: Any) -> Tensor:
        rank = tensor.rank
        divided = tensor.apply(operation)
        return divided[(self.thread, _, (_,) * rank)]

    def partition_source(self, tensor: Tensor) -> Tensor:
        """What the thread reads: shape ((values of an atom, atoms), rest of M, rest of N)."""
        return self._partition(tensor, self.tiled_copy.thrfrg_source)

    def partition_destination(self, tensor: Tensor) -> Tensor:
        """What the thread writes: shape ((values of an atom, atoms), rest of M, rest of N)."""
        return self._partition(tensor, self.tiled_copy.thrfrg_destination)

    def retile_source(self, fragment: Tensor) -> Tensor:
        """A thread's fragment ``(V, rest of M, rest of N)`` with the modes of what it reads.

        The fragment is that of another tiling of the same tile, such as an MMA's accumulator: its
        values in the order of the tile are this copy's values.
        """
        return fragment.apply(self.tiled_copy.retile)

    def retile_destination(self, fragment: Tensor) -> Tensor:
        """A thread's fragment ``(V, rest of M, rest of N)`` with the modes of what it writes."""
        return fragment.apply(self.tiled_copy.retile)

    partition_S, partition_D = partition_source, partition_destination  # noqa: N815 - CuTe's names
    retile = retile_source
    retile_S, retile_D = retile_source, retile_destination  # noqa: N815


def _transposed(layout: Layout[Any]) -> Layout[Any]:
    """``((a,b),(c,d))`` as ``((a,c),(b,d))``: CuTe's zip of one layout."""
    shape, stride = cast("Any", layout.shape), cast("Any", layout.stride)
    return make_unchecked(
        tuple(zip(*shape, strict=True)), cast("Any", tuple(zip(*stride, strict=True)))
    )


def make_tiled_copy(
    atom: CopyAtom | str,
    element_bits: int,
    thr_layout: Layout[int],
    val_layout: Layout[int] | None = None,
) -> TiledCopy:
    """A tiled copy from the layouts of threads and of values over the tile.

    ``thr_layout`` maps (M,N) to the thread, ``val_layout`` maps (M,N) of a thread's values to the
    value.  ``thr_layout (32,8):(8,1)`` and ``val_layout (1,8)`` are 32 rows of 8 threads of 8
    values.  Raises LayoutError if a layout is not a bijection.
    """
    values = Layout(1) if val_layout is None else val_layout
    for name, layout in (("thread", thr_layout), ("value", values)):
        if layout.cosize() != layout.size() or not is_injective(layout):
            raise LayoutError(
                f"make_tiled_copy: the {name} layout {layout} must give every number from 0 to "
                f"{layout.size() - 1} once."
            )
    tiler, layout_tv = make_layout_tv(thr_layout, values)
    return TiledCopy(atom, element_bits, layout_tv, tiler)


def make_layout_tv(thr_layout: Layout[int], val_layout: Layout[int]) -> tuple[Any, Layout[int]]:
    """The tile of so many threads with so many values each, and its (thread, value) layout."""
    tile = raked_product(thr_layout, val_layout)
    sizes = Layout((thr_layout.size(), val_layout.size()))
    return product_each(tile.shape), composition(right_inverse(tile), sizes)


def make_tiled_copy_for(
    atom: CopyAtom | str, element_bits: int, tiled_mma: TiledMma, operand: str
) -> TiledCopy:
    """The tiled copy that moves operand "A", "B" or "C" to or from the MMA's own threads."""
    return TiledCopy(
        atom, element_bits, tiled_mma.layout_tv(operand), tiled_mma.tile_shape(operand)
    )
