"""Matrix multiply instructions as data.

For each instruction the table has what CuTe calls its traits: the shape M x N x K of the product,
the threads that take part (``thr_id`` maps a logical thread to a lane), the element types, and for
each operand the *thread-value layout*, from (thread, value) to the 1-D coordinate of the operand's
tile: A in (M,K), B in (N,K), C in (M,N), all column-major.

The layouts are facts of the PTX ISA's figures of matrix fragments (sections of mma.sync and
wgmma.mma_async), in the form that C. Cecka's "CuTe: CUDA Tensors" (NVIDIA) gives them on the
slides from "Generic FMA" to "MMA_Atom".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache, partial
from typing import Any, NamedTuple

from mugraph.dialects.cute.algebra import composition
from mugraph.dialects.cute.atoms.names import no_atom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.layout import Layout, make_layout
from mugraph.dialects.cute.notation import parse_layout
from mugraph.dialects.programming_model import WARP

ELEMENT_BITS: Mapping[str, int] = {
    "f64": 64,
    "f32": 32,
    "tf32": 32,
    "f16": 16,
    "bf16": 16,
    "e4m3": 8,
    "e5m2": 8,
    "s32": 32,
    "s8": 8,
    "u8": 8,
}
"""The width in bits of the element types that the table uses."""

F8_TYPES = ("e4m3", "e5m2")
F8_PAIRS = tuple((a, b) for a in F8_TYPES for b in F8_TYPES)
"""The types of operands of products of f8."""


class MmaAtom(NamedTuple):
    """One matrix multiply instruction: D = A * B + C.

    ``a_space`` and its kin say where operands are: "registers", "shared" for those that the
    instruction reads from shared memory through a descriptor (their layouts then give every thread
    the whole tile), or "tensor" for tensor memory (``umma.py``).
    """

    name: str
    shape_mnk: tuple[int, int, int]
    thr_id: Layout[int]
    a_layout: Layout[int]
    b_layout: Layout[int]
    c_layout: Layout[int]
    d_type: str
    a_type: str
    b_type: str
    c_type: str
    arch: str
    a_space: str = "registers"
    b_space: str = "registers"
    c_space: str = "registers"
    swaps_operands: bool = False
    """Whether the hardware's left matrix is B, and what it computes the transposed product."""
    pairs_columns: bool = False
    """Whether threads then hold neighbouring columns of C, as lines of bytes along N give them."""
    sum_bits: int | None = None
    """The fraction bits, below the largest addend, that are added; ``None``: as of fp32, or all."""

    @property
    def threads(self) -> int:
        """The number of threads that execute the instruction together."""
        return self.thr_id.size()

    def layout(self, operand: str) -> Layout[int]:
        """The thread-value layout of operand "A", "B" or "C"."""
        return {"A": self.a_layout, "B": self.b_layout, "C": self.c_layout}[operand]

    @property
    def values_of_c(self) -> int:
        """How many values of the accumulator each thread holds."""
        m, n, _ = self.shape_mnk
        return m * n // self.threads

    @property
    def is_scalar(self) -> bool:
        """Whether single threads execute the instruction."""
        return self.threads == 1 and self.c_space == "registers"

    @property
    def reads_runs(self) -> bool:
        """Whether a warp computes the transposed product, of matrices that it reads by runs."""
        return self.swaps_operands and self.threads == WARP and not self.pairs_columns

    @property
    def reads_lines(self) -> bool:
        """Whether a warp computes the transposed product, of a B that it reads by lines along N."""
        return self.swaps_operands and self.threads == WARP and self.pairs_columns

    @property
    def packed(self) -> int:
        """How many elements of A, neighbours along K, one 32-bit register holds."""
        return 32 // ELEMENT_BITS[self.a_type]

    def tile_shape(self, operand: str) -> tuple[int, int]:
        """The shape of operand "A" (M,K), "B" (N,K) or "C" (M,N)."""
        m, n, k = self.shape_mnk
        return {"A": (m, k), "B": (n, k), "C": (m, n)}[operand]


def _layout(text: str) -> Any:
    return parse_layout(text)


_ONE = _layout("1:0")
_WARP = _layout("32:1")
_WARP_GROUP = _layout("128:1")
_QUAD_PAIR = _layout("(4,2):(1,16)")

