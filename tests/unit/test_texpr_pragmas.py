"""Pragmas: the examples say almost none, and print what they print where they say all."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context

from mugraph.codegen.cuda import CudaTarget
from mugraph.dialects.te import KernelOp, Level, NewOp, ParOp, Space
from mugraph.passes.texpr.analysis.access_costs import texpr_access_costs
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.passes.texpr.te_map.bands import deal_to_lanes
from mugraph.reading import make_context
from mugraph.texpr import read_texpr

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"

WRITTEN: dict[str, tuple[dict[str, int], str, str, str]] = {
    "transpose": ({"M": 128, "N": 128}, "bi bj", "i j", "tile"),
    "gemm_shared": ({"M": 128, "N": 128, "K": 64}, "bm bn", "i j k", "ta tb"),
    "gemm_mma": (
        {"M": 128, "N": 128, "K": 64, "TN": 128, "TK": 32, "G": 1, "WN": 32},
        "group bn row",
        "wm wn i j k",
        "ta tb",
    ),
    "softmax": ({"M": 2, "N": 1000}, "row", "j", ""),
    "layer_norm": ({"M": 2, "N": 1000}, "row", "j", ""),
    "scan": ({"B": 2, "N": 512}, "row", "t", "parts"),
    "histogram": ({"N": 65536}, "b", "i", "counts"),
    "radix_pass": ({"N": 4096}, "b one", "t d", "counts totals places"),
    "stencil_3d": (
        {"Z": 8, "Y": 8, "X": 64, "LEVELS": 4, "ROWS": 4, "COLUMNS": 8},
        "zs ys xs",
        "column",
        "",
    ),
    "paged_decode": (
        {"B": 2, "PAGES": 16, "MOST": 8, "PART": 64, "SLICES": 2},
        "b h part head",
        "g d s c",
        "query scores slices",
    ),
    "life": ({"BOARDS": 2, "H": 16, "W": 8, "BLOCKS": 2, "GENERATIONS": 2}, "board", "y x", ""),
    "heat": ({"H": 8, "W": 64, "BLOCKS": 4, "STEPS": 2}, "", "y x", "plate"),
    "gemm_sm90": (
        {"M": 128, "N": 128, "K": 64, "TM": 64, "TN": 64, "STAGES": 2, "PART": 64, "BLOCKS": 2}
        | {"ROWS": 1},
        "block",
        "",
        "sa sb sc",
    ),
}
"""Sizes; the loops over blocks, and over threads of a block; the buffers in shared memory."""


def with_pragmas(text: str, grid: str, block: str, shared: str) -> str:
    """A text whose loops have levels, and whose buffers say where they are."""
    for pragma, names in (("#grid", grid), ("#block", block)):
        for name in names.split():
            loop = rf"((?<!fully )par [^{{#\n]*?(?:\|{name}\||\b{name})) \{{"
            assert re.search(loop, text), (pragma, name)
            text = re.sub(loop, rf"\1 {pragma} {{", text)
    for name in shared.split():
        new = rf"(new {name}: \w+\[[^\]]*\])"
        assert re.search(new, text), name
        text = re.sub(new, r"\1 #shared", text)
    return text


def printed(text: str, name: str, sizes: dict[str, int]) -> str:
    """The CUDA text of a program."""
    module, context = read_texpr(text, f"{name}.te", sizes), make_context()
    TeLowerPass().apply(context, module)
    source = StringIO()
    CudaTarget().emit(context, module, source)
    return source.getvalue()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", WRITTEN)
def test_examples_print_the_same_kernel_as_with_pragmas(name: str) -> None:
    text = (EXAMPLES / f"{name}.te").read_text()
    sizes, *pragmas = WRITTEN[name]
    written = with_pragmas(text, *pragmas)
    assert printed(text, name, sizes) == printed(written, name, sizes)


def test_sums_of_an_example_need_no_register_pragma() -> None:
    """Registers are loaded one part early, also where the sums' memory is open yet."""
    text = (EXAMPLES / "gemm_mma.te").read_text()
    sums = "new sums: f32[TM / WM, TN / WN, 32, WM / 16, WN / 8, 4]"
    assert sums in text
    sizes = WRITTEN["gemm_mma"][0]
    with_registers = text.replace(sums, f"{sums} #reg")
    assert printed(text, "gemm_mma", sizes) == printed(with_registers, "gemm_mma", sizes)


