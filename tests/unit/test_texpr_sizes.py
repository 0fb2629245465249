"""Sizes of `.te` programs that a call says: one program, and one kernel, for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz.emulated_texpr import TexprProgram, build_texpr, emulate_texpr, lowered
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError

from mugraph.dialects.te import BarrierOp, KernelOp, SeqOp
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_check_mapping import prove_mappings
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr, texpr_text

Array = np.ndarray[Any, np.dtype[Any]]
Shapes = Callable[..., list[tuple[int, ...]]]

SOFTMAX = """
size M <= 40, N <= 300
fn softmax(x: f32[M, N]): f32[M, N] {
    par M |row| #grid {
        new largest: f32
        new sum: f32
        largest = -inf
        sum = 0.0
        par N j #block { red largest max= x[row, j] }
        par N j #block { red sum += exp(x[row, j] - largest) }
        par N j #block { result[row, j] = exp(x[row, j] - largest) / sum }
    }
}
"""
PRODUCT = """
size M <= 64, N <= 64 #multiple(2), K <= 48
size T = 16
fn product(a: f32[M, K], b: f32[K, N]): f32[M, N] {
    par (M + T - 1) / T |bm| #grid {
        par (N + T - 1) / T |bn| #grid {
            new sums: f32[T, T]
            par T i #block { par T j #block { sums[i, j] = 0.0 } }
            seq (K + T - 1) / T |step| {
                new ta: f32[T, T] #shared
                new tb: f32[T, T] #shared
                par T i #block { par T k #block {
                    ta[i, k] = 0.0
                    tb[i, k] = 0.0
                    if bm * T + i < M and step * T + k < K {
                        ta[i, k] = a[bm * T + i, step * T + k]
                    }
                    if step * T + i < K and bn * T + k < N {
                        tb[i, k] = b[step * T + i, bn * T + k]
                    }
                } }
                par T i #block { par T j #block { seq T k { sums[i, j] += ta[i, k] * tb[k, j] } } }
            }
            par T i #block { par T j #block {
                if bm * T + i < M and bn * T + j < N { result[bm * T + i, bn * T + j] = sums[i, j] }
            } }
        }
    }
}
"""
MIRRORED = """
size M <= 90, N <= 70, P = 3
fn mirrored(a: f32[P, M, N], w: f32[M]): f32[P, M, N] {
    par P p { par M i { par N j {
        result[p, i, j] = a[p, M - 1 - i, N - 1 - j] * w[i] + f32(M)
        if i == M - 1 { result[p, i, j] = 2.0 }
    } } }
}
"""


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def mirrored(a: Array, w: Array) -> Array:
    found = a[:, ::-1, ::-1] * w[None, :, None] + len(w)
    found[:, -1] = 2.0
    return found


PROGRAMS: dict[str, tuple[str, Shapes, Callable[..., Array], list[tuple[int, ...]], str]] = {
    "softmax": (
        SOFTMAX,
        lambda m, n: [(m, n)],
        softmax,
        [(40, 300), (1, 1), (7, 129)],
        "%block = 40 grid [40, 1, 1] cut [0, 2, 1]",
    ),
    "product": (
        PRODUCT,
        lambda m, n, k: [(m, k), (k, n)],
        np.matmul,
        [(64, 64, 48), (1, 2, 3), (33, 16, 17)],
        "%block = 16 grid [4, 4, 1] cut [0, 4, 16, 1, 3, 16]",
    ),
    "mirrored": (
        MIRRORED,
        lambda m, n: [(3, m, n), (m,)],
        mirrored,
        [(90, 70), (1, 1), (2, 65)],
        "cut [",
    ),
}


def function_of(module: ModuleOp) -> FuncOp:
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    return function


def inputs_of(shapes: list[tuple[int, ...]]) -> list[Array]:
    generator = np.random.default_rng(sum(map(sum, shapes)))
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def required(found: Array, inputs: list[Array], exact: Callable[..., Array]) -> None:
    wanted = exact(*(one.astype(np.float64) for one in inputs))
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_and_its_kernel_are_right_at_all_sizes(name: str) -> None:
    text, shapes, exact, calls, grid = PROGRAMS[name]
    module = read_texpr(text, f"{name}.te", {})
    kernels = lowered(module)
    assert grid in str(kernels)
    for sizes in calls:
        inputs = inputs_of(shapes(*sizes))
        for one in (module, kernels):
            (found,) = run_texpr(function_of(one), inputs).outputs.values()
            required(found, inputs, exact)


def test_its_cuda_is_right_at_all_sizes(tmp_path: Path) -> None:
    names = ["product", "mirrored"]
    modules = [lowered(read_texpr(PROGRAMS[name][0], f"{name}.te", {})) for name in names]
    executable = build_texpr([TexprProgram(module, []) for module in modules])
    for number, (name, module) in enumerate(zip(names, modules, strict=True)):
        _text, shapes, exact, calls, _grid = PROGRAMS[name]
        for sizes in calls:
            inputs = inputs_of(shapes(*sizes))
            folder = tmp_path / f"{name}{sizes}"
            for (found,) in emulate_texpr(executable, number, TexprProgram(module, inputs), folder):
                required(found, inputs, exact)


def test_rows_of_a_multiple_are_moved_in_vectors() -> None:
    text = "fn f(a: f32[M, N]): f32[M, N] { par M i { par N j { result[i, j] = a[i, j] } } }"
    sizes = ("size M <= 4096, N <= 4096", "size M <= 4096, N <= 4096 #multiple(4)")
    one, four = (lowered(read_texpr(f"{first}\n{text}", "f.te", {})) for first in sizes)
    assert "te.load" not in str(one)
    assert "te.load" in str(four)
    prove_mappings(four, "te-lower")
    for module, shape in ((one, (31, 3)), (four, (31, 508))):
        inputs = inputs_of([shape])
        (found,) = run_texpr(function_of(module), inputs).outputs.values()
        required(found, inputs, np.asarray)


def test_a_loop_with_barriers_ends_where_a_call_says() -> None:
    module = lowered(read_texpr(PRODUCT, "product.te", {}))
    (loop,) = (op for op in module.walk() if isinstance(op, SeqOp) and op.end() is not None)
    assert any(isinstance(op, BarrierOp) for op in loop.walk())


def test_a_value_makes_a_program_of_one_size() -> None:
    module = read_texpr(SOFTMAX, "softmax.te", {"M": 8, "N": 32})
    assert "index" not in str(function_of(module).function_type)
    left = read_texpr(SOFTMAX, "softmax.te", {"M": 8, "N": 32}, of_call=True)
    assert str(left) == str(read_texpr(SOFTMAX, "softmax.te", {}))


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_reads_as_it_prints(name: str) -> None:
    module = read_texpr(PROGRAMS[name][0], "a.te", {})
    assert str(read_texpr(texpr_text(module), "b.te", {})) == str(module)


def test_a_missing_barrier_is_found_at_some_size() -> None:
    text = PRODUCT.replace("64", "32").replace("48", "32")
    kernels = lowered(read_texpr(text, "product.te", {}))
    kernel = next(op for op in kernels.walk() if isinstance(op, KernelOp))
    assert not find_texpr_hazards(kernel)
    for barrier in [op for op in kernel.walk() if isinstance(op, BarrierOp)]:
        barrier.detach()
    assert "where M = 16, N = 16, K = 16" in str(find_texpr_hazards(kernel)[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "fn f(x: f32[M]): f32 { par 32 i { red result += x[i] } }",
            "x is accessed at index 1 where",
        ),
        ("fn f(x: f32[M]): f32[M] { par M i { result[i] = x[M - i] } }", "from 0 to 0"),
        ("fn f(x: f32[M]): f32[M] { par M i { result[i / 2] = x[i] } }", "both touch"),
        ("fn f(x: f32[8]): f32[8] { par M i { result[i] = x[i] } }", "no input that is as long"),
        ("fn f(x: f32[2 * M]) { par M i { x[i] = 0.0 } }", "no size alone"),
        ("fn f(x: f32[M, 2]) { par M i { x[i * M] = 0.0 } }", "a product of two variables"),
        ("fn f(x: f32[M, M]) { par M i { par M j { x[j * M * i] = 0.0 } } }", "a product of two"),
        ("fn f(x: f32[M, M]): f32[M] { par M i { result[i] = x[i + 1] } }", "accessed at index 1"),
        ("fn f(x: f32[M]) { fully par M i #block { x[i] = 0.0 } }", "block for each iteration"),
        ("fn f(x: f32[M]) { par 2 b { seq b k { x[k] = 0.0 } } }", "must be a constant"),
        ("fn f(x: f32[M]) { par M b { seq b + M k { x[k] = 0.0 } } }", "not of loops' variables"),
        ("fn g(x: f32[K]) { } fn f(x: f32[M]) { g(x) }", "give it a section"),
        ("fn g(x: f32[M]) { } fn f(x: f32[8], y: f32[M]) { g(x) }", "no function calls it"),
        ("par M i { y[i] = x[i] }", "write a function that has them"),
    ],
)
def test_what_cannot_be_is_a_sentence(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        read_texpr(f"size M <= 64\n{text}", "f.te", {})


@pytest.mark.parametrize(
    ("number", "indices"),
    [
        ("(i * N + j) * 4 + k", "i, j, k"),
        ("k + N * 4 * i + j * 4", "i, j, k"),
        ("(i * N - N + j - i % 2) * 4 + k / 2", "i - 1, j - i % 2, k / 2"),
        ("N * 8 + 4 + 3", "2, 1, 3"),
        ("T * N * i + 3", "i, 0, 3"),
    ],
)
def test_a_row_major_number_is_an_index_a_dimension(number: str, indices: str) -> None:
    def text(place: str) -> str:
        return f"""
size M <= 64, N <= 64 #multiple(4), T = 4
fn f(x: f32[M, N, T]): f32[M] {{
    par M i {{ par N j {{ par T k {{
        if M >= 3 and i > 0 and j > 0 {{ red result[i] += x[{place}] }}
    }} }} }}
}}
"""

    one, other = (texpr_text(read_texpr(text(place), "f.te", {})) for place in (number, indices))
    assert one == other


def test_a_largest_size_is_a_multiple() -> None:
    with pytest.raises(ParseError, match="M is at most 64, in multiples of 5"):
        read_texpr("size M <= 64 #multiple(5)\nfn f(x: f32[M]) { }", "f.te", {})
