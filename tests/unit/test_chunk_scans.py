"""``--chunk-scans``, and kernels of scans: what is cut, into what, and that it is the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

import mugraph.build as mi
from mugraph.dialects import kn
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.chunk_scans import chunk_scans
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.fuse_kernels.choice import Found, find_kernels
from mugraph.passes.targets import Target, target_named
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function

New = Callable[..., mi.DTensor]
Program = Callable[[New], mi.DTensor]


def sums_along_rows(new: New) -> mi.DTensor:
    return mi.scan(mi.silu(new(40, 96)), dim=1)


def decays_of_heads(new: New) -> mi.DTensor:
    """Each head has decays of its own, which its columns share."""
    return mi.scan(new(4, 3, 96, 20), mi.sigmoid(new(4, 3, 96, 1)), dim=2)


def one_decay_for_all_time(new: New) -> mi.DTensor:
    return mi.scan(new(2, 80, 16), mi.exp(new(2, 1, 1)), dim=1)


def linear_attention(new: New) -> mi.DTensor:
    q, k, v = new(3, 128, 24, 1), new(3, 128, 24, 1), new(3, 128, 1, 40)
    return mi.reduction(mi.scan(k * v, mi.exp(new(3, 128, 1, 1)), dim=1) * q, dim=2)


def linear_attention_by_products(new: New) -> mi.DTensor:
    q, k, v = new(3, 128, 1, 24), new(3, 128, 24, 1), new(3, 128, 1, 40)
    return q @ mi.scan(k @ v, dim=1)


def transposed_states(new: New) -> mi.DTensor:
    """The state has its depth last, and time comes first."""
    q, k, v = new(96, 2, 24, 1), new(96, 2, 1, 24), new(96, 2, 40, 1)
    return mi.scan(v * k, mi.exp(new(96, 2, 1, 1)), dim=0) @ q


def mamba2(new: New) -> mi.DTensor:
    """Heads share their keys and queries; steps are factors of decays and of what is added."""
    tokens, heads, depth, width = 128, 3, 16, 20
    step = mi.softplus(new(tokens, heads, 1, 1))
    decay = mi.exp(step * (mi.exp(new(heads, 1, 1)) * -1.0))
    x = new(tokens, heads, 1, width)
    state = mi.scan(new(tokens, 1, depth, 1) * (x * step), decay, dim=0)
    return mi.reduction(state * new(tokens, 1, depth, 1), dim=2) + x * new(heads, 1, 1)


PLAIN = (sums_along_rows, decays_of_heads, one_decay_for_all_time)
"""Scans whose results are used as they are."""
PROGRAMS = (
    *PLAIN,
    linear_attention,
    linear_attention_by_products,
    transposed_states,
    mamba2,
)


def function_of(program: Program, dtype: Attribute = mi.float32) -> FuncOp:
    graph = mi.new_kernel_graph("scans")
    graph.mark_output(program(lambda *shape: graph.new_input(shape, dtype=dtype)))
    return only_function(graph.module())


def module_of(function: FuncOp) -> ModuleOp:
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    return module


def copy_of(function: FuncOp) -> FuncOp:
    return only_function(module_of(function).clone())


def scans_in(function: FuncOp) -> list[kn.ScanOp]:
    return [op for op in function.walk() if isinstance(op, kn.ScanOp)]


def require_same(one: FuncOp, other: FuncOp) -> None:
    generator = np.random.default_rng(1)
    inputs = [
        generator.uniform(-0.5, 0.5, shape_of(argument.type)).astype(np.float32)
        for argument in one.body.block.args
    ]
    (wanted,), (found,) = (
        run_function(module_of(function), None, inputs, "float64") for function in (one, other)
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_chunks_are_the_scan(program: Program) -> None:
    function = function_of(program)
    own = copy_of(function)
    assert not chunk_scans(own)
    (scan,) = (scan for scan in scans_in(own) if scan.is_exclusive)
    assert shape_of(scan.result.type)[scan.reduced_dim] <= 5
    products = [op for op in own.walk() if isinstance(op, kn.MatmulOp)]
    assert len(products) == (1 if program in PLAIN else 4)
    require_same(function, own)


def along(extent: int, decay: str = "exp", runs: int = 32) -> FuncOp:
    """A recurrence of some runs, which share their decays."""
    return function_of(
        lambda new: mi.scan(new(extent, runs), getattr(mi, decay)(new(extent, 1)), dim=0)
    )


def own_decays(new: New) -> mi.DTensor:
    return mi.scan(new(96, 32), mi.exp(new(96, 32)), dim=0)


def decayed_depth(new: New) -> mi.DTensor:
    """The sum over the depth does not leave decays that differ along it."""
    state = mi.scan(new(96, 8, 1) * new(96, 1, 32), mi.exp(new(96, 8, 1)), dim=0)
    return mi.reduction(state * new(96, 8, 1), dim=1)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (along(97), "'kn.scan' goes along 97 elements, which are no two chunks or more"),
        (along(16), "goes along 16 elements"),
        (along(96, "tanh"), "the decays of 'kn.scan' are not known to be positive"),
        (along(96, runs=4), "fewer than 16 runs of 'kn.scan' have the same decays"),
        (function_of(own_decays), "fewer than 16 runs"),
    ],
)
def test_what_stays_sequential_and_why(function: FuncOp, reason: str) -> None:
    before = str(function)
    (said,) = chunk_scans(function)
    assert reason in said
    assert str(function) == before


def test_decays_along_the_depth_keep_the_state() -> None:
    function = function_of(decayed_depth)
    own = copy_of(function)
    assert not chunk_scans(own)
    require_same(function, own)


def fused(function: FuncOp) -> FuncOp:
    own = copy_of(function)
    fuse_program(own, target_named("h200"))
    own.verify()
    return own


def long_linear_attention(new: New) -> mi.DTensor:
    q, k, v = new(16, 1024, 1, 64), new(16, 1024, 64, 1), new(16, 1024, 1, 64)
    return q @ mi.scan(k @ v, dim=1)


def test_states_are_not_made_where_they_are_summed_over() -> None:
    """As written each token has a matrix of its own; in chunks a few kernels have one a chunk."""
    program = function_of(long_linear_attention)
    own = fused(program)
    kernels = [op for op in own.walk() if isinstance(op, kn.CustomizedOp)]
    assert len(kernels) + len(scans_in(own)) <= 3
    largest = max(math.prod(shape_of(result.type)) for op in kernels for result in op.results)
    assert largest <= 16 * 1024 * 64


def test_an_estimate_says_what_chunks_would_take() -> None:
    function = function_of(lambda new: mi.scan(new(32, 32), dim=1))
    (reason,) = find_kernels(function, target_named("h200")).sequential
    assert reason.startswith("in chunks they would take ")
    assert len(scans_in(function)) == 1


@pytest.mark.parametrize(("extent", "programs"), [(96, 2), (256, 3)])
def test_chunks_that_are_as_long_are_searched_once(
    extent: int, programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 96 elements a chunk has 48, be 64 wanted or 128; of 256 elements, 64 or 128."""
    searched: list[FuncOp] = []
    of = Found.of

    def counted(function: FuncOp, target: Target, **options: bool) -> Found:
        searched.append(function)
        return of(function, target, **options)

    monkeypatch.setattr(Found, "of", counted)
    find_kernels(along(extent), target_named("h200"))
    assert len(searched) == programs  # the scan as it is written, and in chunks


@pytest.mark.parametrize("dtype", [mi.float32, mi.bfloat16], ids=["f32", "bf16"])
def test_few_steps_are_one_kernel_and_proved(dtype: Attribute) -> None:
    """A loop goes along the scanned dimension; blocks divide the others, and states are f32."""
    program = function_of(
        lambda new: mi.scan(mi.silu(new(128, 12, 256)), dim=1) * new(128, 1, 256), dtype
    )
    own = fused(program)
    (kernel,) = (op for op in own.walk() if isinstance(op, kn.CustomizedOp))
    assert kernel.forloop_range == 12 and kernel.grid_dim[0] > 1
    proof = prove(program, own)
    assert proof.holds, proof.reason


def test_a_scan_that_nothing_uses_leaves_views_alone() -> None:
    graph = mi.new_kernel_graph("views")
    x = graph.new_input((1, 128))
    mi.scan(graph.new_input((8, 3)), dim=1, exclusive=True)
    graph.mark_output(mi.reshape(mi.reshape(mi.transpose(x), (2, 64)), (4, 32)))
    function = only_function(graph.module())
    own = fused(function)
    assert not scans_in(own)
    require_same(function, own)
