"""The access streams of the operators that compute, one function an operator."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.atoms import MmaAtom, mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.sched.accesses import (
    AccessError,
    AccessKind,
    StageReference,
    ThreadAccess,
    naming_operand,
    partitioned_stream,
    plain_access,
    stage_reference,
)
from mugraph.dialects.sched.mappings import (
    MATRICES,
    ReduceSum,
    Stream,
    fill_stream,
    fragment_stream,
    iteration_layout,
    part_of_mode,
    reduce_destination_stream,
    reduce_source_stream,
    side_by_side,
    vector_stream,
    with_offset,
)
from mugraph.dialects.sched.operand_mappings import (
    MatmulOperand,
    ScalarOperand,
    element_stream,
    ldmatrix_streams,
    scalar_stream,
)
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.row_mappings import (
    rows_source_stream,
    warps_stream,
)
from mugraph.dialects.sched.run_mappings import RunOperand, line_streams, run_stream
from mugraph.dialects.sched.structure import AllocOp
from mugraph.dialects.sched.types import SharedType, TileType
from mugraph.dialects.tb.reduction import Groups
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_bytes_of,
    op_label,
    resolved_layout_of,
    shape_of,
)


def destination_accesses(
    op: Operation, operand: int, stage: StageReference, stream: Stream, *, accumulates: bool
) -> list[ThreadAccess]:
    """The writes of a result, after reads by the same threads where it is added to."""
    kinds = [AccessKind.READ, AccessKind.WRITE] if accumulates else [AccessKind.WRITE]
    return [plain_access(op, operand, kind, stage, stream) for kind in kinds]


def fill_accesses(op: Operation) -> list[ThreadAccess]:
    """The writes of a fill: all stages of the buffer, padding included."""
    destination = op.operands[0]
    if not isinstance(destination.type, SharedType):
        return []
    owner = destination.owner
    if not isinstance(owner, AllocOp):
        raise AccessError(f"{op_label(op)}: only buffers and fragments can be filled")
    element_bytes = element_bytes_of(destination.type)
    elements = owner.total_bytes() // element_bytes
    stream = fill_stream(elements, element_bytes, block=enclosing_threads(op))
    stage = StageReference(iteration=0, every_stage=True)
    return [plain_access(op, 0, AccessKind.WRITE, stage, stream, keeps_elements=False)]


def elementwise_accesses(
    op: Operation, partition: LinearPartition, *, accumulates: bool
) -> list[ThreadAccess]:
    """The sources' vectors in order, then those of the destination, the last operand."""
    last = len(op.operands) - 1
    domain = shape_of(op.operands[last].type)
    stage = stage_reference(op)
    accesses = [
        plain_access(
            op, source, AccessKind.READ, stage, partitioned_stream(op, source, partition, domain)
        )
        for source in range(last)
        if isinstance(op.operands[source].type, SharedType)
    ]
    if isinstance(op.operands[last].type, SharedType):
        stream = partitioned_stream(op, last, partition, domain)
        accesses += destination_accesses(op, last, stage, stream, accumulates=accumulates)
    return accesses


def reduced_modes(
    source: SSAValue, results: Sequence[int], groups: Groups, dim: int, order: Sequence[int]
) -> tuple[Layout, Layout]:
    """The elements of one sum, and where the sums of the results start, in the order ``order``.

    Raises ``MappingError`` where boxes side by side are cut across.
    """
    layout = resolved_layout_of(source)
    starts = [
        part_of_mode(layout, d, results[d], groups.start_step if d == dim else 1) for d in order
    ]
    return part_of_mode(layout, dim, groups.count, groups.step), side_by_side(starts)


def row_accesses(
    op: Operation, modes: tuple[Layout, Layout], rows: LinearRows
) -> list[ThreadAccess]:
    """Every thread's reads of all that belongs to the rows it holds."""
    source = op.operands[0]
    reduction = ReduceSum(resolved_layout_of(source), *modes, rows.partition.threads, 1)
    block = enclosing_threads(op)
    stream = rows_source_stream(reduction, rows, element_bytes_of(source.type), block=block)
    return [plain_access(op, 0, AccessKind.READ, stage_reference(op), stream)]


