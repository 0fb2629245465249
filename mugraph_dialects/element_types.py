"""The element types of tensors, and which of them may meet in one operator.

Every operator computes in fp32 and rounds once, to nearest even, to the element type of its
result; integers take part only where results are exact: copies, i8 matrix products with i32
results, sums of i32, casts, and what kernels on whole tensors make of integers alone.  Truths are
of i1, which takes a byte an element: 1 where something holds, else 0.

Tensors of different types are joined by an explicit cast.  The one exception is f32, the type that
all arithmetic has: an f32 tensor may stand beside one of another floating-point type in an
element-wise operator, since converting that one is exact and hides no rounding.  The passes need
it for the intermediate sums that they make.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import (
    IntegerType,
    Signedness,
    bf16,
    f8E4M3FN,
    f8E5M2,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.tensor_types import element_type_of, op_label, value_label


class ElementType(NamedTuple):
    """What the layers call the elements of a type."""

    instruction: str
    """In the table of MMA instructions: ``f16``, ``e4m3``, ``s8`` ..."""
    array: str
    """In NumPy (with ml_dtypes), in torch and in cupy."""
    dlpack: tuple[int, int]
    """In DLPack: the code of ``dlpack.h`` and the bits of an element."""
    cuda: str
    """In the CUDA headers: a type of C++."""
    tensor_map: str
    """In tensor maps: ``CU_TENSOR_MAP_DATA_TYPE_...``."""
    safetensors: str
    """In files of weights."""

    @property
    def bits(self) -> int:
        """The width of an element."""
        return self.dlpack[1]


u8 = IntegerType(8, Signedness.UNSIGNED)
"""Bytes without a sign."""

DESCRIPTIONS: dict[Attribute, ElementType] = {
    f16: ElementType("f16", "float16", (2, 16), "half_t", "FLOAT16", "F16"),
    bf16: ElementType("bf16", "bfloat16", (4, 16), "bfloat16_t", "BFLOAT16", "BF16"),
    f32: ElementType("f32", "float32", (2, 32), "float", "FLOAT32", "F32"),
    f8E4M3FN: ElementType("e4m3", "float8_e4m3fn", (10, 8), "float_e4m3_t", "UINT8", "F8_E4M3"),
    f8E5M2: ElementType("e5m2", "float8_e5m2", (12, 8), "float_e5m2_t", "UINT8", "F8_E5M2"),
    i8: ElementType("s8", "int8", (0, 8), "int8_t", "UINT8", "I8"),
    i32: ElementType("s32", "int32", (0, 32), "int32_t", "INT32", "I32"),
    i64: ElementType("s64", "int64", (0, 64), "int64_t", "INT64", "I64"),
    i1: ElementType("b8", "bool", (6, 8), "bool", "UINT8", "BOOL"),
    f64: ElementType("f64", "float64", (2, 64), "double", "FLOAT64", "F64"),
    u8: ElementType("u8", "uint8", (1, 8), "uint8_t", "UINT8", "U8"),
}
"""Every type that elements of arguments may have, and its names.

Integers but u8 are signed; i32 is what products and sums of i8 are added up in, i64 is of numbers
of tokens, and i1 of masks.
"""

ELEMENT_TYPES = tuple(type_ for type_ in DESCRIPTIONS if type_ not in (f64, u8))
"""All types that elements of DTensors and STensors may have: f64 and u8 have tensor expressions."""
PLACES = (i32, i64)
"""Types of numbers of rows, and of places along a dimension."""
FLOAT_TYPES = tuple(type_ for type_ in ELEMENT_TYPES if not isinstance(type_, IntegerType))
"""Floating-point types of elements."""
F8_TYPES = frozenset({f8E4M3FN, f8E5M2})
"""Floating-point types of 8 bits, which products may have one of each of."""
HALF_TYPES = tuple(type_ for type_ in FLOAT_TYPES if DESCRIPTIONS[type_].bits == 16)
"""Floating-point types of which two share a register; they are computed with in f32."""


def element_type_name(type_: Attribute) -> str:
    """How the table of instructions calls an element type: ``f16``, ``e4m3``, ``s8`` ..."""
    if type_ not in DESCRIPTIONS:
        raise VerifyException(f"{type_} is no element type of tensors")
    return DESCRIPTIONS[type_].instruction


def operand_names(lhs: SSAValue, rhs: SSAValue) -> tuple[str, str]:
    """How the table of instructions calls the types of a product's operands."""
    return (
        element_type_name(element_type_of(lhs.type)),
        element_type_name(element_type_of(rhs.type)),
    )


def is_integer(type_: Attribute) -> bool:
    """Whether elements of the type are whole numbers."""
    return isinstance(type_, IntegerType)


def is_number_of(type_: Attribute, number: float) -> bool:
    """Whether a number is one of an integer type."""
    if type_ == i1:
        return number in (0, 1)
    if not (math.isfinite(number) and number == int(number)):
        return False
    if type_ == u8:
        return 0 <= number < 256
    most = 2 ** (DESCRIPTIONS[type_].bits - 1)
    return -most <= number < most


