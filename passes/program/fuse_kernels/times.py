"""How long kernels take that operators of a program become."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.alignment import row_alignment
from mugraph.dialects.element_types import element_type_name
from mugraph.dialects.indirect import ReadsRows
from mugraph.dialects.kn import (
    CopyOp,
    CustomizedOp,
    ElementwiseOp,
    MatmulOp,
    RegroupOp,
    ScanOp,
)
from mugraph.dialects.kn.customized import match_arguments
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.dialects.tensor_types import (
    bytes_of,
    element_bytes_of,
    element_type_of,
    layout_of,
    row_major_strides,
    shape_of,
    strides_of,
    without_layout,
)
from mugraph.passes.costs.devices import links_between, sent_beside
from mugraph.passes.costs.kernels import LAUNCH_NS, estimate
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.costs.scans import ScanShape, later_rounds_ns
from mugraph.passes.costs.work import ITERATION_CYCLES, WARP_CYCLES
from mugraph.passes.mugraph.plan.choose import require_cuttable, space_of, tiles_of
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.plan.tiles import TakesLongerError, choose_least_time
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.partition import choose_partition, partition_of
from mugraph.passes.program.fuse_kernels.copied import is_free
from mugraph.passes.targets import Target


def moved_bytes(values: Iterable[SSAValue]) -> int:
    """The bytes of some tensors, each once."""
    return sum(bytes_of(value.type) for value in {*values})


def least_time(operands: Iterable[SSAValue], stored: Iterable[SSAValue], target: Target) -> float:
    """Nanoseconds that a kernel takes at least that reads some tensors and writes others."""
    return (
        LAUNCH_NS + target.memory_latency_ns + device_ns(moved_bytes([*operands, *stored]), target)
    )


def product_time(operators: Iterable[Operation], target: Target) -> float:
    """Nanoseconds that a kernel takes at least for the products of matrices among operators.

    Matrices that are made of numbers of 8 bits may be multiplied as these (``--factor-products``).
    """
    products = [op for op in operators if isinstance(op, MatmulOp)]
    cycles = sum(fastest_cycles(op, target, _made_of(op.lhs, op.rhs)) for op in products)
    return LAUNCH_NS + cycles / target.multiprocessors / target.clock_ghz if cycles else 0.0


def _made_of(*matrices: SSAValue) -> str | None:
    """The type of 8 bits of which all elements of matrices are made one by one, if there is one."""
    types: set[str] = set()
    for value in matrices:
        whole = math.prod(shape_of(value.type))
        while isinstance(op := value.owner, ElementwiseOp | RegroupOp):
            sources = [v for v in op.operands if math.prod(shape_of(v.type)) == whole]
            if not sources:
                return None
            value = sources[0]
        if element_bytes_of(value.type) != 1:
            return None
        types.add(element_type_name(element_type_of(value.type)))
    return min(types)


def library_time(op: MatmulOp, target: Target) -> float:
    """Nanoseconds of a product of two matrices by cuBLAS; infinite for several, not measured.

    Of few results of deep sums each multiprocessor loads the operands of its part, which is at
    best a square, iteration by iteration: 197 x 768 x 3072 took 8.3 us on an H200, its products
    at the rate of the others 5.7.  Uneven rows of few rows come at the rate of device memory: 1 x
    50257 x 1001 took 33.5 us.
    """
    if math.prod(shape_of(op.result.type)[:-2]) > 1:
        return math.inf
    cycles = fastest_cycles(op, target) / target.multiprocessors
    moved = device_ns(moved_bytes([*op.operands, *op.results]), target)
    aligned = min(_row_alignment(value) for value in (*op.operands, op.result))
    cycles *= UNALIGNED.get(aligned, max(UNALIGNED.values()))
    return max(
        LIBRARY_START_NS + LIBRARY_PRODUCTS * cycles / target.clock_ghz,
        LIBRARY_START_NS + LIBRARY_BYTES * moved,
        library_loads(op, target),
    )


def library_loads(op: MatmulOp, target: Target) -> float:
    """Nanoseconds of one wave of blocks that load what they multiply, in one or two parts."""
    *_, rows, columns = shape_of(op.result.type)
    least = LIBRARY_TILE + min(rows, columns, LIBRARY_TILE // 2)
    row_bytes = shape_of(op.lhs.type)[-1] * element_bytes_of(op.lhs.type)

    def time(parts: int) -> float:
        side = math.sqrt(parts * rows * columns / target.multiprocessors)
        loaded = max(2 * side, least) * row_bytes / parts
        return loaded / LIBRARY_LOADS / target.clock_ghz + (parts - 1) * LIBRARY_COMBINED_NS

    return LIBRARY_LOADS_START_NS + min(time(1), time(2))


def beats_library(op: MatmulOp, time: float, by_library: float) -> bool:
    """Whether a kernel that is estimated to take so long replaces a product by cuBLAS.

    15 products of 1 to 48 rows in 16 bits took 0.51 to 1.06 of cuBLAS's time on an H200, 0.81 in
    the geometric mean, and one of 202 rows, which is estimated to take longer, 1.13; one of 197
    rows whose result stays in f32 took 0.82.  Of uneven rows cuBLAS took 0.9 to 3.8 times as long
    as a kernel.
    """
    if is_slow_in_library(op):
        return time < by_library < math.inf
    in_16_bits = element_bytes_of(op.lhs.type) == 2
    start = LIBRARY_START_NS
    return in_16_bits and time < start + WORTH_A_KERNEL * (by_library - start) < math.inf


def is_slow_in_library(op: MatmulOp) -> bool:
    """Whether cuBLAS has other kernels for a product, as rows are no multiple of 16 bytes."""
    return any(_row_alignment(value) < VECTOR_BYTES for value in (*op.operands, op.result))


def _row_alignment(value: SSAValue) -> int:
    """The bytes, 16 at most, of which the rows of a matrix, or its columns, are a multiple."""
    layout = layout_of(value.type)
    wide = shape_of(value.type)[-1] if layout is None else max(strides_of(layout)[-2:])
    return math.gcd(wide * element_bytes_of(value.type), VECTOR_BYTES)


def scan_time(operators: Iterable[Operation], target: Target) -> float:
    """Nanoseconds that a kernel takes at least for the scans among operators, step by step."""
    steps = (shape_of(op.input.type)[op.reduced_dim] for op in operators if isinstance(op, ScanOp))
    cycles = (ITERATION_CYCLES + WARP_CYCLES) * max(steps, default=0)
    return LAUNCH_NS + cycles / target.clock_ghz if cycles else 0.0


def fastest_cycles(op: MatmulOp | tb.MatmulOp, target: Target, element: str | None = None) -> float:
    """Cycles of one multiprocessor for a product by the fastest instruction of a type: its own,
    where none is given."""
    macs = math.prod(shape_of(op.result.type)) * shape_of(op.lhs.type)[-1]
    name = element or element_type_name(element_type_of(op.lhs.type))
    if element is None and op.multiplies_in_tf32(op.lhs):
        name = "tf32"
    return macs / (target.most_macs_a_cycle(name) or math.inf)


LIBRARY_START_NS, LIBRARY_PRODUCTS, LIBRARY_BYTES = 4_000.0, 1.54, 1.16
"""What a product by cuBLAS takes in any case, and by how much it misses what bounds it: tensor
cores at their highest clock, or memory.  Fitted by ``python -m benchmarks.shapes.library``, by
which 130 products of nine records say 1.59 and 1.16, and 28 of seeds 15 and 45 1.57 and 1.15."""
LIBRARY_LOADS_START_NS, LIBRARY_COMBINED_NS = 3_000.0, 2_000.0
"""What it takes before it loads, and to add up two parts of a sum."""
LIBRARY_LOADS, LIBRARY_TILE = 66.0, 64
"""The bytes that a multiprocessor loads a cycle for it, and the rows of a block's left operand, of
whose right one there are at least half as many."""
WORTH_A_KERNEL = 0.9
"""Of a library's time, but for its start, what a kernel in its place takes at most."""
UNALIGNED = {VECTOR_BYTES: 1.0, 8: 3.2, 4: 6.0, 2: 6.0}
"""How much longer it takes by the bytes of which all rows are a multiple: 512 x 4096 x 4096 took 23
us on an H200, 75 with rows of 4100 and 135 to 150 of 4097 elements.  4 bytes were not measured."""
HIDDEN_NS = 150.0
"""What a kernel's launch costs less between others, by programmatic dependent launch.

It is less than ``OVERLAP_NS``: a kernel that loads what the one before it stores waits for it.
Chosen by ``python -m benchmarks.programs.pairs`` from programs with and without a fusion, which
decide it only within 400 ns.
"""


