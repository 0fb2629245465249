"""Tensor expressions on the tiles of blocks: custom operators, and the steps they become."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mugraph.dialects import sched, te
from mugraph.dialects.sched.mappings import IntArray, coordinate_offsets
from mugraph.dialects.tensor_types import resolved_layout_of, shape_of
from mugraph.passes.texpr.te_inline import fold_sections, inline_calls
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array, Precision, convert
from mugraph.runtime.interpreter.components import ComponentArray
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.memory import element_dtype
from mugraph.runtime.interpreter.texpr.batch import Batch, Rows, Storage
from mugraph.runtime.interpreter.texpr.components import ComponentRunner
from mugraph.runtime.interpreter.texpr.run import Runner

_SEED = 0


def _blocks_of(tiles: Sequence[Array], axes: int) -> tuple[int, ...]:
    """The extents of the axes that stand before a tile's own, of all tiles together."""
    return np.broadcast_shapes(*(tile.shape[:axes] for tile in tiles))


def _runner(arithmetic: Arithmetic, generator: np.random.Generator | None) -> Runner:
    """Runs functions in an arithmetic."""
    if type(arithmetic) is Arithmetic:
        return Runner(arithmetic.precision, generator)
    return ComponentRunner(arithmetic)


def _storage(
    runner: Runner, value: SSAValue, tile: Array | ComponentArray | None, blocks: Sequence[int]
) -> Storage:
    """A buffer of each block, with its tile in it; nothing where there is none."""
    type_ = cast(te.BufferType, value.type)
    storage = runner.storage(type_, math.prod(blocks))
    if tile is not None:
        whole: Any = storage.elements.reshape(*blocks, *storage.shape)
        is_plain = not isinstance(tile, ComponentArray)
        whole[...] = convert(tile, storage.elements.dtype) if is_plain else tile
        storage.written[...] = True
    return storage


def run_operator(
    function: FuncOp, tiles: Sequence[Array], axes: int, arithmetic: Arithmetic
) -> list[Array]:
    """The results of a custom operator in every block: ``tiles`` are its operands.

    The first ``axes`` axes of a tile are the grid's; a tile that is the same in all blocks has
    extent 1 there.  Parallel iterations run in random order.
    """
    copy = function.clone()
    inline_calls(copy, function)
    fold_sections(copy)
    runner = _runner(arithmetic, np.random.default_rng(_SEED))
    blocks = _blocks_of(tiles, axes)
    batch = Batch(math.prod(blocks))
    rows = np.arange(batch.count)
    given = iter(tiles)
    results: list[Storage] = []
    for position, argument in enumerate(copy.body.block.args):
        is_result = te.is_result(copy, position)
        storage = _storage(runner, argument, None if is_result else next(given), blocks)
        if is_result:
            results.append(storage)
        batch.buffers[argument] = storage, rows
    runner.block(copy.body.block, batch)
    label = f"function @{function.sym_name.data}"
    for storage in results:
        if not storage.written.all():
            raise ExecutionError(f"{label} does not write all elements of its result")
    return [storage.elements.reshape(*blocks, *storage.shape) for storage in results]


def _threads_of(
    op: sched.CustomOp, blocks: int, threads: slice = slice(None)
) -> tuple[Batch, Rows]:
    """Some threads of every block as a batch, and the block of each."""
    chosen = np.arange(op.thread_count, dtype=np.int64)[threads]
    batch = Batch(blocks * len(chosen))
    batch.values[op.thread] = np.tile(chosen, blocks)
    return batch, np.repeat(np.arange(blocks, dtype=np.int64), len(chosen))


def run_step(
    op: sched.CustomOp, tiles: Sequence[Array | None], axes: int, arithmetic: Arithmetic
) -> dict[int, Array]:
    """What a step leaves in the buffers that it writes, by their places among the operands.

    All threads run together, an operator at a time.
    """
    runner = _runner(arithmetic, None)
    known = [tile for tile in tiles if tile is not None]
    blocks = _blocks_of(known, axes) if known else (1,) * axes
    batch, rows = _threads_of(op, math.prod(blocks))
    storages: list[Storage] = []
    for parameter, tile in zip(op.parameters, tiles, strict=True):
        storage = _storage(runner, parameter, tile, blocks)
        storages.append(storage)
        batch.buffers[parameter] = storage, rows
    runner.block(op.body.block, batch)
    written = op.buffers_written()
    return {
        place: storages[place].elements.reshape(*blocks, *storages[place].shape)
        for place, value in enumerate(op.buffers)
        if value in written
    }


class _Addressed:
    """Elements by block and row-major number, where the layout of a buffer puts their bytes."""

    def __init__(self, view: Array, offsets: IntArray, dtype: np.dtype[Any]) -> None:
        self._view, self._offsets = view, offsets
        self.dtype = dtype

    def __getitem__(self, index: tuple[IntArray, Any]) -> Array:
        rows, numbers = index
        return self._view[rows, self._offsets[numbers]].astype(self.dtype)

    def __setitem__(self, index: tuple[IntArray, Any], values: Array) -> None:
        rows, numbers = index
        self._view[rows, self._offsets[numbers]] = convert(np.asarray(values), self._view.dtype)


class _Everywhere:
    """That every element has contents: of bytes nobody knows who wrote them."""

    def __getitem__(self, index: tuple[IntArray, IntArray]) -> Array:
        return np.ones(np.broadcast_shapes(np.shape(index[0]), np.shape(index[1])), np.bool_)

    def __setitem__(self, index: Any, values: Any) -> None:
        pass


def run_step_on_bytes(
    op: sched.CustomOp, memory: Array, starts: Sequence[int], threads: slice
) -> None:
    """Runs a step for some threads of every block on their shared memory, ``[blocks, bytes]``.

    ``starts`` is where the stage of each operand begins, in bytes.
    """
    runner = Runner(Precision.STORAGE, None)
    batch, rows = _threads_of(op, memory.shape[0], threads)
    for parameter, value, start in zip(op.parameters, op.buffers, starts, strict=True):
        stored = element_dtype(value.type)
        shape = shape_of(value.type)
        coordinates = np.indices(shape).reshape(len(shape), -1)
        offsets = coordinate_offsets(resolved_layout_of(value), list(coordinates))
        offsets = offsets + start // stored.itemsize
        elements = _Addressed(memory.view(stored), offsets, runner.dtype_of(parameter))
        storage = Storage(cast(Array, elements), cast(Any, _Everywhere()), shape)
        batch.buffers[parameter] = storage, rows
    runner.block(op.body.block, batch)
