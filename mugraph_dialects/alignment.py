"""What is promised of the addresses of DTensors.

A function's arguments and results start at multiples of 16 bytes unless their attribute
``mugraph.alignment`` says less, as in ``%x: tensor<4x8xf16> {mugraph.alignment = 2 : i64}``.
Vectors are no wider than the promise, and the generated host code checks it.  Tensors in the
workspace are aligned to more than any vector needs.
"""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IndexType, IntegerAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.tensor_types import (
    base_layout,
    element_bytes_of,
    layout_of,
    op_label,
    row_major_strides,
    shape_of,
    strides_of,
    value_label,
)

ALIGNMENT = "mugraph.alignment"
"""The attribute of an argument or a result: bytes, a power of two, at least one element."""
DEFAULT_ALIGNMENT = 16
"""What is promised where nothing is said: the widest access of one thread."""


def _promise(attributes: ArrayAttr[DictionaryAttr] | None, index: int, what: str) -> int:
    """The bytes that entry ``index`` of a function's attributes promises."""
    attribute = None if attributes is None else attributes.data[index].data.get(ALIGNMENT)
    if attribute is None:
        return DEFAULT_ALIGNMENT
    if not isinstance(attribute, IntegerAttr):
        raise VerifyException(f"{what}: {ALIGNMENT} is {attribute}; expected a number of bytes")
    return cast(IntegerAttr, attribute).value.data


def _verified(promise: int, type_: Attribute, what: str) -> int:
    """The promise; raises ``VerifyException`` where it is no alignment of the type's elements."""
    least = element_bytes_of(type_)
    if promise < least or promise & (promise - 1):
        raise VerifyException(
            f"{what}: {ALIGNMENT} is {promise} bytes; expected a power of two of at least {least}, "
            "the size of an element"
        )
    return promise


def argument_alignment(function: FuncOp, index: int) -> int:
    """The bytes that argument ``index`` is aligned to; raises ``VerifyException``."""
    argument = function.body.block.args[index]
    what = f"argument {index} ({value_label(argument)}) of {op_label(function)}"
    return _verified(_promise(function.arg_attrs, index, what), argument.type, what)


def result_alignment(function: FuncOp, index: int) -> int:
    """The bytes that result ``index`` is aligned to; raises ``VerifyException``."""
    what = f"result {index} of {op_label(function)}"
    type_ = function.function_type.outputs.data[index]
    return _verified(_promise(function.res_attrs, index, what), type_, what)


def alignment_of(value: SSAValue) -> int:
    """The bytes that a DTensor's first element is aligned to, at most :data:`DEFAULT_ALIGNMENT`.

    Of a block argument of ``kn.customized`` it is that of the operand, of a view what the bytes
    before it leave of that of the tensor it is in.  Raises ``VerifyException``
    where a function promises no alignment of the elements.
    """
    if isinstance(value.type, IndexType):
        return DEFAULT_ALIGNMENT
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        index = owner.args.index(value)
        if isinstance(parent, FuncOp):
            return min(argument_alignment(parent, index), DEFAULT_ALIGNMENT)
        if parent is not None and index < len(parent.operands):
            return alignment_of(parent.operands[index])
        return DEFAULT_ALIGNMENT
    if isinstance(owner, SharesMemory):
        return math.gcd(alignment_of(owner.memory_of(value)), owner.bytes_before(value))
    return _promised_of_results(value)


def _promised_of_results(value: SSAValue) -> int:
    """What is promised of a computed tensor, since it is a result, or views of it are."""
    promises = [DEFAULT_ALIGNMENT]
    for use in value.uses:
        function = use.operation.parent_op()
        if isinstance(use.operation, ReturnOp) and isinstance(function, FuncOp):
            promises.append(result_alignment(function, use.index))
        elif isinstance(use.operation, SharesMemory):
            promises += map(_promised_of_results, use.operation.results)
    return min(promises)


def row_alignment(value: SSAValue) -> int:
    """The bytes, :data:`DEFAULT_ALIGNMENT` at most, of which rows of a DTensor start at multiples.

    Rows are what is contiguous in the tensor, which starts at a multiple itself.  Arguments without
    a layout are row-major; rows of what is still to be laid out are padded.
    """
    layout, shape = layout_of(value.type), shape_of(value.type)
    if layout is not None:
        if base_layout(layout).depth > 1:
            return DEFAULT_ALIGNMENT
        strides = strides_of(layout)
    elif isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), FuncOp):
        strides = row_major_strides(shape)
    else:
        return DEFAULT_ALIGNMENT
    steps = sorted(step for extent, step in zip(shape, strides, strict=True) if extent > 1)
    if steps[:1] != [1]:
        return DEFAULT_ALIGNMENT  # what has no rows cannot have them padded either
    size = element_bytes_of(value.type)
    return math.gcd(DEFAULT_ALIGNMENT, *(step * size for step in steps[1:]))


def verify_alignments(function: FuncOp) -> None:
    """Raises ``VerifyException`` where the function promises no alignment of the elements."""
    for index, type_ in enumerate(function.function_type.inputs.data):
        if isinstance(type_, TensorType):
            argument_alignment(function, index)
    for index, type_ in enumerate(function.function_type.outputs.data):
        if isinstance(type_, TensorType):
            result_alignment(function, index)
