"""Numbers of few bits: what their codes mean, as checkpoints store them, and how they are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from emulated_programs import interpreted as evaluated

import mugraph
import mugraph.build as mi

RANDOM = np.random.default_rng(23)
Array = npt.NDArray[Any]


def nibbles(shape: tuple[int, ...]) -> Array:
    """Codes of 4 bits."""
    return RANDOM.integers(0, 16, shape)


def in_bytes(codes: Array, dim: int) -> Array:
    """Two neighbours along a dimension in a byte, the first one in its low bits."""
    low, high = (codes.take(range(start, codes.shape[dim], 2), dim) for start in (0, 1))
    return (low | high << 4).astype(np.uint8).view(np.int8)


def in_words(codes: Array, order: tuple[int, ...]) -> Array:
    """Eight numbers of the last dimension in a word: the one at ``order[i]`` in bits 4 i."""
    eight = codes.reshape(*codes.shape[:-1], -1, 8)[..., list(order)].astype(np.uint32)
    shifted = eight << np.arange(0, 32, 4, dtype=np.uint32)
    return np.bitwise_or.reduce(shifted, -1).astype(np.uint32)


def as_awq(codes: Array) -> Array:
    """As AWQ packs columns of (k, n)."""
    return in_words(codes, (0, 2, 4, 6, 1, 3, 5, 7)).view(np.int8)


def as_gptq(codes: Array) -> Array:
    """As GPTQ packs rows of (k, n)."""
    words = in_words(codes.T, tuple(range(8))).T
    return np.ascontiguousarray(words).view(np.int8)


def as_torchao(codes: Array) -> Array:
    """As torchao packs rows of (n, k): the first of a pair in the high bits."""
    return (codes[:, ::2] << 4 | codes[:, 1::2]).astype(np.uint8).view(np.int8)


STORED: dict[str, tuple[Callable[[Array], Array], int]] = {
    "plain": (lambda codes: in_bytes(codes, 0), 0),
    "high first": (as_torchao, 1),
    "awq": (as_awq, 1),
    "gptq": (as_gptq, 0),
}


@pytest.mark.parametrize("storage", STORED)
def test_numbers_lie_as_checkpoints_store_them(storage: str) -> None:
    codes = nibbles((16, 24))
    store, dim = STORED[storage]
    (result,) = evaluated(lambda x: mi.unpack(x, "uint4", dim, storage=storage), store(codes))
    np.testing.assert_array_equal(result, codes)


@pytest.mark.parametrize("storage", STORED)
def test_bytes_are_repacked_bit_for_bit(storage: str) -> None:
    """Numbers that share a byte are 64 apart then, and all of them are there."""
    codes = nibbles((256, 8))
    store, dim = STORED[storage]
    codes = np.ascontiguousarray(codes.T) if dim == 1 else codes
    repacked, back = evaluated(
        lambda x: (
            mi.repack(x, dim, storage=storage),
            mi.unpack(mi.repack(x, dim, storage=storage), "uint4", dim, storage="halves"),
        ),
        store(codes),
    )
    blocks = np.moveaxis(codes, dim, 0).reshape(2, 2, 64, 8)
    expected = (blocks[:, 0] | blocks[:, 1] << 4).astype(np.uint8).view(np.int8).reshape(128, 8)
    np.testing.assert_array_equal(repacked, np.moveaxis(expected, 0, dim))
    np.testing.assert_array_equal(back, codes)


FP4 = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float32)
MEANT: dict[str, Callable[[Array], Array]] = {
    "uint4": lambda codes: codes,
    "int4": lambda codes: (codes ^ 8) - 8,
    "fp4": lambda codes: FP4[codes],
}


@pytest.mark.parametrize("format", MEANT)
def test_every_byte_means_its_numbers(format: str) -> None:
    every = np.arange(256).astype(np.uint8).view(np.int8)[:, None]
    (result,) = evaluated(lambda x: mi.unpack(x, format), every)
    codes = np.stack([np.arange(256) & 15, np.arange(256) >> 4], 1)
    np.testing.assert_array_equal(result, MEANT[format](codes))
    assert np.array_equal(np.signbit(result), np.signbit(MEANT[format](codes)))


def test_bytes_without_a_sign_mean_up_to_255() -> None:
    every = np.arange(256).astype(np.uint8).view(np.int8)[:, None]
    (result,) = evaluated(lambda x: mi.unpack(x, "uint8"), every)
    np.testing.assert_array_equal(result[:, 0], np.arange(256))


def test_nf4_is_its_table() -> None:
    """The ends, the zero, and quantiles that are as far apart as a normal distribution says."""
    (result,) = evaluated(lambda x: mi.unpack(x, "nf4"), in_bytes(np.arange(16)[:, None], 0).T)
    numbers = result.ravel()
    assert numbers[0] == -1 and numbers[7] == 0 and numbers[15] == 1
    assert (np.diff(numbers) > 0).all() and np.isclose(numbers[12], 0.4407, atol=1e-4)


def test_e8m0_is_of_powers_of_two() -> None:
    """All codes, those of subnormal numbers among them; the last one is none of a number."""
    codes = np.arange(256, dtype=np.uint8).view(np.int8)[None]
    (result,) = evaluated(lambda x: mi.unpack(x, "e8m0"), codes)
    np.testing.assert_array_equal(result[0, :255], 2.0 ** (np.arange(255) - 127.0))
    assert not np.isfinite(result[0, 255])


@pytest.mark.parametrize(
    ("scales", "zeros"),
    [((1, 1), False), ((1, 20), True), ((24, 1), False), ((3, 20), True), ((6, 5), False)],
)
def test_scales_are_of_tensors_rows_columns_groups_and_blocks(
    scales: tuple[int, int], zeros: bool
) -> None:
    codes = nibbles((24, 20))
    scale = RANDOM.uniform(0.5, 2, scales).astype(np.float32)
    zero = RANDOM.integers(0, 16, scales).astype(np.int8)
    given = [in_bytes(codes, 0), scale, *([zero] if zeros else [])]
    (result,) = evaluated(
        lambda *x: mi.dequantize(*x, format="uint4", dim=0, dtype=mi.float32), *given
    )
    whole = np.ones((24 // scales[0], 20 // scales[1]))
    expected = (codes - (np.kron(zero, whole) if zeros else 0)) * np.kron(scale, whole)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


FORMATS: dict[str, tuple[Any, float]] = {
    "int8": (mi.int8, 0.5 / 127),
    "e4m3": (mi.float8_e4m3fn, 2.0**-4),
    "e5m2": (mi.float8_e5m2, 2.0**-3),
    "int4": ("int4", 0.5 / 7),
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_quantized_comes_back_rounded(name: str) -> None:
    """No farther off than half a step of the largest number of its group, zeros exactly."""
    format, step = FORMATS[name]
    x = RANDOM.standard_normal((6, 64)).astype(np.float32)
    x[2] = 0

    def program(x: mi.DTensor) -> tuple[mi.DTensor, mi.DTensor]:
        codes, scales = mi.quantize(x, format, (1, 16))
        packed = {"format": "int4"} if format == "int4" else {}
        return mi.dequantize(codes, scales, **packed, dtype=mi.float32), codes

    back, codes = evaluated(program, x)
    most = np.abs(x).reshape(6, 4, 16).max(2).repeat(16, 1)
    assert (np.abs(back - x) <= most * step * 1.001).all()
    assert (back[2] == 0).all() and back.any()
    assert codes.shape == ((6, 32) if name == "int4" else (6, 64))


MISTAKES: dict[str, tuple[Callable[[mi.DTensor, mi.DTensor], Any], str]] = {
    "extent": (
        lambda w, x: mi.dequantize(w, x[:, :7]),
        "dequantize: 7 scales along dimension 1 do not divide its extent 32; a scale is that of",
    ),
    "group": (
        lambda w, x: mi.quantize(x, mi.int8, (1, 48)),
        "quantize: groups of 48 along dimension 1 do not divide its extent 64",
    ),
    "one extent": (
        lambda w, x: mi.quantize(x, mi.int8, 64),  # type: ignore[arg-type]
        "quantize: groups 64; expected 2 whole numbers, one for each dimension of [6, 64]",
    ),
    "no group": (
        lambda w, x: mi.quantize(x, mi.int8, (1, 0)),
        "quantize: groups (1, 0); expected 2 whole numbers",
    ),
    "odd": (
        lambda w, x: mi.quantize(x[:, :63], "int4", (1, 63)),
        "quantize: dimension 1 has extent 63, and two numbers of 4 bits share a byte along it",
    ),
    "zeros": (
        lambda w, x: mi.dequantize(w, x[:, :1], x[:1, :1]),
        "dequantize: the zeros have [1, 1], expected [6, 1] as the scales have",
    ),
    "words": (
        lambda w, x: mi.unpack(w[:, :6], "uint4", storage="awq"),
        "unpack: awq has words of four bytes in a matrix, got [6, 6]",
    ),
    "bytes": (lambda w, x: mi.unpack(x, "int4"), "bytes are of int8"),
    "format": (lambda w, x: mi.unpack(w, "int3"), "unpack: unknown format 'int3'; known are uint8"),
}


@pytest.mark.parametrize("along_rows", [False, True])
def test_rows_that_a_call_numbers_are_quantized(along_rows: bool) -> None:
    """In groups of 16 of a row, and of all rows of a column."""
    graph = mi.new_kernel_graph("f")
    m = mi.Extent("m", largest=64)
    x = graph.new_input((m, 32), dtype=mi.float32)
    groups = (m, 1) if along_rows else (1, 16)
    codes, scales = mi.quantize(x, mi.int8, groups)
    assert scales.shape == ((1, 32) if along_rows else (m, 2))
    graph.mark_output(mi.dequantize(codes, scales, dtype=mi.float32))
    data = np.random.default_rng(0).normal(size=(3, 32)).astype(np.float32)
    found = np.asarray(mugraph.compile(graph)(data))
    assert np.abs(found - data).max() <= np.abs(data).max() / 127


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_in_a_sentence(name: str) -> None:
    program, sentence = MISTAKES[name]
    graph = mi.new_kernel_graph("mistaken")
    w = graph.new_input((6, 32), dtype=mi.int8)
    x = graph.new_input((6, 64), dtype=mi.float32)
    with pytest.raises(mi.BuildError) as error:
        program(w, x)
    assert sentence in str(error.value)
