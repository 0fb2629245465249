"""Products of one thread by the tensor cores of Blackwell (``tcgen05.mma``, UMMA) as data.

One thread starts a product for its block, or for two blocks of a cluster.  A lies in shared memory
or in tensor memory, B in shared memory, and sums in tensor memory, so that "threads" in the layouts
are the blocks: each has its part of the rows, and of the columns of B.

Source: PTX ISA, "tcgen05.mma": valid shapes by kind and ``cta_group``.  CuTe's traits of
``SM100_MMA_F16BF16_SS`` and its kin have the same layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import NamedTuple

from mugraph.dialects.cute.atoms.mma import ELEMENT_BITS, GROUP_TYPES, MmaAtom
from mugraph.dialects.cute.atoms.names import no_atom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout

ROWS_BYTES = 32
"""The extent of a product along k."""
MOST_COLUMNS = 256


class UmmaFamily(NamedTuple):
    """The products for operands of two types and sums of one."""

    d_type: str
    a_type: str
    b_type: str

    @property
    def depth(self) -> int:
        """The extent along k: 32 bytes."""
        return ROWS_BYTES * 8 // ELEMENT_BITS[self.a_type]

    def shapes(self, blocks: int) -> list[tuple[int, int]]:
        """Rows and columns that a product of one or of two blocks may have."""
        if blocks == 2:
            return [(m, n) for m in (128, 256) for n in range(32, MOST_COLUMNS + 1, 32)]
        steps = {64: 8, 128: 16}
        if self.d_type == "s32":
            steps = {64: 16, 128: 16}
        return [(m, n) for m, step in steps.items() for n in range(step, MOST_COLUMNS + 1, step)]

    def name(self, rows: int, columns: int, blocks: int, a_space: str) -> str:
        """``SM100_128x256x16_F32F16F16_SS``; ``2SM`` in it for two blocks, ``TS`` for A in tensor
        memory."""
        types = (self.d_type + self.a_type + self.b_type).upper()
        several = "_2SM" if blocks == 2 else ""
        form = "SS" if a_space == "shared" else "TS"
        return f"SM100{several}_{rows}x{columns}x{self.depth}_{types}_{form}"

    def atom(self, rows: int, columns: int, blocks: int, a_space: str) -> MmaAtom:
        """The product."""
        depth = self.depth

        def shared_out(extent: int, other: int) -> Layout[int]:
            part = extent // blocks
            step = part if blocks > 1 else 0
            return Layout((blocks, (part, other)), (step, (1, extent)))

        return MmaAtom(
            self.name(rows, columns, blocks, a_space),
            (rows, columns, depth),
            Layout(blocks, 1 if blocks > 1 else 0),
            shared_out(rows, depth),
            shared_out(columns, depth),
            shared_out(rows, columns),
            self.d_type,
            self.a_type,
            self.b_type,
            self.d_type,
            "sm_100a",
            a_space,
            "shared",
            c_space="tensor",
        )


UMMA_FAMILIES = tuple(UmmaFamily(d, a, b) for d, a, b in GROUP_TYPES)


@cache
def _makers() -> Mapping[str, Callable[[], MmaAtom]]:
    return {
        family.name(m, n, blocks, a_space): partial(family.atom, m, n, blocks, a_space)
        for family in UMMA_FAMILIES
        for blocks in (1, 2)
        for m, n in family.shapes(blocks)
        for a_space in ("shared", "tensor")
    }


def umma_names() -> tuple[str, ...]:
    """The names of all products."""
    return tuple(_makers())


def umma_atom(name: str) -> MmaAtom:
    """The product of a name.  Raises LayoutError, with those there are, if there is none."""
    if name not in _makers():
        raise LayoutError(no_atom("product of tensor memory", name, _makers()))
    return _makers()[name]()
