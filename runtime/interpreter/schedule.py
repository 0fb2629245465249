"""Execution of ``sched`` kernels at the level of logical values.

Buffers and fragments are logical arrays, one a stage; their layouts do not matter here.  What
``cp.async`` copies, and what warp groups multiply asynchronously, is there once it has been waited
for.  Bulk copies to device memory take effect at once, and barriers do nothing: a schedule that
lacks one, or a memory plan that overlaps buffers, still gives the right values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.dialects.maps import Bound
from mugraph.dialects.sched.domain import spans_of, with_count, with_lengths
from mugraph.dialects.sched.structure import most_iterations
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.passes.schedule.lower_rings import with_lowered_rings
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array
from mugraph.runtime.interpreter.block_lists import (
    ListFrame,
    block_lists,
    require_clusters,
    within,
)
from mugraph.runtime.interpreter.blocks import (
    GRID_AXES,
    MEMORY_BYTES,
    Frame,
    boxes,
    broadcast_bytes,
    uniform_boxes,
)
from mugraph.runtime.interpreter.dispatch import make_interpreter
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.lengths import LengthsOfBlocks, lengths_in
from mugraph.runtime.interpreter.schedule_buffers import DeviceTile, ScheduleFunctions
from mugraph.runtime.interpreter.schedule_compute import ComputeFunctions
from mugraph.runtime.interpreter.schedule_products import ProductFunctions


def _buffer_bytes(kernel: sched.KernelOp, arithmetic: Arithmetic, box: Sequence[int]) -> int:
    """What all stages of all buffers take, were they different in every block."""
    axes = set(range(len(box)))
    total = 0
    for op in kernel.body.walk():
        if isinstance(op, sched.AllocOp | sched.EmptyOp):
            stages = op.stage_count if isinstance(op, sched.AllocOp) else 1
            total += stages * broadcast_bytes(arithmetic, box, axes, shape_of(op.result.type))
    return total


def _bounds(kernel: sched.KernelOp, numbers: Mapping[SSAValue, int]) -> list[Bound]:
    """All that says which elements of tiles exist."""
    return [
        bound
        for op in kernel.body.walk()
        if isinstance(op, sched.LocalTileOp)
        for bound in op.slicing({dim: numbers[end] for dim, end in op.end_of.items()}).bounds()
        if bound is not None
    ]


def _frames(
    kernel: sched.KernelOp,
    arithmetic: Arithmetic,
    numbers: Mapping[SSAValue, int],
    lengths: LengthsOfBlocks,
) -> Iterator[Frame]:
    """Blocks that run at once, until all with some lengths have.

    ``numbers`` are the kernel's arguments.
    """
    iterations = most_iterations(kernel)
    arguments = kernel.body.block.args
    grid = kernel.grid_at({cut.argument: numbers[arguments[cut.argument]] for cut in kernel.cuts})
    bounds = _bounds(kernel, numbers)
    if kernel.persistent_blocks is None:
        whole = boxes(grid, lambda extents: _buffer_bytes(kernel, arithmetic, extents))
        for box in filter(None, map(lengths.part_of, uniform_boxes(whole, bounds))):
            for span, part in spans_of(kernel, box):
                yield Frame(arithmetic, grid, span.count, part, first=span.first)
        return
    # Tiles of several blocks have equally many elements that exist only where all do.
    of_one = 1 if bounds else _buffer_bytes(kernel, arithmetic, [1] * GRID_AXES)
    together = 1 if bounds else max(MEMORY_BYTES // max(of_one, 1), 1)
    for lists in block_lists(kernel, grid=grid):
        for some in within(lists, together):
            yield ListFrame.of(some, arithmetic, grid, iterations)


def run_kernel(
    launch: sched.LaunchOp, inputs: Sequence[Array], arithmetic: Arithmetic, module: ModuleOp
) -> tuple[Array, ...]:
    """The results of a ``sched.launch`` on tensors in device memory."""
    try:
        kernel = with_lowered_rings(launch.resolve())
    except VerifyException as error:
        raise ExecutionError(str(error)) from error
    require_clusters(kernel)
    results = tuple(arithmetic.empty(output.type) for output in launch.outputs)
    for lengths in lengths_in(kernel, inputs, kernel.grid_dim):
        _run_blocks(kernel, lengths, launch, inputs, results, arithmetic, module)
    return results


def _run_blocks(
    kernel: sched.KernelOp,
    lengths: LengthsOfBlocks,
    launch: sched.LaunchOp,
    inputs: Sequence[Array],
    results: Sequence[Array],
    arithmetic: Arithmetic,
    module: ModuleOp,
) -> None:
    """Runs the blocks of a launch that have some lengths."""
    kernel = with_lengths(kernel, lengths.values)
    if kernel.persistent_blocks is not None:
        # Tiles that several lists share are copied for each.
        inputs = [arithmetic.load(tensor) if tensor.shape else tensor for tensor in inputs]
    arguments = list(zip(kernel.body.block.args, (*inputs, *results), strict=False))
    tensors = [
        int(value) if isinstance(parameter.type, IndexType) else DeviceTile.whole(value)
        for parameter, value in arguments
    ]
    numbers: dict[SSAValue, int] = {
        parameter: int(value)
        for parameter, value in arguments
        if isinstance(parameter.type, IndexType)
    }
    if len(inputs) != kernel.input_count or len(tensors) != len(kernel.body.block.args):
        raise ExecutionError(
            f"{op_label(launch)} passes {len(inputs)} tensors and takes {len(results)} results; "
            f"{op_label(kernel)} reads {kernel.input_count} and writes "
            f"{len(kernel.body.block.args) - kernel.input_count}"
        )
    kernels: dict[int, sched.KernelOp] = {}
    for frame in _frames(kernel, arithmetic, numbers, lengths):
        count = frame.iterations
        own = kernels[count] if count in kernels else with_count(kernel, count)
        kernels[count] = own
        functions = ScheduleFunctions(frame)
        families = ComputeFunctions(functions), ProductFunctions(functions)
        interpreter = make_interpreter(module, functions, *families)
        interpreter.set_values(zip(own.body.block.args, tensors, strict=True))
        functions.run_body(own, interpreter)
