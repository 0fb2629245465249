"""Which elements the warps of a tensor-core product read, from the accesses that it declares.

A warp multiplies what its own lanes loaded, so each warp has matrices of its own: ``tiles`` of
rows of m (or n) by whole steps of 16 along k.  The coordinate of every loaded element follows
from the lane and the instruction alone, as the hardware deals them out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.cute.thread_values import ThreadValues
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.accesses import ThreadAccess
from mugraph.dialects.sched.compute_accesses import operand_runs
from mugraph.dialects.sched.mappings import (
    ATOM_M,
    ATOM_N,
    IDLE,
    IntArray,
)
from mugraph.dialects.sched.operand_mappings import ROWS, MatmulOperand, ScalarOperand
from mugraph.dialects.tensor_types import AnyLayout, op_label
from mugraph.runtime.interpreter.address_plans import (
    AccessPlan,
    Threads,
    accesses_of,
    plan_elements,
)
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.errors import ExecutionError


@dataclass(frozen=True, eq=False)
class OperandPlan:
    """What every warp reads of one operand.

    ``offsets[wk, wn, wm, row, k]`` counts elements from the start of the stage, for the warps along
    k, n and m; -1 where the value cannot reach a result, and is taken as zero.  An axis of warps
    that all read the same has extent 1.
    """

    reads: tuple[AccessPlan, ...]
    """The declared accesses, for their extents."""
    offsets: IntArray
    is_whole: bool
    """Whether every value can reach a result."""

    def of_warp(self, *along: int) -> IntArray:
        """What one warp reads, given its place along k, n and m: [1, 1, 1, row, k]."""
        at = [place % extent for place, extent in zip(along, self.offsets.shape, strict=False)]
        return self.offsets[tuple(slice(place, place + 1) for place in at)]


@dataclass(frozen=True, eq=False)
class MatmulPlan:
    """Both operands of a product, and the warps along k, n and m."""

    lhs: OperandPlan
    rhs: OperandPlan
    warps: tuple[int, int, int]

    @property
    def threads(self) -> int:
        """How many threads multiply; those past them do nothing."""
        return math.prod(self.warps) * WARP

    @classmethod
    def build(cls, op: sched.MmaOp) -> MatmulPlan:
        """The plan of a product; raises ``ExecutionError`` for an instruction not known here."""
        mma = _tiled_mma(op)
        warps_m, warps_n, warps_k = mma.thr_layout
        accesses = accesses_of(op)
        lhs, rhs = (
            _plan_operand(
                matrix, index == 0, [a for a in accesses if a.operand == index], mma, apart
            )
            for index, (matrix, apart) in enumerate(
                zip(op.matrices(), op.strides_of_slices(), strict=True)
            )
        )
        return cls(lhs, rhs, (warps_k, warps_n, warps_m))

    @classmethod
    def of_load(cls, op: sched.LoadOp) -> MatmulPlan:
        """The plan of the load of a left matrix: that of a product without a right one."""
        destination = op.destination.type
        mma = destination.tiled_mma if isinstance(destination, sched.TileType) else None
        assert mma is not None  # verified
        warps_m, warps_n, warps_k = mma.thr_layout
        lhs = _plan_operand(op.matrix(), True, list(accesses_of(op)), mma)
        return cls(lhs, lhs, (warps_k, warps_n, warps_m))

    def takes_part(self, threads: Threads) -> bool:
        """Whether any of the threads multiplies."""
        return threads.start < self.threads

    def warps_along(self, threads: Threads) -> tuple[int, int, int]:
        """How many warps of some threads lie along k, n and m."""
        return self.warps if threads.stop - threads.start > WARP else (1, 1, 1)

    def offsets_of(self, operand: OperandPlan, threads: Threads) -> IntArray:
        """What the warps of some threads read: all warps of the block, or one."""
        if threads.stop - threads.start > WARP:
            return operand.offsets
        warp, along_m = divmod(threads.start // WARP, self.warps[2])
        return operand.of_warp(*divmod(warp, self.warps[1]), along_m)


@dataclass(frozen=True, eq=False)
class ScalarOperandPlan:
    """What every thread reads of one operand: ``offsets[thread, row, k]``."""

    read: AccessPlan
    offsets: IntArray


@dataclass(frozen=True, eq=False)
class ScalarMatmulPlan:
    """Both operands of a product by single threads."""

    lhs: ScalarOperandPlan
    rhs: ScalarOperandPlan

    @property
    def threads(self) -> int:
        """How many threads multiply; those past them do nothing."""
        return self.lhs.offsets.shape[0]

    @classmethod
    def build(cls, op: sched.MmaOp) -> ScalarMatmulPlan:
        """The plan of a product."""
        threads_m, threads_n, _ = _tiled_mma(op).thr_layout
        plans: list[ScalarOperandPlan] = []
        for index, access in enumerate(accesses_of(op)):
            operand = ScalarOperand(index == 0, threads_m, threads_n, op.matrices()[index])
            offsets, _ = operand.offsets()
            plans.append(ScalarOperandPlan(plan_elements(access), offsets.transpose(2, 1, 0)))
        return cls(*plans)


@dataclass(frozen=True, eq=False)
class RunPlan:
    """What every warp reads of an operand by runs: ``offsets[warp, row, k]``, and which exist."""

    read: AccessPlan
    offsets: IntArray
    exists: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SwappedMatmulPlan:
    """A product with swapped operands: both, and the row and column of each value of a lane."""

    lhs: RunPlan
    rhs: RunPlan
    row: IntArray
    column: IntArray

    @property
    def threads(self) -> int:
        """How many threads multiply; those past them do nothing."""
        return self.lhs.offsets.shape[0] * WARP

    @classmethod
    def build(cls, op: sched.MmaOp) -> SwappedMatmulPlan:
        """The plan of a product."""
        mma = _tiled_mma(op)
        atom, plans = mma_atom(mma.atom), list[RunPlan]()
        # The first access of each operand says of what elements it is.
        reads = {access.operand: plan_elements(access) for access in reversed(accesses_of(op))}
        matrices = zip(op.matrices(), op.strides_of_slices(), strict=True)
        for index, (matrix, apart) in enumerate(matrices):
            runs = operand_runs(op.operands[index], index == 0, matrix, atom, mma, apart)
            plans.append(RunPlan(reads[index], *runs.matrices()))
        rows, columns, _ = atom.shape_mnk
        tiles_m, tiles_n = (
            plan.offsets.shape[1] // tile for plan, tile in zip(plans, (rows, columns), strict=True)
        )
        held = range(WARP * atom.values_of_c)
        within: IntArray = np.array([*map(atom.c_layout, held)], np.int64).reshape(-1, WARP)
        tile: IntArray = np.arange(tiles_m * tiles_n, dtype=np.int64)[:, None, None]
        row = tile // tiles_n * rows + within % rows
        column = tile % tiles_n * columns + within // rows
        lhs, rhs = plans
        return cls(lhs, rhs, row.reshape(-1, WARP), column.reshape(-1, WARP))


def is_scalar_product(op: sched.MmaOp) -> bool:
    """Whether single threads multiply."""
    return mma_atom(_tiled_mma(op).atom).is_scalar


def _tiled_mma(op: sched.MmaOp) -> TiledMmaAttr:
    accumulator = op.accumulator.type
    mma = accumulator.tiled_mma if isinstance(accumulator, sched.TileType) else None
    if mma is None:
        raise ExecutionError(f"{op_label(op)}: the accumulator is not a tensor-core fragment")
    return mma


def _plan_operand(
    matrix: AnyLayout,
    is_a: bool,
    accesses: list[ThreadAccess],
    mma: TiledMmaAttr,
    apart: int = 0,
) -> OperandPlan:
    warps_m, warps_n, warps_k = mma.thr_layout
    packed = mma_atom(mma.atom).packed
    operand = MatmulOperand(is_a, warps_m, warps_n, matrix, packed, warps_k, apart)
    warps = warps_m * warps_n * warps_k
    rows, depth = operand.tiles * operand.tile_rows, operand.steps_of_a_warp * operand.step_depth
    offsets = np.full((warps, rows, depth), IDLE, np.int64)
    for access in accesses:
        elements = access.significant_elements()
        threads = min(elements.shape[1], warps * WARP)
        elements = elements[:, :threads]
        row, k = _coordinates(operand, access, threads)
        thread = np.arange(threads, dtype=np.int64)[:, None]
        warp = np.broadcast_to(thread // WARP, row.shape)
        loaded = np.broadcast_to((access.offsets[:, :threads] != IDLE)[..., None], row.shape)
        offsets[warp[loaded], row[loaded], k[loaded]] = elements[loaded]
    by_warp = offsets.reshape(warps_k, warps_n, warps_m, rows, depth)
    for axis in range(3):
        first = by_warp.take([0], axis)
        if np.array_equal(np.broadcast_to(first, by_warp.shape), by_warp):
            by_warp = first
    reads = tuple(plan_elements(access) for access in accesses)
    return OperandPlan(reads, np.ascontiguousarray(by_warp), not np.any(by_warp == IDLE))


def _coordinates(
    operand: MatmulOperand, access: ThreadAccess, threads: int
) -> tuple[IntArray, IntArray]:
    """Row and k (of the warp's own) of what lanes load, [instructions, threads, width]."""
    lane = np.arange(threads, dtype=np.int64)[:, None] % WARP
    element = np.arange(access.width, dtype=np.int64)
    if access.warp_collective:
        tile, quarter = _collective_loads(operand, access, lane)
        line = lane % ROWS
        down, along = (element, line) if operand.transposed else (line, element)
    else:
        tile, quarter, part = (each[..., None] for each in operand.single_loads())
        down, along = lane // 4, operand.packed * (lane % 4) + part + element
    per_step = tile.shape[0]
    step = np.arange(access.instructions // per_step, dtype=np.int64)[:, None, None, None]
    second = np.zeros_like(quarter) if operand.is_a else quarter // 2
    row = (tile + second) * operand.tile_rows + down
    k = quarter % 2 * operand.line + along
    if operand.is_a:
        row = row + quarter % 2 * ROWS
        k = quarter // 2 * operand.line + along
    by_step = (step.shape[0], per_step, threads, access.width)
    shape = (access.instructions, threads, access.width)
    return (
        np.broadcast_to(row, by_step).reshape(shape),
        np.broadcast_to(k + step * operand.step_depth, by_step).reshape(shape),
    )


def _collective_loads(
    operand: MatmulOperand, access: ThreadAccess, lane: IntArray
) -> tuple[IntArray, IntArray]:
    """First tile and matrix of the lines that lanes address, by the loads of one k step."""
    tiles = operand.first_tiles()
    loads_pairs = operand.is_a | (tiles + 1 < operand.tiles)
    in_pairs = ".x4" in access.instruction
    chosen = tiles[loads_pairs if in_pairs else ~loads_pairs]
    return chosen[:, None, None], lane // ROWS


def fragment_of(product: Array) -> Array:
    """Products of warps as the values of their threads.

    ``product`` is [blocks, warps of k, warps of n, warps of m, rows, columns]; the result [blocks,
    values, threads], the warps along m first, then those along n, then those along k.
    """
    blocks, warps_k, warps_n, warps_m, rows, columns = product.shape
    warps_n *= warps_k
    tiles_m, tiles_n = rows // ATOM_M, columns // ATOM_N
    split = product.reshape(blocks, warps_n, warps_m, tiles_m, 2, 8, tiles_n, 4, 2)
    # Value (i * tiles_n + j) * 4 + 2 * half + odd of lane 4 * row + pair.
    ordered = split.transpose(0, 3, 6, 4, 8, 1, 2, 5, 7)
    return ordered.reshape(blocks, tiles_m * tiles_n * 4, warps_n * warps_m * WARP)


def matrix_of(values: Array, plan: MatmulPlan, threads: Threads) -> Array:
    """The inverse of :func:`fragment_of`, of the running threads that multiply.

    ``values`` is [blocks, values, threads]; the result [blocks, warps of k, warps of n, warps of m,
    rows, columns] of the warps that these threads are.
    """
    warps_k, warps_n, warps_m = plan.warps_along(threads)
    columns = warps_k * warps_n
    held = values[:, :, : columns * warps_m * WARP]
    depth = plan.rhs.offsets.shape[-1]
    tiles_n = depth // ATOM_N
    tiles_m = values.shape[1] // (4 * tiles_n)
    split = held.reshape(-1, tiles_m, tiles_n, 2, 2, columns, warps_m, 8, 4)
    ordered = split.transpose(0, 5, 6, 1, 3, 7, 2, 8, 4)
    shape = (warps_k, warps_n, warps_m, tiles_m * ATOM_M, tiles_n * ATOM_N)
    return ordered.reshape(-1, *shape)


def row_slots_of_source(op: sched.ReduceOp) -> IntArray:
    """The position, among the numbers of rows, of the row of each value of the source."""
    return _thread_values(op.destination).value_of(_thread_values(op.source))


def _thread_values(value: SSAValue) -> ThreadValues:
    assert isinstance(value.type, sched.TileType)  # verified
    return value.type.thread_values()
