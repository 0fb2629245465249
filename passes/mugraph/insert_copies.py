"""``--insert-copies``: copies where a tensor must have a place, or a layout, of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import kn
from mugraph.dialects.alignment import alignment_of
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.kn.workspace import returned_root
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    layout_of,
    op_label,
    row_major_strides,
    shape_of,
    strides_of,
    value_label,
    without_layout,
)
from mugraph.passes.each import FunctionPass
from mugraph.passes.mugraph.copy_rows import copy_rows

LIBRARY_LIMIT = 2**31 - 1
"""The largest leading dimension that cuBLAS takes."""
LIBRARY_BYTES = 4
"""What the strides of integer matrices are multiples of."""


def is_library_matrix(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether cuBLAS takes the last two dimensions as a matrix, transposed or not.

    One of them must have stride 1, and the other a stride of at least its extent that fits the
    library's integers.  A single row or column is a matrix of any stride.
    """
    (rows, columns), (down, across) = shape[-2:], strides[-2:]
    if rows == 1 or columns == 1:
        wide = [step for extent, step in ((rows, down), (columns, across)) if extent > 1]
        return all(1 <= step <= LIBRARY_LIMIT for step in wide)
    for extent, step, other in ((columns, across, down), (rows, down, across)):
        if step == 1 and extent <= other <= LIBRARY_LIMIT:
            return True
    return False


def needs_copy_for_library(value: SSAValue) -> bool:
    """Whether a tensor's layout is given, and one that cuBLAS cannot take.

    Arguments without a layout are row-major.  Matrices of i8 must start at whole words
    and have strides of whole words.
    """
    layout, shape = layout_of(value.type), shape_of(value.type)
    if layout is not None:
        strides = strides_of(layout)
    elif isinstance(value.owner, Block):
        strides = row_major_strides(shape)
    else:
        return False
    is_uneven = is_integer(element_type_of(value.type)) and (
        alignment_of(value) < LIBRARY_BYTES
        or any(
            extent > 1 and step != 1 and step * element_bytes_of(value.type) % LIBRARY_BYTES
            for extent, step in zip(shape, strides, strict=True)
        )
    )
    return is_uneven or not is_library_matrix(shape, strides)


def unreturnable(returned: Sequence[SSAValue]) -> list[int]:
    """Which results no kernel writes: arguments, parts, and what is returned before."""
    roots = [returned_root(value) for value in returned]
    return [index for index, root in enumerate(roots) if root is None or root in roots[:index]]


def copy_results(function: FuncOp) -> None:
    """Gives results of the function that no kernel writes a copy of their own.

    A copy has the type of what it copies, unless elements share addresses there.
    """
    last = function.body.blocks[-1].last_op
    if not isinstance(last, ReturnOp):
        return
    for index in unreturnable(last.operands):
        value = last.operands[index]
        type_: Attribute = value.type
        if not isinstance(type_, TensorType):
            continue
        copied = cast(Attribute, type_)
        layout = layout_of(copied)
        if layout is not None and layout.size() > layout.cosize():
            copied = without_layout(copied)
        copy = kn.CopyOp(value, copied)
        copy.result.name_hint = value.name_hint
        Rewriter.insert_op(copy, InsertPoint.before(last))
        last.operands[index] = copy.result
    function.update_function_type()


def in_library_type(op: kn.MatmulOp) -> kn.MatmulOp:
    """The product in the type in which cuBLAS multiplies, with casts around it where need be.

    Operands become that type exactly.  Sums are f32 where cuBLAS does not give the result's type.
    """
    if op.is_in_library_type:
        return op
    operands: list[SSAValue] = []
    for operand in op.operands:
        converted = kn.CastOp(operand, TensorType(op.library_type, shape_of(operand.type)))
        converted.result.name_hint = operand.name_hint
        Rewriter.insert_op(converted, InsertPoint.before(op))
        operands.append(converted.result)
    result = op.result.type
    gives = element_type_of(result) in (op.library_type, f32)
    sums = result if gives else TensorType(f32, shape_of(result))
    product = kn.MatmulOp(operands[0], operands[1], sums)
    product.result.name_hint = op.result.name_hint
    product.attributes |= op.attributes
    rounded = () if gives else (kn.CastOp(product.result, result),)
    Rewriter.replace_op(op, [product, *rounded])
    return product


def _require_strides(op: kn.MatmulOp) -> None:
    """Raises ``VerifyException``, with the operand, where a dimension has several strides."""
    for value in (*op.operands, op.result):
        layout = layout_of(value.type)
        if layout is None:
            continue
        try:
            strides_of(layout)
        except VerifyException as error:
            raise VerifyException(f"{op_label(op)}: {value_label(value)}: {error}") from error


def copy_for_library(op: kn.MatmulOp) -> None:
    """Copies operands, and computes the result elsewhere, where cuBLAS cannot take a layout."""
    _require_strides(op)
    for index, operand in enumerate(op.operands):
        if needs_copy_for_library(operand):
            copy = kn.CopyOp(operand, without_layout(operand.type))
            copy.result.name_hint = operand.name_hint
            Rewriter.insert_op(copy, InsertPoint.before(op))
            op.operands[index] = copy.result
    if needs_copy_for_library(op.result):
        product = kn.MatmulOp(
            op.lhs,
            op.rhs,
            without_layout(op.result.type),
            op.compute and op.compute.data,
            op.precision and op.precision.data,
        )
        product.result.name_hint = op.result.name_hint
        product.attributes |= op.attributes
        Rewriter.replace_op(op, [product, kn.CopyOp(product.result, op.result.type)])


class InsertCopiesPass(FunctionPass):
    """Inserts ``kn.copy`` where a tensor must have a place, or a layout, of its own.

    A function that returns one of its arguments, a part of a tensor, or a value twice, returns a
    copy: every result is a tensor of its own, which the function writes.  Where a signature gives
    an operand or the result of ``kn.matmul`` a layout that cuBLAS cannot take (neither of the last
    two dimensions has stride 1, or rows overlap or are broadcast), the product is taken of copies,
    whose layouts are chosen by ``--resolve-layout``.  Operands of f8 are converted to f16 first.
    Kernels that do not end where a call says have copies with room for all rows.  So have those
    that load several rows through numbers, where a call says how many numbers there are.

    Before::

        func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
          func.return %x : tensor<4x8xf16>
        }

    After::

        func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
          %x_1 = kn.copy %x : tensor<4x8xf16> -> tensor<4x8xf16>
          func.return %x_1 : tensor<4x8xf16>
        }
    """

    name = "insert-copies"

    def run(self, function: FuncOp) -> None:
        """Inserts copies into a µGraph."""
        copy_results(function)
        for inner in tuple(function.walk()):
            if isinstance(inner, kn.MatmulOp):
                copy_for_library(in_library_type(inner))
        copy_rows(function)
