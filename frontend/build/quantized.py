"""Numbers of few bits with scales: what programs make of them, and make them of.

Codes of 4 bits lie two in a byte, of tensors of :data:`mi.int8`.  The functions here add operators
that are there for all programs, so that the kernel that multiplies weights also unpacks and scales
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import SupportsIndex
from typing import cast as cast_type

from xdsl.dialects.builtin import bf16, f8E4M3FN, f8E5M2, f32, i8
from xdsl.ir import Attribute

from mugraph.build.elementwise import abs as magnitude
from mugraph.build.elementwise import bits, cast, clamp, fp4, max, nf4, round
from mugraph.build.errors import BuildError
from mugraph.build.named_numbers import NamedNumber, stand_in
from mugraph.build.programs import concat, reduction_max, reshape, transpose
from mugraph.build.tensors import DTensor

BYTE = 8


@dataclass(frozen=True)
class Format:
    """How the bits of a byte are numbers: ``numbers`` makes one of those from a bit upwards."""

    width: int
    numbers: Callable[[DTensor, int], DTensor]

    @property
    def in_a_byte(self) -> int:
        """How many numbers share a byte."""
        return BYTE // self.width


def _unsigned(width: int) -> Callable[[DTensor, int], DTensor]:
    return lambda byte, first: bits(byte, first, width)


def _signed(byte: DTensor, first: int) -> DTensor:
    """In two's complement: what is added carries the sign into the bits above."""
    return bits(byte + float(8 << first), first, 4) - 8.0


def _power_of_two(byte: DTensor, first: int) -> DTensor:
    """2 to the power of the code less 127: of each bit its own power, or 1, multiplied."""
    smallest = 2.0**-127
    power = bits(byte, first + BYTE - 1, 1) * (2.0 - smallest) + smallest
    for place in range(BYTE - 1):
        power = power * (bits(byte, first + place, 1) * (2.0 ** (1 << place) - 1.0) + 1.0)
    return power


FORMATS: dict[str, Format] = {
    "uint8": Format(8, _unsigned(8)),
    "uint4": Format(4, _unsigned(4)),
    "int4": Format(4, _signed),
    "fp4": Format(4, lambda byte, first: fp4(bits(byte, first, 4))),
    "nf4": Format(4, lambda byte, first: nf4(bits(byte, first, 4))),
    "e8m0": Format(8, _power_of_two),
}
"""What bytes may hold: integers, fp4 (e2m1, as in nvfp4 and mxfp4), NF4 by its table, and powers of
two (e8m0), as mxfp4 has for scales; its code for what is no number gives infinity."""

STORAGES = ("plain", "high first", "awq", "gptq", "halves")
"""How numbers of 4 bits lie in bytes.

``plain``: neighbours along a dimension share a byte, the first one in its low bits, as
compressed-tensors packs rows of ``[n, k]``; ``high first``: in its high bits, as torchao does.
``awq``: words of 32 bits, ``[k, n / 8]``, have eight columns, in the order 0 2 4 6 1 3 5 7.
``gptq``: words of 32 bits, ``[k / 8, n]``, have eight rows.  Words are given as their bytes in
memory: a last dimension of 4 times their number, ``words.view(torch.int8)``.
``halves``: of 128 neighbours those that are 64 apart share a byte, the first one in its low bits.
Kernels read that fastest, and :func:`repack` makes it of the others.
"""

HALF = 64
"""How far apart the numbers of a byte are in ``halves``."""


def unpack(
    codes: DTensor, format: str, dim: int = -1, *, storage: str = "plain", dtype: Attribute = f32
) -> DTensor:
    """The numbers that bytes hold; the dimension along which they are packed grows.

    ``codes`` are of int8, which of a packed byte is all that there is to say.  The dimension is the
    columns of ``awq``, the rows of ``gptq``, whatever ``dim`` says.  Raises :class:`BuildError`
    for another type, an unknown format or storage, and words that are no whole ones.
    """
    if format not in FORMATS:
        raise BuildError(f"unpack: unknown format {format!r}; known are {', '.join(FORMATS)}")
    if codes.dtype != i8:
        raise BuildError(f"unpack: {codes!r} has elements of {codes.dtype}; bytes are of int8")
    if storage not in STORAGES:
        raise BuildError(f"unpack: unknown storage {storage!r}; known are {', '.join(STORAGES)}")
    known = FORMATS[format]
    byte = cast(codes, f32)
    if known.in_a_byte == 1:
        return _as(known.numbers(byte, 0), dtype)
    if storage in ("awq", "gptq"):
        return _as(_of_words(byte, known, storage), dtype)
    dim = codes.graph.dim("unpack", codes, dim)
    halves = [known.numbers(byte, first) for first in range(0, BYTE, known.width)]
    if storage == "high first":
        halves.reverse()
    if storage == "halves":
        return _as(_side_by_side(halves, dim), dtype)
    return _as(_interleaved(halves, dim), dtype)


