"""Buffers that the blocks of a cluster have together, and loops over these blocks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from texpr_programs import assert_each_is_needed, kernel_of_each_step
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError, PassFailedException

from mugraph.codegen.cuda import print_module
from mugraph.dialects import te
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.passes.texpr.te_map import TeMapPass
from mugraph.texpr import read_texpr, texpr_text

LIFE = (Path(__file__).parents[2] / "examples" / "texpr" / "life.te").read_text()
BOARD = {"BOARDS": 2, "H": 16, "W": 8, "BLOCKS": 4, "GENERATIONS": 3}
TURNED = """
fn turned(x: f32[12, 64]): f32[12, 64] {
    par 3 |c| #grid {
        new t: f32[4, 64] #cluster
        par 4 |b| #cluster { par 64 |i| { t[b, i] = x[c * 4 + b, i] } }
        par 4 |b| #cluster { par 64 |i| { result[c * 4 + b, i] = t[(b + 1) % 4, i] } }
    }
}
"""
THROUGH_DEVICE = """
fn turned(x: f32[12, 64], t: f32[12, 64]): f32[12, 64] {
    par 3 |c| #grid {
        par 4 |b| #cluster { par 64 |i| { t[c * 4 + b, i] = x[c * 4 + b, i] } }
        par 4 |b| #cluster { par 64 |i| { result[c * 4 + b, i] = t[c * 4 + (b + 1) % 4, i] } }
    }
}
"""
BY_ONE = """
fn sums(x: f32[8, 64]): f32[8, 64] {
    par 2 |c| #grid {
        new t: f32[4, 64] #cluster
        par 4 |b| #cluster { par 64 |i| { t[b, i] = x[c * 4 + b, i] } }
        seq 3 |k| {
            par 4 |b| #cluster { if b == 0 { par 64 |i| { t[0, i] += t[k + 1, i] } } }
        }
        par 4 |b| #cluster { par 64 |i| { result[c * 4 + b, i] = t[0, i] } }
    }
}
"""
SUMS = """
fn sums(x: f32[8, 64]): f32[8, 64] {
    par 2 |c| #grid {
        new t: f32[4, 16] #cluster
        par 4 |b| #cluster { par 16 |i| { t[b, i] = 0.0 } }
        par 4 |b| #cluster { par 64 |i| { red t[i / 16, i % 16] += x[c * 4 + b, i] } }
        par 4 |b| #cluster { par 64 |i| { result[c * 4 + b, i] = t[i / 16, i % 16] } }
    }
}
"""


def lowered(text: str, sizes: dict[str, int] | None = None) -> tuple[ModuleOp, te.KernelOp]:
    module = read_texpr(text, "cluster.te", sizes or {})
    TeLowerPass("sm_90a").apply(Context(), module)
    module.verify()
    return module, next(op for op in module.walk() if isinstance(op, te.KernelOp))


def barriers_of(kernel: te.KernelOp) -> list[te.BarrierOp]:
    return [op for op in kernel.walk() if isinstance(op, te.BarrierOp)]


@pytest.mark.parametrize(
    ("text", "sizes", "shape", "barriers"),
    [
        (LIFE, BOARD, (2, 16, 8), 2),
        (TURNED, {}, (12, 64), 2),
        (THROUGH_DEVICE, {}, (12, 64), 1),
        # In front of the loop, and in it: before each sum, and before what all read.
        (BY_ONE, {}, (8, 64), 3),
        (SUMS, {}, (8, 64), 3),
    ],
)
def test_each_step_computes_the_same(
    text: str, sizes: dict[str, int], shape: tuple[int, ...], barriers: int
) -> None:
    module = read_texpr(text, "cluster.te", sizes)
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    x = np.random.default_rng(0).integers(0, 2, shape)
    inputs = [x] * len(te.input_parameters(function))
    kernel = kernel_of_each_step(module, inputs, np.testing.assert_array_equal)
    assert [op.threads for op in barriers_of(kernel)] == [te.Scope.CLUSTER] * barriers
    assert not any(isinstance(op.parent_op(), te.IfOp) for op in barriers_of(kernel))
    assert find_texpr_hazards(kernel) == []


@pytest.mark.parametrize("text", [LIFE, TURNED, THROUGH_DEVICE, SUMS])
def test_every_barrier_is_needed_and_of_the_cluster(text: str) -> None:
    _, kernel = lowered(text, BOARD if text is LIFE else {})
    assert_each_is_needed(kernel, barriers_of(kernel), te.Scope.CLUSTER)


def test_what_is_missing_is_said() -> None:
    _, kernel = lowered(TURNED)
    first, _ = barriers_of(kernel)
    first.detach()
    found = {one.kind: one.message for one in find_texpr_hazards(kernel)}
    assert "which may not run yet" in found[HazardKind.NOT_RUNNING]
    assert "no barrier of the cluster orders them" in found[HazardKind.READ_AFTER_WRITE]
    assert "in thread 0 of block 3 of the cluster" in found[HazardKind.READ_AFTER_WRITE]
    _, kernel = lowered(TURNED)
    _, last = barriers_of(kernel)
    last.detach()
    (finding,) = find_texpr_hazards(kernel)
    assert finding.kind is HazardKind.NOT_RUNNING
    assert re.search(r"t\[\d, 0\] in shared memory .* which may have ended", finding.message)


def test_a_barrier_that_only_some_blocks_come_to_is_waited_at_for_ever() -> None:
    _, kernel = lowered(BY_ONE)
    (condition,) = (op for op in kernel.walk() if isinstance(op, te.IfOp))
    first = condition.body.block.first_op
    assert first is not None
    condition.body.block.insert_op_before(te.BarrierOp(te.Scope.CLUSTER), first)
    assert HazardKind.DEADLOCK in {one.kind for one in find_texpr_hazards(kernel)}


def test_exchange_through_device_memory_needs_the_barrier() -> None:
    _, kernel = lowered(THROUGH_DEVICE)
    (barrier,) = barriers_of(kernel)
    barrier.detach()
    (finding,) = find_texpr_hazards(kernel)
    assert finding.kind is HazardKind.READ_AFTER_WRITE
    assert "nothing orders blocks of one kernel" in finding.message


def test_what_is_printed() -> None:
    module, kernel = lowered(TURNED)
    assert (kernel.iterations, kernel.cluster_blocks, kernel.smem_bytes) == (12, 4, 256)
    text = print_module(module)
    assert "__cluster_dims__(4, 1, 1)" in text
    assert "    t[i] = x_at;" in text  # in the block's own part
    assert "mugraph::te::of_block(t, (rank + 1) % 4)[" in text
    assert text.count("mugraph::te::sync_cluster();") == 2
    again = texpr_text(read_texpr(TURNED, "cluster.te", {}))
    assert "new t: f32[4, 64] #cluster" in again
    assert print_module(lowered(again)[0]) == text


def test_blocks_of_a_cluster_run_at_once_in_any_case() -> None:
    text = TURNED.replace("par 4 |b| #cluster", "fully par 4 |b| #cluster")
    assert print_module(lowered(text)[0]) == print_module(lowered(TURNED)[0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("#cluster\n", "#shared\n", "the blocks of a cluster share it; say #cluster"),
        ("t: f32[4, 64]", "t: f32[8, 64]", "its first dimension is the 4 blocks of a cluster"),
        ("par 4 |b| #cluster { par 64 |i| { r", "par 2 |b| #cluster { par 64 |i| { r", "as many"),
        ("#cluster\n", "#cluster par 64 |i| #block { t[0, i] = 0.0 }\n", "put it into such a loop"),
        ("par 4 |b| #cluster", "par 4 |b| #block", "stands in no loop over clusters"),
    ],
)
def test_refused(old: str, new: str, message: str) -> None:
    module = read_texpr(TURNED.replace(old, new), "cluster.te", {})
    with pytest.raises(PassFailedException, match=message):
        TeMapPass("sm_90a").apply(Context(), module)


def test_races_of_blocks_are_found_when_the_text_is_read() -> None:
    with pytest.raises(ParseError, match=r"iterations b = 0 and b = 1 .* both touch t"):
        read_texpr(TURNED.replace("t[b, i] =", "t[b / 2, i] ="), "cluster.te", {})


def test_types_of_buffers_of_clusters() -> None:
    with pytest.raises(ParseError, match="a first dimension, the block, further"):
        read_texpr(TURNED.replace("t: f32[4, 64]", "t: f32[256]"), "cluster.te", {})
