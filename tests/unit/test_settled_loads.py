"""Kernels that load arguments before they wait: behind which kernels they may."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.dialects.launch_extents import integer_array
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text

FRONT = """
  %NEW = kn.customized %OLD grid [8, 1, 1] block [32, 1, 1] forloop 1 plan <tiles = written, loads = cp_async, pdl = PDL> {
  ^bb0(%dx: tensor<64x64xf16>):
    %sx = tb.input %dx imap [0, -1, -1] : tensor<64x64xf16> -> !tb.stensor<8x64xf16>
    %e = tb.exp %sx : !tb.stensor<8x64xf16> -> !tb.stensor<8x64xf16>
    tb.output %e omap [0, -1, -1] : !tb.stensor<8x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>) -> tensor<64x64xf16>
"""  # noqa: E501 the text as it is printed
PRODUCT = """
  %y = kn.customized %s, %W grid [1, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written, loads = tma, pdl = end> {
  ^bb0(%ds: tensor<64x64xf16>, %dw: tensor<64x64xf16>):
    %ss = tb.input %ds imap [-1, -1, -1] : tensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [-1, -1, -1] : tensor<64x64xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %ss, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<64x64xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>, tensor<64x64xf16>) -> tensor<64x64xf16>
"""  # noqa: E501 the text as it is printed


def front(old: str, new: str, pdl: str) -> str:
    """A kernel of exponentials, which lets the next one start so."""
    return FRONT.replace("%OLD", f"%{old}").replace("%NEW", f"%{new}").replace("PDL", pdl)


def scheduled(kernels: Sequence[str], weight: str) -> ModuleOp:
    """The finished schedule of some kernels and a product of what the last one computes."""
    tensor = "tensor<64x64xf16>"
    product = PRODUCT.replace("%W", f"%{weight}")
    text = f"func.func @f(%x: {tensor}, %w: {tensor}) -> {tensor} {{{''.join(kernels)}{product}"
    module = parse_text(make_context(), f"{text} func.return %y : {tensor}\n}}", "f")
    PassPipeline(transpile_pipeline()).apply(make_context(), module)
    module.verify()
    return module


def product_of(module: ModuleOp) -> sched.KernelOp:
    """The last kernel."""
    return [op for op in module.walk() if isinstance(op, sched.KernelOp)][-1]


def test_weights_are_loaded_before_the_wait() -> None:
    """Behind a kernel that waits before it lets the next one start."""
    kernel = product_of(scheduled([front("x", "s", "late")], "w"))
    producer = next(op for op in kernel.walk() if isinstance(op, sched.RoleOp) and op.is_elected)
    steps = [op.name for op in producer.walk() if op.name.startswith(("sched.bulk", "sched.grid"))]
    assert kernel.constant_inputs == {1}
    assert steps == ["sched.bulk_copy", "sched.grid_wait", "sched.bulk_copy"]


def test_a_kernel_whose_loop_loads_nothing_starts_the_next_one_before_it() -> None:
    """All that it loads is on its way by then."""
    module = scheduled([front("x", "s", "late")], "w")
    kernel = next(op for op in module.walk() if isinstance(op, sched.KernelOp))
    launch = next(op for op in kernel.walk() if isinstance(op, sched.GridLaunchOp))
    assert launch.next_op is not None and launch.next_op.name == "sched.forloop"


@pytest.mark.parametrize(
    ("kernels", "weight"),
    [
        pytest.param([front("x", "s", "early")], "w", id="the next kernel starts before the wait"),
        pytest.param([front("x", "s", "end")], "w", id="the next kernel starts as blocks end"),
        pytest.param(
            [front("w", "v", "late"), front("x", "s", "late")], "v", id="a kernel computes it"
        ),
        pytest.param([front("x", "s", "late")], "s", id="the kernel in front computes it"),
    ],
)
def test_what_may_still_be_written_is_loaded_behind_it(kernels: list[str], weight: str) -> None:
    """What is no argument, or behind a kernel that lets the next one start first of all."""
    assert not product_of(scheduled(kernels, weight)).constant_inputs


def test_a_schedule_that_loads_too_early_is_refused() -> None:
    """The verifier proves of each launch that inputs are there which are said to be constant."""
    module = scheduled([front("x", "s", "early")], "w")
    product_of(module).constant = integer_array([1])
    with pytest.raises(VerifyException, match="may change"):
        module.verify()
