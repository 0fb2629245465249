"""Which instruction multiplies matrices of an element type: the one place that names it.

Tensor cores take f16, bf16 and i8 as they are stored, and f32 rounded to TF32 (10 bits of
mantissa, to nearest, ties away from zero).  f8 is taken as it is stored where a target has such
an instruction, and converted exactly to f16 first where it has none.  On sm_90a and sm_100a ptxas
makes of ``mma.sync`` of f8 a conversion and a product of f16, which adds up as that does; on sm_89
it would add up with fewer bits.

Scalar fused multiply-adds serve products in plain fp32 and blocks of less than a warp: every type
is converted exactly to fp32 (i8 to 32-bit integers) first.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import chain

from mugraph.dialects.cute.atoms.mma import (
    F8_PAIRS,
    WARPGROUP_FAMILIES,
    MmaAtom,
    WarpgroupFamily,
    mma_atom,
)
from mugraph.dialects.cute.errors import LayoutError

_TENSOR_CORE: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("f16", "f16"): ("SM80_16x8x16_F32F16F16F32_TN",),
    ("bf16", "bf16"): ("SM80_16x8x16_F32BF16BF16F32_TN",),
    ("f32", "f32"): ("SM80_16x8x8_F32TF32TF32F32_TN",),
    ("s8", "s8"): ("SM80_16x8x32_S32S8S8S32_TN",),
    **{
        (a, b): (
            f"SM89_16x8x32_F32{a.upper()}{b.upper()}F32_TN",
            "SM80_16x8x16_F32F16F16F32_TN",
        )
        for a, b in F8_PAIRS
    },
}
"""Of the types of A and B: the instructions of warps, the first that a target has is taken."""

_SCALAR: Mapping[bool, str] = {False: "UniversalFMA_F32", True: "UniversalFMA_S32"}

_SWAPPED: Mapping[str, tuple[str, ...]] = {
    f"SM80_16x8x16_{types}_TN": tuple(
        f"SM80_8x16x16_{types}_{kind}" for kind in ("SWAPPED", "PAIRS")
    )
    for types in ("F32F16F16F32", "F32BF16BF16F32")
}
"""The same with swapped operands, for few rows: of a right matrix by runs along k, or by lines."""

PRODUCT_ATOMS = frozenset(chain(*_TENSOR_CORE.values(), _SCALAR.values(), *_SWAPPED.values()))
"""The instructions of matrix products: those that ``runtime/include/mugraph/atoms.h`` has."""


def tensor_core_atoms(a_type: str, b_type: str) -> tuple[MmaAtom, ...]:
    """The instructions of warps for matrices of two element types, the best first.

    Raises LayoutError where there is none.
    """
    names = _TENSOR_CORE.get((a_type, b_type))
    if names is None:
        raise LayoutError(
            f"There is no tensor-core instruction for matrices of {a_type} and {b_type}."
        )
    return tuple(map(mma_atom, names))


def tensor_core_atom(a_type: str, b_type: str, types: Container[str]) -> MmaAtom:
    """The best instruction of warps that a target has, whose instructions are of ``types``."""
    atoms = tensor_core_atoms(a_type, b_type)
    return next((atom for atom in atoms if atom.a_type in types), atoms[-1])


def swapped_atoms(atom: MmaAtom) -> tuple[MmaAtom, ...]:
    """The instructions of warps with swapped operands, which read by runs or by lines."""
    return tuple(map(mma_atom, _SWAPPED.get(atom.name, ())))


def scalar_atom(element: str) -> MmaAtom:
    """The fused multiply-add of one thread for matrices of an element type."""
    return mma_atom(_SCALAR[element.startswith("s")])


def warpgroup_family(a_type: str, b_type: str) -> WarpgroupFamily | None:
    """The instructions by which warp groups multiply matrices of two element types.

    They add up in f32, integers in s32, and take elements as they are stored; ``None`` where there
    are none such, as of f32.
    """
    return next(
        (
            family
            for family in WARPGROUP_FAMILIES
            if (family.a_type, family.b_type) == (a_type, b_type) and family.d_type != "f16"
        ),
        None,
    )


def loads_as_stored(atom: MmaAtom, element: str) -> bool:
    """Whether the instruction takes elements of this type without a conversion of their width."""
    return element in (atom.a_type, atom.b_type, {"tf32": "f32"}.get(atom.a_type))
