"""Runs the kernels of ``sched`` at the level of addresses: which blocks, and warps in which order.

Between two barriers nothing orders the warps of a block.  Where an order is asked for, each warp
in turn runs everything up to the next barrier, so that a missing barrier shows as a wrong number
under some order.  Otherwise every operator runs for all threads of a block at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from mugraph.dialects import sched
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.custom import is_part_of_step
from mugraph.dialects.sched.domain import fewest_iterations, with_count, with_lengths
from mugraph.dialects.sched.mappings import IntArray
from mugraph.dialects.sched.structure import loop_iterations, most_iterations
from mugraph.dialects.spans import Span, span_of
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.schedule.lower_rings import with_lowered_rings
from mugraph.runtime.interpreter.address_bulk import BulkFunctions
from mugraph.runtime.interpreter.address_compute import ComputeFunctions
from mugraph.runtime.interpreter.address_level import AddressFrame, AddressFunctions, Landing
from mugraph.runtime.interpreter.address_plans import Plans, Threads
from mugraph.runtime.interpreter.address_products import ProductFunctions
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.block_lists import block_lists, require_clusters, within
from mugraph.runtime.interpreter.dispatch import make_interpreter
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.lengths import lengths_in
from mugraph.runtime.interpreter.memory import DeviceTensor, DeviceTile, SharedMemory
from mugraph.runtime.interpreter.roles import (
    Choose,
    RoleMachine,
    Step,
    Unit,
    first_of,
    is_declaration,
    steps_of,
    units_of,
)

MEMORY_BYTES = 2**25
"""About how much shared memory the blocks that run together may have."""

TOGETHER, FORWARD, REVERSED = "together", "forward", "reversed"
"""The orders of warps that have names; a number is the seed of random ones."""


@dataclass(frozen=True)
class AddressLevel:
    """How kernels run at the level of addresses.

    ``order``: "together", "forward" and "reversed" (the warps of a block between two barriers), or
    the seed of a random order for each stretch between barriers.  ``landing``: when asynchronous
    copies land.  ``sample``: how many blocks of each grid run, ``None`` for all of them; see
    :func:`block_lists`.
    """

    order: str | int = TOGETHER
    landing: Landing = Landing.LATEST
    sample: int | None = None


@dataclass
class KernelRun:
    """What a launch gave: results, where they were written, and the blocks that ran."""

    results: tuple[Array, ...]
    written: tuple[npt.NDArray[np.bool_], ...]
    blocks: IntArray = field(repr=False)


def stretches_of(operators: Iterable[Operation]) -> Iterator[list[Step]]:
    """What a block executes between two barriers, one list a stretch; declarations left out."""
    stretch: list[Step] = []
    for step in steps_of(operators):
        if isinstance(step.op, sched.BarrierOp):
            yield stretch
            stretch = []
        elif not is_declaration(step.op):
            stretch.append(step)
    yield stretch


def warps_in(threads: int) -> list[Threads]:
    """The warps of a block, the last one perhaps not whole."""
    return [slice(first, min(first + WARP, threads)) for first in range(0, threads, WARP)]


def _orders(order: str | int, threads: int) -> Iterator[list[Threads]]:
    """Who runs a stretch, in turn, for one stretch after the other."""
    warps = warps_in(threads)
    generator = np.random.default_rng(order) if isinstance(order, int) else None
    while True:
        if generator is not None:
            yield [warps[index] for index in generator.permutation(len(warps))]
        elif order == FORWARD:
            yield warps
        elif order == REVERSED:
            yield warps[::-1]
        else:
            yield [slice(0, threads)]


def _choice(order: str | int) -> Choose:
    """Which warp of a role goes on, in an order."""
    if isinstance(order, int):
        generator = np.random.default_rng(order)
        return lambda units: units[int(generator.integers(len(units)))]
    return (lambda units: units[-1]) if order == REVERSED else first_of


def _run_roles(
    kernel: sched.KernelOp, interpreter: Interpreter, functions: BulkFunctions, order: str | int
) -> None:
    """Copies that land as late as they can do so when no warp can go on without them."""
    frame = functions.functions.frame

    def run_operator(unit: Unit, op: Operation) -> None:
        frame.threads, frame.first_thread = unit.threads, unit.role.first_thread
        if not is_declaration(op):
            interpreter.run_op(op, interpreter.get_values(op.operands))

    units = units_of(sched.roles_of(kernel), len(frame.lists), together=order == TOGETHER)
    machine = RoleMachine(interpreter, frame, run_operator, functions.land, _choice(order))
    machine.run(units)
    frame.first_thread = 0


def _run_blocks(
    kernel: sched.KernelOp, interpreter: Interpreter, functions: BulkFunctions, order: str | int
) -> None:
    frame = functions.functions.frame
    for op in kernel.body.walk():
        if is_declaration(op) and not is_part_of_step(op):
            values = interpreter.run_op(op, interpreter.get_values(op.operands))
            interpreter.set_values(zip(op.results, values, strict=True))
    _set_tiles(kernel, interpreter)
    orders = _orders(order, kernel.threads)
    for of_roles, group in itertools.groupby(
        kernel.body.block.ops, lambda op: isinstance(op, sched.RoleOp)
    ):
        if of_roles:
            _run_roles(kernel, interpreter, functions, order)
            continue
        for stretch, order_of_stretch in zip(stretches_of(group), orders, strict=False):
            for threads in order_of_stretch:
                frame.threads = threads
                for step in stretch:
                    frame.iteration = step.iteration
                    interpreter.run_op(step.op, interpreter.get_values(step.op.operands))
    functions.finish()


def _set_tiles(kernel: sched.KernelOp, interpreter: Interpreter) -> None:
    """Lets all values of a tile be the registers that it is in; tokens stand for nothing here."""
    values = [
        value
        for op in kernel.body.walk()
        for value in (*op.results, *(arg for region in op.regions for arg in region.block.args))
    ]
    interpreter.set_values((v, None) for v in values if isinstance(v.type, sched.TokenType))
    tiles = [value for value in values if sched.is_tile(value)]
    held = interpreter.get_values([sched.registers_of(value) for value in tiles])
    interpreter.set_values(zip(tiles, held, strict=True))


def _running(
    kernel: sched.KernelOp, lists: Iterable[IntArray], together: int
) -> Iterator[tuple[Span, IntArray]]:
    """Lists of blocks that run at once, all of them the same iterations."""
    forms, iterations = kernel.domain_forms(), most_iterations(kernel)
    for some in lists:
        # Blocks of persistent kernels, which take several of the grid, run all iterations.
        first_blocks = some[0].tolist() if forms else some[0, :1].tolist() * some.shape[1]
        fewest = fewest_iterations(kernel)
        spans = [span_of(forms, block, iterations, fewest) for block in first_blocks]
        for span in dict.fromkeys(spans):
            alike = some[:, [span == own for own in spans]]
            yield from ((span, part) for part in within(alike, together))


def _running_kernels(
    kernel: sched.KernelOp, inputs: Sequence[Array], lists: Sequence[IntArray], together: int
) -> Iterator[tuple[sched.KernelOp, Span, IntArray]]:
    """The same, each with the kernel for the lengths and the iterations that its blocks have."""
    kernels: dict[tuple[int, ...], sched.KernelOp] = {}
    for lengths in lengths_in(kernel, inputs, kernel.grid_dim):
        known = with_lengths(kernel, lengths.values)
        chosen = [some for some in map(lengths.blocks_of, lists) if some.size]
        for span, running in _running(known, chosen, together):
            which = (*lengths.values, span.count)
            yield kernels.setdefault(which, with_count(known, span.count)), span, running


def run_kernel_by_address(
    launch: sched.LaunchOp,
    inputs: Sequence[Array],
    level: AddressLevel,
    module: ModuleOp,
    plans: Plans,
) -> KernelRun:
    """The results of a ``sched.launch`` on logical arrays.

    What no block wrote is NaN.  Raises ``ExecutionError`` where the kernel has no memory plan, or
    has an operator that is not modelled, or an access outside of memory.
    """
    try:
        kernel = with_lowered_rings(launch.resolve())
        loop_iterations(kernel)  # it is known
    except VerifyException as error:
        raise ExecutionError(str(error)) from error
    if kernel.smem_bytes is None:
        raise ExecutionError(
            f"{op_label(kernel)} has no shared-memory plan; run --plan-stensor-memory first"
        )
    require_clusters(kernel)
    parameters = kernel.body.block.args
    given, taken = parameters[: kernel.input_count], parameters[kernel.input_count :]
    tensors = [DeviceTensor.of(value, array) for value, array in zip(given, inputs, strict=True)]
    results = [DeviceTensor.empty(value) for value in taken]
    lists = block_lists(kernel, level.sample)
    together = max(MEMORY_BYTES // max(kernel.smem_bytes, 1), 1)
    for own, span, running in _running_kernels(kernel, inputs, lists, together):
        memory = SharedMemory(running.shape[1], kernel.smem_bytes)
        threads = slice(0, kernel.threads)
        frame = AddressFrame(running, span.count, memory, threads, level.landing, span.first)
        functions = AddressFunctions(frame, plans)
        bulk = BulkFunctions(functions)
        families = ComputeFunctions(functions), ProductFunctions(functions)
        interpreter = make_interpreter(module, functions, bulk, *families)
        start = np.zeros(running.shape[:2], np.int64)
        tiles = [DeviceTile(tensor, start) for tensor in (*tensors, *results)]
        interpreter.set_values(zip(own.body.block.args, tiles, strict=True))
        try:
            _run_blocks(own, interpreter, bulk, level.order)
        except DiagnosticException as error:
            raise ExecutionError(str(error)) from error
    return KernelRun(
        tuple(tensor.logical() for tensor in results),
        tuple(tensor.logical_written() for tensor in results),
        np.concatenate([each.reshape(-1, 3) for each in lists]),
    )
