"""Execution of ``sched`` kernels at the level of logical values.

Buffers and fragments are logical arrays, one a stage; their layouts do not matter here.  Copies
take effect at once, and commits, waits and barriers do nothing: a schedule that lacks one, or a
memory plan that overlaps buffers, still gives the right values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.chaining import rows_of
from mugraph.dialects.elementwise import Epilogue
from mugraph.dialects.maps import AXES, Bound
from mugraph.dialects.ragged import RaggedDim
from mugraph.dialects.rows import WARP
from mugraph.dialects.sched.structure import loops_of
from mugraph.dialects.tb import NOT_SPLIT, epilogue_of
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array
from mugraph.runtime.interpreter.blocks import (
    GRID_AXES,
    Frame,
    boxes,
    broadcast_bytes,
    constant_tile,
    padded,
    uniform_boxes,
)
from mugraph.runtime.interpreter.dispatch import make_interpreter
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import (
    apply_chain,
    apply_function,
    fall,
    max_groups,
    part_of,
    sum_groups,
)
from mugraph.runtime.interpreter.roles import Channel, run_side_by_side

WHOLE = (NOT_SPLIT,) * len(AXES)
"""The map of a tensor that no grid axis splits."""


def multiplies_in_tf32(op: sched.MmaOp) -> bool:
    """Whether the instruction of a product rounds its operands to TF32."""
    accumulator = op.accumulator.type
    mma = accumulator.tiled_mma if isinstance(accumulator, sched.FragmentType) else None
    return mma is not None and mma_atom(mma.atom).a_type == "tf32"


@dataclass(frozen=True)
class DeviceTile:
    """A tensor in device memory, and the tile of it that each block and iteration means."""

    tensor: Array
    map_: tuple[int, ...] = WHOLE
    fordim: int = NOT_SPLIT


@dataclass(frozen=True)
class Buffer:
    """A buffer or fragment: an array for each stage, ``None`` until one is written."""

    stages: list[Array | None]


@register_impls
class ScheduleFunctions(InterpreterFunctions):
    """One implementation an operator of ``sched`` that stands in a kernel."""

    def __init__(self, frame: Frame):
        self.frame = frame

    def read(self, operand: SSAValue, buffer: Buffer) -> Array:
        """What a buffer holds for the current iteration."""
        value = buffer.stages[self.frame.iteration % len(buffer.stages)]
        if value is None:
            raise ExecutionError(
                f"{value_label(operand)} is read in iteration {self.frame.iteration} before "
                "anything was written to it"
            )
        return value

    def write(
        self,
        destination: SSAValue,
        buffer: Buffer,
        value: Array,
        epilogue: Epilogue | None = None,
        iteration: int | None = None,
    ) -> None:
        """Applies an epilogue, rounds, and writes to the stage of an iteration."""
        if epilogue is not None:
            value = apply_chain(epilogue.functions, value)
            if epilogue.accumulates:
                value = self.read(destination, buffer) + value
        at = self.frame.iteration if iteration is None else iteration
        element_type = element_type_of(destination.type)
        buffer.stages[at % len(buffer.stages)] = self.frame.arithmetic.round(value, element_type)

    def write_part(
        self,
        destination: SSAValue,
        buffer: Buffer,
        value: Array,
        start: Sequence[int],
        *,
        accumulates: bool = False,
    ) -> None:
        """Writes, or adds to, the part of a buffer that begins at ``start``; the rest stays."""
        stages, shape = buffer.stages, value.shape[GRID_AXES:]
        before = stages[self.frame.iteration % len(stages)]
        axes = value.shape[:GRID_AXES]
        if before is not None:
            axes = np.broadcast_shapes(axes, before.shape[:GRID_AXES])
        whole = self.frame.arithmetic.full((*axes, *shape_of(destination.type)), 0.0)
        if before is not None:
            whole[...] = before
        part = part_of(whole, (*[0] * GRID_AXES, *start), (*axes, *shape))
        part[...] = part + value if accumulates else value
        self.write(destination, buffer, whole)

    @impl(sched.AllocOp)
    def run_alloc(
        self, interpreter: Interpreter, op: sched.AllocOp, args: PythonValues
    ) -> PythonValues:
        """A buffer with nothing in it."""
        return (Buffer([None] * op.stage_count),)

    @impl(sched.FragmentOp)
    def run_fragment(
        self, interpreter: Interpreter, op: sched.FragmentOp, args: PythonValues
    ) -> PythonValues:
        """Registers with nothing in them."""
        return (Buffer([None]),)

    @impl(sched.TileOp)
    def run_tile(
        self, interpreter: Interpreter, op: sched.TileOp, args: PythonValues
    ) -> PythonValues:
        """A tile of a whole tensor."""
        source: DeviceTile = args[0]
        if source.map_ != WHOLE or source.fordim != NOT_SPLIT:
            raise ExecutionError(
                f"{op_label(op)} is a tile of a tile; the interpreter cuts whole tensors only"
            )
        return (DeviceTile(source.tensor, op.map_, op.loop_dim),)

    def run_phase(
        self, interpreter: Interpreter, op: sched.PhaseOp, args: PythonValues
    ) -> PythonValues:
        """The operators of the phase, in order."""
        return interpreter.run_ssacfg_region(op.body, (), op.name)

    run_prologue = impl(sched.PrologueOp)(run_phase)
    run_epilogue = impl(sched.EpilogueOp)(run_phase)

    @impl(sched.ForloopOp)
    def run_forloop(
        self, interpreter: Interpreter, op: sched.ForloopOp, args: PythonValues
    ) -> PythonValues:
        """The body, once an iteration."""
        for iteration in range(op.iterations):
            self.frame.iteration = iteration
            interpreter.run_ssacfg_region(op.body, (), op.name)
        self.frame.iteration = 0
        return ()

    @impl(sched.CopyOp)
    def run_copy(
        self, interpreter: Interpreter, op: sched.CopyOp, args: PythonValues
    ) -> PythonValues:
        """Moves a tile at once, asynchronous or not."""
        iteration = self.frame.iteration + op.ahead_of
        if op.ahead_of and iteration >= self.frame.iterations:
            return ()
        if op.fixed_iteration is not None:
            iteration = op.fixed_iteration
        self.copy(op, args, iteration, op.ragged())
        return ()

    @impl(sched.BulkCopyOp)
    def run_bulk_copy(
        self, interpreter: Interpreter, op: sched.BulkCopyOp, args: PythonValues
    ) -> PythonValues:
        """Moves a tile at once."""
        if op.stage.happens_at(self.frame.iteration, self.frame.iterations):
            self.copy(op, args[:2], op.stage.iteration_at(self.frame.iteration))
        return ()

    def copy(
        self,
        op: sched.CopyOp | sched.BulkCopyOp,
        buffers: PythonValues,
        iteration: int,
        ragged: Sequence[RaggedDim] = (),
    ) -> None:
        """Moves the tile of an iteration; only what exists of it along ``ragged``."""
        source, destination = cast(tuple[DeviceTile | Buffer, DeviceTile | Buffer], buffers)
        if isinstance(source, DeviceTile) and isinstance(destination, Buffer):
            self.require_iteration(op, source, iteration)
            tiles = self.frame.tiles_of(source.tensor, source.map_, source.fordim, iteration)
            # What does not exist of a tile is zero in shared memory.
            loaded = padded(
                self.frame.arithmetic, self.frame.arithmetic.load(tiles), shape_of(op.source.type)
            )
            self.write(op.destination, destination, loaded, iteration=iteration)
        elif isinstance(source, Buffer) and isinstance(destination, DeviceTile):
            self.require_iteration(op, destination, iteration)
            value = self.read(op.source, source)
            first = self.frame.first_block()
            for entry in ragged:
                existing = entry.bound.existing(first, iteration)
                value = value[along(GRID_AXES + entry.dim, slice(0, existing))]
            # The tile's type may be narrower than the buffer's.
            value = self.frame.arithmetic.round(value, element_type_of(op.destination.type))
            self.frame.store_tiles(
                destination.tensor, destination.map_, destination.fordim, value, iteration
            )

    def require_iteration(self, op: Operation, tile: DeviceTile, iteration: int) -> None:
        """Raises ``ExecutionError`` for the tile of an iteration that does not happen."""
        if tile.fordim != NOT_SPLIT and iteration >= self.frame.iterations:
            raise ExecutionError(
                f"{op_label(op)} copies the tile of iteration {iteration}, but the loop has "
                f"{self.frame.iterations}"
            )

    def run_nothing(
        self, interpreter: Interpreter, op: Operation, args: PythonValues
    ) -> PythonValues:
        """Synchronisation, which has nothing to do where every write is seen at once."""
        return ()

    run_commit = impl(sched.CommitOp)(run_nothing)
    run_wait = impl(sched.WaitOp)(run_nothing)
    run_barrier = impl(sched.BarrierOp)(run_nothing)
    run_grid_wait = impl(sched.GridWaitOp)(run_nothing)
    run_grid_launch = impl(sched.GridLaunchOp)(run_nothing)
    run_proxy_fence = impl(sched.ProxyFenceOp)(run_nothing)
    run_bulk_wait = impl(sched.BulkWaitOp)(run_nothing)

    @impl(sched.ChannelOp)
    def run_channel(
        self, interpreter: Interpreter, op: sched.ChannelOp, args: PythonValues
    ) -> PythonValues:
        """A channel through which nothing has come."""
        return (Channel(op),)

    @impl(sched.RoleOp)
    def run_role(
        self, interpreter: Interpreter, op: sched.RoleOp, args: PythonValues
    ) -> PythonValues:
        """With the first role, all roles of the kernel, in turns; with others nothing."""
        roles = sched.roles_of(sched.enclosing_kernel(op))
        if op is roles[0]:
            run_side_by_side(roles, lambda step, at: self.run_step(interpreter, step, at))
            self.frame.iteration = 0
        return ()

    def run_step(self, interpreter: Interpreter, op: Operation, iteration: int) -> bool:
        """An operator of a role; false where it must wait."""
        self.frame.iteration = iteration
        if isinstance(op, sched.ChannelStepOp):
            if not op.stage.happens_at(iteration, self.frame.iterations):
                return True
            (channel,) = interpreter.get_values(op.operands)
            return channel.run(op, op.stage.iteration_at(iteration))
        values = interpreter.run_op(op, interpreter.get_values(op.operands))
        interpreter.set_values(zip(op.results, values, strict=True))
        return True

    @impl(sched.FillOp)
    def run_fill(
        self, interpreter: Interpreter, op: sched.FillOp, args: PythonValues
    ) -> PythonValues:
        """One value everywhere."""
        shape = shape_of(op.destination.type)
        value = constant_tile(self.frame.arithmetic, shape, op.value.value.data)
        self.write(op.destination, args[0], value)
        return ()

    @impl(sched.ElementwiseOp)
    def run_elementwise(
        self, interpreter: Interpreter, op: sched.ElementwiseOp, args: PythonValues
    ) -> PythonValues:
        """The scalar function of each element."""
        *buffers, destination = args
        sources = [
            self.read(operand, buffer) for operand, buffer in zip(op.sources, buffers, strict=True)
        ]
        value = apply_function(op.function.data, *sources)
        self.write(op.destination, destination, value, epilogue_of(op))
        return ()

    @impl(sched.MaskOp)
    def run_mask(
        self, interpreter: Interpreter, op: sched.MaskOp, args: PythonValues
    ) -> PythonValues:
        """The source, with the constant where elements do not exist."""
        source = self.read(op.source, args[0])
        shape = list(source.shape)
        kept = source
        for entry in op.ragged:
            shape[GRID_AXES + entry.dim] = self.frame.existing(entry.bound)
            kept = kept[along(GRID_AXES + entry.dim, slice(0, shape[GRID_AXES + entry.dim]))]
        value = padded(self.frame.arithmetic, kept, source.shape[GRID_AXES:], op.constant)
        self.write(op.destination, args[1], value, epilogue_of(op))
        return ()

    @impl(sched.ReduceOp)
    def run_reduce(
        self, interpreter: Interpreter, op: sched.ReduceOp, args: PythonValues
    ) -> PythonValues:
        """Sums of groups along one dimension, or their largest elements."""
        dim = op.reduced_dim
        results = shape_of(op.destination.type)[dim]
        source = self.read(op.source, args[0])
        if op.combination is sched.Combiner.SUM:
            value = sum_groups(source, GRID_AXES + dim, op.groups(), results)
            self.write(op.destination, args[1], value, epilogue_of(op))
            return ()
        value = max_groups(source, GRID_AXES + dim, op.groups(), results)
        epilogue = epilogue_of(op)
        value = apply_chain(epilogue.functions, value)
        earlier = self.read(op.destination, args[1]) if epilogue.accumulates else None
        self.write(
            op.destination, args[1], value if earlier is None else np.maximum(earlier, value)
        )
        if op.difference is not None and earlier is not None:
            change = fall(earlier, self.read(op.destination, args[1]))
            self.write(op.difference, args[2], change)
        return ()

    @impl(sched.ReduceWarpsOp)
    def run_reduce_warps(
        self, interpreter: Interpreter, op: sched.ReduceWarpsOp, args: PythonValues
    ) -> PythonValues:
        """Sums, or the largest elements, of what each warp holds of each row."""
        rows = op.rows
        if rows is None:
            raise ExecutionError(f"{op_label(op)}: the warps of {op.partition} are not modelled")
        value = self.read(op.source, args[0])
        axis = GRID_AXES + rows.dim
        is_sum = op.combination is sched.Combiner.SUM
        # A row is rounds of vectors of the warps' lanes, in this order; a single one may end early.
        of_warp = rows.partition.vector * WARP
        whole = list(value.shape[GRID_AXES:])
        whole[rows.dim] = rows.results * rows.rounds * rows.warps * of_warp
        value = padded(self.frame.arithmetic, value, whole, 0.0 if is_sum else -np.inf)
        split = (*value.shape[:axis], rows.results, rows.rounds, rows.warps, of_warp)
        parts = value.reshape(*split, *value.shape[axis + 1 :])
        combine = np.add if is_sum else np.maximum
        parts = combine.reduce(combine.reduce(parts, axis + 3), axis + 1)
        merged = (*value.shape[:axis], rows.results * rows.warps, *value.shape[axis + 1 :])
        self.write(op.destination, args[1], parts.reshape(merged))
        return ()

    @impl(sched.MoveOp)
    def run_move(
        self, interpreter: Interpreter, op: sched.MoveOp, args: PythonValues
    ) -> PythonValues:
        """A part of a buffer."""
        value = self.read(op.source, args[0])
        start, shape = op.start, shape_of(op.part.type)
        if op.part is op.destination:
            box = (*value.shape[:GRID_AXES], *shape)
            self.write(op.destination, args[1], part_of(value, (*[0] * GRID_AXES, *start), box))
            return ()
        self.write_part(op.destination, args[1], value, start)
        return ()

    @impl(sched.MmaOp)
    def run_mma(
        self, interpreter: Interpreter, op: sched.MmaOp, args: PythonValues
    ) -> PythonValues:
        """Adds the product to the accumulator."""
        lhs, rhs, accumulator = args
        matrices = [self.read(op.lhs, lhs), self.read(op.rhs, rhs)]
        if multiplies_in_tf32(op):
            matrices = [self.frame.arithmetic.multiplicand(matrix) for matrix in matrices]
        if op.at is not None:
            *_, rows, columns = shape_of(op.accumulator.type)
            *_, row, column = op.start
            left, right = matrices
            matrices = [left[..., row : row + rows, :], right[..., :, column : column + columns]]
        multiply = partial(self._products_of_parts, op) if op.parts > 1 else np.matmul
        product = multiply(*matrices)
        self.write(op.accumulator, accumulator, product, Epilogue(accumulates=True))
        return ()

    def _products_of_parts(self, op: sched.MmaOp, left: Array, right: Array) -> Array:
        """The products over the steps of k that each of the warps along k takes, side by side."""
        accumulator = op.accumulator.type
        mma = accumulator.tiled_mma if isinstance(accumulator, sched.FragmentType) else None
        assert mma is not None
        step = mma_atom(mma.atom).shape_mnk[2]
        taken = -(-left.shape[-1] // step)
        taker: npt.NDArray[np.int64] = np.arange(left.shape[-1], dtype=np.int64) // step % op.parts
        axes = np.broadcast_shapes(left.shape[:GRID_AXES], right.shape[:GRID_AXES])
        extents = (*left.shape[GRID_AXES:-1], right.shape[-1])
        products = self.frame.arithmetic.full((*axes, op.parts, *extents), 0.0)
        for part in range(min(op.parts, taken)):
            product = np.matmul(left[..., taker == part], right[..., taker == part, :])
            products[(*(slice(None),) * GRID_AXES, part)] = product
        return products

    @impl(sched.WarpgroupMmaOp)
    def run_warpgroup_mma(
        self, interpreter: Interpreter, op: sched.WarpgroupMmaOp, args: PythonValues
    ) -> PythonValues:
        """Adds the product to the accumulator."""
        lhs, rhs, accumulator = args
        product = np.matmul(self.read(op.lhs, lhs), self.read(op.rhs, rhs))
        self.write(op.accumulator, accumulator, product, Epilogue(accumulates=True))
        return ()

    @impl(sched.WarpgroupWaitOp)
    def run_warpgroup_wait(
        self, interpreter: Interpreter, op: sched.WarpgroupWaitOp, args: PythonValues
    ) -> PythonValues:
        """Nothing: at this level products are finished where they stand."""
        return ()

    @impl(sched.StoreOp)
    def run_store(
        self, interpreter: Interpreter, op: sched.StoreOp, args: PythonValues
    ) -> PythonValues:
        """Writes a fragment to a buffer through its epilogue."""
        value, epilogue = self.read(op.source, args[0]), epilogue_of(op)
        if isinstance(args[1], DeviceTile):
            self.write_tile(op.destination, args[1], apply_chain(epilogue.functions, value))
            return ()
        if op.at is None:
            self.write(op.destination, args[1], value, epilogue)
            return ()
        value = apply_chain(epilogue.functions, value)
        self.write_part(op.destination, args[1], value, op.start, accumulates=epilogue.accumulates)
        return ()

    @impl(sched.SumPartsOp)
    def run_sum_parts(
        self, interpreter: Interpreter, op: sched.SumPartsOp, args: PythonValues
    ) -> PythonValues:
        """The parts added one by one."""
        parts = self.read(op.source, args[0])
        every = (slice(None),) * GRID_AXES
        value = parts[(*every, 0)]
        for part in range(1, op.parts):
            value = value + parts[(*every, part)]
        self.write(op.destination, args[1], value, epilogue_of(op))
        return ()

    @impl(sched.QuadStoreOp)
    def run_quad_store(
        self, interpreter: Interpreter, op: sched.QuadStoreOp, args: PythonValues
    ) -> PythonValues:
        """Writes a fragment to device memory through its epilogue."""
        value = apply_chain(epilogue_of(op).functions, self.read(op.source, args[0]))
        self.write_tile(op.destination, cast(DeviceTile, args[1]), value)
        return ()

    def write_tile(self, destination: SSAValue, tile: DeviceTile, value: Array) -> None:
        """Rounds, and writes the tiles of the blocks and the current iteration."""
        value = self.frame.arithmetic.round(value, element_type_of(destination.type))
        self.frame.store_tiles(tile.tensor, tile.map_, tile.fordim, value, self.frame.iteration)

    @impl(sched.AccumulateOp)
    def run_accumulate(
        self, interpreter: Interpreter, op: sched.AccumulateOp, args: PythonValues
    ) -> PythonValues:
        """Adds a fragment to another through its epilogue, whether that says ``accum`` or not."""
        value = self.read(op.source, args[0])
        epilogue = Epilogue(epilogue_of(op).functions, accumulates=True)
        self.write(op.destination, args[1], value, epilogue)
        return ()

    @impl(sched.LoadOp)
    def run_load(
        self, interpreter: Interpreter, op: sched.LoadOp, args: PythonValues
    ) -> PythonValues:
        """A matrix as it is."""
        self.write(op.destination, args[1], self.read(op.source, args[0]))
        return ()

    @impl(sched.LoadColumnsOp)
    def run_load_columns(
        self, interpreter: Interpreter, op: sched.LoadColumnsOp, args: PythonValues
    ) -> PythonValues:
        """The numbers side by side."""
        value = self.read(op.source, args[0])
        shape = shape_of(op.destination.type)
        value = value.reshape(*value.shape[:GRID_AXES], *shape)
        self.write(op.destination, args[1], value, epilogue_of(op))
        return ()

    @impl(sched.MapOp)
    def run_map(
        self, interpreter: Interpreter, op: sched.MapOp, args: PythonValues
    ) -> PythonValues:
        """The scalar function of each value."""
        *buffers, destination = args
        sources = [
            self.read(operand, buffer) for operand, buffer in zip(op.sources, buffers, strict=True)
        ]
        value = apply_function(op.function.data, *sources)
        whole = (*value.shape[:GRID_AXES], *shape_of(op.destination.type))
        if tuple(value.shape) != whole:
            value = value + np.zeros(whole)
        self.write(op.destination, destination, value, epilogue_of(op))
        return ()

    @impl(sched.ReduceRowsOp)
    def run_reduce_rows(
        self, interpreter: Interpreter, op: sched.ReduceRowsOp, args: PythonValues
    ) -> PythonValues:
        """Sums of rows or their largest values, or those of what each lane holds of them."""
        source = self.read(op.source, args[0])
        before = source.shape[:-1]
        if op.is_partial:
            held = columns_of_lanes(op)
            grouped = source[..., np.concatenate(held)].reshape(*before, len(held), len(held[0]))
        else:
            grouped = source.reshape(*before, 1, source.shape[-1])
        if op.combination is sched.Combiner.SUM:
            value = grouped.sum(axis=-1)
        else:
            value = grouped.max(axis=-1)
        epilogue = epilogue_of(op)
        if op.combination is sched.Combiner.SUM:
            self.write(op.destination, args[1], value, epilogue)
            return ()
        value = apply_chain(epilogue.functions, value)
        earlier = self.read(op.destination, args[1]) if epilogue.accumulates else None
        self.write(
            op.destination, args[1], value if earlier is None else np.maximum(earlier, value)
        )
        if op.difference is not None and earlier is not None:
            change = fall(earlier, self.read(op.destination, args[1]))
            self.write(op.difference, args[2], change)
        return ()


def columns_of_lanes(op: sched.ReduceRowsOp) -> Sequence[Sequence[int]]:
    """The columns of a product's fragment that each lane holds of a row."""
    source = op.source.type
    mma = source.tiled_mma if isinstance(source, sched.FragmentType) else None
    assert mma is not None  # verified
    atom = mma_atom(mma.atom)
    width, columns = atom.shape_mnk[1], shape_of(source)[-1]
    rows = rows_of(atom)
    first = [
        sorted({at for at, slot in zip(held, rows.slot_of_value, strict=True) if slot == 0})
        for held in rows.columns
    ]
    return [[start + at for start in range(0, columns, width) for at in held] for held in first]


