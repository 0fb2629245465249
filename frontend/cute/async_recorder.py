"""Records mbarriers, copies by TMA and products of warp groups (sm_90)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Operation, SSAValue

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Numeric, Predicate, affine_map, as_index
from mugraph.cute.mbarriers import MbarrierPointer
from mugraph.cute.numbers import RecordedEngine
from mugraph.cute.recording import Recording
from mugraph.cute.states import Count, States
from mugraph.cute.tensors import RecordedTensor
from mugraph.cute.views import element, engine_of, plain, start_of
from mugraph.dialects import te
from mugraph.dialects.bulk import (
    BulkCopyError,
    BulkTile,
    TensorDims,
    bulk_tile,
    pattern_bytes,
    tensor_dims,
)
from mugraph.dialects.cute import Layout, LayoutError, ScaledBasis, coalesce, composition
from mugraph.dialects.cute.algorithms import Product
from mugraph.dialects.cute.atoms.mma import MmaAtom
from mugraph.dialects.cute.layout import make_layout
from mugraph.dialects.cute.matrix_descriptor import PATTERN_ROWS, shared_matrix
from mugraph.dialects.cute.recast import max_common_vector
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tensor import Tensor
from mugraph.dialects.cute.tma import TmaCopy
from mugraph.dialects.programming_model import WARP

Place: TypeAlias = tuple[SSAValue, Sequence[SSAValue], AffineMapAttr]
"""A buffer or mbarriers, and the index of one of it: its operands and their map."""


class AsyncRecorder:
    """The asynchronous half of what records a kernel."""

    def __init__(self, recording: Recording, states: States) -> None:
        self.recording = recording
        self.states = states
        self.thread, self.block = recording.thread, recording.block
        self.block_dim, self.grid_dim = recording.block_dim, recording.grid
        self._sums: dict[SSAValue, None] = {}
        """The registers that products of warp groups add to."""
        self._fence: te.WarpgroupFenceOp | None = None
        """The last one."""
        self.said: list[Callable[[], None]] = []
        """What the kernel prints."""

    def new_state(self, number: Numeric) -> Count:
        """The state of a pipeline that was advanced so often."""
        return self.states.new(number)

    def one_of_warp(self) -> AbstractContextManager[None]:
        """What one thread of each warp does where whole warps come, and each one elsewhere."""
        come = self.recording.threads_that_come()
        warps = np.add.reduceat(come, range(0, len(come), WARP))
        if warps.max() < 2:
            return nullcontext()
        return self.recording.condition(
            Predicate(((as_index(self.recording.thread % WARP), True),))
        )

    def instruct(self, op: Operation) -> None:
        """An instruction that orders what each thread does, as it is."""
        self.recording.add(op)

    # Mbarriers.

    def mbarriers(self, count: int, name: str) -> MbarrierPointer:
        """A pointer to new mbarriers of the block."""
        if count < 1:
            raise KernelError(f"allocate_array: {count} is no number of mbarriers")
        return MbarrierPointer(self.recording.mbarriers(count, name))

    def mbarrier_init(self, pointer: Any, arrivals: int) -> None:
        """Sets one up."""
        _require_count("mbarrier_init", "arrivals", arrivals)
        self.recording.add(te.MbarrierInitOp(*_place_of(pointer, "mbarrier_init"), arrivals))

    def mbarrier_arrive(self, pointer: Any, announced: int) -> None:
        """Arrives at one, and announces bytes."""
        _require_count("mbarrier_arrive", "bytes", announced)
        self.recording.add(te.MbarrierArriveOp(*_place_of(pointer, "mbarrier_arrive"), announced))

    def mbarrier_wait(self, pointer: Any, parity: Numeric) -> None:
        """Waits for the end of a phase."""
        low, high = as_index(parity).bounds
        if low < 0 or high > 1:
            raise KernelError(
                f"mbarrier_wait: phases are known by their parity, 0 or 1, not by {parity}; take "
                "a remainder, such as 'k // stages % 2'"
            )
        variables, map_ = affine_map([parity])
        place = _place_of(pointer, "mbarrier_wait")
        self.recording.add(te.MbarrierWaitOp(*place, variables, AffineMapAttr(map_)))

    # Copies of boxes.

    def copy_box(self, tma: TmaCopy, source: Tensor, target: Tensor) -> None:
        """Sends the boxes of a tile between device and shared memory."""
        if tma.atom.name == "SM90_TMA_LOAD_MULTICAST":
            raise KernelError(
                f"copy: {tma.atom.name} sends to the blocks of a cluster, which kernels do not "
                "have; use SM90_TMA_LOAD"
            )
        device, shared = (target, source) if tma.is_store else (source, target)
        spaces = [engine_of(side, "copy").space for side in (device, shared)]
        if spaces != [te.Space.GLOBAL, te.Space.SHARED]:
            way = ("shared", "device") if tma.is_store else ("device", "shared")
            raise KernelError(f"copy: {tma.atom.name} copies from {way[0]} to {way[1]} memory")
        if tma.is_store == (tma.barrier is not None):
            raise KernelError(
                "copy: SM90_TMA_STORE has no mbarrier; wait for it by cp_async_bulk_wait_group"
                if tma.is_store
                else f"copy: {tma.atom.name} counts its bytes at an mbarrier: give 'tma_bar_ptr'"
            )
        tile, steps = self._boxes(device, shared)
        buffer = engine_of(shared, "copy")
        self._require_pattern(buffer, start_of(shared), pattern_bytes(tile.span), "copy")
        origin, first = element(device, 0), start_of(shared)
        box = tuple(reversed(tile.box))
        for start, offset in zip(tile.starts, tile.offsets, strict=True):
            # A tensor map has the contiguous dimension first.
            moved = zip(origin, reversed(start), steps, strict=True)
            coordinate = [first + at * step for first, at, step in moved]
            variables, map_ = affine_map(coordinate)
            ends = engine_of(device, "copy").buffer, variables, AffineMapAttr(map_)
            place = (buffer.buffer, *buffer.place(first + offset, prod(tile.box)))
            with self.one_of_warp():
                if tma.is_store:
                    self.recording.add(te.BulkStoreOp(ends, place, box, steps))
                else:
                    barrier = _place_of(tma.barrier, "copy")
                    self.recording.add(te.BulkLoadOp(ends, place, box, barrier, steps))

    def _boxes(self, device: Tensor, shared: Tensor) -> tuple[BulkTile, list[int]]:
        """How boxes cover a tile, and how far its elements are apart along each dimension.

        Raises KernelError where they cannot.
        """
        engine = engine_of(device, "copy")
        shape, size = engine.type.get_shape(), engine.dtype.itemsize
        if not isinstance(device, RecordedTensor):
            raise KernelError(f"copy: {device.layout} is no tile of a tensor of the kernel")
        where = device.coordinates if device.coordinates is not None else plain(device)
        extents, steps = [1] * len(shape), [1] * len(shape)
        modes: list[Layout[Any]] = [Layout(1, 0)] * len(shape)
        for mode, lies in _along_dimensions(_ungrouped(where), _ungrouped(plain(shared))):
            dimension, extent, step = _dimension(mode, len(shape))
            if extents[dimension] > 1:
                raise KernelError(
                    f"copy: two modes of the tile {where} run along the same dimension of the "
                    "tensor, which no box does"
                )
            extents[dimension], modes[dimension], steps[dimension] = extent, lies, step
        swizzle = engine_of(shared, "copy").swizzle
        layout = make_layout(*modes)
        try:
            tensor_dims(shape, engine.type.strides(), size)  # whether there are boxes at all
            dims = TensorDims(
                *(tuple(reversed(one)) for one in (range(len(shape)), shape, engine.type.strides()))
            )
            placed = layout if swizzle is None else ComposedLayout(swizzle, 0, layout)
            return bulk_tile(dims, extents, placed, size), steps
        except BulkCopyError as error:
            mend = f"; {error.mend}" if error.mend else ""
            raise KernelError(f"copy: no boxes move this tile: {error}{mend}") from error

    @staticmethod
    def _require_pattern(engine: RecordedEngine, start: Numeric, pattern: int, what: str) -> None:
        owner = engine.buffer.owner
        begins = (owner.byte_offset or 0) if isinstance(owner, te.NewOp) else 0
        if begins % pattern or as_index(start).multiple * engine.dtype.itemsize % pattern:
            raise KernelError(
                f"{what}: the tile begins at byte {begins} and element {start} of "
                f"'{engine.buffer.name_hint}'; expected a multiple of {pattern} bytes"
            )

    # Products of warp groups.

    def warpgroup_fence(self) -> None:
        """Before the products of a warp group."""
        self._fence = te.WarpgroupFenceOp()
        self.recording.add(self._fence)

    def warpgroup_wait(self, groups: int) -> None:
        """Waits for all but so many newest groups of them."""
        finished = () if groups else tuple(self._sums)
        self.recording.add(te.WarpgroupWaitOp(groups, finished))

    def multiply_warpgroup(self, atom: MmaAtom, product: Product) -> None:
        """Begins the instructions of a product, whose matrices lie in shared memory."""
        sums = engine_of(product.c, "gemm: C")
        values = plain(product.c)[0]
        if sums.space is not te.Space.REGISTER or (
            max_common_vector(values, Layout(values.size())) < values.size()
        ):
            raise KernelError(
                f"gemm: {atom.name} adds to {values.size()} neighbours in registers, not to "
                f"{product.c.layout}; make them with make_fragment_C"
            )
        sides = {"A": product.a, "B": product.b}
        for name, tensor in sides.items():
            engine = engine_of(tensor, f"gemm: {name}")
            if engine.space is not te.Space.SHARED:
                raise KernelError(
                    f"gemm: {atom.name} reads {name} from shared memory, not from {engine.space} "
                    "memory"
                )
        self._sums[sums.buffer] = None
        if self._fence is not None and sums.buffer not in self._fence.sums:
            self._fence.operands = [*self._fence.sums, sums.buffer]
        (_, rows, steps), (_, columns, _) = (
            [mode.size() for mode in plain(one)] for one in sides.values()
        )
        # Written out, so that descriptors differ by constants.
        for k in range(steps):
            for m in range(rows):
                for n in range(columns):
                    place = sums.place(element(product.c, (0, m, n)), values.size())
                    section = te.SectionOp(sums.buffer, *place, (values.size(),))
                    a, b = (
                        self._matrix(f"{atom.name} reads {name}", tensor, (0, line, k))
                        for (name, tensor), line in zip(sides.items(), (m, n), strict=True)
                    )
                    self.recording.add(
                        te.WarpgroupMmaOp(atom.name, self.recording.add(section), *a, *b)
                    )

    def _matrix(self, what: str, tensor: Tensor, coord: Any) -> tuple[Place, Layout[int]]:
        """Where an instruction's matrix begins in its buffer, and how it lies there."""
        engine, layout = engine_of(tensor, "gemm"), plain(tensor)[0]
        size = engine.dtype.itemsize
        try:
            matrix = shared_matrix(layout, engine.swizzle, size)
        except LayoutError as error:
            raise KernelError(
                f"gemm: {what} by a descriptor, which cannot say {tensor.layout}: {error}"
            ) from error
        pattern = PATTERN_ROWS * matrix.row_bytes
        self._require_pattern(engine, start_of(tensor), pattern, "gemm")
        place = engine.place(element(tensor, coord), layout.cosize())
        return (engine.buffer, *place), layout


