"""MMA and copy instructions as data: their threads, values, shapes and element types."""

from mugraph.dialects.cute.atoms.copy import COPY_ATOMS, CopyAtom, copy_atom
from mugraph.dialects.cute.atoms.mma import MMA_ATOMS, MmaAtom, mma_atom

__all__ = ["COPY_ATOMS", "MMA_ATOMS", "CopyAtom", "MmaAtom", "copy_atom", "mma_atom"]