def warp_accesses(op: Operation, rows: LinearRows) -> list[ThreadAccess]:
    """The writes of what each warp makes of its part of each row."""
    target = op.operands[1]
    shape, order = shape_of(target.type), rows.partition.order
    layout = iteration_layout(resolved_layout_of(target), shape, shape, order)
    stream = warps_stream(rows, layout, block=enclosing_threads(op))
    return [plain_access(op, 1, AccessKind.WRITE, stage_reference(op), stream)]


def part_accesses(
    op: Operation,
    layout: AnyLayout,
    parts: Layout,
    partition: LinearPartition,
    *,
    accumulates: bool,
) -> list[ThreadAccess]:
    """The vectors of each part in turn, then those of the sums.

    ``layout`` is that of the first part, ``parts`` says where the others begin.
    """
    source, destination = op.operands
    stage, threads, vector = stage_reference(op), partition.threads, partition.vector
    size, block = element_bytes_of(source.type), enclosing_threads(op)
    accesses: list[ThreadAccess] = []
    for part in range(parts.size()):
        with naming_operand(op, source):
            of_part = with_offset(layout, parts(part))
            stream = vector_stream(of_part, threads, vector, size, block=block)
        accesses.append(plain_access(op, 0, AccessKind.READ, stage, stream))
    if isinstance(destination.type, SharedType):
        stream = partitioned_stream(op, 1, partition, shape_of(destination.type))
        accesses += destination_accesses(op, 1, stage, stream, accumulates=accumulates)
    return accesses


def reduce_accesses(
    op: Operation,
    modes: tuple[Layout, Layout],
    lanes: int,
    partition: LinearPartition,
    *,
    accumulates: bool,
) -> list[ThreadAccess]:
    """All lanes' reads of the source, then lane 0's access to each sum, and to a difference."""
    source, destination, *differences = op.operands
    results, order = shape_of(destination.type), partition.order
    reduction = ReduceSum(resolved_layout_of(source), *modes, partition.threads, lanes)
    block = enclosing_threads(op)
    stage = stage_reference(op)
    reads = reduce_source_stream(reduction, element_bytes_of(source.type), block=block)
    target = iteration_layout(resolved_layout_of(destination), results, results, order)
    writes = reduce_destination_stream(reduction, target, block=block)
    accesses = [
        # How long the vectors are that lanes take in turn depends on the layout.
        plain_access(op, 0, AccessKind.READ, stage, reads, keeps_elements=lanes == 1),
        *destination_accesses(op, 1, stage, writes, accumulates=accumulates),
    ]
    for operand, difference in enumerate(differences, 2):
        target = iteration_layout(resolved_layout_of(difference), results, results, order)
        writes = reduce_destination_stream(reduction, target, block=block)
        accesses.append(plain_access(op, operand, AccessKind.WRITE, stage, writes))
    return accesses


def _warps(op: Operation, mma: TiledMmaAttr | None) -> tuple[MmaAtom, int, int, int]:
    if mma is None:
        raise AccessError(f"{op_label(op)}: the accumulator is not a tensor-core fragment")
    return mma_atom(mma.atom), *mma.thr_layout


def operand_runs(
    value: SSAValue,
    is_a: bool,
    matrix: AnyLayout,
    atom: MmaAtom,
    mma: TiledMmaAttr | None,
    apart: int,
) -> RunOperand:
    """How warps read an operand of a product with swapped operands."""
    assert mma is not None  # verified
    warps_m, warps_n, slices = mma.thr_layout
    rows, columns, _ = atom.shape_mnk
    size = element_bytes_of(value.type)
    tile, warps, inner = (rows, warps_m, 1) if is_a else (columns, warps_n, warps_m)
    return RunOperand(matrix, size, tile, warps, inner, slices, warps_m * warps_n, apart)