def repack(
    codes: DTensor, dim: int = -1, *, storage: str = "plain", format: str = "uint4"
) -> DTensor:
    """The bytes of ``halves`` of numbers of 4 bits that lie otherwise: the same bits, elsewhere.

    Raises :class:`BuildError` where the numbers along the dimension are no multiple of 128.
    """
    numbers = unpack(codes, format, dim, storage=storage)
    dim = codes.graph.dim("repack", numbers, dim)
    shape = numbers.shape
    if shape[dim] % (2 * HALF):
        raise BuildError(
            f"repack: dimension {dim} has {shape[dim]} numbers, expected a multiple of {2 * HALF}"
        )
    apart = (*shape[:dim], shape[dim] // (2 * HALF), 2 * HALF, *shape[dim + 1 :])
    low, high = codes.graph.chunk(reshape(numbers, apart), 2, dim + 1)
    signed = bits(high + 8.0, 0, 4) - 8.0
    half = (*shape[:dim], shape[dim] // 2, *shape[dim + 1 :])
    return reshape(cast(bits(low, 0, 4) + signed * 16.0, i8), half)


def _side_by_side(halves: Sequence[DTensor], dim: int) -> DTensor:
    """Two tensors of which runs of 64 take turns along a dimension."""
    shape = halves[0].shape
    if shape[dim] % HALF:
        raise BuildError(
            f"unpack: dimension {dim} has {shape[dim]} bytes, expected a multiple of {HALF}, as "
            "'halves' has numbers in blocks of 128"
        )
    apart = (*shape[:dim], shape[dim] // HALF, 1, HALF, *shape[dim + 1 :])
    low, high = (reshape(half, apart) for half in halves)
    return reshape(concat(low, high, dim + 1), (*shape[:dim], 2 * shape[dim], *shape[dim + 1 :]))


def _of_words(byte: DTensor, format: Format, storage: str) -> DTensor:
    """The numbers of words of 32 bits, whose bytes lie side by side along the last dimension."""
    rows, columns = byte.shape[-2:]
    if len(byte.shape) != 2 or columns % 4:
        raise BuildError(
            f"unpack: {storage} has words of four bytes in a matrix, got {list(byte.shape)}; give "
            "the words as int8, such as words.view(torch.int8)"
        )
    low, high = (format.numbers(byte, first) for first in (0, 4))
    if storage == "gptq":
        words = [reshape(half, (rows, columns // 4, 4)) for half in (low, high)]
        along_rows = [transpose(half, (0, 2, 1)) for half in words]
        return reshape(_interleaved(along_rows, 1), (8 * rows, columns // 4))
    # Byte 2 p + q has the columns 4 q + p, in its low bits, and 4 q + 2 + p.
    words = [reshape(half, (rows, columns // 4, 2, 2)) for half in (low, high)]
    by_column = [reshape(transpose(half, (0, 1, 3, 2)), (rows, columns, 1)) for half in words]
    pairs = [reshape(half, (rows, columns // 2, 1, 2)) for half in by_column]
    return reshape(concat(pairs[0], pairs[1], 2), (rows, 2 * columns))


def _interleaved(halves: Sequence[DTensor], dim: int) -> DTensor:
    """Two tensors whose elements take turns along a dimension."""
    shape = halves[0].shape
    apart = (*shape[: dim + 1], 1, *shape[dim + 1 :])
    low, high = (reshape(half, apart) for half in halves)
    joined = concat(low, high, dim + 1)
    return reshape(joined, (*shape[:dim], 2 * shape[dim], *shape[dim + 1 :]))


def _as(x: DTensor, dtype: Attribute) -> DTensor:
    return x if x.dtype == dtype else cast(x, dtype)


def dequantize(
    codes: DTensor,
    scales: DTensor,
    zeros: DTensor | None = None,
    *,
    format: str | None = None,
    dim: int = -1,
    storage: str = "plain",
    dtype: Attribute = bf16,
) -> DTensor:
    """``(number - zero) * scale`` of each number that ``codes`` hold.

    Without a ``format`` elements of ``codes``, of int8 or fp8, are the numbers; with one, and a
    ``dim`` and ``storage``, what :func:`unpack` makes of them.  Scales and zeros have as many
    dimensions: where they have a number for several along one, it is that of as many neighbours, as
    of groups of 128 along k; so they may be of tensors, rows, columns, groups and blocks.

    Raises :class:`BuildError` where groups do not divide a dimension.
    """
    numbers = _as(codes, f32) if format is None else unpack(codes, format, dim, storage=storage)
    counts = scales.shape
    _require_groups("dequantize", numbers.shape, counts)
    value = reshape(numbers, _grouped(numbers.shape, counts))
    beside = _numbers_of_groups(numbers.shape, counts)
    if zeros is not None:
        if zeros.stand_ins != scales.stand_ins:
            raise BuildError(
                f"dequantize: the zeros have {list(zeros.shape)}, expected {list(counts)} as the "
                "scales have"
            )
        value = value - _as(reshape(zeros, beside), f32)
    value = value * reshape(scales, beside)
    return _as(reshape(value, numbers.shape), dtype)


def quantize(
    x: DTensor, format: str | Attribute, groups: Sequence[int], *, dim: int = -1
) -> tuple[DTensor, DTensor]:
    """Codes and fp32 scales of a tensor, which :func:`dequantize` makes the tensor of, rounded.

    ``format`` is ``mi.int8``, ``mi.float8_e4m3fn``, ``mi.float8_e5m2``, or ``"int4"``, of which
    neighbours along ``dim`` share a byte.  ``groups`` are the extents, one a dimension, of what a
    scale is of: ``(1, 128)`` for 128 neighbours of a row, ``x.shape`` for the whole tensor.  A
    scale is the largest magnitude over the largest number of the format, and never 0.

    Raises :class:`BuildError` for another format, groups that do not divide the tensor, and an odd
    extent along ``dim``.
    """
    if format not in LARGEST:
        known = ", ".join(map(str, LARGEST))
        raise BuildError(f"quantize: {format} is no format to round to; known are {known}")
    counts = _counts_of_groups(x.shape, groups)
    value = reshape(_as(x, f32), _grouped(x.shape, counts))
    most = magnitude(value)
    for place, count in enumerate(_numbers_of_groups(x.shape, counts)):
        if stand_in(count) == 1 and value.stand_ins[place] > 1:
            most = reduction_max(most, place)
    scales = max(most * (1 / LARGEST[format]), SMALLEST_SCALE)
    number = reshape(value / scales, x.shape)
    if isinstance(format, Attribute):
        codes = cast(number, format)
    else:
        codes = _packed(clamp(round(number), -8.0, 7.0), x.graph.dim("quantize", x, dim))
    return codes, reshape(scales, counts)


LARGEST: dict[str | Attribute, float] = {
    i8: 127.0,
    f8E4M3FN: 448.0,
    f8E5M2: 57344.0,
    "int4": 7.0,
}
"""The number that the largest magnitude of a group becomes."""
SMALLEST_SCALE = 2.0**-100
"""Of a group of zeros."""


def _packed(numbers: DTensor, dim: int) -> DTensor:
    """Whole numbers from -8 to 7, two neighbours along a dimension in a byte."""
    shape = numbers.shape
    if shape[dim] % 2:
        raise BuildError(
            f"quantize: dimension {dim} has extent {shape[dim]}, and two numbers of 4 bits share a "
            "byte along it; pad it, or pack another dimension"
        )
    half = (*shape[:dim], shape[dim] // 2, *shape[dim + 1 :])
    pairs = reshape(numbers, (*half[: dim + 1], 2, *half[dim + 1 :]))
    low, high = (reshape(part, half) for part in pairs.graph.chunk(pairs, 2, dim + 1))
    return cast(bits(low, 0, 4) + high * 16.0, i8)


def _counts_of_groups(shape: Sequence[int], groups: object) -> tuple[int, ...]:
    """How many groups a dimension has; raises :class:`BuildError` unless they divide it."""
    given = cast_type("Sequence[object]", groups) if isinstance(groups, Sequence) else ()
    sizes = [
        size if isinstance(size, NamedNumber) else int(size)
        for size in given
        if isinstance(size, SupportsIndex)
    ]
    if not len(sizes) == len(given) == len(shape) or any(stand_in(size) < 1 for size in sizes):
        raise BuildError(
            f"quantize: groups {groups!r}; expected {len(shape)} whole numbers, one for each "
            f"dimension of {list(shape)}, each at least 1"
        )
    for dim, (extent, size) in enumerate(zip(shape, sizes, strict=True)):
        if extent % size:
            raise BuildError(
                f"quantize: groups of {size} along dimension {dim} do not divide its extent "
                f"{extent}; pad it, or choose groups that do"
            )
    return tuple(extent // size for extent, size in zip(shape, sizes, strict=True))


def _require_groups(operator: str, shape: Sequence[int], counts: Sequence[int]) -> None:
    """Raises :class:`BuildError` unless so many groups a dimension divide a tensor."""
    if len(counts) != len(shape):
        raise BuildError(
            f"{operator}: scales of {list(counts)} have not as many dimensions as the numbers, "
            f"which have {list(shape)}"
        )
    for dim, (extent, count) in enumerate(zip(shape, counts, strict=True)):
        if extent % count:
            raise BuildError(
                f"{operator}: {count} scales along dimension {dim} do not divide its extent "
                f"{extent}; a scale is that of as many neighbours as another"
            )


def _is_alone(count: int, extent: int) -> bool:
    """Whether a dimension has one group, or one for each element."""
    return stand_in(count) in (1, stand_in(extent))


def _grouped(shape: Sequence[int], counts: Sequence[int]) -> tuple[int, ...]:
    """The extents of a tensor of which a dimension with several groups is two."""
    return tuple(
        each
        for extent, count in zip(shape, counts, strict=True)
        for each in ((extent,) if _is_alone(count, extent) else (count, extent // count))
    )


def _numbers_of_groups(shape: Sequence[int], counts: Sequence[int]) -> tuple[int, ...]:
    """The extents of the groups' numbers beside such a tensor."""
    return tuple(
        each
        for extent, count in zip(shape, counts, strict=True)
        for each in ((count,) if _is_alone(count, extent) else (count, 1))
    )


__all__ = ["dequantize", "quantize", "repack", "unpack"]
