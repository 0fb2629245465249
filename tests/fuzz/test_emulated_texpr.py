"""The CUDA of the examples of tensor expressions, emulated, against float64 and the interpreter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from thorough import THOROUGH
from unit.test_cute_kernels import PROGRAMS
from unit.test_cute_sm90 import launched_double
from xdsl.dialects.func import FuncOp

from fuzz.contractions import Convolution, Gett
from fuzz.emulated_texpr import TexprProgram, build_texpr, emulate_texpr, lowered
from fuzz.texpr_levels import LEVELS
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"
Array = npt.NDArray[Any]

FRAGMENTS = """
fn product(a: f32[16, K], b: f32[K, 16]): f32[16, 16] {
    par 1 block #grid {
        new sums: f32[16, 16] #reg
        par 16 i #block { par 16 j #block { sums[i, j] = 0.0 } }
        seq K / 8 |step| #prefetch(AHEAD) {
            new ta: f32[16, 8] #shared
            new tb: f32[8, 16] #shared
            par 16 i #block { par 8 k #block { ta[i, k] = a[i, step * 8 + k] } }
            par 8 k #block { par 16 j #block { tb[k, j] = b[step * 8 + k, j] } }
            par 16 i #block {
                par 16 j #block {
                    seq 2 |k| {
                        reg ra: f32[4]
                        reg rb: f32[4]
                        seq 4 v {
                            ra[v] = ta[i, k * 4 + v]
                            rb[v] = tb[k * 4 + v, j]
                        }
                        seq 4 v { sums[i, j] += ra[v] * rb[v] }
                    }
                }
            }
        }
        par 16 i #block { par 16 j #block { result[i, j] = sums[i, j] } }
    }
}
"""
"""A product whose threads load registers from shared memory, part by part."""

# Sums of whole numbers, which are the same in any order.
REDUCTIONS = """
fn f(x: f16[4, 64]): f16[3, 64] {
    par 3 k { par 64 i { result[k, i] = 0.0 } }
    par 4 b #grid {
        new s: f16[8] #shared
        new t: f16
        t = -100.0
        par 8 i #block { s[i] = 0.0 }
        par 64 i #block { red s[i / 8] += f16(floor(4.0 * x[b, i])) }
        par 64 i #block { red t max= x[b, i] }
        par 64 i #block {
            red result[0, i / 8] += f16(floor(2.0 * x[b, i]))
            red result[1, i / 4] min= x[b, i]
            atomic result[2, 32 + i / 4] max= x[b, i]
        }
        par 8 i #block {
            new p: f16
            p = 1.0
            red p += s[i]
            result[2, b * 8 + i] = p + t
        }
    }
}
"""

# What is too large for 8 bits saturates in f8, and keeps its low bits in i8.
NARROW = """
fn f(q: i8[64], w: f8e4m3[64], v: f8e5m2[64]): f8e4m3[64] {
    new t: i8[64] #global
    par 64 i { t[i] = i8(q[i] * 100 + 3) }
    par 64 i { result[i] = f32(t[i] >> 1) * 20.0 * w[i] + v[63 - i] }
}
"""

# Truths are computed with, stored, shared and asked.
TRUTHS = """
fn f(x: f32[4, 64], m: bool[4, 64]): bool[4, 64] {
    par 4 b #grid {
        new t: bool[64]
        par 64 i #block { t[i] = m[b, 63 - i] }
        par 64 i #block {
            result[b, i] = (t[(i + 7) % 64] & (x[b, i] > 0.0)) | bool(i32(m[b, i]) + i % 2)
            if m[b, i] and i > 8 { result[b, i] = 0 }
        }
    }
}
"""

# Arithmetic of f64: a sum over threads, a minimum by comparing and swapping, and bytes.
WIDE = """
fn f(x: f64[4, 64], h: f16[4, 64], u: u8[4, 64], m: f64[4], w: u8[64]): f64[4, 64] {
    par 4 b #grid {
        new t: f64[64]
        new s: f64
        s = 0.0
        par 64 i #block { t[i] = x[b, 63 - i] * f32(u[b, i]) + h[b, i] / 3 }
        par 64 i #block {
            red s += t[i]
            atomic m[b] min= abs(t[i])
        }
        par 64 i #block { result[b, i] = fma(t[(i + 7) % 64], 0.1, exp(s)) - rsqrt(f64(i + 1)) }
    }
    par 64 i { w[i] = u8(u[0, i] * 100 + 200) }
}
"""

# Quotients of whole numbers of either sign, rounded down.
QUOTIENTS = """
fn f(x: i32[64], y: i32[64]): i32[2, 64] {
    par 64 i {
        let divisor = y[i] * 2 + 1
        result[0, i] = x[i] * 7 / divisor
        result[1, i] = x[i] * 7 % divisor
    }
}
"""

RELAY = """
fn relay(x: f32[8, 32]): f32[8, 32] {
    par 1 |block| #grid {
        new ring: f32[2, 32] #shared
        new full: mbarrier[2] #arrivals(32)
        new empty: mbarrier[2] #arrivals(32)
        fully par 64 |t| #align(32) #block {
            if t < 32 {
                seq 8 |k| {
                    let s = k % 2
                    mbarrier.wait(empty[s], 1 - k / 2 % 2)
                    ring[s, t] = x[k, t] * 2.0
                    asm("mbarrier.arrive.shared.b64 _, [%0];", full[s])
                        means mbarrier.arrive(full[s])
                }
            }
            if t >= 32 {
                seq 8 |k| {
                    let s = k % 2
                    mbarrier.wait(full[s], k / 2 % 2)
                    result[k, t - 32] = ring[s, 63 - t] + 1.0
                    asm("mbarrier.arrive.shared.b64 _, [%0];", empty[s])
                        means mbarrier.arrive(empty[s])
                }
            }
        }
    }
}
"""
"""A warp hands rows to another one by mbarriers, at which it arrives by inline PTX."""

TEXTS = {
    "narrow": NARROW,
    "wide": WIDE,
    "truths": TRUTHS,
    "quotients": QUOTIENTS,
    "relay": RELAY,
    "fragments": FRAGMENTS,
    "reductions_f16": REDUCTIONS,
    "reductions_bf16": re.sub("f16", "bf16", REDUCTIONS),
} | {name: text for name, text, _ in LEVELS}

WARPS = {"M": 64, "N": 64, "K": 128, "TM": 32, "TN": 64, "WM": 16, "WN": 32, "G": 2}
RING = {"K": 192, "TM": 128, "TN": 128, "STAGES": 2, "ROWS": 2}
PAGED = {
    **{"B": 2, "HEADS": 4, "KV": 2, "D": 32, "PAGES": 32, "PAGE": 8, "MOST": 4},
    **{"PART": 16, "SLICES": 2},
}

# Sizes with and without remainders, of several steps a thread and of several blocks.
CASES: list[tuple[str, dict[str, int]]] = [
    ("vector_add", {"N": 1000}),
    ("transpose", {"M": 128, "N": 64, "T": 64}),
    ("transpose", {"M": 36, "N": 24, "T": 12}),
    ("gemm", {"M": 12, "N": 10, "K": 5}),
    ("gemm_shared", {"M": 24, "N": 36, "K": 10, "TM": 12, "TN": 12, "TK": 5}),
    ("gemm_shared", {"M": 24, "N": 12, "K": 30, "TM": 12, "TN": 12, "TK": 5, "AHEAD": 3}),
    ("mma", {}),
    ("gemm_mma", {**WARPS, "TK": 32, "AHEAD": 3}),
    ("gemm_sm90", {**RING, "M": 256, "N": 128, "BLOCKS": 1}),
    ("fragments", {"K": 40, "AHEAD": 2}),
    ("reductions_f16", {}),
    ("reductions_bf16", {}),
    ("narrow", {}),
    ("wide", {}),
    ("truths", {}),
    ("quotients", {}),
    ("relay", {}),
    ("softmax", {"M": 7, "N": 50}),
    ("layer_norm", {"M": 7, "N": 50}),
    ("layer_norm", {"M": 3, "N": 2056}),
    ("stencil", {"H": 9, "W": 13}),
    ("stencil_3d", {"Z": 6, "Y": 32, "X": 128, "LEVELS": 3}),
    ("paged_decode", PAGED),
    ("batched_4x4", {"B": 20}),
    ("scan", {"B": 5, "N": 256, "T": 64}),
    ("histogram", {"N": 2048, "PART": 1024}),
    ("radix_pass", {"N": 1024, "THREADS": 64, "KEYS": 4, "SHIFT": 0}),
    ("life", {"BOARDS": 2, "H": 16, "W": 8, "BLOCKS": 4, "GENERATIONS": 3}),
    ("heat", {"H": 8, "W": 12, "BLOCKS": 4, "STEPS": 3}),
    *((name, sizes) for name, _, sizes in LEVELS),
]
if THOROUGH:
    # Other sizes of what stands above.
    CASES.extend(
        [
            ("vector_add", {"N": 4096}),
            ("gemm_shared", {"M": 64, "N": 128, "K": 32, "TM": 64, "TN": 64, "TK": 16}),
            ("gemm_shared", {"M": 64, "N": 64, "K": 64, "TM": 64, "TN": 64, "TK": 16, "AHEAD": 2}),
            ("gemm_mma", {**WARPS, "TK": 16, "AHEAD": 2}),
            ("fragments", {"K": 40, "AHEAD": 4}),
            ("softmax", {"M": 3, "N": 4096}),
        ]
    )


def draw(function: FuncOp, generator: np.random.Generator) -> list[Array]:
    """Random contents of the inputs."""
    from mugraph.dialects.te import BufferType, input_parameters
    from mugraph.runtime.interpreter.arithmetic import storage_dtype
    from mugraph.runtime.interpreter.run import random_elements

    types = function.function_type.inputs.data
    drawn: list[Array] = []
    for position in input_parameters(function):
        type_ = types[position]
        assert isinstance(type_, BufferType)
        values = generator.standard_normal(type_.get_shape())
        drawn.append(random_elements(values, storage_dtype(type_.element_type)))
    return drawn


def inputs_of(number: int, function: FuncOp) -> list[Array]:
    """Inputs of a case; numbers of pages and lengths are from 1 on, cells 0 or 1."""
    drawn = draw(function, np.random.default_rng(number))
    if CASES[number][0] == "life":
        return [one & 0x01010101 for one in drawn]
    if CASES[number][0] != "paged_decode":
        return drawn
    return [1 + 5 * abs(one) if one.dtype == np.int32 else one for one in drawn]


KERNELS = range(len(PROGRAMS)) if THOROUGH else (1, 3, 4, 6, 7, 9, 10, 11, 12, 13, 14)
"""Kernels on CuTe tensors: an example of each instruction, unless asked for all."""


ALL_KERNELS = [
    *(PROGRAMS[number] for number in KERNELS),
    lambda: launched_double(3),
    # Tiles of tensors of several modes: every second place by TMA, and by threads with predicates.
    Convolution(2, (5, 6), 16, 24, (3, 2), (2, 1), (1, 1), (1, 2)).launched,
    Convolution(1, (4, 3, 5), 3, 10, (2, 2, 3), (1, 2, 1), (1, 0, 2), (1, 1, 1)).launched,
    Gett("makl,nlk->amn", {"m": 10, "a": 3, "k": 5, "l": 16, "n": 24}).launched,
]


def kernel_program(place: int) -> tuple[TexprProgram, Array]:
    """A kernel on CuTe tensors, and what it shall compute."""
    launch, _arrays, exact = ALL_KERNELS[place]()
    given = [one.storage.copy() for one in launch.call.parameters]
    inputs = given[: len(given) - len(launch.call.kernel.results)]
    return TexprProgram(launch.trace(), inputs), exact


@pytest.fixture(scope="module")
def emulated(
    needs_emulator: None, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[FuncOp, list[list[Array]]]]:
    folder = tmp_path_factory.mktemp("texpr")
    sources: list[FuncOp] = []
    programs: list[TexprProgram] = []
    for name, sizes in CASES:
        text = TEXTS.get(name) or (EXAMPLES / f"{name}.te").read_text()
        if name == "gemm_shared" and "AHEAD" in sizes:
            text = re.sub(r"(seq K / TK \S+)", r"\1 #prefetch(AHEAD)", text)
        module = read_texpr(text, name, sizes)
        function = module.body.block.first_op
        assert isinstance(function, FuncOp)
        sources.append(function)
        inputs = inputs_of(len(programs), function)
        programs.append(TexprProgram(lowered(module), inputs))
    for place in range(len(ALL_KERNELS)):
        programs.append(kernel_program(place)[0])
        sources.append(programs[-1].function)
    executable = build_texpr(programs)
    return [
        (source, emulate_texpr(executable, number, program, folder / str(number)))
        for number, (source, program) in enumerate(zip(sources, programs, strict=True))
    ]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{n}-{s}" for n, s in CASES])
def test_example(number: int, emulated: list[tuple[FuncOp, list[list[Array]]]]) -> None:
    function, orders = emulated[number]
    inputs = inputs_of(number, function)
    exact = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=None).outputs
    stored = run_texpr(function, inputs, precision=Precision.STORAGE, seed=None).outputs
    for outputs in orders:
        for output, reference, rounded in zip(
            outputs, exact.values(), stored.values(), strict=True
        ):
            norm = np.linalg.norm(reference)
            error = np.linalg.norm(output.astype(np.float64) - reference.reshape(-1))
            allowed = np.linalg.norm(rounded.astype(np.float64) - reference)
            # Sums have another order; everything else rounds at the same places.
            assert error <= 1.5 * allowed + 1e-6 * norm


@pytest.mark.parametrize("place", range(len(ALL_KERNELS)))
def test_kernel_on_cute_tensors(
    place: int, emulated: list[tuple[FuncOp, list[list[Array]]]]
) -> None:
    _, exact = kernel_program(place)
    for (found,) in emulated[len(CASES) + place][1]:
        rounding = 2e-3 if found.dtype == np.float16 else 1e-5
        error = np.abs(found.astype(np.float64).reshape(exact.shape) - exact).max()
        assert error <= rounding * np.abs(exact).max()