def _require_count(what: str, of: str, count: Any) -> None:
    if not isinstance(count, int):
        raise KernelError(f"{what}: the number of {of} is known when it is recorded, not {count!r}")


def _place_of(pointer: Any, what: str) -> Place:
    if not isinstance(pointer, MbarrierPointer):
        raise KernelError(
            f"{what}: {pointer!r} is no mbarrier; allocate some by allocate_array('i64', count)"
        )
    variables, map_ = affine_map([pointer.checked().number])
    return pointer.barriers, variables, AffineMapAttr(map_)


def _ungrouped(layout: Layout[Any]) -> Layout[Any]:
    """The modes of a tile, which may be one mode together."""
    return layout[0] if layout.rank == 1 and isinstance(layout.shape, tuple) else layout


def _along_dimensions(
    where: Layout[Any], lies: Layout[Any]
) -> Iterator[tuple[Layout[Any], Layout[Any]]]:
    """The parts of a tile that run along one dimension of the tensor each, of extent over 1.

    Of each the layout of its coordinates, and that of where it lies in shared memory.
    """
    for mode, place in zip(where, lies, strict=True):
        parts = [part for part in coalesce(mode) if part.size() > 1]
        split = composition(place, Layout(tuple(part.size() for part in parts))) if parts else ()
        yield from zip(parts, split, strict=True)


def _dimension(mode: Layout[Any], rank: int) -> tuple[int, int, int]:
    """The dimension of a buffer along which a part of a tile runs, its extent, and its step."""
    step = mode.flat_stride[0]
    place, value = (step.modes[0], step.value) if isinstance(step, ScaledBasis) else (0, step)
    return rank - 1 - place, mode.size(), value
