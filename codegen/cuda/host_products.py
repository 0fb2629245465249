"""How products that cuBLAS computes are printed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.codegen.cuda.host import (
    HostPrinter,
    declare_extent,
    print_host_operation,
)
from mugraph.codegen.cuda.pieces import MAX_SPAN
from mugraph.codegen.cuda.walks import (
    strides_in_memory,
)
from mugraph.dialects import kn
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label

LIBRARY_BYTES = 4
"""The alignment of the columns of integer matrices that cuBLAS reads."""


def evenly_spaced(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many of the last dimensions merge into one; dimensions of extent 1 always do."""
    reach: int | None = None
    for count, (extent, stride) in enumerate(zip(reversed(shape), reversed(strides), strict=True)):
        if extent == 1:
            continue
        if reach is not None and stride != reach:
            return count
        reach = extent * stride
    return len(shape)


def spacing_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How far neighbours of merged dimensions are apart, in elements."""
    wide = [stride for extent, stride in zip(shape, strides, strict=True) if extent > 1]
    return wide[-1] if wide else strides[-1] if strides else 0


def dims_of_rows(op: kn.MatmulOp) -> int:
    """How many of the last leading dimensions of a product only number more rows of one matrix.

    Of which the right operand is a broadcast, and along which the others go on as along their rows.
    """
    a, b, c = (strides_in_memory(value) for value in (op.lhs, op.rhs, op.result))
    extents = shape_of(op.lhs.type)
    rows = extents[-2]
    for count, dim in enumerate(reversed(range(len(extents) - 2))):
        if extents[dim] > 1 and (b[dim], a[dim], c[dim]) != (0, rows * a[-2], rows * c[-2]):
            return count
        rows *= extents[dim]
    return len(extents) - 2


def library_computation(op: kn.MatmulOp) -> str:
    """How cuBLAS adds up products; refuses i8 that it cannot read.

    Source: cuBLAS's documentation of ``cublasGemmEx``: with integers, all leading dimensions are
    multiples of 4.
    """
    if op.computation is kn.Computation.F16:
        return "CUBLAS_COMPUTE_16F"
    if op.multiplies_in_tf32(op.lhs):
        return "CUBLAS_COMPUTE_32F_FAST_TF32"
    if not is_integer(element_type_of(op.lhs.type)):
        return "CUBLAS_COMPUTE_32F"
    for value in (op.lhs, op.rhs):
        shape, strides = shape_of(value.type), strides_in_memory(value)
        if any(
            extent > 1 and stride != 1 and stride % LIBRARY_BYTES
            for extent, stride in zip(shape, strides, strict=True)
        ):
            raise CodegenError(
                f"{op_label(op)} calls cuBLAS, which needs strides of i8 matrices in multiples of "
                f"{LIBRARY_BYTES} bytes; {value_label(value)} has strides "
                f"({','.join(map(str, strides))}): pad it, or use a 'tb.matmul' in a "
                "'kn.customized'"
            )
    return "CUBLAS_COMPUTE_32I"


def matrix_strides(value: SSAValue) -> str:
    """The strides of the last two dimensions; one of extent 1 may have any, so a small one."""
    sides = zip(shape_of(value.type), strides_in_memory(value), strict=True)
    fitting = [1 if extent == 1 and step > MAX_SPAN else step for extent, step in sides]
    if max(fitting[-2:]) > MAX_SPAN:
        raise CodegenError(
            f"{value_label(value)} has a stride of {max(fitting[-2:])} between rows or columns of "
            f"a matrix; cuBLAS takes at most {MAX_SPAN}: run --insert-copies first"
        )
    return f"{fitting[-2]},{fitting[-1]}"


@print_host_operation.register
def _(op: kn.MatmulOp, printer: HostPrinter) -> None:
    a, b, c = op.lhs, op.rhs, op.result
    pointers = printer.declare_all((a, b, c))
    *leading, m, k = shape_of(a.type)
    n = shape_of(b.type)[-1]
    if op.rows is None and (more := dims_of_rows(op)):
        m *= math.prod(leading[-more:])
        leading = leading[:-more]
    # One call computes the matrices of all leading dimensions that merge in every tensor.
    batch_strides = [strides_in_memory(value)[: len(leading)] for value in (a, b, c)]
    looped = len(leading) - min(evenly_spaced(leading, strides) for strides in batch_strides)
    rows = str(m) if op.rows is None else declare_extent(op, op.rows.data, printer)
    for dim, extent in enumerate(leading[:looped]):
        printer.writer.open(f"for (int i{dim} = 0; i{dim} < {extent}; ++i{dim}) {{")
    pointers = [
        " + ".join([pointer, *(f"i{dim} * {strides[dim]}LL" for dim in range(looped))])
        for pointer, strides in zip(pointers, batch_strides, strict=True)
    ]
    matrices = ", ".join(matrix_strides(value) for value in (a, b, c))
    spacing = ",".join(
        str(spacing_of(leading[looped:], strides[looped:])) for strides in batch_strides
    )
    compute = library_computation(op)
    operands = f"stream, {pointers[2]},{pointers[0]},{pointers[1]}"
    printer.writer.line(
        f"kn::gemm<{compute}>({operands}, {rows},{n},{k}, {matrices}, "
        f"{math.prod(leading[looped:])}, {spacing});"
    )
    for _ in range(looped):
        printer.writer.close()


@print_host_operation.register
def _(op: kn.MatmulAddOp, printer: HostPrinter) -> None:
    matrices = (op.result, op.lhs, op.rhs, op.addend)
    a, b, c, d = printer.declare_all((op.lhs, op.rhs, op.addend, op.result))
    (m, n), k = shape_of(op.result.type), shape_of(op.lhs.type)[1]
    leading = ",".join(str(leading_dimension(value)) for value in matrices)
    by_columns = "true" if is_by_columns(op.rhs) else "false"
    shape = f"{{{m},{n},{k}, {leading}, {by_columns}}}"
    printer.writer.line(f"kn::gemm_add(stream, {d},{a},{b},{c}, {shape});")


def is_by_columns(value: SSAValue) -> bool:
    """Whether a matrix is column-major alone; one of a single column is row-major, too."""
    return shape_of(value.type)[1] > 1 and strides_in_memory(value)[1] != 1


def leading_dimension(value: SSAValue) -> int:
    """How far the rows of a matrix are apart, in elements, or its columns; a single one any."""
    (rows, columns), (pitch, step) = shape_of(value.type), strides_in_memory(value)
    if is_by_columns(value):
        return step
    return pitch if rows > 1 else columns