def in_a_program(time: float, target: Target) -> float:
    """What a kernel adds to the time of others: it is launched while the one before it ends."""
    return max(time - HIDDEN_NS, 0.0) if target.has_programmatic_launch else time


def time_as_written(op: Operation, target: Target) -> float:
    """Nanoseconds at least of the kernel that an operator is; none where there is no kernel."""
    if is_free(op):
        return 0.0
    moved = op.tensors_moved() if isinstance(op, ReadsRows) else [*op.operands, *op.results]
    time = max(least_time(moved, (), target), sent_time([op]))
    if isinstance(op, ScanOp):
        later = later_rounds_ns(runs_of(op), target)
        return max(time, LAUNCH_NS + target.memory_latency_ns + later)
    return time


def runs_of(op: ScanOp) -> ScanShape:
    """What the runtime's kernel of a scan goes along."""
    shape, layout, dim = shape_of(op.input.type), layout_of(op.input.type), op.reduced_dim
    strides = row_major_strides(shape) if layout is None else strides_of(layout)
    return ScanShape(
        runs=math.prod(shape) // max(shape[dim], 1),
        length=shape[dim],
        element_bytes=element_bytes_of(op.input.type),
        is_along=strides[dim] == 1 and shape[dim] > 1,
        has_decays=op.decay is not None,
    )


