"""Copy instructions as data.

For each instruction: the threads that take part, and three layouts from (thread, value) to *bits*
of the data that one execution moves: where each thread reads (``src``), where each thread writes
(``dst``), and the one by which a tiled copy numbers the data (``ref``).  For an element type of b
bits, upcast them by b.

Facts of the PTX ISA (cp.async, ldmatrix, stmatrix), in the form of the slides on atoms
of C. Cecka's "CuTe: CUDA Tensors" (NVIDIA).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from mugraph.dialects.cute.atoms.names import no_atom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.notation import parse_layout
from mugraph.dialects.cute.recast import recast_layout


class CopyAtom(NamedTuple):
    """One copy instruction.  The layouts map (thread, bit of the thread) to a bit of the data."""

    name: str
    thr_id: Layout[int]
    src_bits: Layout[int]
    dst_bits: Layout[int]
    ref_bits: Layout[int]
    arch: str

    @property
    def threads(self) -> int:
        """The number of threads that execute the instruction together."""
        return self.thr_id.size()

    @property
    def fills_zeros(self) -> bool:
        """Whether it writes zeros where a predicate does not hold."""
        return "_ZFILL" in self.name

    def value_layouts(self, element_bits: int) -> tuple[Layout[int], Layout[int], Layout[int]]:
        """The layouts ``(src, dst, ref)`` from (thread, value) to elements of that many bits.

        Raises LayoutError if the instruction cannot move such elements whole.
        """
        result: list[Layout[int]] = []
        for layout in (self.src_bits, self.dst_bits, self.ref_bits):
            try:
                values = recast_layout(layout, 1, element_bits)
            except LayoutError:
                values = None
            if values is None or values[0].size() != self.threads or not _whole(layout, values):
                raise LayoutError(
                    f"{self.name} does not move elements of {element_bits} bits whole: its threads "
                    f"hold bits {layout}."
                )
            result.append(values)
        src, dst, ref = result
        return src, dst, ref


def _whole(bits: Layout[int], values: Layout[int]) -> bool:
    """Whether every thread's bits make whole elements."""
    return bits[1].size() % values[1].size() == 0 and bits.size() > values.size()


def _layout(text: str) -> Any:
    return parse_layout(text)


_ONE = _layout("1:0")
_WARP = _layout("32:1")


def _of_one_thread(name: str, bits: int, arch: str) -> CopyAtom:
    layout = Layout((1, bits))
    return CopyAtom(name, _ONE, layout, layout, layout, arch)


def _universal() -> Iterator[CopyAtom]:
    """An ordinary load and store of one thread."""
    for bits in (8, 16, 32, 64, 128):
        yield _of_one_thread(f"UniversalCopy_U{bits}", bits, "sm_50")


def _cp_async() -> Iterator[CopyAtom]:
    """cp.async, through all caches (4, 8 or 16 bytes) or past L1 (16 bytes)."""
    for zero_fill in ("", "_ZFILL"):
        for bits in (32, 64, 128):
            yield _of_one_thread(f"SM80_CP_ASYNC_CACHEALWAYS{zero_fill}_U{bits}", bits, "sm_80")
        yield _of_one_thread(f"SM80_CP_ASYNC_CACHEGLOBAL{zero_fill}_U128", 128, "sm_80")


def _matrix() -> Iterator[CopyAtom]:
    """ldmatrix and stmatrix of 1, 2 or 4 matrices of 8 x 8 elements of 16 bits, and .trans.

    In shared memory, thread ``8 * i + r`` has the address of row r of matrix i; in registers,
    thread ``4 * r + c`` holds elements 2c and 2c + 1 of row r (.trans: of column r).
    """
    # Thread to rows; threads beyond the rows of x1 and x2 repeat them.
    rows = {
        1: "((8,4),128):((128,0),1)",
        2: "((16,2),128):((128,0),1)",
        4: "(32,128):(128,1)",
    }
    values = {
        1: "(32,32):(32,1)",
        2: "(32,(32,2)):(32,(1,1024))",
        4: "(32,(32,4)):(32,(1,1024))",
    }
    transposed = {
        1: "((4,8),(16,2)):((256,16),(1,128))",
        2: "((4,8),(16,2,2)):((256,16),(1,128,1024))",
        4: "((4,8),(16,2,4)):((256,16),(1,128,1024))",
    }
    for count in (1, 2, 4):
        for registers, plain, trans in (
            (values[count], f"U32x{count}", "N"),
            (transposed[count], f"U16x{2 * count}", "T"),
        ):
            shared, held = _layout(rows[count]), _layout(registers)
            load, store = f"SM75_{plain}_LDSM_{trans}", f"SM90_{plain}_STSM_{trans}"
            yield CopyAtom(load, _WARP, shared, held, held, "sm_75")
            yield CopyAtom(store, _WARP, held, shared, held, "sm_90")


@cache
def _table() -> Mapping[str, CopyAtom]:
    return {atom.name: atom for atom in [*_universal(), *_cp_async(), *_matrix()]}


TMA_COPIES = (
    "SM90_TMA_LOAD",
    "SM90_TMA_LOAD_MULTICAST",
    "SM90_TMA_STORE",
)
"""The copies of boxes that one thread starts."""

_TMA_GRANULE = 128
"""Bits: boxes have rows of whole 16 bytes."""


def tma_atom(name: str, bits: int) -> CopyAtom:
    """A copy of a box of so many bits, which one thread starts and the copy engine does.

    All elements are values of that thread.  Which box it is, its strides and its swizzle are the
    descriptor's.  Raises LayoutError for another name, or a box that is not of whole 16 bytes.
    """
    if name not in TMA_COPIES:
        raise LayoutError(f"There is no TMA copy {name!r}; there are {', '.join(TMA_COPIES)}.")
    if bits < 1 or bits % _TMA_GRANULE:
        raise LayoutError(f"{name} copies boxes of whole 16 bytes, not of {bits} bits.")
    return _of_one_thread(name, bits, "sm_90")


class _Atoms(Mapping[str, CopyAtom]):
    """The table by name, built when it is first read."""

    def __getitem__(self, name: str) -> CopyAtom:
        return _table()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_table())

    def __len__(self) -> int:
        return len(_table())


COPY_ATOMS: Mapping[str, CopyAtom] = _Atoms()
"""Every known copy instruction by its name."""


def copy_atom(name: str) -> CopyAtom:
    """The instruction of a name.  Raises LayoutError, with those there are, if there is none."""
    atom = _table().get(name)
    if atom is None:
        raise LayoutError(no_atom("copy atom", name, _table()))
    return atom