# Fragments of one warp, by the shape of the tile.
_8X4 = _layout("((4,8),1):((8,1),0)")
_8X8 = _layout("((4,8),2):((16,1),8)")
_8X16 = _layout("((4,8),4):((32,1),8)")
_16X4 = _layout("((4,8),2):((16,1),8)")
_16X8 = _layout("((4,8),(2,2)):((32,1),(16,8))")
_16X16 = _layout("((4,8),(2,2,2)):((32,1),(16,8,128))")
_8X16_PAIRS = _layout("((4,8),(2,2)):((16,1),(8,64))")
_16X8_SINGLES = _layout("((4,8),(2,2)):((16,1),(8,64))")
_8X8_SINGLES = _layout("((4,8),2):((8,1),32)")
_16X16_QUADS = _layout("((4,8),(4,2)):((64,1),(16,8))")
_16X32_QUADS = _layout("((4,8),(4,2,2)):((64,1),(16,8,256))")
_8X32_QUADS = _layout("((4,8),(4,2)):((32,1),(8,128))")

# Fragments of the quad pairs of Volta.
_QP_8X4_ROW = _layout("(8,4):(1,8)")
_QP_8X4_COL = _layout("((4,2),4):((8,4),1)")
_QP_8X8_F16 = _layout("(8,8):(1,8)")
_QP_8X8_F32 = _layout("((2,2,2),(2,2,2)):((1,16,4),(8,2,32))")


def _universal() -> Iterator[MmaAtom]:
    """Scalar fused multiply-add, one thread: UniversalFMA_<D><A><B><C>, or one type for all."""
    scalar = make_layout(_ONE, _ONE)
    for element in ("f64", "f32", "f16", "bf16"):
        name = f"UniversalFMA_{element.upper()}"
        yield MmaAtom(name, (1, 1, 1), _ONE, scalar, scalar, scalar, *(element,) * 4, arch="sm_50")
    yield MmaAtom(
        "UniversalFMA_S32", (1, 1, 1), _ONE, scalar, scalar, scalar, *("s32",) * 4, arch="sm_50"
    )
    for element in ("f16", "bf16"):
        name = f"UniversalFMA_F32{element.upper() * 2}F32"
        yield MmaAtom(
            name, (1, 1, 1), _ONE, scalar, scalar, scalar, "f32", element, element, "f32", "sm_50"
        )


def _dp4a() -> Iterator[MmaAtom]:
    """The dot product of four bytes, one thread."""
    row, scalar = _layout("(1,4):(0,1)"), make_layout(_ONE, _ONE)
    types = ("s32", "s8", "s8", "s32")
    yield MmaAtom("SM61_DP4A", (1, 1, 4), _ONE, row, row, scalar, *types, arch="sm_61")


def _volta() -> Iterator[MmaAtom]:
    """mma.m8n8k4 of a quad pair: lanes 0-3 and 16-19, and so on."""
    for accumulator, c_layout in (("f16", _QP_8X8_F16), ("f32", _QP_8X8_F32)):
        for transposes in ("TN", "NT", "NN", "TT"):
            # A is row-major for T and B for N: then a thread's values run along K.
            a_layout = _QP_8X4_ROW if transposes[0] == "T" else _QP_8X4_COL
            b_layout = _QP_8X4_ROW if transposes[1] == "N" else _QP_8X4_COL
            upper = accumulator.upper()
            yield MmaAtom(
                f"SM70_8x8x4_{upper}F16F16{upper}_{transposes}",
                (8, 8, 4),
                _QUAD_PAIR,
                a_layout,
                b_layout,
                c_layout,
                accumulator,
                "f16",
                "f16",
                accumulator,
                "sm_70",
            )


def _warp_wide() -> Iterator[MmaAtom]:
    """mma.sync of a warp, from Turing to Hopper."""
    rows: list[tuple[str, str, tuple[int, int, int], Any, Any, Any, tuple[str, ...]]] = []
    for accumulator, operand in (("f16", "f16"), ("f32", "f16"), ("f32", "bf16")):
        types = (accumulator, operand, operand, accumulator)
        rows.append(("SM80", "sm_80", (16, 8, 8), _16X8, _8X8, _16X8, types))
        rows.append(("SM80", "sm_80", (16, 8, 16), _16X16, _8X16_PAIRS, _16X8, types))
    types = ("f32", "f16", "f16", "f32")
    rows.append(("SM75", "sm_75", (16, 8, 8), _16X8, _8X8, _16X8, types))
    types = ("f32", "tf32", "tf32", "f32")
    rows.append(("SM80", "sm_80", (16, 8, 4), _16X4, _8X4, _16X8, types))
    rows.append(("SM80", "sm_80", (16, 8, 8), _16X8_SINGLES, _8X8_SINGLES, _16X8, types))
    types = ("f64", "f64", "f64", "f64")
    rows.append(("SM80", "sm_80", (8, 8, 4), _8X4, _8X4, _8X8, types))
    rows.append(("SM90", "sm_90", (16, 8, 4), _16X4, _8X4, _16X8, types))
    for a_type in ("s8", "u8"):
        for b_type in ("s8", "u8"):
            types = ("s32", a_type, b_type, "s32")
            rows.append(("SM80", "sm_80", (8, 8, 16), _8X16, _8X16, _8X8, types))
            rows.append(("SM80", "sm_80", (16, 8, 16), _16X16_QUADS, _8X16, _16X8, types))
            rows.append(("SM80", "sm_80", (16, 8, 32), _16X32_QUADS, _8X32_QUADS, _16X8, types))
    for a_type, b_type in F8_PAIRS:
        types = ("f32", a_type, b_type, "f32")
        rows.append(("SM89", "sm_89", (16, 8, 32), _16X32_QUADS, _8X32_QUADS, _16X8, types))
    for prefix, arch, shape, a_layout, b_layout, c_layout, types in rows:
        m, n, k = shape
        d_type, a_type, b_type, c_type = types
        yield MmaAtom(
            f"{prefix}_{m}x{n}x{k}_{''.join(types).upper()}_TN",
            shape,
            _WARP,
            a_layout,
            b_layout,
            c_layout,
            d_type,
            a_type,
            b_type,
            c_type,
            arch,
        )


