"""The examples of tensor expressions in the interpreter, at small sizes, against float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp

from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"

Array = npt.NDArray[Any]


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * weight + bias


def stencil(a: Array) -> Array:
    result = a.copy()
    middle = a[1:-1, 1:-1]
    around = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]
    result[1:-1, 1:-1] = middle + 0.125 * (around - 4 * middle)
    return result


def stencil_3d(a: Array) -> Array:
    result = a.copy()
    inner = (slice(1, -1),) * 3
    for axis in range(3):
        for by in (-1, 1):
            result[inner] += 0.125 * (np.roll(a, by, axis)[inner] - a[inner])
    return result


def gemm_of_the_seed(a: Array, b: Array, c: Array) -> Array:
    return c + a.reshape(12, 5) @ b.reshape(5, 10)


def product_of_rows(a: Array, b: Array) -> Array:
    product: Array = a @ b.T
    return product


def histogram(x: Array) -> Array:
    return np.bincount(x.astype(np.int64) & 255, minlength=256)


def ordered_by_four_bits(x: Array) -> Array:
    return x[np.argsort(x.astype(np.int64) >> 1 & 15, kind="stable")]


def life(start: Array) -> Array:
    cells = start.astype(np.int32).view(np.uint8)
    for _ in range(3):
        steps = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1)]
        around = np.sum([np.roll(cells, step, (1, 2)) for step in steps], axis=0)
        cells = ((around == 3) | (around - cells == 3)).astype(np.uint8)
    return cells.view(np.int32)


def heat(start: Array) -> Array:
    plate = start
    for _ in range(3):
        wide = np.pad(plate, 1)
        around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
        plate = plate + 0.125 * (around - 4 * plate)
    return plate


Case = tuple[str, dict[str, int], list[tuple[int, ...]], type, Callable[..., Array], float]
F16, F32 = np.float16, np.float32
BOARD = {"BOARDS": 2, "H": 16, "W": 8, "BLOCKS": 4}
CASES: list[Case] = [
    ("vector_add", {"N": 1000}, [(1000,), (1000,)], F32, np.add, 1e-6),
    ("transpose", {"M": 32, "N": 48, "T": 16}, [(32, 48)], F16, np.transpose, 0),
    ("gemm", {"M": 12, "N": 10, "K": 5}, [(60,), (50,), (12, 10)], F32, gemm_of_the_seed, 1e-6),
    (
        "gemm_shared",
        {"M": 16, "N": 24, "K": 8, "TM": 8, "TN": 8, "TK": 4},
        [(16, 8), (8, 24)],
        F32,
        np.matmul,
        1e-6,
    ),
    ("mma", {}, [(16, 16), (16, 8)], F16, np.matmul, 1e-5),
    (
        "gemm_mma",
        {"M": 64, "N": 32, "K": 64, "TM": 32, "TN": 32, "TK": 32, "WM": 16, "WN": 16, "G": 2},
        [(64, 64), (64, 32)],
        F16,
        np.matmul,
        1e-3,
    ),
    (
        "gemm_sm90",
        {"M": 256, "N": 128, "K": 192, "TM": 128, "TN": 128, "STAGES": 2, "ROWS": 2, "BLOCKS": 1},
        [(256, 192), (128, 192)],
        F16,
        product_of_rows,
        1e-3,
    ),
    ("softmax", {"M": 7, "N": 50}, [(7, 50)], F16, softmax, 1e-3),
    ("layer_norm", {"M": 7, "N": 50}, [(7, 50), (50,), (50,)], F16, layer_norm, 1e-3),
    ("stencil", {"H": 9, "W": 13}, [(9, 13)], F32, stencil, 1e-6),
    (
        "stencil_3d",
        {"Z": 6, "Y": 4, "X": 16, "LEVELS": 3, "ROWS": 2, "COLUMNS": 2},
        [(6, 4, 16)],
        F32,
        stencil_3d,
        1e-6,
    ),
    ("batched_4x4", {"B": 20}, [(20, 4, 4), (20, 4, 4)], F32, np.matmul, 1e-6),
    ("histogram", {"N": 512, "PART": 128}, [(512,)], np.int32, histogram, 0),
    (
        "radix_pass",
        {"N": 128, "THREADS": 8, "KEYS": 4, "SHIFT": 1},
        [(128,)],
        np.int32,
        ordered_by_four_bits,
        0,
    ),
    ("scan", {"B": 5, "N": 32, "T": 8}, [(5, 32)], F32, lambda x: np.cumsum(x, axis=1), 1e-6),
    ("life", {**BOARD, "GENERATIONS": 3}, [(2, 16, 8)], np.int32, life, 0),
    ("heat", {"H": 8, "W": 12, "BLOCKS": 4, "STEPS": 3}, [(8, 12)], F32, heat, 1e-6),
]


@pytest.mark.parametrize(
    ("name", "sizes", "shapes", "dtype", "reference", "tolerance"), CASES, ids=[c[0] for c in CASES]
)
def test_example(
    name: str,
    sizes: dict[str, int],
    shapes: list[tuple[int, ...]],
    dtype: type,
    reference: Callable[..., Array],
    tolerance: float,
) -> None:
    path = EXAMPLES / f"{name}.te"
    module = read_texpr(path.read_text(), path.name, sizes)
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    generator = np.random.default_rng(0)
    inputs: list[Array] = [
        (20 * generator.standard_normal(shape)).astype(dtype) for shape in shapes
    ]
    if name == "life":
        inputs = [generator.integers(0, 2, (2, 16, 32)).astype(np.uint8).view(np.int32)]
    exact = reference(*(one.astype(np.float64) for one in inputs))
    for precision, bound in ((Precision.FLOAT64, 1e-12), (Precision.STORAGE, tolerance)):
        for seed in (None, 0):
            run = run_texpr(function, inputs, precision=precision, seed=seed)
            (result,) = run.outputs.values()
            difference = result.reshape(exact.shape).astype(np.float64) - exact
            assert np.linalg.norm(difference) <= bound * np.linalg.norm(exact)


def paged_attention(q: Array, k: Array, v: Array, table: Array, lengths: Array) -> Array:
    """One sequence and one head after the other."""
    result = np.zeros_like(q)
    for sequence, head in np.ndindex(*q.shape[:2]):
        keys, values = (
            one[table[sequence], :, head * k.shape[2] // q.shape[1]].reshape(-1, q.shape[2])
            for one in (k, v)
        )
        count = lengths[sequence]
        scores: Array = keys[:count] @ q[sequence, head] / np.sqrt(q.shape[2])
        result[sequence, head] = softmax(scores[None])[0] @ values[:count]
    return result


def test_paged_decode() -> None:
    sizes = {"B": 3, "HEADS": 4, "KV": 2, "D": 16, "PAGES": 30, "PAGE": 4, "MOST": 8}
    sizes |= {"PART": 16, "SLICES": 2}
    module = read_texpr((EXAMPLES / "paged_decode.te").read_text(), "paged_decode.te", sizes)
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    generator = np.random.default_rng(0)
    q = generator.standard_normal((3, 4, 16))
    k, v = generator.standard_normal((2, 30, 4, 2, 16))
    table = generator.permutation(30)[:24].reshape(3, 8).astype(np.int32)
    lengths = np.array([1, 32, 18], np.int32)
    inputs: list[Array] = [q, k, v, table, lengths]
    expected = paged_attention(q, k, v, table, lengths)
    (result,) = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=0).outputs.values()
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    TeLowerPass("sm_90a").apply(Context(), module)
    (result,) = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=0).outputs.values()
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_every_example_is_tested() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.te")} == {
        *(case[0] for case in CASES),
        "paged_decode",
    }