def _buffer_bytes(kernel: sched.KernelOp, arithmetic: Arithmetic, box: Sequence[int]) -> int:
    """What all stages of all buffers take, were they different in every block."""
    axes = set(range(len(box)))
    total = 0
    for op in kernel.body.walk():
        if isinstance(op, sched.AllocOp | sched.FragmentOp):
            stages = op.stage_count if isinstance(op, sched.AllocOp) else 1
            total += stages * broadcast_bytes(arithmetic, box, axes, shape_of(op.result.type))
    return total


def _bounds(kernel: sched.KernelOp) -> list[Bound]:
    """All that says which elements of tiles exist."""
    return [
        bound
        for op in kernel.body.walk()
        if isinstance(op, sched.TileOp)
        for bound in op.bounds()
        if bound is not None
    ]


def along(axis: int, index: slice) -> tuple[slice, ...]:
    """The index that takes part of one axis."""
    return (*[slice(None)] * axis, index)


def _iterations(kernel: sched.KernelOp) -> int:
    """How often the loops that move the kernel's tiles run; 1 where there is none."""
    loops = loops_of(kernel)
    return loops[0].iterations if loops else 1


def run_kernel(
    launch: sched.LaunchOp, inputs: Sequence[Array], arithmetic: Arithmetic, module: ModuleOp
) -> tuple[Array, ...]:
    """The results of a ``sched.launch`` on tensors in device memory."""
    try:
        kernel = launch.resolve()
    except VerifyException as error:
        raise ExecutionError(str(error)) from error
    results = tuple(arithmetic.empty(output.type) for output in launch.outputs)
    tensors = [DeviceTile(tensor) for tensor in (*inputs, *results)]
    if len(inputs) != kernel.input_count or len(tensors) != len(kernel.body.block.args):
        raise ExecutionError(
            f"{op_label(launch)} passes {len(inputs)} tensors and takes {len(results)} results; "
            f"{op_label(kernel)} reads {kernel.input_count} and writes "
            f"{len(kernel.body.block.args) - kernel.input_count}"
        )
    whole = boxes(kernel.grid_dim, lambda extents: _buffer_bytes(kernel, arithmetic, extents))
    for box in uniform_boxes(whole, _bounds(kernel)):
        frame = Frame(arithmetic, kernel.grid_dim, _iterations(kernel), box)
        interpreter = make_interpreter(module, ScheduleFunctions(frame))
        interpreter.run_ssacfg_region(kernel.body, tuple(tensors), "kernel")
    return results
