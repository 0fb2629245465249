"""MMA and copy instructions as data: their threads, values, shapes and element types."""

from mugraph.dialects.cute.atoms.copy import COPY_ATOMS, TMA_COPIES, CopyAtom, copy_atom, tma_atom
from mugraph.dialects.cute.atoms.mma import (
    F8_TYPES,
    MMA_ATOMS,
    MmaAtom,
    WarpgroupFamily,
    WarpgroupForm,
    mma_atom,
)
from mugraph.dialects.cute.atoms.products import (
    PRODUCT_ATOMS,
    loads_as_stored,
    scalar_atom,
    swapped_atoms,
    tensor_core_atom,
    tensor_core_atoms,
    warpgroup_family,
)
from mugraph.dialects.cute.atoms.umma import umma_atom, umma_names

__all__ = [
    "COPY_ATOMS",
    "F8_TYPES",
    "MMA_ATOMS",
    "PRODUCT_ATOMS",
    "TMA_COPIES",
    "CopyAtom",
    "MmaAtom",
    "WarpgroupFamily",
    "WarpgroupForm",
    "copy_atom",
    "loads_as_stored",
    "mma_atom",
    "scalar_atom",
    "swapped_atoms",
    "tensor_core_atom",
    "tensor_core_atoms",
    "tma_atom",
    "umma_atom",
    "umma_names",
    "warpgroup_family",
]