def test_examples_say_no_memory_and_few_levels() -> None:
    """All pragmas that are left: instructions of warps, clusters, the whole grid, flat bands."""
    left = {
        path.stem: set(re.findall(r"#(?:grid|block|warp|shared|reg|global)\b", path.read_text()))
        for path in EXAMPLES.glob("*.te")
    }
    assert {name: pragmas for name, pragmas in left.items() if pragmas} == {
        "heat": {"#grid"},
        "mma": {"#block"},
        "paged_decode": {"#block"},
        "stencil_3d": {"#block"},
    }


@pytest.mark.parametrize(
    ("inner", "is_dealt"),
    [
        ("par 64 j { red s += x[i, j] }", True),
        ("par 8 j { red s += x[i, j] }", False),  # for a quarter of the lanes
        ("if i > 0 { par 64 j { red s += x[i, j] } }", False),
        ("par 64 j #thread { red s += x[i, j] }", False),
    ],
)
def test_loops_in_bands_of_few_iterations_are_dealt_to_lanes(inner: str, is_dealt: bool) -> None:
    text = f"""fn f(x: f32[4, 64]): f32[4] {{
        par 4 i #block {{ new s: f32 s = 0.0 {inner} result[i] = s }}
    }}"""
    module = read_texpr(text, "f.te", {})
    (function,) = module.ops
    deal_to_lanes(function, 8)
    levels = [op.scope for op in module.walk() if isinstance(op, ParOp)]
    assert (levels[1] is Level.WARP) is is_dealt
    many = read_texpr(text, "f.te", {})
    deal_to_lanes(many, 3)
    assert all(op.scope is not Level.WARP for op in many.walk() if isinstance(op, ParOp))


def test_loops_in_front_of_one_in_a_block_run_over_blocks() -> None:
    """Else the iterations of the loop at level block would be in several blocks."""
    text = """fn f(x: f32[8, 64]): f32[8, 64] {{
        par 8 i{} {{ par 64 j #block {{ result[i, j] = x[i, j] }} }}
    }}"""
    kernels = [printed(text.format(level), "f", {}) for level in ("", " #grid")]
    assert kernels[0] == kernels[1]
    assert "dim3(8)" in kernels[0]


def test_a_buffer_is_in_shared_memory_where_tma_copies_it_and_not_its_namesake() -> None:
    text = """fn f(x: f16[64, 64], y: f16[64]): f16[64] {
        par 1 b {
            new t: f16[64, 64]
            new full: mbarrier[1] #arrivals(1)
            fully par 32 |lane| #align(32) {
                if lane == 0 {
                    mbarrier.arrive(full[0], 8192)
                    tma.load(x[0 : 64, 0 : 64], t[0 : 64, 0 : 64], full[0])
                }
                mbarrier.wait(full[0], 0)
                result[lane] = t[lane, 0]
            }
        }
        par 32 i { new t: f16 t = y[i] result[32 + i] = t }
    }"""
    module = read_texpr(text, "f", {})
    spaces = [
        op.result.type.memory_space
        for op in module.walk()
        if isinstance(op, NewOp) and op.result.name_hint == "t"
    ]
    assert spaces == [Space.SHARED, None]


TRANSPOSE = """fn f(x: f32[32, 32]): f32[32, 32] {
    par 1 b #grid {
        new t: f32[32, 32]
        par 32 i { par 32 j { t[i, j] = x[i, j] } }
        par 32 j { par 32 i { result[j, i] = t[i, j] } }
    }
}"""


@pytest.mark.parametrize("pragma", ["", " #shared"])
def test_an_open_buffer_has_a_swizzle_and_no_bank_conflicts(pragma: str) -> None:
    """1,024 words go into shared memory, and come out of it: 32 wavefronts each."""
    module = read_texpr(
        TRANSPOSE.replace("new t: f32[32, 32]", f"new t: f32[32, 32]{pragma}"), "f", {}
    )
    TeLowerPass().apply(Context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    costs = [one for one in texpr_access_costs(kernel) if one.in_shared_memory]
    assert [one.transactions for one in costs] == [32, 32]


def test_what_does_not_fit_on_the_chip_is_in_device_memory() -> None:
    """More than half of what a block has of shared memory: a part of the workspace for each."""
    text = """fn f(x: f32[2, 65536]): f32[2, 65536] {
        par 2 b #grid {
            new t: f32[65536]
            par 65536 i { t[i] = x[b, i] }
            par 65536 i { result[b, i] = t[65535 - i] }
        }
    }"""
    module = read_texpr(text, "f", {})
    TeLowerPass().apply(Context(), module)
    (new,) = (op for op in module.walk() if isinstance(op, NewOp) and op.result.name_hint == "t")
    assert new.result.type.memory_space is Space.GLOBAL
    assert new.result.type.get_shape() == (2, 65536)
