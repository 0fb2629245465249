"""A kernel that later passes refuse stands apart; the rest of its program stays fused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

import mugraph.build as mi
from mugraph.dialects import kn, sched, tb
from mugraph.dialects.tensor_types import op_label
from mugraph.passes import compile as compile_module
from mugraph.passes.compile import FuseCompilablePass, compile_pipeline, with_kernels_that_compile
from mugraph.passes.program.fuse_kernels import searches as searches_module
from mugraph.passes.program.fuse_kernels.choice import Found, find_in_buckets
from mugraph.passes.program.fuse_kernels.refused import without_refused
from mugraph.passes.program.fuse_kernels.searches import Searches
from mugraph.passes.targets import target_named
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.library_sources import generate_sources

WIDTH = 512


@dataclass(frozen=True)
class ProductsOnlyPass(ModulePass):
    """Refuses kernels that multiply no matrices."""

    name = "products-only"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Raises ``PassFailedException`` for the first of them."""
        for kernel in op.walk():
            if isinstance(kernel, sched.KernelOp) and not any(
                isinstance(step, (sched.MmaOp, sched.WarpgroupMmaOp)) for step in kernel.walk()
            ):
                raise PassFailedException(f"--products-only: {op_label(kernel)} has no product")


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--transpile`` ends with a pass that refuses some kernels."""

    def pipeline(*arguments: Any, **options: Any) -> tuple[ModulePass, ...]:
        return (*transpile_pipeline(*arguments, **options), ProductsOnlyPass())

    monkeypatch.setattr(compile_module, "transpile_pipeline", pipeline)


def program() -> ModuleOp:
    """A norm, and a layer."""
    graph = mi.new_kernel_graph("program")
    x, y = (graph.new_input((4, WIDTH), dtype=mi.float32) for _ in range(2))
    graph.mark_output(mi.layer_norm(x + y))
    z, w = graph.new_input((32, 512)), graph.new_input((512, 256))
    graph.mark_output(mi.silu(mi.rms_norm(z) @ w))
    return graph.module()


def custom_kernels(module: ModuleOp) -> list[set[str]]:
    """The operators of each custom kernel."""
    kernels = [op for op in module.walk() if isinstance(op, kn.CustomizedOp)]
    return [{op.name for op in kernel.walk()} for kernel in kernels]


def schedule(module: ModuleOp, *, checked: bool, searches: Searches | None = None) -> ModuleOp:
    own, context = module.clone(), make_context()
    for step in compile_pipeline("sm_90a", checked=checked, searches=searches):
        step.apply(context, own)
    return own


@pytest.mark.usefixtures("picky")
def test_the_operators_of_that_kernel_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    module = program()
    with pytest.raises(PassFailedException, match="has no product"):
        schedule(module, checked=False)
    fused = module.clone()
    FuseCompilablePass("sm_90a").apply(make_context(), fused)
    said = capsys.readouterr().err
    # Nor may pairs of its operators be kernels.
    assert said.count("note") == 3 and "'kn.add', 'kn.reduction'" in said
    assert "products-only: " in said and "has no product" in said
    assert any({"tb.matmul", "tb.silu"} <= kernel for kernel in custom_kernels(fused))
    assert any(op.name == "kn.add" for op in fused.walk())
    values = np.random.default_rng(0)
    x, y = (values.standard_normal((4, WIDTH), np.float32) for _ in range(2))
    z = values.standard_normal((32, 512)).astype(np.float16)
    w = (values.standard_normal((512, 256)) / 16).astype(np.float16)
    for ours, written in zip(
        *(run_function(each, None, [x, y, z, w]) for each in (fused, module)), strict=True
    ):
        np.testing.assert_allclose(ours, written, atol=4e-3)


def test_the_operators_of_that_kernel_share_smaller_ones() -> None:
    module = parse_text(make_context(), str(program()), "<text>")
    function = only_function(module)
    (found,) = find_in_buckets([function], target_named("sm_90a"))

    def refusal(kernel: ModuleOp) -> str | None:
        operators = [op for op in kernel.walk() if isinstance(op, tb.ElementwiseOp)]
        return "too many" if len(operators) > 6 else None

    before = len(found.kernels)
    rest, sentences = without_refused(found, refusal)
    shared = [group for group in rest.kernels if rest.fusion.program.size(group) > 1]
    assert len(sentences) == 1 and before < len(rest.kernels) < 7 and len(shared) > before


def test_where_all_kernels_are_refused_operators_and_their_views_stand_alone() -> None:
    graph = mi.new_kernel_graph("program")
    x, w = graph.new_input((32, 512)), graph.new_input((512, 256))
    y = mi.transpose(mi.reshape(mi.silu(mi.rms_norm(x) @ w), (32, 4, 64)), (1, 0, 2))
    graph.mark_output(mi.relu(y) + y)
    module = parse_text(make_context(), str(graph.module()), "<text>")
    (found,) = find_in_buckets([only_function(module)], target_named("sm_90a"))
    asked: list[str] = []

    def refusal(kernel: ModuleOp) -> str | None:
        asked.append(str(kernel))
        return "none is taken"

    rest, sentences = without_refused(found, refusal)
    rest.fusion.apply(rest.groups)
    module.verify()
    assert not custom_kernels(module) and len(asked) == len(set(asked)) == len(sentences)
    assert "@program: 'kn.matmul' is no kernel: none is taken" in sentences


@pytest.mark.usefixtures("picky")
def test_libraries_and_kernels_are_made_of_the_rest() -> None:
    module = program()
    scheduled = with_kernels_that_compile(lambda checked: schedule(module, checked=checked))
    assert len([op for op in scheduled.walk() if isinstance(op, sched.KernelOp)]) == 1
    sources = generate_sources(module, make_context(), ["sm_90a"])
    assert "program_custom0_sm_90a" in sources.files["src/program_sm_90a.cu"]


@pytest.mark.usefixtures("picky")
def test_the_rest_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module, searches, searched = program(), Searches(), 0

    def find(*arguments: Any, **options: Any) -> list[Found]:
        nonlocal searched
        searched += 1
        return find_in_buckets(*arguments, **options)

    monkeypatch.setattr(searches_module, "find_in_buckets", find)
    scheduled = with_kernels_that_compile(
        lambda checked: schedule(module, checked=checked, searches=searches)
    )
    assert searched == 1
    assert str(scheduled) == str(schedule(module, checked=True))
    assert searched == 2
    schedule(module, checked=True, searches=searches)
    assert searched == 2


def test_what_a_user_wrote_is_refused_as_before() -> None:
    text = """
    func.func @f(%x: tensor<8x65536xf32>) -> tensor<8x65536xf32> {
      %o = kn.customized %x grid [8, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
      ^bb0(%dx: tensor<8x65536xf32>):
        %sx = tb.input %dx imap [0, -1, -1] : tensor<8x65536xf32> -> !tb.stensor<1x65536xf32>
        %s = tb.reduction %sx dim 1 : !tb.stensor<1x65536xf32> -> !tb.stensor<1x1xf32>
        %e = tb.div %sx, %s : (!tb.stensor<1x65536xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x65536xf32>
        tb.output %e omap [0, -1, -1] : !tb.stensor<1x65536xf32> -> tensor<8x65536xf32>
      } : (tensor<8x65536xf32>) -> tensor<8x65536xf32>
      func.return %o : tensor<8x65536xf32>
    }
    """  # noqa: E501
    module = parse_text(make_context(), text, "<text>")
    with pytest.raises(PassFailedException, match="bytes of shared memory"):
        with_kernels_that_compile(lambda checked: schedule(module, checked=checked))