def _swapped(atom: MmaAtom, name: str) -> MmaAtom:
    """An instruction with both operands swapped: the transposed product, for matrices of few rows.

    The hardware computes D^T = B^T A^T, so that the rows of the instruction are columns of D.
    Threads then hold D as the composition of a transposition with the accumulator's layout says.
    """
    m, n, k = atom.shape_mnk
    return atom._replace(
        name=name,
        shape_mnk=(n, m, k),
        a_layout=atom.b_layout,
        b_layout=atom.a_layout,
        c_layout=composition(Layout((m, n), (n, 1)), atom.c_layout),
        a_type=atom.b_type,
        b_type=atom.a_type,
        a_space=atom.b_space,
        b_space=atom.a_space,
        swaps_operands=True,
    )


_8X16_COLUMN_PAIRS = _layout("((4,8),(2,2)):((2,16),(8,1))")
_16X16_COLUMN_PAIRS = _layout("((4,8),(2,2,2)):((32,2),(16,1,128))")


def _swapped_warp_wide() -> Iterator[MmaAtom]:
    """mma.sync of 16 bits with swapped operands, of B by runs along K or by lines along N.

    Transposed lines of bytes give a lane two neighbours along N: the hardware's rows are then the
    even columns of a tile, and behind them the odd ones.
    """
    for atom in _warp_wide():
        if (
            atom.shape_mnk == (16, 8, 16)
            and atom.c_type == "f32"
            and ELEMENT_BITS[atom.a_type] == 16
        ):
            types = "".join((atom.d_type, atom.a_type, atom.b_type, atom.c_type)).upper()
            by_runs = _swapped(atom, f"SM80_8x16x16_{types}_SWAPPED")
            yield by_runs
            yield by_runs._replace(
                name=f"SM80_8x16x16_{types}_PAIRS",
                b_layout=_16X16_COLUMN_PAIRS,
                c_layout=_8X16_COLUMN_PAIRS,
                pairs_columns=True,
            )


_WGMMA_N = tuple(range(8, 257, 8))
_WGMMA_N_INTEGER = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)


def _wgmma_a_in_registers(bits: int) -> Layout[int]:
    """A (64 x 32 bytes) in registers: as the accumulator, in 32-bit registers of values along K."""
    packed = 32 // bits
    k_step = 64 * packed
    if packed == 1:
        return _layout(f"((4,8,4),(2,2)):(({k_step},1,16),(8,{4 * k_step}))")
    return _layout(f"((4,8,4),({packed},2,2)):(({k_step},1,16),(64,8,{4 * k_step}))")


class WarpgroupForm(StrEnum):
    """Where the operands of an instruction of warp groups are."""

    SHARED = "SS"
    """Both in shared memory."""
    REGISTERS = "RS"
    """The left one in registers."""
    SWAPPED = "SWAPPED"
    """Both in shared memory, each in the place of the other."""
    SWAPPED_REGISTERS = "SWAPPED_RS"
    """Each in the place of the other, the right one in registers."""

    @property
    def swaps_operands(self) -> bool:
        """Whether each operand is in the place of the other."""
        return self in (WarpgroupForm.SWAPPED, WarpgroupForm.SWAPPED_REGISTERS)