def sent_time(operators: Iterable[Operation]) -> float:
    """Nanoseconds that a kernel takes to send copies to other devices; 0 where there are none.

    Of all copies of a tensor one stays on its device.  What else the kernel does goes on meanwhile.
    """
    time = 0.0
    for op in operators:
        if isinstance(op, CopyOp) and op.place is not None:
            users = (use.operation for use in op.input.uses)
            devices = sum(isinstance(user, CopyOp) and user.place is not None for user in users)
            sent = bytes_of(op.result.type) * max(devices - 1, 1) / devices
            time += 1e3 * sent / links_between(devices).moved_bytes
    return LAUNCH_NS + time if time else 0.0


def require_cuttable_alone(graph: CustomizedOp, plan: Plan) -> None:
    """Raises ``RetileError`` where a kernel that is in no function cannot be cut as a plan says."""
    function = FuncOp("alone", ([], list(graph.result_types)))
    copy = graph.clone()
    function.body.block.add_ops([copy, ReturnOp(*copy.results)])
    try:
        require_cuttable(copy, plan)
    finally:
        function.erase()


def time_of_kernel(graph: CustomizedOp, target: Target, most: float = math.inf) -> float:
    """Nanoseconds of a custom kernel with its best tiles, and of copies that make it faster.

    Infinite where no tiles fit a block.  Where it takes ``most`` or longer it may be ``most``,
    which is found sooner.
    """
    return best_padding(graph, target, most=most).time


def time_of_sender(graph: CustomizedOp, sent: float, target: Target) -> float:
    """Nanoseconds of a kernel that stores for other devices, which takes so many by itself.

    Blocks send while others compute.  What a second kernel adds up of several blocks it sends
    behind them, so that it is decided here whether there is one.
    """
    in_two = time_of_kernel(graph, target) + sent
    alone = _time_as_it_lies(graph, target, Plan(split_k=1))
    if max(alone, sent) <= in_two:
        graph.decided = Plan(split_k=1)
        return sent_beside(alone, sent, graph.results[0], target)
    return in_two


class Padding(NamedTuple):
    """Operands of a kernel that are copied to padded rows, and what it takes with the copies."""

    time: float
    operands: tuple[SSAValue, ...]


MOST_PADDED = 2
"""Operands with uneven rows of which any may be copied; of more, one or all."""


