"""Random programs of numbers of few bits, as users write them, and what numpy says of each.

Products of f8 and of int8 with scales of tensors, rows, columns and blocks; weights of 4 and 8
bits as checkpoints store them; what is quantized after a norm or a gate.  Few extents are
multiples of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

import mugraph.build as mi
from mugraph.runtime.interpreter.arithmetic import float_info

Array = npt.NDArray[Any]
F8 = {
    ml_dtypes.float8_e4m3fn: mi.float8_e4m3fn,
    ml_dtypes.float8_e5m2: mi.float8_e5m2,
}
TYPES: dict[Any, Any] = {
    **F8,
    np.int8: mi.int8,
    np.float16: mi.float16,
    ml_dtypes.bfloat16: mi.bfloat16,
    np.float32: mi.float32,
}
RAGGED = (1, 3, 7, 16, 17, 24, 33, 40, 64, 65, 72, 129)
MANY = 64
"""So many elements have an error together that no cancellation in one of them makes."""
BF16_UNIT = 2.0**-8
"""What weights and results of bf16 are rounded by."""


@dataclass
class NarrowProgram:
    """A program, its inputs, and a check of the numbers of its results."""

    name: str
    random: np.random.Generator
    graph: mi.KernelGraph = field(default_factory=lambda: mi.new_kernel_graph("narrow"))
    inputs: list[Array] = field(default_factory=list[Array])
    check: Callable[[list[Array]], None] = lambda results: None

    def one_of(self, choices: Any) -> Any:
        """One of several, each as likely."""
        return choices[int(self.random.integers(len(choices)))]

    def input(self, array: Array) -> mi.DTensor:
        """An argument of the array's extents and type."""
        self.inputs.append(array)
        return self.graph.new_input(array.shape, dtype=TYPES[array.dtype.type])

    def normal(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Normal numbers, or all whole numbers of a byte."""
        if dtype is np.int8:
            return self.random.integers(-128, 128, shape).astype(np.int8)
        return self.random.standard_normal(shape).astype(dtype)

    def scales(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """Numbers around 1."""
        return self.random.uniform(0.5, 2, shape).astype(dtype)

    def expect(self, expected: Array, budget: Array, together: float) -> None:
        """The only result, in float64, and how far each element may be off; all together less.

        What many roundings make of many elements is far from the worst of each: ``together`` is
        relative, in the Frobenius norm, and says little of few elements.
        """

        def check(results: list[Array]) -> None:
            (result,) = results
            assert result.shape == expected.shape
            error = np.abs(result.astype(np.float64) - expected)
            assert (error <= budget).all(), f"{self.name}: {float(np.max(error / budget))} budgets"
            share = np.linalg.norm(error) / np.linalg.norm(expected)
            assert expected.size < MANY or share <= together, f"{self.name}: {share} of the norm"

        self.check = check


def wide(groups: Array, shape: tuple[int, ...]) -> Array:
    """The number of each element's group, in float64."""
    for dim, extent in enumerate(shape):
        groups = groups.repeat(extent // groups.shape[dim], dim)
    return groups.astype(np.float64)


def expect_product(
    program: NarrowProgram, x: Array, w: Array, bf16: bool, slack: float = 0.0
) -> None:
    """Sums in f32; where ``bf16`` is made of numbers, these and the result are rounded to it.

    ``slack`` is how far numbers of w are known, relative to the largest ones.
    """
    unit = slack + (3 * BF16_UNIT if bf16 else 0.0)
    budget = (unit + x.shape[1] * 2.0**-23) * (np.abs(x) @ np.abs(w)) + 1e-30
    program.expect(x @ w, budget, slack + (BF16_UNIT if bf16 else 1e-5))


def scaled_product(program: NarrowProgram) -> None:
    """x (m, k) of 8 bits times weights (n, k) of 8 bits, with scales of one of four kinds."""
    kind = program.one_of(("tensor", "row", "column", "block"))
    pairs = [(a, b) for a in F8 for b in F8] + [(np.int8, np.int8)] * 2
    types = program.one_of(pairs)
    rows, columns = (int(program.one_of(RAGGED)) for _ in range(2))
    depth = 16 * int(program.random.integers(1, 20))
    if kind == "block":
        depth, columns = 128 * int(program.random.integers(1, 4)), int(program.one_of((128, 256)))
    program.name = f"{kind} scales, {types[0].__name__} x {types[1].__name__}"
    program.name += f", {rows} x {depth} x {columns}"
    counts = {
        "tensor": ((1, 1), (1, 1)),
        "row": ((rows, 1), (1, 1)),
        "column": ((rows, 1), (columns, 1)),
        "block": ((rows, depth // 128), (columns // 128, depth // 128)),
    }[kind]
    arrays = [
        program.normal((rows, depth), types[0]),
        program.normal((columns, depth), types[1]),
        *map(program.scales, counts),
    ]
    x, w, scale_x, scale_w = map(program.input, arrays)
    wide_x = arrays[0] * wide(arrays[2], (rows, depth))
    wide_w = (arrays[1] * wide(arrays[3], (columns, depth))).T
    if kind == "block":
        sums = mi.dequantize(x, scale_x) @ mi.transpose(mi.dequantize(w, scale_w))
        program.graph.mark_output(sums)
        expect_product(program, wide_x, wide_w, bf16=True)
        return
    if types[0] is np.int8:
        sums = mi.cast(program.graph.matmul(x, mi.transpose(w)), mi.float32)
    else:
        sums = program.graph.matmul(x, mi.transpose(w), dtype=mi.float32)
    y = sums * scale_x * mi.transpose(scale_w)
    if program.random.random() < 0.5:
        program.graph.mark_output(y)
        expect_product(program, wide_x, wide_w, bf16=False)
    else:
        mark_quantized(program, y, wide_x @ wide_w, program.one_of(tuple(F8)), (1, columns))


def mark_quantized(
    program: NarrowProgram, y: mi.DTensor, expected: Array, dtype: Any, groups: tuple[int, ...]
) -> None:
    """Codes of 8 bits with a scale that is computed; together they are the numbers, rounded."""
    codes, scales = mi.quantize(y, TYPES[dtype], groups)
    program.graph.mark_output(codes)
    program.graph.mark_output(scales)
    program.name += f", into {dtype.__name__} by {groups}"
    if dtype is np.int8:
        largest, unit, least = 127.0, 0.0, 0.5
    else:
        information = float_info(np.dtype(dtype))
        largest, unit = float(information.max), float(information.eps) / 2
        least = float(information.smallest_subnormal) / 2
    counts = tuple(extent // size for extent, size in zip(expected.shape, groups, strict=True))
    apart = [each for pair in zip(counts, groups, strict=True) for each in pair]
    most = np.abs(expected).reshape(apart).max(tuple(range(1, len(apart), 2)))

    def check(results: list[Array]) -> None:
        codes, scales = results
        assert codes.dtype == dtype and scales.shape == counts
        step = most / largest
        assert (np.abs(scales - step) <= 1e-4 * step + 2.0**-99).all(), program.name
        apart = wide(scales, expected.shape)
        error = np.abs(codes.astype(np.float64) * apart - expected)
        budget = unit * np.abs(expected) + (least + 1e-4 * largest) * apart
        assert (error <= budget).all(), f"{program.name}: {float(np.max(error / budget))} budgets"

    program.check = check


def norm_or_gate(program: NarrowProgram) -> None:
    """What a norm or a gate gives, quantized by rows or by blocks of them."""
    rows, width = int(program.one_of(RAGGED)), 32 * int(program.random.integers(1, 12))
    group = program.one_of([size for size in (32, 64, 128, width) if width % size == 0])
    x = program.normal((rows, width), ml_dtypes.bfloat16)
    other = program.normal((rows, width), ml_dtypes.bfloat16)
    a, b = program.input(x), program.input(other)
    one, two = x.astype(np.float64), other.astype(np.float64)
    if program.random.random() < 0.5:
        program.name = f"norm of {rows} x {width}"
        y = mi.rms_norm(mi.cast(a, mi.float32)) * b
        expected = one / np.sqrt((one**2).mean(1, keepdims=True)) * two
    else:
        program.name = f"gate of {rows} x {width}"
        y = mi.silu(mi.cast(a, mi.float32)) * b
        expected = one / (1 + np.exp(-one)) * two
    dtype = program.one_of((np.int8, *F8))
    mark_quantized(program, y, expected, dtype, (1, group))


FP4 = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn).astype(np.float64)
# What QLoRA's table has, to four places: quantiles of a normal distribution.
BELOW_0 = (-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911)
ABOVE_0 = (0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0)
NF4 = np.array((*BELOW_0, 0.0, *ABOVE_0))
NUMBERS = {
    "uint4": np.arange(16.0),
    "int4": (np.arange(16.0) + 8) % 16 - 8,
    "fp4": FP4,
    "nf4": NF4,
}
STORAGES = ("plain", "high first", "halves", "awq", "gptq")


def stored(codes: Array, storage: str, dim: int) -> Array:
    """Bytes of codes of 4 bits along a dimension, or words of (k, n) as their bytes."""
    if storage in ("awq", "gptq"):
        along = codes if storage == "awq" else codes.T
        order = [0, 2, 4, 6, 1, 3, 5, 7] if storage == "awq" else list(range(8))
        eight = along.reshape(len(along), -1, 8)[..., order].astype(np.uint32)
        words = np.bitwise_or.reduce(eight << np.arange(0, 32, 4, dtype=np.uint32), -1)
        words = words.astype(np.uint32)
        return np.ascontiguousarray(words if storage == "awq" else words.T).view(np.int8)
    along = np.moveaxis(codes, dim, -1)
    if storage == "halves":
        blocks = along.reshape(len(along), -1, 2, 64)
        low, high = blocks[:, :, 0], blocks[:, :, 1]
    else:
        pairs = along.reshape(len(along), -1, 2)
        low, high = pairs[..., 0], pairs[..., 1]
    if storage == "high first":
        low, high = high, low
    packed = (low | high << 4).astype(np.uint8).view(np.int8).reshape(len(along), -1)
    return np.ascontiguousarray(np.moveaxis(packed, -1, dim))


def narrow_weights(program: NarrowProgram) -> None:
    """x in bf16 times weights (k, n) of 4 bits, with scales and perhaps zeros of groups of k."""
    format = program.one_of(("int4", "uint4", "uint4", "fp4", "nf4"))
    storage = program.one_of(STORAGES)
    dim = {"awq": 1, "gptq": 0}.get(storage, int(program.random.integers(2)))
    group = int(program.one_of((32, 64, 128)))
    depth = 128 * int(program.random.integers(1, 4))
    rows = int(program.one_of(RAGGED))
    columns = int(program.one_of((8, 24, 40, 72, 136)))
    if storage == "halves":
        dim = 0
    program.name = f"{format} of {storage} along {dim}, groups of {group}, "
    program.name += f"{rows} x {depth} x {columns}"
    counts = (depth // group, columns)
    codes = program.random.integers(0, 16, (depth, columns))
    x, scales = program.normal((rows, depth), ml_dtypes.bfloat16), program.scales(counts)
    zeros = program.random.integers(0, 16, counts).astype(np.int8)
    a, w, s = map(program.input, (x, stored(codes, storage, dim), scales))
    with_zeros = format == "uint4" and program.random.random() < 0.7
    z = program.input(zeros) if with_zeros else None
    product = a @ mi.dequantize(w, s, z, format=format, dim=dim, storage=storage)
    program.graph.mark_output(product)
    numbers = NUMBERS[format][codes] - (wide(zeros, codes.shape) if with_zeros else 0)
    right = numbers * wide(scales, codes.shape)
    # The table has four places here.
    slack = 2e-3 if format == "nf4" else 0.0
    expect_product(program, x.astype(np.float64), right, bf16=True, slack=slack)


def block_formats(program: NarrowProgram) -> None:
    """nvfp4, whose groups of 16 have scales of e4m3, and mxfp4: powers of two for groups of 32."""
    rows, columns = int(program.one_of(RAGGED)), int(program.one_of(RAGGED))
    depth = 64 * int(program.random.integers(1, 5))
    x = program.normal((rows, depth), ml_dtypes.bfloat16)
    codes = program.random.integers(0, 16, (columns, depth))
    a, w = program.input(x), program.input(stored(codes, "plain", 1))
    if program.random.random() < 0.5:
        program.name = f"nvfp4, {rows} x {depth} x {columns}"
        scales = program.scales((columns, depth // 16), ml_dtypes.float8_e4m3fn)
        whole = program.scales((1, 1))
        each = mi.cast(program.input(scales), mi.float32) * program.input(whole)
        right = wide(scales.astype(np.float64) * whole, codes.shape)
    else:
        program.name = f"mxfp4, {rows} x {depth} x {columns}"
        exponents = program.random.integers(120, 134, (columns, depth // 32))
        each = mi.unpack(program.input(exponents.astype(np.uint8).view(np.int8)), "e8m0")
        right = wide(2.0 ** (exponents - 127), codes.shape)
    product = a @ mi.transpose(mi.dequantize(w, each, format="fp4", dim=1))
    program.graph.mark_output(product)
    expect_product(program, x.astype(np.float64), (FP4[codes] * right).T, bf16=True)


def whole_bytes(program: NarrowProgram) -> None:
    """x in bf16 or f16 times weights (n, k) of int8 or f8, with scales of groups of k."""
    rows, columns = int(program.one_of(RAGGED)), int(program.one_of(RAGGED))
    group = int(program.one_of((32, 64, 128)))
    depth = group * int(program.random.integers(1, 5))
    dtype = program.one_of((np.int8, *F8))
    own = program.one_of((ml_dtypes.bfloat16, np.float16))
    program.name = f"{own.__name__} x {dtype.__name__}, groups of {group}, "
    program.name += f"{rows} x {depth} x {columns}"
    x, w = program.normal((rows, depth), own), program.normal((columns, depth), dtype)
    scales = program.scales((columns, depth // group))
    a, b, s = map(program.input, (x, w, scales))
    matrix = mi.transpose(mi.dequantize(b, s, dtype=TYPES[own]))
    program.graph.mark_output(a @ matrix)
    right = w.astype(np.float64) * wide(scales, (columns, depth))
    expect_product(program, x.astype(np.float64), right.T, bf16=True)


KINDS = (
    scaled_product,
    scaled_product,
    norm_or_gate,
    narrow_weights,
    narrow_weights,
    block_formats,
    whole_bytes,
)


def draw_narrow(seed: int, number: int) -> NarrowProgram:
    """The program of that number; every kind comes up in seven of them."""
    program = NarrowProgram("", np.random.default_rng((seed, number)))
    KINDS[number % len(KINDS)](program)
    return program
