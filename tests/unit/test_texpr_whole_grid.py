"""Loops over all blocks of a grid at once, and what these blocks have together."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from texpr_programs import assert_each_is_needed, kernel_of_each_step
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, ModuleOp
from xdsl.ir import Block
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import ParseError, PassFailedException, VerifyException

from mugraph.codegen.cuda import print_module
from mugraph.dialects import te
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.texpr import read_texpr, texpr_text

HEAT = (Path(__file__).parents[2] / "examples" / "texpr" / "heat.te").read_text()
PLATE = {"H": 8, "W": 12, "BLOCKS": 4, "STEPS": 5}
TURNED = """
fn turned(x: f32[4, 64]): f32[4, 64] {
    new t: f32[4, 64]
    fully par 4 |b| #grid { par 64 |i| { t[b, i] = x[b, i] } }
    fully par 4 |b| #grid { par 64 |i| { result[b, i] = t[(b + 1) % 4, i] } }
}
"""
STEPS = """
size T <= 100
fn smooth(x: f32[8, 64], n: f32[T]): f32[8, 64] {
    fully par 8 |b| #grid { par 64 |i| { result[b, i] = x[b, i] } }
    seq T |g| {
        new t: f32[8, 64]
        fully par 8 |b| #grid {
            new m: f32
            m = 0.0
            par 64 |i| { red m += result[(b + 1) % 8, i] }
            par 64 |i| { t[b, i] = m + result[b, i] + n[g] }
        }
        if g % 2 == 0 {
            fully par 8 |b| #grid { if b == 3 { par 64 |i| { result[0, i] = t[7, i] } } }
        }
        fully par 8 |b| #grid { par 64 |i| { result[b, i] = 0.5 * t[b, i] } }
    }
}
"""
OWN = """
fn own(x: f32[4, 64]): f32[4, 64] {
    new t: f32[4, 64]
    new sums: f32[4]
    fully par 4 |b| #grid { par 64 |i| { t[b, i] = x[b, i] } sums[b] = 0.0 }
    seq 3 |k| { fully par 4 |b| #grid { par 64 |i| { red sums[b] += t[b, 63 - i] } } }
    fully par 4 |b| #grid { par 64 |i| { result[b, i] = sums[b] } }
}
"""


def lowered(text: str, sizes: dict[str, int] | None = None) -> tuple[ModuleOp, te.KernelOp]:
    module = read_texpr(text, "grid.te", sizes or {})
    TeLowerPass("sm_90a").apply(Context(), module)
    module.verify()
    (kernel,) = (op for op in module.walk() if isinstance(op, te.KernelOp))
    return module, kernel


def barriers_of(kernel: te.KernelOp, scope: te.Scope = te.Scope.GRID) -> list[te.BarrierOp]:
    return [op for op in kernel.walk() if isinstance(op, te.BarrierOp) and op.threads is scope]


def kinds(kernel: te.KernelOp) -> set[HazardKind]:
    return {one.kind for one in find_texpr_hazards(kernel)}


@pytest.mark.parametrize(
    ("text", "sizes", "shapes", "barriers"),
    [
        (HEAT, PLATE, [(8, 12)], 1),
        (TURNED, {}, [(4, 64)], 1),
        # Before the neighbours' rows are read, and on either side of the row that one block writes.
        (STEPS, {}, [(8, 64), (5,)], 3),
        (OWN, {}, [(4, 64)], 0),
    ],
)
def test_each_step_computes_the_same(
    text: str, sizes: dict[str, int], shapes: list[tuple[int, ...]], barriers: int
) -> None:
    module = read_texpr(text, "grid.te", sizes)
    generator = np.random.default_rng(0)
    inputs = [generator.integers(-9, 10, shape).astype(np.float64) for shape in shapes]
    kernel = kernel_of_each_step(module, inputs, partial(np.testing.assert_allclose, rtol=1e-6))
    assert kernel.is_cooperative
    assert len(barriers_of(kernel)) == barriers
    assert find_texpr_hazards(kernel) == []


@pytest.mark.parametrize("text", [HEAT, TURNED, STEPS])
def test_every_barrier_is_needed_and_of_the_grid(text: str) -> None:
    _, kernel = lowered(text, PLATE if text is HEAT else {})
    assert_each_is_needed(kernel, barriers_of(kernel), te.Scope.GRID)


def test_what_is_missing_is_said() -> None:
    _, kernel = lowered(TURNED)
    (barrier,) = barriers_of(kernel)
    barrier.detach()
    (finding,) = find_texpr_hazards(kernel)
    assert finding.kind is HazardKind.READ_AFTER_WRITE
    assert "no barrier of the grid orders them" in finding.message
    assert "in thread 0 of block" in finding.message
    assert "grid.te:" in finding.message


@pytest.mark.parametrize("variable", ["block", "thread"])
def test_a_barrier_that_only_some_come_to(variable: str) -> None:
    _, kernel = lowered(TURNED)
    (barrier,) = barriers_of(kernel)
    values = {"block": kernel.variable, "thread": kernel.threads.variable}
    test = AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0) - 1,)))
    condition = te.IfOp([values[variable]], test, [False], Block())
    block = barrier.parent
    assert block is not None
    block.insert_op_before(condition, barrier)
    barrier.detach()
    condition.body.block.add_op(barrier)
    assert HazardKind.DIVERGENT_BARRIER in kinds(kernel)


def test_loops_end_where_a_call_says_with_a_barrier_in_them() -> None:
    module, _ = lowered(STEPS)
    text = print_module(module)
    assert "for (int g = 0; g < 100 && T - g >= 1; ++g) {" in text
    before, loop = text.split("for (int g")
    assert (before.count("sync_grid()"), loop.count("sync_grid()")) == (0, 3)


def test_buffers_of_which_blocks_touch_their_parts_are_theirs() -> None:
    _, kernel = lowered(OWN)
    spaces = {
        op.result.name_hint: (op.result.type.memory_space, op.result.type.get_shape())
        for op in kernel.walk()
        if isinstance(op, te.NewOp)
    }
    assert spaces["t"] == (te.Space.SHARED, (64,))
    assert spaces["sums"] == (te.Space.REGISTER, (1,))
    _, kernel = lowered(HEAT, PLATE)
    (plate,) = (
        op.result.type
        for op in kernel.walk()
        if isinstance(op, te.NewOp) and op.result.name_hint == "plate"
    )
    assert plate.get_shape() == (2, 4, 12)


def test_what_is_printed() -> None:
    module, kernel = lowered(TURNED)
    assert (kernel.iterations, kernel.cluster_blocks) == (4, 1)
    text = print_module(module)
    assert text.count("mugraph::te::sync_grid();") == 1
    assert '#include "arch/grid_barrier.h"' in text
    assert "dim3(4), dim3(64), 0, mugraph::cooperative(stream), " in text
    again = texpr_text(read_texpr(TURNED, "grid.te", {}))
    assert "fully par 4 |b| #grid {" in again
    assert print_module(lowered(again)[0]) == text


def test_loops_of_other_numbers_of_blocks_are_another_kernel() -> None:
    text = TURNED.replace("fully par 4 |b| #grid { par 64 |i| { r", "fully par 2 |b| #grid { r")
    text = text.replace("result[b, i] = t[(b + 1) % 4, i] } }", "result[b, 0] = t[b + 1, 0] }")
    module = read_texpr(text, "grid.te", {})
    TeLowerPass("sm_90a").apply(Context(), module)
    kernels = [op for op in module.walk() if isinstance(op, te.KernelOp)]
    assert [one.iterations for one in kernels] == [4, 2]
    assert not any(map(barriers_of, kernels))


IN_LOOP = """
fn f(x: f32[4, 64]): f32[4, 64] {
    seq 2 |k| {
        new t: f32[4, 64]
        fully par 4 |b| #grid { par 64 |i| { t[b, i] = x[b, i] } }
        fully par 4 |b| #grid { par 64 |i| { result[b, i] = t[(b + 1) % 4, i] } }
    }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("t: f32[4, 64]\n", "t: f32[4, 64] #shared\n", "touched only as v"),
        (
            "fully par 4 |b| #grid { par 64 |i| { r",
            "fully par 2 |b| #grid { par 64 |i| { r",
            "many",
        ),
        ("t: f32[4, 64]\n", "t: f32[4, 64]\n x2[0] = 0.0\n", "put it into such a loop"),
        ("x[b, i] } }", "x[b, i] } par 2 |c| #grid { anchor 1.0 } }", "over the whole grid"),
        ("x[b, i] } }", "x[b, i] } par 2 |c| #cluster { anchor 1.0 } }", "over the whole grid"),
    ],
)
def test_refused(old: str, new: str, message: str) -> None:
    text = IN_LOOP.replace(old, new).replace("x: f32[4, 64])", "x: f32[4, 64], x2: f32[1])")
    module = read_texpr(text, "grid.te", {})
    with pytest.raises(PassFailedException, match=message):
        TeLowerPass("sm_90a").apply(Context(), module)


