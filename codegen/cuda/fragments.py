"""Fragments in the CUDA text: the classes that know which thread holds what."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, layout_type, stored_type
from mugraph.codegen.cuda.printer import KernelPrinter, print_operation
from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import PRODUCT_ATOMS, mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_bytes_of,
    row_major_strides,
)


def atom_of(mma: TiledMmaAttr) -> str:
    """The class of an instruction in the runtime, and the warps along k if there are several.

    Refuses instructions that the runtime lacks.
    """
    if mma.atom not in PRODUCT_ATOMS and not is_of_warpgroups(mma_atom(mma.atom)):
        raise CodegenError(
            f"the CUDA target's matrix products use {', '.join(sorted(PRODUCT_ATOMS))}; it cannot "
            f"print {mma} yet"
        )
    has_one_along_k = mma_atom(mma.atom).is_scalar or is_of_warpgroups(mma_atom(mma.atom))
    if has_one_along_k and mma.thr_layout[2] != 1:
        raise CodegenError(
            "the CUDA target's products by single threads or by groups of warps have one of them "
            f"along k; it cannot print {mma}"
        )
    along_k = f", {mma.thr_layout[2]}" if mma.thr_layout[2] > 1 else ""
    return f"{atom_class(mma)}{along_k}"


def atom_class(mma: TiledMmaAttr) -> str:
    """The class of an instruction: the runtime's, or of warp groups that of the file itself."""
    return mma.atom if is_of_warpgroups(mma_atom(mma.atom)) else f"atoms::{mma.atom}"


def fragment_class(type_: sched.TileType) -> str:
    """The class of the runtime that knows which thread holds which value of a fragment."""
    shape = type_.get_shape()
    mma = type_.tiled_mma
    if mma is not None:
        atom = atom_of(mma)
        warps_m, warps_n = mma.thr_layout[:2]
        return f"tb::MmaFragment<{warps_m}, {warps_n}, {shape[-2]}, {shape[-1]}, {atom}>"
    if type_.rows is not None:
        return rows_class(type_.rows)
    whole = type_.arrangement
    if whole is not None:
        warps_m, warps_n = whole.thr_layout[:2]
        if type_.sliced_axis == -1:
            return f"tb::RowFragment<{warps_m}, {shape[-2]}, {atom_of(whole)}>"
        return f"tb::ColumnFragment<{warps_m}, {warps_n}, {shape[-1]}, {atom_of(whole)}>"
    partition = type_.partition
    if partition is None:
        raise CodegenError(f"the CUDA target cannot hold {type_} in registers yet")
    layout = domain_layout(shape, partition.order)
    return f"tb::LinearFragment<{partition.threads}, {partition.vector}, {layout}>"


def rows_class(rows: LinearRows) -> str:
    """The class of the runtime that knows which thread holds which row."""
    partition = rows.partition
    return (
        f"tb::LinearRows<{partition.threads}, {partition.vector}, {math.prod(rows.shape)}, "
        f"{rows.extent}>"
    )


def domain_layout(shape: Sequence[int], order: Sequence[int]) -> str:
    """An iteration domain on its own: a compact layout of its extents."""
    extents = tuple(shape[dim] for dim in order)
    compact = tuple(reversed(row_major_strides(tuple(reversed(extents)))))
    return layout_type(extents, compact)


def held_layout(
    value: SSAValue, domain: Sequence[int], partition: LinearPartition, printer: KernelPrinter
) -> str:
    """The layout over a domain of a buffer, or of what threads hold of it in registers."""
    if isinstance(value.type, sched.TileType):
        return domain_layout(domain, partition.order)
    return printer.layout(value, domain, partition.order)


def fragment_type_of(value: SSAValue) -> sched.TileType:
    """The type of a fragment."""
    if not isinstance(value.type, sched.TileType):
        raise CodegenError(f"the CUDA target expected a fragment, got {value.type}")
    return value.type


@print_operation.register
def _(op: sched.EmptyOp, printer: KernelPrinter) -> None:
    name, type_ = printer.names.of(op.result), stored_type(op.result)
    # Pairs of 16 bits are moved as words.
    aligned = "alignas(4) " if element_bytes_of(op.result.type) < 4 else ""
    held = fragment_class(fragment_type_of(op.result))
    printer.writer.line(f"{aligned}{type_} {name}[{held}::kValues];")


def matrix_type(matrix: AnyLayout) -> str:
    """A matrix, or a part of one, as a static layout."""
    plain = base_layout(matrix)
    return layout_type(plain.shape, plain.stride, matrix)


def held_by(value: SSAValue) -> str:
    """The class of the runtime of a fragment."""
    return fragment_class(fragment_type_of(value))
