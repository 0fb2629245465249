"""Rotations of heads whose halves blocks cut, so that weights come before a kernel waits."""

from __future__ import annotations

import math

import numpy as np
from emulated_programs import check_emulated_later
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.mugraph.separate_halves import halved_in, separate_halves
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule

ROTATED = """
func.func @f(%x: !x, %w: !w {mugraph.constant}, %cos: !c, %sin: !c, %old: !rows, %at: tensor<1xi64>) -> !rows {
  %n = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%di: !x):
    %si = tb.input %di imap [-1, -1, -1] : !x -> !tb.stensor<1x1x2048xf16>
    %q = tb.mul_scalar %si by 0.5 : !tb.stensor<1x1x2048xf16> -> !tb.stensor<1x1x2048xf16>
    tb.output %q omap [-1, -1, -1] : !tb.stensor<1x1x2048xf16> -> !x
  } : (!x) -> !x
  %k = kn.customized %n, %w, %cos, %sin grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: !x, %dw: !w, %dc: !c, %ds: !c):
    %sx = tb.input %dx imap [-1, -1, -1] : !x -> !tb.stensor<1x1x2048xf16>
    %sw = tb.input %dw imap [0, -1, -1] : !w -> !tb.stensor<1x2048x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x1x2048xf16>, !tb.stensor<1x2048x64xf16>) -> !tb.stensor<1x1x64xf16>
    %sc = tb.input %dc imap [-1, -1, -1] : !c -> !tb.stensor<1x1x64xf16>
    %ss = tb.input %ds imap [-1, -1, -1] : !c -> !tb.stensor<1x1x64xf16>
    %a, %b = tb.split %m dim 2 : (!tb.stensor<1x1x64xf16>) -> (!tb.stensor<1x1x32xf16>, !tb.stensor<1x1x32xf16>)
    %g = tb.mul_scalar %b by -1.0 : !tb.stensor<1x1x32xf16> -> !tb.stensor<1x1x32xf16>
    %r = tb.concat %g, %a dim 2 : (!tb.stensor<1x1x32xf16>, !tb.stensor<1x1x32xf16>) -> !tb.stensor<1x1x64xf16>
    %u = tb.mul %m, %sc : (!tb.stensor<1x1x64xf16>, !tb.stensor<1x1x64xf16>) -> !tb.stensor<1x1x64xf16>
    %v = tb.mul %r, %ss : (!tb.stensor<1x1x64xf16>, !tb.stensor<1x1x64xf16>) -> !tb.stensor<1x1x64xf16>
    %y = tb.add %u, %v : (!tb.stensor<1x1x64xf16>, !tb.stensor<1x1x64xf16>) -> !tb.stensor<1x1x64xf16>
    tb.output %y omap [0, -1, -1] : !tb.stensor<1x1x64xf16> -> tensor<1x1x64xf16>
  } : (!x, !w, !c, !c) -> tensor<1x1x64xf16>
  %row = kn.reshape %k : tensor<1x1x64xf16> -> tensor<1x1x1x64xf16>
  %t = kn.scatter %row into %old rows %at dim 2 : (tensor<1x1x1x64xf16>, !rows, tensor<1xi64>) -> !rows
  func.return %t : !rows
}
"""  # noqa: E501 the text as it is printed
TYPES = {
    "!x": "tensor<1x1x2048xf16>",
    "!w": "tensor<1x2048x64xf16, #cute.layout<(1,2048,64):(131072,1,2048)>>",
    "!c": "tensor<1x1x64xf16>",
    "!rows": "tensor<1x1x24x64xf16>",
}


def written() -> str:
    """The program's text."""
    text = ROTATED
    for name, type_ in TYPES.items():
        text = text.replace(name, type_)
    return text


def test_blocks_of_halves_have_the_whole_depth() -> None:
    """Four blocks of 8 columns of each half, and no kernel that adds up or stores the row."""
    module = parse_text(make_context(), written(), "f")
    for step in transpile_pipeline("h200"):
        step.apply(make_context(), module)
        if step.name == "slice-products":
            break
    _, graph = [op for op in module.walk() if isinstance(op, CustomizedOp)]
    assert math.prod(graph.grid_dim) == 4
    assert graph.decided.stages == (graph.forloop_range,)