WORTH_COPIES, WORTH_COPIES_NS = 0.8, 10_000.0
"""What a kernel may take with copies, of its time without, where that does not save so much.

90 x 1009 x 3584 was estimated to take 14.7 and 17.7 us, and took 21.2 on an H200 with a copy and
13.2 without; 226 x 50257 x 3584 was estimated at 349 and 402, and took 315 and 958."""


def uneven_operands(graph: CustomizedOp) -> list[SSAValue]:
    """The operands of a kernel whose rows start at no multiples of 16 bytes."""
    return [v for v in dict.fromkeys(graph.inputs) if row_alignment(v) < VECTOR_BYTES]


def best_padding(
    graph: CustomizedOp,
    target: Target,
    there: Collection[SSAValue] = (),
    most: float = math.inf,
) -> Padding:
    """Which operands with uneven rows a kernel should have copies of; ``there`` are some already.

    Bulk copies bring no rows that start anywhere, and warp groups multiply what these bring.
    ``most`` is that of :func:`time_of_kernel`.
    """
    uneven = uneven_operands(graph)
    # What copies must save is a part of what it takes without them.
    bare = _time_as_it_lies(graph, target, most=math.inf if uneven else most)
    worth = max(WORTH_COPIES * bare, bare - WORTH_COPIES_NS)
    best = Padding(bare, ())
    for chosen in _sets_of(uneven):
        copies = sum(copy_time(value, target) for value in chosen if value not in there)
        limit = min(worth, best.time) - copies
        if limit > 0:
            time = _time_with_copies(graph, chosen, target, limit)
            if time < limit:
                best = Padding(copies + time, chosen)
    return best


def _sets_of(uneven: Sequence[SSAValue]) -> Iterator[tuple[SSAValue, ...]]:
    for count in range(1, len(uneven) + 1):
        if count in (1, len(uneven)) or len(uneven) <= MOST_PADDED:
            yield from combinations(uneven, count)


def copy_time(value: SSAValue, target: Target) -> float:
    """Nanoseconds that a copy of a tensor adds to a program: it is read, written and read again."""
    moved = LAUNCH_NS + target.memory_latency_ns + device_ns(3 * moved_bytes([value]), target)
    return in_a_program(moved, target)


def use_copies(graph: CustomizedOp, copies: Mapping[SSAValue, CopyOp]) -> None:
    """Lets a kernel load copies of its operands."""
    for place, operand in enumerate(graph.operands):
        if operand in copies:
            graph.operands[place] = copies[operand].result
            match_arguments(copies[operand].result)


def _time_with_copies(
    graph: CustomizedOp, chosen: Sequence[SSAValue], target: Target, most: float
) -> float:
    copies = {value: CopyOp(value, without_layout(value.type)) for value in chosen}
    trial = graph.clone()
    use_copies(trial, copies)
    try:
        return _time_as_it_lies(trial, target, most=most)
    finally:
        trial.erase()
        for copy in copies.values():
            copy.erase()


def _time_as_it_lies(
    graph: CustomizedOp, target: Target, plan: Plan | None = None, most: float = math.inf
) -> float:
    trial, plan = graph.clone(), plan or Plan()
    try:
        space = space_of(trial, plan)
        choice = choose_least_time(space, target, plan, most)
        if choice is None:
            return math.inf
        # Where it cannot be cut so it stays as it is, and must fit a block then.
        fits = estimate(shape_under(space, partition_of(space)), target) is not None
        if not fits or (choice.split > 1 and not space.products):
            require_cuttable_alone(graph, tiles_of(space, choice))
        return choice.time
    except TakesLongerError:
        return most
    except RetileError:
        space = find_dimensions(graph)
        time = estimate(shape_under(space, partition_of(space)), target)
        return math.inf if time is None else time
    finally:
        trial.erase()


def may_loop(graph: CustomizedOp) -> bool:
    """Whether a kernel without a loop that is in no function may be given one."""
    trial = graph.clone()
    try:
        choose_partition(space_of(trial, Plan()), Plan(forloop=2))
    except RetileError:
        return False
    finally:
        trial.erase()
    return True
