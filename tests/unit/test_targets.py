"""Targets: their names, what is said of unknown ones, and one that a test adds as data."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from xdsl.utils.exceptions import PassFailedException

from mugraph.codegen.cuda import CudaTarget
from mugraph.dialects.cute.atoms import PRODUCT_ATOMS, mma_atom
from mugraph.dialects.plan import Plan
from mugraph.errors import UserError
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.costs.products import group_cycles, instruction_cycles
from mugraph.passes.costs.warp_layouts import choose_atom
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import (
    MMA,
    TARGETS,
    WGMMA,
    Target,
    architecture_named,
    default_targets,
    target_named,
)
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, read_module
from mugraph.runtime.library_sources import generate_sources

GRAPH = Path(__file__).parents[2] / "examples" / "rmsnorm_linear.mlir"


def cuda_for(name: str) -> str:
    """The example's CUDA for a target, with the tiles that it has."""
    context = make_context()
    module = read_module(str(GRAPH), context)
    verifying(transpile_pipeline(name, Plan(tiles="written"))).apply(context, module)
    output = io.StringIO()
    CudaTarget().emit(context, module, output)
    return output.getvalue()


def test_an_architecture_means_its_default_gpu() -> None:
    assert target_named("sm_90a") is target_named("h200")
    assert target_named("h100").arch == "sm_90a"
    assert {arch: target.name for arch, target in default_targets().items()} == {
        "sm_80": "a100",
        "sm_90a": "h200",
        "sm_100a": "b200",
    }


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(PassFailedException) as refused:
        target_named("h20")
    assert str(refused.value) == (
        "unknown architecture 'h20'; known are a100 (sm_80), h200 (sm_90a), h100 (sm_90a), "
        'b200 (sm_100a): write for instance arch="sm_90a"'
    )


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_a_name_stands_once_and_numbers_are_of_one_gpu(target: Target) -> None:
    assert TARGETS[target.name] is target
    assert target.shared_memory_per_block + target.reserved_shared_memory_per_block <= (
        target.shared_memory_per_multiprocessor
    )
    assert target.bytes_in_flight_per_multiprocessor() < target.shared_memory_per_multiprocessor
    assert target.multiplies_in_warpgroups == (target.arch == "sm_90a")


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "e4m3", "e5m2", "s8"])
@pytest.mark.parametrize("ieee", [False, True])
def test_every_target_says_how_fast_what_it_takes_is(
    target: Target, element: str, ieee: bool
) -> None:
    """The instruction that is chosen for each type is one that has a rate."""
    atom = choose_atom((element, element), 128, target, ieee=ieee)
    assert atom.name in PRODUCT_ATOMS
    assert 0 < instruction_cycles(atom, target) <= 16


def test_costs_follow_the_target() -> None:
    """Fewer multiply-adds a cycle, and less memory bandwidth, take longer."""
    h200, atom = target_named("h200"), mma_atom("SM80_16x8x16_F32F16F16F32_TN")
    rates = {name: {"f16": h200.macs_a_cycle[name]["f16"] // 2} for name in (MMA, WGMMA)}
    slow = replace(h200, macs_a_cycle=rates)
    assert instruction_cycles(atom, slow) == 2 * instruction_cycles(atom, h200)
    assert group_cycles(4096, slow, "f16") == 2 * group_cycles(4096, h200, "f16")
    assert device_ns(4800, h200) == 1 < device_ns(4800, target_named("h100"))


def test_a_gpu_of_an_architecture_compiles_as_that() -> None:
    context = make_context()
    module = read_module(str(GRAPH), context)
    files = generate_sources(module, context, ["h100", "sm_80"]).files
    assert {"src/rmsnorm_linear_sm_90a.cu", "src/rmsnorm_linear_sm_80.cu"} <= files.keys()


def test_a_library_has_one_gpu_of_an_architecture() -> None:
    context = make_context()
    module = read_module(str(GRAPH), context)
    with pytest.raises(UserError, match="h100 and sm_90a are both sm_90a"):
        generate_sources(module, context, ["h100", "sm_90a"])


def test_a_target_is_added_as_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes take from it what it has: here there are no bulk copies, and half the memory."""
    small = replace(
        target_named("a100"),
        name="small",
        arch="sm_86",
        shared_memory_per_block=48 * 1024,
        shared_memory_per_multiprocessor=50 * 1024,
    )
    monkeypatch.setitem(TARGETS, small.name, small)
    assert target_named("sm_86") is small
    assert architecture_named("small") == "sm_86"
    assert cuda_for("small") == cuda_for("sm_86")
    assert "bulk" in cuda_for("h100") and "bulk" not in cuda_for("small")
    monkeypatch.setitem(TARGETS, small.name, replace(small, shared_memory_per_block=4 * 1024))
    with pytest.raises(PassFailedException, match="a block of sm_86 has 4096"):
        cuda_for("small")
