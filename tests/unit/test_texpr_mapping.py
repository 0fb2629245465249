"""Mappings, barriers and registers of tensor expressions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp
from xdsl.ir.affine import AffineExpr
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.te import (
    AllReduceOp,
    BarrierOp,
    BufferType,
    KernelOp,
    NewOp,
    Scope,
    Space,
    input_parameters,
)
from mugraph.passes.texpr.analysis.hazards import (
    HazardKind,
    find_texpr_hazards,
    unneeded_texpr_barriers,
)
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.passes.texpr.te_map import TeMapPass
from mugraph.passes.texpr.te_map.family import BandMapping, Role, deals
from mugraph.passes.texpr.te_map.search import classes_of
from mugraph.passes.texpr.te_promote import TePromotePass
from mugraph.passes.texpr.te_sync.choice import choose_barriers, hitting_set
from mugraph.passes.texpr.te_sync.dependences import dependences_of
from mugraph.passes.texpr.te_sync.leaves import leaves_of
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr

EXAMPLES = Path(__file__).parents[2] / "examples" / "texpr"
SIZES = {
    "transpose": {"M": 128, "N": 128},
    "gemm_shared": {"M": 128, "N": 128, "K": 64},
    "gemm_mma": {"M": 128, "N": 128, "K": 64, "TN": 128, "TK": 32, "G": 1, "WN": 32},
    "softmax": {"M": 2, "N": 1000},
    "scan": {"B": 2, "N": 512},
    "layer_norm": {"M": 2, "N": 1000},
    "vector_add": {"N": 1000},
    "gemm": {"M": 32, "N": 32, "K": 8},
    "stencil": {"H": 32, "W": 32},
    "batched_4x4": {"B": 64},
    "mma": {"M": 16, "N": 8, "K": 16},
    "heat": {"H": 8, "W": 64, "BLOCKS": 4},
}


def kernel_of(name: str, *passes: ModulePass) -> KernelOp:
    module = read_texpr((EXAMPLES / f"{name}.te").read_text(), name, SIZES[name])
    PassPipeline(passes).apply(Context(), module)
    module.verify()
    return next(op for op in module.walk() if isinstance(op, KernelOp))


def _index(
    mapping: BandMapping, dimension: int, thread: int, steps: Sequence[int], vector: int
) -> int:
    names = [AffineExpr.dimension(position) for position in range(2 + len(steps))]
    expression = mapping.index(dimension, names[0], names[2:], names[1])
    return expression.eval([thread, vector, *steps], [])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(6))
def test_mappings_are_bijections(seed: int) -> None:
    generator = np.random.default_rng(seed)
    extents = tuple(int(n) for n in generator.integers(1, 9, generator.integers(1, 4)))
    threads = int(generator.choice([4, 6, 8]))
    wide = [(d, 2) for d, extent in enumerate(extents) if extent % 2 == 0]
    classes = classes_of(tuple((deal, (2, 32)) for deal in deals(extents, threads, wide)))
    some = generator.permutation(len(classes.found))[:40]
    mappings = [one for at in some for one in classes.mappings(classes.found[int(at)])]
    for mapping in mappings[:60]:
        met: list[tuple[int, ...]] = []
        radices = [[r for _, r in one.placed(Role.STEP)] for one in mapping.digits]
        steps = [list(itertools.product(*map(range, each))) for each in radices]
        for thread in range(mapping.busy_threads):
            for step in itertools.product(*steps):
                for vector in range(mapping.vector):
                    index = tuple(
                        _index(mapping, d, thread, step[d], vector) for d in range(len(extents))
                    )
                    if all(i < n for i, n in zip(index, extents, strict=True)):
                        met.append(index)
        assert sorted(met) == list(itertools.product(*map(range, extents)))


def test_vectors_are_tried_where_there_are_too_many_classes() -> None:
    extents, vectors = (16, 32, 128, 64), [(3, 2), (3, 4), (3, 8)]
    classes = classes_of(tuple((deal, (32,)) for deal in deals(extents, 256, vectors)))
    assert not classes.is_whole
    assert {one.deal.vector[3] for one in classes.found} == {1, 2, 4, 8}
    assert all(one.fits() for one in classes.found)
    assert any(one.skipped for one in classes.found)


@pytest.mark.parametrize("seed", range(30))
def test_hitting_sets_are_the_lightest(seed: int) -> None:
    generator = np.random.default_rng(seed)
    weights = [int(w) for w in generator.integers(1, 5, 7)]
    sets = [
        frozenset(int(i) for i in generator.choice(7, generator.integers(1, 4), replace=False))
        for _ in range(6)
    ]
    found = hitting_set(sets, weights)
    assert all(one & found for one in sets)
    every = itertools.chain.from_iterable(itertools.combinations(range(7), n) for n in range(8))
    lightest = min(
        sum(weights[i] for i in one) for one in every if all(each & set(one) for each in sets)
    )
    assert sum(weights[i] for i in found) == lightest


@pytest.mark.parametrize(
    ("name", "count"),
    [("transpose", 1), ("gemm_shared", 2), ("gemm_mma", 2), ("softmax", 0), ("scan", 2)],
)
def test_each_barrier_is_needed(name: str, count: int) -> None:
    kernel = kernel_of(name, TeMapPass(), TePromotePass())
    leaves = leaves_of(kernel.threads)
    dependences = dependences_of(leaves, kernel.threads)
    chosen = choose_barriers(leaves, dependences)
    free = {i for i, leaf in enumerate(leaves) if leaf.is_barrier}
    assert len(chosen) == count

    def open_with(places: set[int]) -> bool:
        return any(not one.places & (places | free) for one in dependences)

    assert not open_with(set(chosen))
    assert all(open_with(set(chosen) - {one}) for one in chosen)


@pytest.mark.parametrize(
    ("name", "count"), [("transpose", 1), ("gemm_shared", 2), ("gemm_mma", 2), ("scan", 2)]
)
def test_the_hazard_checker_misses_each_barrier_that_is_left_out(name: str, count: int) -> None:
    kernel = kernel_of(name, TeLowerPass())
    assert len([op for op in kernel.walk() if isinstance(op, BarrierOp)]) == count
    assert find_texpr_hazards(kernel) == []
    assert unneeded_texpr_barriers(kernel) == []


@pytest.mark.parametrize(
    ("name", "reductions"),
    [
        # What threads exchange are sums and maxima of a row, and te.all_reduce is a barrier.
        ("softmax", 2),
        ("layer_norm", 2),
        # No thread touches what another one writes.
        ("vector_add", 0),
        ("gemm", 0),
        ("stencil", 0),
        ("batched_4x4", 0),
        # One warp, which exchanges registers in the instruction.
        ("mma", 0),
    ],
)
def test_the_other_examples_need_no_barrier(name: str, reductions: int) -> None:
    kernel = kernel_of(name, TeLowerPass())
    assert not any(isinstance(op, BarrierOp) for op in kernel.walk())
    assert len([op for op in kernel.walk() if isinstance(op, AllReduceOp)]) == reductions
    assert find_texpr_hazards(kernel) == []
    leaves = leaves_of(kernel.threads)
    free = {i for i, leaf in enumerate(leaves) if leaf.is_barrier}
    assert all(one.places & free for one in dependences_of(leaves, kernel.threads))


WRITE = "par 64 i #block { s[i] = 2.0 }"
READ = "par 64 i #block { result[b, r, i] = s[63 - i] }"
CONDITIONS = [
    # In each iteration one on the way there and one on the way back.
    (f"{WRITE} {READ}", 2),
    # It is read two iterations after it was written, or one before.
    (f"if r == 0 {{ {WRITE} }} if r == 2 {{ {READ} }}", 1),
    (f"if r == 1 {{ {WRITE} }} if r == 0 {{ {READ} }}", 1),
    # Under equal conditions, which stand apart.
    (f"if r == 0 {{ {WRITE} }} if r == 0 {{ {READ} }}", 1),
    # The barrier under a condition serves what is under another that implies it.
    (f"if r < 2 {{ {WRITE} {READ} }} if r == 1 {{ {READ} }}", 2),
    # No block comes to both.
    (f"if b == 0 {{ {WRITE} }} if b == 1 {{ {READ} }}", 0),
]


@pytest.mark.parametrize(("body", "count"), CONDITIONS)
def test_barriers_meet_what_conditions_leave(body: str, count: int) -> None:
    text = f"""
    fn f(x: f32[2, 64]): f32[2, 3, 64] {{
        par 2 b #grid {{
            new s: f32[64] #shared
            seq 3 r {{ {body} }}
        }}
    }}
    """
    module = read_texpr(text, "f.te", {})
    TeLowerPass().apply(Context(), module)
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    assert find_texpr_hazards(kernel) == []
    assert unneeded_texpr_barriers(kernel) == []
    assert len([op for op in kernel.walk() if isinstance(op, BarrierOp)]) == count


def test_hazards_of_examples_name_threads_element_and_lines() -> None:
    kernel = kernel_of("scan", TeLowerPass())
    first = next(op for op in kernel.walk() if isinstance(op, BarrierOp))
    first.detach()
    (finding, *_) = find_texpr_hazards(kernel)
    assert finding.kind is HazardKind.READ_AFTER_WRITE
    assert "scan:15:13) writes parts[32] in thread 32" in finding.message
    assert "scan:17:41) reads parts[32] in thread 0" in finding.message


def test_lowering_puts_them_in_front_of_the_steps() -> None:
    kernel = kernel_of("transpose", TeLowerPass())
    barriers = [op for op in kernel.walk() if isinstance(op, BarrierOp)]
    assert [barrier.threads for barrier in barriers] == [Scope.BLOCK]


@pytest.mark.parametrize(
    ("name", "buffer", "count"), [("gemm_shared", "sums", 16), ("softmax", "v", 4)]
)
def test_what_one_thread_touches_is_in_registers(name: str, buffer: str, count: int) -> None:
    kernel = kernel_of(name, TeMapPass(), TePromotePass())
    new = next(
        op for op in kernel.walk() if isinstance(op, NewOp) and op.result.name_hint == buffer
    )
    assert new.result.type.memory_space is Space.REGISTER
    assert new.result.type.elements == count


def test_registers_that_threads_would_share_are_an_error() -> None:
    text = """
    fn f(x: f32[64]): f32[64] {
        par 1 b #grid {
            new v: f32[64] #reg
            par 64 i #block { v[i] = x[i] }
            par 64 i #block { result[i] = v[63 - i] }
        }
    }
    """
    module = read_texpr(text, "f.te", {})
    with pytest.raises(PassFailedException, match="v is in #reg"):
        TeLowerPass().apply(Context(), module)


STEPS = """
fn f(x: f32[N]): f32[N] {
    new t: f32[2, N]
    par N i { t[0, i] = x[i] }
    seq STEPS s {
        par N i LEVEL { t[(s + 1) % 2, i] = t[s % 2, (i + 1) % N] + 1.0 }
        if s == 1 { par N i LEVEL { t[(s + 1) % 2, i] *= 2.0 } }
    }
    par N i { result[i] = t[STEPS % 2, i] }
}
"""


@pytest.mark.parametrize(
    ("level", "size", "kernels"), [("#grid", 64, 6), ("", 2048, 6), ("", 64, 3), ("#block", 64, 3)]
)
def test_steps_over_the_grid_are_kernels(level: str, size: int, kernels: int) -> None:
    module = read_texpr(STEPS.replace("LEVEL", level), "f.te", {"N": size, "STEPS": 3})
    TeLowerPass().apply(Context(), module)
    assert sum(isinstance(op, KernelOp) for op in module.walk()) == kernels
    x = np.arange(size, dtype=np.float32)
    function = cast(Any, module.body.block.first_op)
    (result,) = run_texpr(function, [x], seed=0).outputs.values()
    for step in range(3):
        x = (np.roll(x, -1) + 1) * (1 + (step == 1))
    np.testing.assert_array_equal(result, x)


def test_too_many_steps_over_the_grid_are_an_error() -> None:
    module = read_texpr(STEPS.replace("LEVEL", "#grid"), "f.te", {"N": 64, "STEPS": 65})
    with pytest.raises(PassFailedException, match="a kernel for each iteration, and 64 are the"):
        TeLowerPass().apply(Context(), module)


def test_more_threads_at_once_than_a_block_has_are_an_error() -> None:
    text = "fn f(x: f32[4096]): f32[4096] { fully par 4096 t #block { result[t] = x[t] } }"
    module = read_texpr(text, "f.te", {})
    with pytest.raises(
        PassFailedException, match="'fully par 4096 t' needs 4096 threads of a block"
    ):
        TeLowerPass().apply(Context(), module)


def test_functions_have_one_kernel_a_top_level_loop() -> None:
    text = "par 64 i { b[i] = a[i] }\npar 64 i { c[i] = b[63 - i] }\n"
    module = read_texpr(text, "f.te", {})
    TeLowerPass().apply(Context(), module)
    function = cast(Any, module.body.block.first_op)
    assert isinstance(function, FuncOp)
    assert sum(isinstance(op, KernelOp) for op in function.walk()) == 2


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["transpose", "gemm_shared", "gemm_mma", "softmax", "scan"])
def test_lowered_examples_compute_the_same(name: str) -> None:
    module = read_texpr((EXAMPLES / f"{name}.te").read_text(), name, SIZES[name])
    function = cast(FuncOp, module.body.block.first_op)
    generator = np.random.default_rng(0)
    given = function.function_type.inputs.data
    types = [cast(BufferType, given[position]) for position in input_parameters(function)]
    inputs = [generator.standard_normal(type_.get_shape()).astype(np.float16) for type_ in types]
    expected = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=None).outputs
    for lowering in TeLowerPass().passes():
        lowering.apply(Context(), module)
        found = run_texpr(function, inputs, precision=Precision.FLOAT64).outputs
        for one, other in zip(found.values(), expected.values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_columns_of_one_element_are_not_accessed_as_vectors() -> None:
    """They are neighbours in memory, but not along the last dimension, as vectors are."""
    text = """
    fn f(x: f32[1, 64]): f32[1, 64] {
        par 1 |b| {
            new w: f32[64, 1]
            new v: f32[1, 64]
            par 1 g { par 64 j { w[j, g] = 1.0 v[g, j] = x[g, j] } }
            par 1 |g| {
                new s: f32
                s = 1.0
                par 64 j { v[g, j] = v[g, j] + s }
                par 64 j { w[j, g] = v[g, j] }
            }
            par 1 g { par 64 j { result[g, j] = w[j, g] } }
        }
    }
    """
    module = read_texpr(text, "f.te", {})
    TeLowerPass().apply(Context(), module)
    x = np.arange(64, dtype=np.float32)[None]
    function = cast(FuncOp, module.body.block.first_op)
    (result,) = run_texpr(function, [x]).outputs.values()
    np.testing.assert_array_equal(result, x + 1)


def test_reductions_into_two_elements_stay_apart() -> None:
    text = """
    fn f(x: f32[64]): f32[2] {
        par 1 b #grid {
            new v: f32[2]
            v[0] = 0.0
            v[1] = 0.0
            par 64 i #block {
                red v[0] += x[i]
                red v[1] += 2.0 * x[i]
            }
            par 2 i #block { result[i] = v[i] }
        }
    }
    """
    module = read_texpr(text, "f.te", {})
    TeLowerPass().apply(Context(), module)
    function = cast(FuncOp, module.body.block.first_op)
    (result,) = run_texpr(function, [np.ones(64, np.float32)]).outputs.values()
    assert result.tolist() == [64, 128]


@pytest.mark.parametrize(("rows", "threads"), [(40, ""), (9, " #thread"), (3, " #thread")])
def test_a_number_that_a_thread_makes_is_reduced_by_it_alone(rows: int, threads: str) -> None:
    """More rows than warps: a thread runs all of a row's loops, and reduces in two ways."""
    text = f"""
    fn f(x: f32[{rows}, 32]): f32[{rows}] {{
        par 1 b #grid {{
            par {rows} |i| #block {{
                new s: f32
                s = 0.0
                par 32 j{threads} {{ red s += x[i, j] }}
                par 32 j{threads} {{ red s max= 2.0 * x[i, j] }}
                result[i] = s
            }}
        }}
    }}
    """
    module = read_texpr(text, "f.te", {})
    TeLowerPass().apply(Context(), module)
    assert not any(isinstance(op, AllReduceOp) for op in module.walk())
    function = cast(FuncOp, module.body.block.first_op)
    x = np.random.default_rng(0).integers(-9, 10, (rows, 32)).astype(np.float32)
    (result,) = run_texpr(function, [x]).outputs.values()
    np.testing.assert_array_equal(result, np.maximum(x.sum(axis=1), 2 * x.max(axis=1)))


@pytest.mark.parametrize(
    ("read", "space"),
    [
        ("par 16 i #block { par 16 j #block { result[b, i, j] = t[i, j] } }", "register"),
        ("par 16 i #block { par 16 j #block { result[b, i, j] = t[j, i] } }", "shared"),
        ("par 16 i #block { seq 16 j { result[b, i, j] = t[i, j] } }", "shared"),
    ],
)
def test_an_open_buffer_is_where_the_mapping_lets_it_be(read: str, space: str) -> None:
    module = read_texpr(
        f"""fn f(x: f32[4, 16, 16]): f32[4, 16, 16] {{ par 4 b #grid {{
            new t: f32[16, 16]
            par 16 i #block {{ par 16 j #block {{ t[i, j] = x[b, i, j] }} }}
            {read}
        }} }}""",
        "f.te",
        {},
    )
    TeLowerPass().apply(Context(), module)
    (new,) = (op for op in module.walk() if isinstance(op, NewOp) and op.result.name_hint == "t")
    assert str(new.result.type.memory_space) == space