def test_the_rotation_is_right_and_stored_where_it_belongs() -> None:
    """Beside float64, with halves from two places of a row."""
    made = generate_cuda(parse_text(make_context(), written(), "f"), make_context(), "sm_90a")
    assert made.source.count("mugraph::launch(") == 2 and "tb::PlacedRow<" in made.source
    rng = np.random.default_rng(4)
    x, cos, sin = (rng.standard_normal(n).astype(np.float16) for n in (2048, 64, 64))
    w = (rng.standard_normal((64, 2048)) / 32).astype(np.float16)
    old = rng.standard_normal((1, 1, 24, 64)).astype(np.float16)
    k = w.astype(np.float64) @ (x.astype(np.float64) / 2)
    expected = k * cos + np.concatenate([-k[32:], k[:32]]) * sin

    def check(kernels: CudaModule) -> None:
        weights = w.T.reshape(1, 2048, 64)
        given = [x.reshape(1, 1, -1), weights, cos.reshape(1, 1, -1), sin.reshape(1, 1, -1)]
        (result,) = kernels.run([*given, old, np.array([7])])
        np.testing.assert_allclose(result[0, 0, 7], expected, rtol=2**-8, atol=2**-7)
        rest = [n for n in range(24) if n != 7]
        np.testing.assert_array_equal(result[:, :, rest], old[:, :, rest])

    check_emulated_later(made, check)


OUTPUT = "    tb.output %y omap [0, -1, -1] : !tb.stensor<1x1x64xf16> -> tensor<1x1x64xf16>"


def before_separation(text: str) -> CustomizedOp:
    """The kernel of the products, as ``--separate-halves`` finds it."""
    module = parse_text(make_context(), text, "f")
    for step in transpile_pipeline("h200"):
        if step.name == "separate-halves":
            break
        step.apply(make_context(), module)
    return [op for op in module.walk() if isinstance(op, CustomizedOp)][1]


def test_what_needs_whole_heads_keeps_them() -> None:
    """The sum of a head's squares, as a norm has it."""
    text = written().replace(
        OUTPUT,
        "    %z = tb.square %y : !tb.stensor<1x1x64xf16> -> !tb.stensor<1x1x64xf32>\n"
        "    %s = tb.reduction %z dim 2 : !tb.stensor<1x1x64xf32> -> !tb.stensor<1x1x1xf32>\n"
        "    %o = tb.mul %y, %s : (!tb.stensor<1x1x64xf16>, !tb.stensor<1x1x1xf32>)"
        " -> !tb.stensor<1x1x64xf16>\n"
        "    tb.output %o omap [0, -1, -1] : !tb.stensor<1x1x64xf16> -> tensor<1x1x64xf16>",
    )
    graph = before_separation(text)
    assert "tb.reduction" in str(graph) and halved_in(graph) is None


def test_masks_of_places_in_a_head_keep_it_whole() -> None:
    """Places are those of the tensor; the second half of it has other ones than the first."""
    text = written().replace(
        OUTPUT,
        "    %o = tb.mask %y with 0.0 where affine_set<(i, j, k) : (40 - k >= 0)> of [1, 1, 64] "
        "imap [0, -1, -1] : !tb.stensor<1x1x64xf16> -> !tb.stensor<1x1x64xf16>\n"
        + OUTPUT.replace("%y", "%o"),
    )
    graph = before_separation(text)
    assert "tb.mask" in str(graph) and halved_in(graph) is None


def test_lengths_that_a_kernel_holds_stay() -> None:
    """Of the row as much is multiplied as one says."""
    text = written().replace("%at: tensor<1xi64>)", "%at: tensor<1xi64>, %end: tensor<1xi32>)")
    for old, new in (
        ("%n, %w, %cos, %sin grid [1, 1, 1] block [128, 1, 1] forloop 1",
         "%n, %w, %cos, %sin, %end grid [1, 1, 1] block [128, 1, 1] forloop 1 lengths [4, 2048]"),
        ("%ds: tensor<1x1x64xf16>)", "%ds: tensor<1x1x64xf16>, %de: tensor<1xi32>)"),
        ("tensor<1x1x64xf16>, tensor<1x1x64xf16>) -> tensor<1x1x64xf16>",
         "tensor<1x1x64xf16>, tensor<1x1x64xf16>, tensor<1xi32>) -> tensor<1x1x64xf16>"),
        ("    %m = tb.matmul %sx",
         "    %sb = tb.mask %sx with 0.0 where affine_set<(i, j, k)[e] : (e - k - 1 >= 0)> at [0] "
         "of [1, 1, 2048] imap [-1, -1, -1] : "
         "!tb.stensor<1x1x2048xf16> -> !tb.stensor<1x1x2048xf16>\n    %m = tb.matmul %sb"),
    ):  # fmt: skip
        assert text.count(old) == 1
        text = text.replace(old, new)
    graph = before_separation(text)
    halved, lengths = halved_in(graph), graph.held_lengths
    module = graph.get_toplevel_object()
    assert halved and lengths and isinstance(module, ModuleOp)
    separate_halves(graph, halved)
    module.verify()
    _, separated = [op for op in module.walk() if isinstance(op, CustomizedOp)]
    assert "tb.split" not in str(separated) and separated.held_lengths == lengths