def operand_of_warps(
    is_a: bool, matrix: AnyLayout, atom: MmaAtom, mma: TiledMmaAttr | None, apart: int
) -> MatmulOperand:
    """How warps read an operand of a product in the order of its instruction.

    What is swapped is read as the instruction's B: by each warp whole.
    """
    assert mma is not None  # verified
    warps_m, warps_n, warps_k = mma.thr_layout
    if atom.reads_lines:
        is_a, warps_m, warps_n = False, warps_m * warps_n, 1
    return MatmulOperand(is_a, warps_m, warps_n, matrix, atom.packed, warps_k, apart)


def mma_accesses(
    op: Operation,
    mma: TiledMmaAttr | None,
    matrices_read: Sequence[AnyLayout],
    ldmatrix: Sequence[bool],
    apart: Sequence[int] = (0, 0),
) -> list[ThreadAccess]:
    """The reads of both operands, by ``ldmatrix`` (four matrices, then two) or one by one.

    ``matrices_read`` are (rows of the result, k) and (columns of the result, k); those of warps
    along k may lie ``apart``.  What is in registers is not read from memory.
    """
    accesses: list[ThreadAccess] = []
    atom, warps_m, warps_n, _ = _warps(op, mma)
    block, stage = enclosing_threads(op), stage_reference(op)
    for operand, uses_ldmatrix in enumerate(ldmatrix):
        value, matrix = op.operands[operand], matrices_read[operand]
        if isinstance(value.type, TileType):
            continue
        if atom.is_scalar:
            scalar = ScalarOperand(operand == 0, warps_m, warps_n, matrix)
            stream = scalar_stream(scalar, block=block)
            accesses.append(plain_access(op, operand, AccessKind.READ, stage, stream))
            continue
        if atom.reads_runs:
            runs = operand_runs(value, operand == 0, matrix, atom, mma, apart[operand])
            with naming_operand(op, value):
                stream = run_stream(runs, block=block)
            accesses.append(plain_access(op, operand, AccessKind.READ, stage, stream))
            continue
        if atom.reads_lines and operand == 1:
            lines = operand_runs(value, False, matrix, atom, mma, apart[operand])
            streams, transposes = line_streams(lines, block=block), True
        else:
            mapping = operand_of_warps(operand == 0, matrix, atom, mma, apart[operand])
            transposes = mapping.transposed
            with naming_operand(op, value):
                streams = (
                    ldmatrix_streams(mapping, block=block)
                    if uses_ldmatrix
                    else ((0, element_stream(mapping, block=block)),)
                )
        accesses += [
            plain_access(op, operand, AccessKind.READ, stage, stream)
            for matrices, stream in streams
            if not matrices
        ]
        accesses += [
            line_access(op, operand, stage, stream, matrices, transposes=transposes)
            for matrices, stream in streams
            if matrices
        ]
    return accesses


def line_access(
    op: Operation,
    operand: int,
    stage: StageReference,
    lines: Stream,
    matrices: int = MATRICES,
    *,
    transposes: bool = False,
) -> ThreadAccess:
    """The lines of an operand whose addresses lanes give to ``ldmatrix``."""
    return ThreadAccess(
        op,
        operand,
        AccessKind.READ,
        f"ldmatrix.x{matrices}{'.trans' if transposes else ''}",
        stage,
        lines.width,
        lines.offsets,
        lines.significant,
        warp_collective=True,
    )


def store_accesses(
    op: Operation, fragment: TileType | None, start: Sequence[int], *, accumulates: bool
) -> list[ThreadAccess]:
    """The accesses of a fragment's threads to the part of a buffer that it is written or added to.

    ``start`` is where the part begins.
    """
    if fragment is None:
        raise VerifyException(f"{op_label(op)}: its source is not a fragment")
    shape = fragment.get_shape()
    if fragment.partition is not None:
        stream = partitioned_stream(op, 1, fragment.partition, shape)
    else:
        layout = resolved_layout_of(op.operands[1])
        part = iteration_layout(layout, shape, shape, range(len(shape)))
        part = with_offset(part, base_layout(layout)(*start))
        stream = fragment_stream(fragment.thread_values(), part, block=enclosing_threads(op))
    return destination_accesses(op, 1, stage_reference(op), stream, accumulates=accumulates)