class WarpgroupFamily(NamedTuple):
    """The instructions of warp groups (``wgmma``) for operands of two types and sums of one."""

    d_type: str
    a_type: str
    b_type: str

    @property
    def depth(self) -> int:
        """The extent along k: 32 bytes."""
        return 256 // ELEMENT_BITS[self.a_type]

    @property
    def lengths(self) -> tuple[int, ...]:
        """The columns that an instruction can have: its rows, where its operands are swapped."""
        return _WGMMA_N_INTEGER if self.d_type == "s32" else _WGMMA_N

    @property
    def is_k_major(self) -> bool:
        """Whether operands in shared memory must have neighbours along k: all but 16 bits."""
        return ELEMENT_BITS[self.a_type] != 16

    @property
    def sum_bits(self) -> int | None:
        """As of :class:`MmaAtom`: products of f8 are cut to 14 bits before they are added.

        Source: DeepSeek-V3 Technical Report (arXiv 2412.19437), section 3.3.2.
        """
        return 13 if self.d_type == "f32" and ELEMENT_BITS[self.a_type] == 8 else None

    @property
    def forms(self) -> tuple[WarpgroupForm, ...]:
        """The forms that are known; TF32 and sums of f16 have none with swapped operands."""
        swaps = self.d_type != "f16" and self.a_type != "tf32"
        return tuple(form for form in WarpgroupForm if swaps or not form.swaps_operands)

    def name(self, length: int, form: WarpgroupForm) -> str:
        """The name of an instruction; that of a form which CuTe knows is CuTe's."""
        types = (self.d_type + self.a_type + self.b_type).upper()
        if form.swaps_operands:
            return f"SM90_{length}x64x{self.depth}_{types}_{form}"
        suffix = "_TN" if self.is_k_major else ""
        return f"SM90_64x{length}x{self.depth}_{types}_{form}{suffix}"

    def longest(self, columns: int) -> int | None:
        """The most columns of an instruction that divide a product's; ``None`` where none does."""
        return max((length for length in self.lengths if columns % length == 0), default=None)

    def atom(self, length: int, form: WarpgroupForm) -> MmaAtom:
        """The instruction of so many columns; of so many rows, where its operands are swapped."""
        if form.swaps_operands:
            return self._swapped(length, form)
        in_shared = form is WarpgroupForm.SHARED
        depth = self.depth
        return MmaAtom(
            self.name(length, form),
            (64, length, depth),
            _WARP_GROUP,
            _layout(f"(128,(64,{depth})):(0,(1,64))")
            if in_shared
            else _wgmma_a_in_registers(ELEMENT_BITS[self.a_type]),
            _layout(f"(128,({length},{depth})):(0,(1,{length}))"),
            _layout(f"((4,8,4),(2,2,{length // 8})):((128,1,16),(64,8,512))"),
            self.d_type,
            self.a_type,
            self.b_type,
            self.d_type,
            "sm_90a",
            "shared" if in_shared else "registers",
            "shared",
            sum_bits=self.sum_bits,
        )

    def _swapped(self, length: int, form: WarpgroupForm) -> MmaAtom:
        """With both operands swapped: its 64 rows are columns of D, and 8 or more columns rows."""
        hardware = WarpgroupFamily(self.d_type, self.b_type, self.a_type)
        in_registers = form is WarpgroupForm.SWAPPED_REGISTERS
        left = WarpgroupForm.REGISTERS if in_registers else WarpgroupForm.SHARED
        return _swapped(hardware.atom(length, left), self.name(length, form))


GROUP_TYPES = (
    ("f16", "f16", "f16"),
    ("f32", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
    *((d, a, b) for d in ("f16", "f32") for a, b in F8_PAIRS),
)
"""The types of sums and operands of products by warp groups, and of those in tensor memory."""
WARPGROUP_FAMILIES = tuple(WarpgroupFamily(d, a, b) for d, a, b in GROUP_TYPES)
"""All instructions of warp groups."""


@cache
def _makers() -> Mapping[str, Callable[[], MmaAtom]]:
    """How each instruction is made: there are 1600, and a program uses few."""
    small = (*_universal(), *_dp4a(), *_volta(), *_warp_wide(), *_swapped_warp_wide())
    makers: dict[str, Callable[[], MmaAtom]] = {atom.name: lambda atom=atom: atom for atom in small}
    for family in WARPGROUP_FAMILIES:
        for form in family.forms:
            for length in family.lengths:
                makers[family.name(length, form)] = partial(family.atom, length, form)
    return makers


@cache
def _made(name: str) -> MmaAtom:
    return _makers()[name]()


class _Atoms(Mapping[str, MmaAtom]):
    """The instructions by name, each made when it is first asked for."""

    def __getitem__(self, name: str) -> MmaAtom:
        return _made(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_makers())

    def __len__(self) -> int:
        return len(_makers())


MMA_ATOMS: Mapping[str, MmaAtom] = _Atoms()
"""Every known MMA instruction by its name, as CuTe names it; it has no names for swapped ones."""


def mma_atom(name: str) -> MmaAtom:
    """The instruction of a name.  Raises LayoutError, with those there are, if there is none."""
    if name not in _makers():
        raise LayoutError(no_atom("MMA atom", name, _makers()))
    return _made(name)