def test_more_blocks_than_run_at_once() -> None:
    text = TURNED.replace("4", "5000", 1).replace("4, 64", "5000, 64").replace("par 4", "par 5000")
    module = read_texpr(text, "grid.te", {})
    with pytest.raises(PassFailedException, match=r"5000 blocks .* h200 has room for 4224"):
        TeLowerPass("sm_90a").apply(Context(), module)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "par 2 |c| #grid { fully par 4 |b| #grid { anchor 1.0 } }",
            "stands in no other parallel loop",
        ),
        ("fully par 4 |b| #thread { anchor 1.0 }", "run at once, not on one thread"),
        ("fully par 4 |b| #grid #align(2) { anchor 1.0 }", "threads in order"),
    ],
)
def test_where_such_loops_stand(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        read_texpr(f"fn f(x: f32[4]) {{ {text} }}", "grid.te", {})


def test_races_of_blocks_are_found_when_the_text_is_read() -> None:
    with pytest.raises(ParseError, match=r"iterations b = 0 and b = 1 .* both touch t"):
        read_texpr(TURNED.replace("t[b, i] =", "t[b / 2, i] ="), "grid.te", {})


def test_kernels_are_verified() -> None:
    _, kernel = lowered(TURNED)
    kernel.cooperative = None
    with pytest.raises(VerifyException, match="not cooperative"):
        kernel.verify()
