"""Which instruction multiplies matrices of an element type: the one place that names it.

Tensor cores take f16, bf16 and i8 as they are stored, and f32 rounded to TF32 (10 bits of
mantissa, to nearest, ties away from zero).  f8 is converted exactly to f16 first: that is right on
every target, while the f8 instruction of sm_89 and sm_90 adds up products with fewer bits than
fp32 has.

Scalar fused multiply-adds serve products in plain fp32 and blocks of less than a warp: every type
is converted exactly to fp32 (i8 to 32-bit integers) first.
"""

from __future__ import annotations

from collections.abc import Mapping

from mugraph.dialects.cute.atoms.mma import MmaAtom, mma_atom
from mugraph.dialects.cute.errors import LayoutError

_TENSOR_CORE: Mapping[str, str] = {
    "f16": "SM80_16x8x16_F32F16F16F32_TN",
    "bf16": "SM80_16x8x16_F32BF16BF16F32_TN",
    "f32": "SM80_16x8x8_F32TF32TF32F32_TN",
    "e4m3": "SM80_16x8x16_F32F16F16F32_TN",
    "e5m2": "SM80_16x8x16_F32F16F16F32_TN",
    "s8": "SM80_16x8x32_S32S8S8S32_TN",
}

_SCALAR: Mapping[bool, str] = {False: "UniversalFMA_F32", True: "UniversalFMA_S32"}

PRODUCT_ATOMS = frozenset((*_TENSOR_CORE.values(), *_SCALAR.values()))
"""The instructions of matrix products: those that ``runtime/include/mugraph/atoms.h`` has."""


def tensor_core_atom(element: str) -> MmaAtom:
    """The tensor-core instruction for matrices of an element type (``f16``, ``e4m3``, ``s8`` ...).

    Raises LayoutError where there is none.
    """
    name = _TENSOR_CORE.get(element)
    if name is None:
        raise LayoutError(f"There is no tensor-core instruction for matrices of {element}.")
    return mma_atom(name)


def scalar_atom(element: str) -> MmaAtom:
    """The fused multiply-add of one thread for matrices of an element type."""
    return mma_atom(_SCALAR[element.startswith("s")])


def loads_as_stored(atom: MmaAtom, element: str) -> bool:
    """Whether the instruction takes elements of this type without a conversion of their width."""
    return element in (atom.a_type, {"tf32": "f32"}.get(atom.a_type))