def rounds_for_good(result: Attribute, operands: Sequence[Attribute]) -> bool:
    """Whether an operator on these types rounds its result as a part of what a µGraph means.

    So it is with 8 bits, which a quantized µGraph is about, with truths, and with integers that are
    made of fractions.  Sums of integers are not rounded.
    """
    if is_integer(result):
        return result in (i1, i8) or not all(is_integer(type_) for type_ in operands)
    return result in FLOAT_TYPES and DESCRIPTIONS[result].bits == 8


def is_known_element_type(type_: Attribute) -> bool:
    """Whether tensors may have elements of the type."""
    return type_ in ELEMENT_TYPES


def verify_element_type(label: str, type_: Attribute) -> None:
    """Raises ``VerifyException`` unless ``type_`` is one of :data:`ELEMENT_TYPES`."""
    if not is_known_element_type(type_):
        known = ", ".join(str(known) for known in ELEMENT_TYPES)
        raise VerifyException(
            f"{label}: element type {type_} is not supported; tensors have elements of {known}"
        )


def verify_values(op: Operation, values: Sequence[SSAValue]) -> None:
    """Raises ``VerifyException`` where a tensor has elements of no known type."""
    for value in values:
        verify_element_type(f"{op_label(op)}: {value_label(value)}", element_type_of(value.type))


def _list(op: Operation, values: Sequence[SSAValue]) -> str:
    return " and ".join(
        f"{value_label(value)} of {element_type_of(value.type)}" for value in values
    )


def verify_same_type(op: Operation, values: Sequence[SSAValue], cast: str) -> None:
    """Raises ``VerifyException`` unless all values have one element type.

    ``cast`` is the name of the operator that a user should insert.
    """
    if len({element_type_of(value.type) for value in values}) > 1:
        raise VerifyException(
            f"{op_label(op)} takes operands of one element type, got {_list(op, values)}; insert "
            f"a '{cast}' to convert one of them"
        )


def verify_joined_types(op: Operation, values: Sequence[SSAValue], cast: str) -> None:
    """As :func:`verify_same_type`, but f32 may stand beside another floating-point type."""
    others = {element_type_of(value.type) for value in values} - {f32}
    if len(others) > 1 or (len({is_integer(element_type_of(v.type)) for v in values}) > 1):
        raise VerifyException(
            f"{op_label(op)} takes operands of one element type (or f32), got {_list(op, values)}; "
            f"insert a '{cast}' to convert one of them"
        )


def verify_no_integers(op: Operation, values: Sequence[SSAValue], cast: str) -> None:
    """Raises ``VerifyException`` for an operator that computes on floating-point numbers only."""
    for value in values:
        type_ = element_type_of(value.type)
        if not is_integer(type_):
            continue
        if value in op.results:
            raise VerifyException(
                f"{op_label(op)} gives floating-point numbers, but its result has elements of "
                f"{type_}; make it f32 and insert a '{cast}' to {type_} after it"
            )
        raise VerifyException(
            f"{op_label(op)} computes on floating-point numbers, but {value_label(value)} has "
            f"elements of {type_}; insert a '{cast}' to f32 first"
        )


def verify_sum_types(op: Operation, source: SSAValue, result: SSAValue, cast: str) -> None:
    """Checks a plain sum: of floating-point numbers, or of i32 into i32, which is exact."""
    source_type, result_type = element_type_of(source.type), element_type_of(result.type)
    if is_integer(source_type) != is_integer(result_type) or (
        is_integer(source_type) and (source_type, result_type) != (i32, i32)
    ):
        raise VerifyException(
            f"{op_label(op)} adds up {source_type} into {result_type}; sums are of i32 into i32 or "
            f"of floating-point numbers: insert a '{cast}' first"
        )


def verify_factors(op: Operation, lhs: SSAValue, rhs: SSAValue, cast: str) -> None:
    """Checks that matrices of the operands' types are multiplied: of one type, or both of f8."""
    if not {element_type_of(lhs.type), element_type_of(rhs.type)} <= F8_TYPES:
        verify_same_type(op, [lhs, rhs], cast)


def verify_product_types(
    op: Operation, lhs: SSAValue, rhs: SSAValue, result: SSAValue, cast: str
) -> None:
    """Checks a matrix product: operands of one type, i8 into i32 or floating-point numbers.

    One operand may be of one type of f8 and the other of the other.
    """
    verify_factors(op, lhs, rhs, cast)
    type_, result_type = element_type_of(lhs.type), element_type_of(result.type)
    if is_integer(type_) and (type_, result_type) != (i8, i32):
        raise VerifyException(
            f"{op_label(op)} multiplies {type_} into {result_type}; products of integers are of "
            f"i8 into i32: insert a '{cast}' before or after it"
        )
    if not is_integer(type_) and is_integer(result_type):
        raise VerifyException(
            f"{op_label(op)} multiplies {type_} into {result_type}; make the result f32 and insert "
            f"a '{cast}' to {result_type} after it"
        )
