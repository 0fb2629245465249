"""Walks through tensors in memory: strides, orders of dimensions, and copies between two places."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, Writer, layout_type
from mugraph.codegen.cuda.pieces import Piece, print_pieces
from mugraph.dialects.tensor_types import layout_of, shape_of, strides_of, value_label


def strides_in_memory(value: SSAValue) -> tuple[int, ...]:
    """The strides of a DTensor, in elements; raises :class:`CodegenError` where it has none."""
    layout = layout_of(value.type)
    if layout is None:
        raise CodegenError(f"{value_label(value)} has no layout; run --resolve-layout first")
    return strides_of(layout)


def broadcast_strides(value: SSAValue) -> tuple[int, ...]:
    """The strides of a tensor over an iteration domain, 0 along dimensions of extent 1."""
    return tuple(
        0 if extent == 1 else stride
        for extent, stride in zip(shape_of(value.type), strides_in_memory(value), strict=True)
    )


def memory_order(extents: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Dimensions from the one of the least stride on; those of extent 1 come last."""
    return sorted(range(len(extents)), key=lambda dim: (extents[dim] == 1, strides[dim]))


def walk(extents: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> str:
    """A layout over a piece, dimensions in the order of iteration."""
    return layout_type(*walked_modes(extents, strides, order))


def walked_modes(
    extents: Sequence[int], strides: Sequence[int], order: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents and strides in the order of iteration; dimensions of extent 1 have stride 0."""
    return (
        tuple(extents[dim] for dim in order),
        tuple(0 if extents[dim] == 1 else strides[dim] for dim in order),
    )


def print_move(
    writer: Writer,
    where: str,
    pointers: Mapping[SSAValue, str],
    destination: SSAValue,
    source: SSAValue,
    start: Sequence[int],
) -> None:
    """Prints the copy of the smaller of two tensors to or from its place in the larger one."""
    domain = min(shape_of(source.type), shape_of(destination.type), key=math.prod)
    sides = (destination, source)
    strides = [strides_in_memory(value) for value in sides]
    order = memory_order(domain, strides[0])
    offsets = [
        0
        if shape_of(value.type) == domain
        else sum(at * step for at, step in zip(start, steps, strict=True))
        for value, steps in zip(sides, strides, strict=True)
    ]

    def print_piece(piece: Piece) -> None:
        for name, steps in zip(("Target", "Source"), strides, strict=True):
            writer.line(f"using {name} = {walk(piece.extents, steps, order)};")
        places = [
            piece.pointer(pointers[value], steps, offset)
            for value, steps, offset in zip(sides, strides, offsets, strict=True)
        ]
        writer.line(f"kn::Copy<Target, Source>::run({where}, {places[0]}, {places[1]});")

    print_pieces(writer, domain, strides, print_piece)
