"""Instructions under the names of NVIDIA's CuTe DSL: ``cute.nvgpu.warp.MmaF16BF16Op(...)``.

Each is the name of an atom of :mod:`mugraph.dialects.cute.atoms`; ``make_copy_atom`` and
``make_tiled_mma`` take it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

from mugraph.cute.indices import Numeric
from mugraph.cute.machine import kernel_machine, number_of_groups
from mugraph.cute.numbers import dtype_named, element_of
from mugraph.dialects import te
from mugraph.dialects.cute import (
    AnyLayout,
    IntTuple,
    Layout,
    LayoutError,
    Swizzle,
    composition,
)
from mugraph.dialects.cute import tiled as _tiled
from mugraph.dialects.cute.atoms import CopyAtom, MmaAtom, copy_atom
from mugraph.dialects.cute.int_tuple import size
from mugraph.dialects.cute.tiled import TiledCopy, TiledMma, make_tiled_copy_for
from mugraph.dialects.cute.tma import (
    TmaCopy,
    create_tma_multicast_mask,
    make_tma_copy,
    tma_partition,
)


class TypedAtom(NamedTuple):
    """A copy instruction for elements of so many bits."""

    atom: CopyAtom
    bits: int


def _name(dtype: Any) -> str:
    return str(element_of(dtype_named(dtype))).upper()


def CopyUniversalOp() -> str:  # noqa: N802 - the DSL's name
    """An ordinary load and store of one thread."""
    return "UniversalCopy_U{bits}"


def MmaUniversalOp(abacc_dtype: Any) -> str:  # noqa: N802
    """A fused multiply-add of one thread."""
    return f"UniversalFMA_{_name(abacc_dtype)}"


def _mma(arch: str, left: Any, sums: Any, shape: Sequence[int], form: str) -> str:
    types = _name(sums) + 2 * _name(left) + (_name(sums) if arch == "SM80" else "")
    return f"{arch}_{'x'.join(map(str, shape))}_{types}_{form}"


class cpasync:  # noqa: N801
    """``cp.async``."""

    class LoadCacheMode:
        """Through L1, or past it, which is of 16 bytes."""

        ALWAYS, GLOBAL = "always", "global"

    @staticmethod
    def CopyG2SOp(cache_mode: str = LoadCacheMode.ALWAYS) -> str:  # noqa: N802
        """``cp.async`` of 4, 8 or 16 bytes."""
        return f"SM80_CP_ASYNC_CACHE{cache_mode.upper()}_U{{bits}}"

    @staticmethod
    def CopyBulkTensorTileG2SOp() -> str:  # noqa: N802
        """A load by TMA."""
        return "SM90_TMA_LOAD"

    @staticmethod
    def CopyBulkTensorTileS2GOp() -> str:  # noqa: N802
        """A store by TMA."""
        return "SM90_TMA_STORE"

    @staticmethod
    def make_tiled_tma_atom(
        op: str, gmem_tensor: Any, smem_layout: AnyLayout, cta_tiler: IntTuple
    ) -> tuple[TmaCopy, Any]:
        """A copy of tiles, and the tensor that they are of.

        Raises LayoutError where the layout is none of a tile.
        """
        if size(smem_layout.shape) != size(cta_tiler):
            raise LayoutError(f"make_tiled_tma_atom: {smem_layout} is no tile of {cta_tiler}.")
        return make_tma_copy(op, gmem_tensor, smem_layout), gmem_tensor

    @staticmethod
    def CopyBulkTensorTileG2SMulticastOp() -> str:  # noqa: N802
        """A load by TMA to several blocks of a cluster."""
        return "SM90_TMA_LOAD_MULTICAST"

    tma_partition = staticmethod(tma_partition)
    create_tma_multicast_mask = staticmethod(create_tma_multicast_mask)


class warp:  # noqa: N801
    """Instructions of a warp."""

    @staticmethod
    def MmaF16BF16Op(ab_dtype: Any, acc_dtype: Any, shape_mnk: Sequence[int]) -> str:  # noqa: N802
        """``mma.sync`` of f16 or bf16."""
        return _mma("SM80", ab_dtype, acc_dtype, shape_mnk, "TN")

    @staticmethod
    def LdMatrix8x8x16bOp(transpose: bool = False, num_matrices: int = 1) -> str:  # noqa: N802
        """``ldmatrix`` of 1, 2 or 4 matrices."""
        form = f"U16x{2 * num_matrices}_LDSM_T" if transpose else f"U32x{num_matrices}_LDSM_N"
        return f"SM75_{form}"

    @staticmethod
    def StMatrix8x8x16bOp(transpose: bool = False, num_matrices: int = 1) -> str:  # noqa: N802
        """``stmatrix`` of so many matrices; kernels have it of 4."""
        form = f"U16x{2 * num_matrices}_STSM_T" if transpose else f"U32x{num_matrices}_STSM_N"
        return f"SM90_{form}"


class warpgroup:  # noqa: N801
    """Instructions of a warp group: products, which run behind the program.

    ``fence()`` before the first product, ``commit_group()`` behind the last one of a group, and
    ``wait_group(n)`` until at most n groups are under way: then the sums of the others are there,
    and their operands may be overwritten.
    """

    @staticmethod
    def fence() -> None:
        """Before products, where registers of their sums were touched."""
        kernel_machine("warpgroup.fence").warpgroup_fence()

    @staticmethod
    def commit_group() -> None:
        """Closes a group: the products that the warp group has begun since the one before."""
        kernel_machine("warpgroup.commit_group").instruct(te.WarpgroupCommitOp())

    @staticmethod
    def wait_group(groups: Numeric) -> None:
        """Waits until at most ``groups`` of the newest groups are under way."""
        name = "warpgroup.wait_group"
        kernel_machine(name).warpgroup_wait(number_of_groups(name, groups))

    class SmemLayoutAtomKind(Enum):
        """Along which mode lines are contiguous, and the bits of their swizzle."""

        K_INTER, K_SW32, K_SW64, K_SW128 = (("K", bits) for bits in range(4))
        MN_INTER, MN_SW32, MN_SW64, MN_SW128 = (("MN", bits) for bits in range(4))

    @staticmethod
    def make_smem_layout_atom(kind: SmemLayoutAtomKind, element_type: Any) -> AnyLayout:
        """Eight lines as TMA writes and products read them; ``tile_to_shape`` makes tiles of it."""
        major, bits = kind.value
        vector = 16 // dtype_named(element_type).itemsize
        line = vector << bits
        lines = Layout((8, line), (line, 1)) if major == "K" else Layout((line, 8), (1, line))
        return composition(Swizzle(bits, vector.bit_length() - 1, 3), lines) if bits else lines

    @staticmethod
    def MmaF16BF16Op(ab_dtype: Any, acc_dtype: Any, instruction_shape: Sequence[int]) -> str:  # noqa: N802
        """``wgmma.mma_async`` of f16 or bf16, A and B in shared memory."""
        return _mma("SM90", ab_dtype, acc_dtype, instruction_shape, "SS")


def make_copy_atom(
    op: CopyAtom | str, copy_internal_type: Any, *, num_bits_per_copy: int = 0
) -> TypedAtom:
    """An instruction for elements of a type, that moves so many bits: one element if none are said.

    Raises LayoutError where there is no such instruction.
    """
    bits = 8 * dtype_named(copy_internal_type).itemsize
    name = op.format(bits=num_bits_per_copy or bits) if isinstance(op, str) else op
    return TypedAtom(copy_atom(name) if isinstance(name, str) else name, bits)


def make_tiled_copy(atom: TypedAtom | CopyAtom | str, *layouts: Any) -> TiledCopy:
    """``(atom, layout_tv, tiler_mn)`` of :func:`make_copy_atom`; or as ``TiledCopy`` counts bits.

    That is ``(atom, element_bits, thr_layout, val_layout)``.
    """
    if isinstance(atom, TypedAtom):
        return TiledCopy(*atom, *layouts)
    return _tiled.make_tiled_copy(atom, *layouts)


def make_tiled_copy_tv(
    atom: TypedAtom, thr_layout: Layout[int], val_layout: Layout[int] | None = None
) -> TiledCopy:
    """A tiled copy from the layouts of threads and of values over the tile."""
    return _tiled.make_tiled_copy(*atom, thr_layout, val_layout)


def make_tiled_copy_A(atom: TypedAtom, tiled_mma: TiledMma) -> TiledCopy:  # noqa: N802
    """The copy that moves A to or from the threads of a product."""
    return make_tiled_copy_for(*atom, tiled_mma, "A")


def make_tiled_copy_B(atom: TypedAtom, tiled_mma: TiledMma) -> TiledCopy:  # noqa: N802
    """The copy that moves B to or from the threads of a product."""
    return make_tiled_copy_for(*atom, tiled_mma, "B")


def make_tiled_copy_C(atom: TypedAtom, tiled_mma: TiledMma) -> TiledCopy:  # noqa: N802
    """The copy that moves C to or from the threads of a product."""
    return make_tiled_copy_for(*atom, tiled_mma, "C")


def make_tiled_mma(
    op_or_atom: MmaAtom | str,
    atom_layout_mnk: Layout[int] | IntTuple = (1, 1, 1),
    permutation_mnk: tuple[int | Layout[int] | None, ...] = (None, None, None),
) -> TiledMma:
    """Copies of an instruction along M, N and K, and the order of their coordinates."""
    return TiledMma(op_or_atom, atom_layout_mnk, permutation_mnk)
