"""``torch.compile(model, backend="mugraph")`` on a CPU, where the interpreter runs the kernels."""

from __future__ import annotations

import math
import re
import warnings
from collections import UserDict
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import mugraph
from mugraph.dialects import kn
from mugraph.errors import UserError
from mugraph.runtime.cuda import only_function
from mugraph.torch.backend import require_room
from mugraph.torch.image_windows import image_windows_operator
from mugraph.torch.libraries import library_of
from mugraph.torch.symbols import ends_below

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
mugraph_torch: Any = import_module("mugraph.torch")

pytestmark = [
    # torch's own, of its version and the interpreter's.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def compiled(function: Callable[..., Any], *inputs: Any) -> tuple[Any, Any, Any]:
    """What a function gives, what its compiled form gives, and the report."""
    report = mugraph_torch.Report()

    def backend(graph: Any, examples: Any) -> Any:
        return mugraph_torch.backend(graph, examples, report=report)

    torch._dynamo.reset()
    with torch.no_grad():
        return function(*inputs), torch.compile(function, backend=backend)(*inputs), report


def assert_near(ours: Any, eager: Any) -> None:
    limit = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float16: 5e-3}.get(eager.dtype, 0)
    assert ours.dtype == eager.dtype and ours.shape == eager.shape
    torch.testing.assert_close(ours, eager, rtol=limit, atol=limit, equal_nan=True)


def draw(*shape: int, dtype: Any = None) -> Any:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype or torch.float32)


def put_by_mask(x: Any, mask: Any, row: Any) -> Any:
    """One number, a row, and a sum, wherever a mask of one dimension or two is true."""
    x = x * 2
    x[mask] = 0.5
    x[mask[:, 0]] = -1.0
    other = x.clone()
    other[mask] = row
    return x, other, x.index_put((mask,), row[0], accumulate=True)


def every_second_place(x: Any, part: Any) -> Any:
    """Steps of a slice that are written."""
    x, other = x * 2, x.clone()
    x[:, 1:7:2] = part
    other[::2, 3:] += 1
    return x, other


functional = torch.nn.functional
attention = functional.scaled_dot_product_attention
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "attention that is viewed as torch lays it out": (
        lambda q, k: (attention(q[0], q[0], q[0]).view(4, -1),
                      attention(q, k, k, enable_gqa=True).view(2, -1, 8) * 2,
                      attention(q, q, q).transpose(1, 2).reshape(2, 5, -1)),
        [draw(2, 4, 5, 8), draw(2, 2, 7, 8)]),
    "whole numbers that fp32 does not have": (
        lambda i: (i == 2**24 + 1, i + (2**33 + 3), i * -(2**25 + 1), i > 2**31 - 5,
                   i.clamp(-(2**24) - 1, 2**62 + 1)),
        [torch.tensor([2**24 + 1, 2**31 - 5, -(2**40), 2**62 + 2, 0])]),
    "whole numbers beside others": (
        lambda i, x: (i.int() < i, i == (x > 0), x > i, x - i, i - x, torch.sub(x, i, alpha=2),
                      i.abs(), i**2),
        [torch.tensor([-3, 0, 2]), draw(3)]),
    "numbers in tensors of their own": (
        lambda x, i: (x * torch.tensor(7.0).double().sqrt(), torch.where(x > 0, x, torch.tensor(2)),
                      torch.tensor(2.0) / x, i + torch.tensor(1.5), x ** torch.tensor(2)),
        [draw(3, 4), torch.tensor([1, 2**24 + 1, 5, 0])]),
    "largest": (lambda x: (*x.max(-1), *x.min(0), x.max(), x.min()), [draw(4, 7)]),
    "scattered": (
        lambda x, i: (x.scatter(1, i, 0.5), x.scatter(0, i.T, x[:, :2].T * 2)),
        [draw(5, 5), torch.tensor([[0, 3], [4, 1], [2, 3], [1, 0], [3, 4]])]),
    "scattered where a mask is true": (
        lambda x, y: (x.masked_scatter((x[..., :1] > 0).expand_as(x), y.reshape(-1, 6)),
                      x.masked_scatter(x > 0, y), x[0, 0].masked_scatter(x > 0, y)),
        [draw(2, 5, 6), draw(78)]),
    "largest of windows": (
        lambda x: (*functional.max_pool2d(x, 3, 2, 1, return_indices=True),
                   functional.max_pool2d(x, (2, 1), dilation=(2, 1)),
                   *functional.max_pool3d(x[None], 2, return_indices=True)),
        [draw(2, 3, 9, 8)]),
    "means of windows": (
        lambda x: (functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False),
                   functional.adaptive_avg_pool2d(x, (2, 4)),
                   functional.adaptive_avg_pool2d(x, (3, 1))),
        [draw(2, 3, 9, 8)]),
    "pairs of numbers that are true": (
        lambda x, i: (torch.logical_and(i, x > 0), torch.logical_or(x > 1, i),
                      torch.logical_xor(i, x.relu())),
        [draw(3), torch.tensor([-2, 0, 5])]),
    "elements in another order": (
        lambda x: (functional.adaptive_avg_pool2d(x.relu().permute(0, 3, 1, 2), 1),
                   functional.adaptive_avg_pool1d(x[0].relu().mT, 1).flatten(1),
                   (x * 2).mT.as_strided((4, 2, 1, 9), (1, 4, 7, 8))),
        [draw(2, 3, 3, 4)]),
    "near zero": (
        lambda x: (x.expm1(), x.abs().log1p(), (x * 1e-4).expm1() * 1e4,
                   (x * 1e-4).log1p() * 1e4, x.clamp(-0.99).log1p()),
        [draw(99)]),
    "near zero, of whole numbers": (
        lambda i: (i.log1p(), i.expm1(), (i > 0).log1p()), [torch.tensor([[0, 1, 5], [-0, 2, 3]])]),
    "norms of channels": (
        lambda x, w: functional.instance_norm(x, weight=w, bias=w), [draw(2, 5, 4, 3), draw(5)]),
    "transposed convolutions": (
        lambda x, v, w, b: (
            functional.conv_transpose2d(x, v, b, (2, 3), (1, 0), (1, 2)),
            functional.conv_transpose2d(x, w, stride=2),
            functional.conv_transpose1d(x[..., 0], v[..., 0], b, stride=2, padding=1),
            functional.conv_transpose2d(x.repeat(1, 2, 1, 1), w.repeat(2, 1, 1, 1), groups=2)),
        [draw(2, 8, 5, 4), draw(8, 5, 3, 4), draw(8, 5, 2, 2), draw(5)]),
    "signs": (lambda x: (x.sign(), (x * 9).trunc() + (x * 0).sign(), (x > 0) ^ (x < 1)),
              [draw(4, 5)]),
    "several types": (
        lambda x, y: torch.cat([x, y.to(torch.bfloat16), y], 1), [draw(3, 2), draw(3, 4)]),
    "short windows of channels": (
        lambda x, w, b: functional.conv1d(x, w, b, padding=3, groups=6),
        [draw(2, 6, 9), draw(6, 1, 4), draw(6)]),
    "short windows of channels, in steps": (
        lambda x, w: functional.conv2d(x, w, stride=2, dilation=(1, 2), groups=3),
        [draw(2, 3, 8, 9, dtype=torch.bfloat16), draw(3, 1, 2, 3, dtype=torch.bfloat16)]),
    "parts that are replaced": (
        lambda x, y: torch.slice_scatter(x, y, 1, 1, 4) + torch.slice_scatter(x, y, -1, -3),
        [draw(3, 6), draw(3, 3)]),
    "vector norms": (
        lambda x: torch.linalg.vector_norm(x, dim=(0, 2), keepdim=True) + x.norm(),
        [draw(3, 4, 5)]),
    "a convolution in groups": (
        lambda x, w, b: functional.conv1d(x, w, b, padding=2, groups=3),
        [draw(2, 24, 9), draw(12, 8, 4), draw(12)]),
    "rows of groups": (
        lambda x, w, ends: functional.grouped_mm(x, w.mT, offs=ends),
        [draw(40, 16, dtype=torch.bfloat16), draw(4, 24, 16, dtype=torch.bfloat16),
         torch.tensor([3, 3, 37, 40], dtype=torch.int32)]),
    "arithmetic": (lambda x, y: (2 - x) * y + x / 3 - y.square() / 4, [draw(5, 7), draw(7)]),
    "halves": (lambda x, y: x @ y + x.sum(-1, keepdim=True), [draw(6, 16, dtype=torch.bfloat16)] * 1
               + [draw(16, 8, dtype=torch.bfloat16)]),
    "functions": (lambda x: torch.erf(x).exp() + torch.tanh(x) * torch.sigmoid(-x).cos() - x.sin(),
                  [draw(3, 9)]),
    "powers": (lambda x: x.abs() ** 1.5 + x**2 + (x.abs() + 1) ** -0.5, [draw(4, 5)]),
    "choices": (lambda x: torch.where((x > 0) & (x <= 1), x, -x).clamp(-0.5, 0.7), [draw(8, 8)]),
    "integers": (lambda x: ((x + 3) * 2).eq(x * 2 + 6), [torch.arange(12).reshape(3, 4)]),
    "gelu": (lambda x: functional.gelu(x) + functional.gelu(x, approximate="tanh"), [draw(4, 4)]),
    "views": (lambda x: x.reshape(4, 2, 3).transpose(0, 1)[:, 1:3].flatten(1) * 2, [draw(24)]),
    "parts": (lambda x: [part * 2 for part in x.split([1, 2, 3], 1)], [draw(2, 6)]),
    "picked": (lambda x: torch.cat([x[0], x[1:].sum(0)]) + x.select(0, 2).repeat(2), [draw(3, 4)]),
    "norms": (lambda x: functional.layer_norm(x, (8,)) + functional.rms_norm(x, (8,), eps=1e-5),
              [draw(5, 8)]),
    "softmaxes": (lambda x: x.softmax(-1) + x.log_softmax(0) + x.logsumexp(1, True), [draw(4, 6)]),
    "reductions": (lambda x: x.mean((0, 2)) + x.amax(0).sum(-1) + x.amin((0, 2)), [draw(3, 4, 5)]),
    "bounds": (lambda x: x.clamp(min=0.1) + x.clamp(max=0.3) + x.clamp(-float("inf"), 0.5)
               + x.clamp(x.mean(), x.amax()), [draw(4, 5)]),
    "activations": (lambda x: functional.leaky_relu(x, 0.1) + functional.elu(x, 1.3)
                    + functional.hardswish(x), [draw(4, 5) * 50]),
    "not-finite": (lambda x: (x.isinf(), x.isnan(), torch.where(x.isinf().any(), 1.0, 2.0)),
                   [torch.tensor([1.0, float("inf"), -float("inf"), float("nan"), 3e38])]),
    "signs of what is not finite": (
        torch.sign, [torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])]),
    "sums of exponentials of what is not finite": (
        lambda x: (x.logsumexp(1), x.logsumexp((0, 1))),
        [torch.tensor([[-float("inf")] * 2, [float("inf"), 1.0], [float("nan"), 1.0],
                       [-float("inf"), 1.0]])]),
    "dimensions of a number": (lambda x: (x.logsumexp(0), x.flip(0), x.softmax(-1), x.cumsum(0)),
                               [draw(1)[0]]),
    "truths": (lambda x: ((x > 0).any(-1), (x > -2).all((0, 1), keepdim=True)), [draw(3, 4, 5)]),
    "truths of numbers": (lambda x: (x.any(-1), x.relu().all((0, 2)), x.relu().logical_not()),
                          [draw(3, 4, 5)]),
    "what a mask names": (put_by_mask, [draw(3, 4, 2), draw(3, 4) > 0, draw(2)]),
    "every second place": (every_second_place, [draw(3, 9), draw(3, 3)]),
    "windows of rows": (lambda x: (x.unfold(1, 3, 3) * 2, x.unfold(-1, 4, 1), x.unfold(0, 2, 1)[0]),
                        [draw(2, 7, 6)]),
    "diagonals": (lambda x: (x.diagonal(1, -2, -1) * 2, x.diagonal(-1) + 1, x[0, :3].trace(),
                             torch.einsum("bii->bi", x[:, :, :4])), [draw(2, 4, 6)]),
    "channels": (lambda x, m, v, w: functional.batch_norm(x, m, v.abs() + 0.5, w, m)
                 + functional.group_norm(x, 2, w, m), [draw(2, 6, 3, 4), *[draw(6)] * 3]),
    "pools": (lambda x: functional.avg_pool2d(x, 3, 2, 1), [draw(2, 3, 6, 5)]),
    "variance": (lambda x: x.var(-1) + x.var(-1, correction=0), [draw(4, 9)]),
    "several dimensions": (
        lambda x: (
            *torch.var_mean(x, (0, 2), correction=0, keepdim=True),
            torch.std(x),
            torch.logsumexp(x, (0, -1), True),
            torch.linalg.vector_norm(x, 3, dim=(0, 2)),
            torch.nn.functional.normalize(x, dim=-1),
            x.argmin(1),
        ),
        [draw(4, 6, 5)],
    ),
    "places": (lambda x: (x.argmax(-1), *torch.topk(x, 3)), [draw(4, 9)]),
    "tables": (functional.embedding, [torch.tensor([[3, 0], [1, 1]]), draw(5, 6)]),
    "indices": (lambda x, i, j: x[i] + x[:, j] + x[i, j] + x.flip(0),
                [draw(5, 5), torch.tensor([3, -1, 0, 0, 2]), torch.tensor([0, 4, 1, -2, 2])]),
    "apart": (lambda x, i, j: x[i, :, j] * x[j][:, i].mT.gather(2, i.expand(2, 2, 2)),
              [draw(3, 2, 2), torch.tensor([1, 0]), torch.tensor([0, 1])]),
    "steps": (lambda x: x[:, ::2] * x[..., 1::2, :].repeat(1, 1, 1), [draw(2, 4, 3)]),
    "steps-of-a-part": (lambda x: x[:, 1:6:2] * x[:, ::3] + x[:, 5:6:4] + x[:, 0:7:3],
                        [draw(3, 7)]),
    "empty": (lambda x: torch.cat([x[:, :0], x, x], 1) * 2, [draw(2, 3)]),
    "padded": (lambda x: functional.pad(x, (1, 2, 0, 1), value=0.5) * 2
               + functional.pad(x, (4, -1, 1, 0)), [draw(3, 4)]),
    "patches": (lambda x, w, b: functional.conv2d(x, w, b, stride=2),
                [draw(2, 3, 6, 5), draw(4, 3, 2, 2), draw(4)]),
    "windows": (lambda x, w: functional.conv1d(x, w, stride=2, padding=1),
                [draw(1, 4, 9), draw(6, 4, 3)]),
    "images with one number for both dimensions": (
        lambda x, w, b: (functional.conv2d(x, w, b, padding="valid"),
                         functional.conv2d(x, w, b, padding="same"),
                         torch.ops.aten.convolution(x, w, b, [2], [1], [1], False, [0], 1),
                         torch.ops.aten.convolution(x, w.mT, None, [1], [1], [1], True, [0], 1)),
        [draw(1, 3, 5, 6), draw(3, 3, 3, 1), draw(3)]),
    "images": (lambda x, w, b: functional.conv2d(x, w, b, padding=(2, 1), dilation=(2, 1)),
               [draw(1, 2, 5, 6), draw(3, 2, 3, 3), draw(3)]),
    "linear": (lambda x, w, b: functional.silu(functional.linear(x, w, b)),
               [draw(2, 3, 8), draw(16, 8), draw(16)]),
    "whole numbers": (lambda x: (x * 9).round() + (x * 9).floor() * (x * 9).ceil(),
                      [draw(4, 4)]),
    "an element": (lambda x, at: torch.ops.aten.index(x, [at]) * 2, [draw(5), torch.tensor(3)]),
    "batched": (lambda x, y: torch.baddbmm(y, x, y, alpha=0.5), [draw(2, 4, 4), draw(2, 4, 4)]),
    "attention": (lambda q, k, v: attention(q, k, v, scale=0.3), [draw(2, 4, 8, 16)] * 3),
    "causal": (lambda q, k, v: attention(q, k, v, is_causal=True), [draw(1, 2, 9, 16)] * 3),
    "grouped": (lambda q, k: attention(q, k, k, enable_gqa=True),
                [draw(1, 4, 5, 8), draw(1, 2, 7, 8)]),
    "biased": (lambda q, k, m: attention(q, k, k, attn_mask=m),
               [draw(1, 2, 5, 8), draw(1, 2, 7, 8), draw(5, 7)]),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_what_eager_gives(name: str) -> None:
    function, inputs = FUNCTIONS[name]
    eager, ours, report = compiled(function, *inputs)
    several = isinstance(eager, (tuple, list))
    for one, other in zip(ours if several else [ours], eager if several else [eager], strict=True):
        assert_near(one, other)
    assert report.islands, "nothing became a kernel"
    assert not report.stayed, str(report)


def test_numbers_of_fp64_are_not_rounded() -> None:
    """Norms, pools and logarithms, which are decomposed into what fp32 computes."""

    def function(x: Any) -> Any:
        normed = functional.group_norm(functional.batch_norm(x, x[0, :, 0, 0], x[1, :, 0, 0]), 2)
        return normed, functional.avg_pool2d(x, 2, padding=1), x.log1p(), x.expm1()

    eager, ours, _report = compiled(function, draw(2, 4, 6, 5).abs().double())
    for one, other in zip(ours, eager, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def rounded(x: Any, dtype: Any, largest: float) -> tuple[Any, Any]:
    """Rows in a narrow type, and the scale of each."""
    scales = x.abs().amax(-1, keepdim=True) / largest
    scaled = (x / scales).clamp(-largest, largest)
    return (scaled if dtype.is_floating_point else scaled.round()).to(dtype), scales


@pytest.mark.parametrize("narrow", ["float8_e4m3fn", "int8"])
def test_products_of_narrow_numbers_are_one_kernel_with_what_rounds_to_them(narrow: str) -> None:
    dtype = getattr(torch, narrow)
    largest = 127.0 if narrow == "int8" else torch.finfo(dtype).max
    w, scales = rounded(draw(32, 48), dtype, largest)
    bias = draw(32, dtype=torch.bfloat16)

    def linear(x: Any, w: Any, scales: Any, bias: Any) -> Any:
        q, own = rounded(x, dtype, largest)
        if narrow == "int8":
            return torch._int_mm(q, w.t()).float() * own * scales.t() + bias
        given = {"scale_a": own, "scale_b": scales.t()}
        return torch._scaled_mm(q, w.t(), **given, bias=bias, out_dtype=torch.bfloat16)

    x = draw(33, 48)
    eager, ours, report = compiled(linear, x, w, scales, bias)
    assert_near(ours, eager)
    assert not report.stayed and len(report.islands) == 1


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_of_torch_is_one_program(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(
        32, 4, 48, batch_first=True, norm_first=norm_first, activation="gelu"
    ).requires_grad_(False)
    hidden = torch.tensor([[False] * 7, [False] * 5 + [True] * 2])
    eager, ours, report = compiled(
        lambda x, m: layer.eval()(x, src_key_padding_mask=m), draw(2, 7, 32), hidden
    )
    assert_near(ours, eager)
    assert not report.stayed and len(report.islands) == 1, str(report)


def test_views_of_what_is_replaced_in_part_are_taken() -> None:
    def function(x: Any, y: Any) -> Any:
        parts = x.mT.clone(memory_format=torch.preserve_format)
        parts[:, :2, 1:] = y
        return parts.mT.reshape(6, 4).view(3, 8) + 1

    eager, ours, report = compiled(function, draw(3, 2, 4), draw(3, 2, 1))
    assert_near(ours, eager)
    assert report.islands


def test_tensors_without_a_dimension_are_broadcast() -> None:
    eager, ours, report = compiled(
        lambda x, s: ((x * s).sum(), s + 1, (x * s)[0, 0]), draw(4, 4), torch.tensor(3.0)
    )
    for one, other in zip(ours, eager, strict=True):
        assert_near(one, other)
    assert report.islands and not report.stayed


def _as_summand(mask: Any) -> Any:
    """Scores of no key are minus infinity, and those of a row the least number."""
    least = torch.finfo(torch.float32).min
    last = torch.arange(5)[:, None] == 4
    return torch.zeros(5, 7).masked_fill(~mask, -math.inf).masked_fill(last, least)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (lambda mask: mask, lambda mask: mask),
        (lambda mask: mask, _as_summand),
        (lambda mask: torch.zeros(5, 7).masked_fill(~mask, -math.inf), lambda mask: mask),
        (
            lambda mask: torch.zeros(5, 7).masked_fill(~mask, -math.inf),
            lambda mask: mask + _as_summand(torch.ones(5, 7, dtype=torch.bool)),
        ),
    ],
)
def test_rows_without_a_key_give_zeros(given: Any, written: Any) -> None:
    kept = torch.ones(5, 7, dtype=torch.bool).tril()
    kept[2] = False
    q, k = draw(1, 2, 5, 8), draw(1, 2, 7, 8)
    eager, ours, report = compiled(
        lambda q, k, m: attention(q, k, k, attn_mask=written(m)), q, k, given(kept)
    )
    assert_near(ours, eager)
    assert (ours[:, :, 2] == 0).all() and report.islands


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that are compiled for a CPU, one after another."""
    found: list[Any] = []
    makers = import_module("mugraph.torch.backend").MAKERS
    make = makers["cpu"]
    monkeypatch.setitem(makers, "cpu", lambda module: (found.append(module), make(module))[1])
    return found


def test_all_programs_are_begun_before_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    makers, steps = import_module("mugraph.torch.backend").MAKERS, list[str]()
    make = makers["cpu"]

    def begin(module: Any) -> Callable[[], Any]:
        wait = make(module)
        steps.append("begun")
        return lambda: (steps.append("waited for"), wait())[1]

    monkeypatch.setitem(makers, "cpu", begin)
    x = draw(3, 5)
    # Two of the three programs are one.
    eager, ours, _ = compiled(lambda x: ((x * 2).cumprod(0) * 2).cumprod(1) + 1, x)
    assert_near(ours, eager)
    assert steps == ["begun"] * 2 + ["waited for"] * 2


@pytest.mark.parametrize(
    "kept, inputs, masked",
    [
        (lambda i, j: j <= i + 9, 1, False),  # all of them
        (lambda i, j: j <= i, 1, True),
        (lambda i, j: (j <= i) & (i - j < 3), 2, False),  # a tensor beside q
    ],
)
def test_masks_of_known_positions_are_indices(
    kept: Callable[..., Any], inputs: int, masked: bool, programs: list[Any]
) -> None:
    def function(q: Any) -> Any:
        places = torch.arange(q.shape[-2])
        mask = kept(places[:, None], places[None])[None, None]
        return attention(q, q, q, attn_mask=mask)

    eager, ours, _ = compiled(function, draw(1, 2, 9, 16))
    assert_near(ours, eager)
    (program,) = programs
    assert len(only_function(program).args) == inputs
    assert masked == any(isinstance(op, kn.MaskOp) for op in program.walk())


def documents(places: Any) -> Any:
    """The document of each token, as a model finds it where positions do not continue."""
    before = torch.cat([places[:1] - 1, places])
    return (before[1:] - before[:-1] != 1).cumsum(-1)


@pytest.mark.parametrize(
    "kept, is_known, masked",
    [
        (lambda i, j, tokens: j >= 0 * i, True, False),
        (lambda i, j, tokens: j <= i, True, True),
        (lambda i, j, tokens: torch.where(j < 0, j + tokens, j) < i + 1, True, True),
        (lambda i, j, tokens: (j <= i) & (documents(j[0])[None] == documents(i[:, 0])[:, None]),
         True, True),
        (lambda i, j, tokens: (j <= i) & (i - j < 3), False, True),
        (lambda i, j, tokens: j.index_select(1, i[:, 0]) <= 2 * i, False, True),
        (lambda i, j, tokens: j <= i + 1, False, True),
        (lambda i, j, tokens: (j <= i) & (j[:, :1] != i), False, True),
    ],
)  # fmt: skip
def test_masks_of_positions_are_indices_where_tokens_are_a_symbol(
    kept: Callable[..., Any], is_known: bool, masked: bool, programs: list[Any]
) -> None:
    def function(q: Any) -> Any:
        places = torch.arange(q.shape[-2])
        mask = kept(places[:, None], places[None], q.shape[-2])[None, None]
        return attention(q, q, q, attn_mask=mask)

    torch._dynamo.reset()
    made = torch.compile(function, backend=mugraph_torch.backend)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for tokens in (9, 14, 3):
            q = draw(1, 2, tokens, 16)
            torch._dynamo.mark_dynamic(q, 2)
            assert_near(made(q), function(q))
    alone = len(programs) == 1 and len(only_function(programs[0]).args) == 1
    assert alone == is_known
    if alone:
        assert masked == any(isinstance(op, kn.MaskOp) for op in programs[0].walk())


def test_a_part_of_rows_that_a_symbol_counts_is_written_at_any_number() -> None:
    def function(x: Any) -> Any:
        made = x * 2
        made[1:].zero_()
        return made

    torch._dynamo.reset()
    compiled_once = torch.compile(function, backend="mugraph")
    with torch.no_grad():
        for rows in (5, 9):
            x = draw(rows, 8)
            torch._dynamo.mark_dynamic(x, 0)  # which is an error where the number is asked for
            assert_near(compiled_once(x), function(x))


def test_what_has_no_conversion_stays_in_torch() -> None:
    eager, ours, report = compiled(lambda x: (x * 2).cumprod(0) + 1, draw(4, 4))
    assert_near(ours, eager)
    assert [name for name, _ in report.stayed] == ["aten.cumprod.default"]
    assert len(report.islands) == 2
    assert "no conversion" in str(report)


class Block(torch.nn.Module):
    """Norms, linear layers and attention of heads of 8."""

    def __init__(self, *, causal: bool = True) -> None:
        super().__init__()
        self.norm, self.causal = torch.nn.RMSNorm(16), causal
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16, bias=False)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (part.view(batch, tokens, 2, 8).transpose(1, 2) for part in parts)
        heads = attention(q, k, v, is_causal=self.causal)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.silu(self.up(self.norm(x))))


@pytest.mark.parametrize(
    "dim, shapes",
    [
        (1, [(1, 5, 16), (1, 2, 16), (1, 17, 16), (1, 101, 16), (1, 300, 16)]),
        (1, [(3, 5, 16), (3, 2, 16), (3, 17, 16)]),
        (0, [(3, 4, 16), (7, 4, 16)]),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_one_compilation_serves_all_values_of_a_symbol(
    causal: bool, dim: int, shapes: list[tuple[int, ...]]
) -> None:
    block, report, graphs = Block(causal=causal).eval(), mugraph_torch.Report(), []
    for number, weight in enumerate(block.parameters()):
        weight.data = draw(*weight.shape) / (4 + number)

    def counting(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return mugraph_torch.backend(graph, inputs, report=report)

    torch._dynamo.reset()
    made = torch.compile(block, backend=counting)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape in shapes:
            x = draw(*shape)
            torch._dynamo.mark_dynamic(x, dim)
            assert_near(made(x), block(x))
    assert len(graphs) == 1 and len(report.islands) == 1 and not report.stayed


def test_values_above_the_bound_of_a_symbol_run_in_torch() -> None:
    report = mugraph_torch.Report()

    def backend(graph: Any, inputs: Any) -> Any:
        return mugraph_torch.backend(graph, inputs, report=report)

    torch._dynamo.reset()
    made = torch.compile(lambda x: (x + 1) * 2, backend=backend)
    with torch.no_grad():
        for rows in (3, 8192, 8193):
            x = draw(rows, 2)
            torch._dynamo.mark_dynamic(x, 0)
            assert_near(made(x), (x + 1) * 2)
    assert len(report.islands) == 1


def test_torch_takes_the_bound_of_an_extent_that_an_error_asks_for() -> None:
    interface = Mock(extents=[Mock(largest=8192)], workspace_bytes=2**33)
    with pytest.raises(UserError, match=r"needs 8\.0 GiB") as refused:
        require_room(interface, 2**33)
    (asked,) = re.findall(r"torch\._dynamo\.mark_dynamic\(.*?\)", str(refused.value))
    torch._dynamo.reset()
    x, dim = draw(3, 4), 0
    eval(asked, {"torch": torch, "x": x, "dim": dim})
    with torch.no_grad():
        assert_near(torch.compile(lambda x: x * 2, backend="mugraph")(x), x * 2)


def test_a_tensor_without_a_dimension_stands_beside_a_symbol() -> None:
    torch._dynamo.reset()
    made = torch.compile(lambda x, s: (x + s) * 2, backend="mugraph")
    with torch.no_grad():
        for rows in (3, 5):
            x, s = draw(rows, 8), torch.tensor(0.5)
            torch._dynamo.mark_dynamic(x, 0)
            assert_near(made(x, s), (x + s) * 2)


def test_extents_that_keep_operators_in_torch_are_said() -> None:
    torch._dynamo.reset()
    made = torch.compile(lambda x: x.mean(0) + 1, backend=mugraph_torch.backend, dynamic=True)
    x = draw(3, 4)
    with torch.no_grad(), pytest.warns(UserWarning, match="keep .* in torch.*dynamic=False"):
        assert_near(made(x), x.mean(0) + 1)


def test_what_depends_on_no_input_is_computed_ahead() -> None:
    def function(x: Any) -> Any:
        places = torch.arange(6, dtype=torch.float32)
        return x * torch.outer(places, places.cos())

    eager, ours, report = compiled(function, draw(6, 6))
    assert_near(ours, eager)
    assert not report.stayed


def test_a_constant_that_is_returned_is_the_callers_own() -> None:
    torch._dynamo.reset()
    made = torch.compile(lambda x: (torch.zeros(3), x * 2), backend=mugraph_torch.backend)
    with torch.no_grad():
        made(draw(3))[0].add_(1)
        assert not made(draw(3))[0].any()


def test_tensors_are_laid_out_as_they_are_asked_for() -> None:
    """Broadcast and transposed inputs, and results that torch would lay out otherwise."""
    wide = draw(1, 6).expand(4, 6)
    eager, ours, _ = compiled(lambda x, y: (x + y.T).T, wide, draw(6, 4))
    assert_near(ours, eager)
    assert ours.stride() == eager.stride()


def test_a_cache_is_written_in_place() -> None:
    def step(cache: Any, x: Any) -> Any:
        cache[:, 2] = x * 2
        return (cache * 3).sum(1)

    ours, eager = torch.zeros(3, 4), torch.zeros(3, 4)
    x = draw(3)
    expected = step(eager, x)
    torch._dynamo.reset()
    with torch.no_grad():
        result = torch.compile(step, backend=mugraph_torch.backend)(ours, x)
    assert_near(result, expected)
    assert_near(ours, eager)


def test_elements_of_a_cache_are_put_where_it_lies() -> None:
    """A static cache: nothing else reads what was there, so that it is not copied."""

    def step(cache: Any, length: Any, x: Any) -> Any:
        places = torch.arange(2) + length
        length.add_(2)
        cache.index_copy_(1, places, x)
        return cache * 3 + length

    ours, eager = ([torch.zeros(3, 4), torch.tensor(1)] for _ in range(2))
    report = mugraph_torch.Report()
    torch._dynamo.reset()
    with torch.no_grad():
        expected = step(*eager, draw(3, 2))
        result = torch.compile(
            step, backend=lambda graph, given: mugraph_torch.backend(graph, given, report=report)
        )(*ours, draw(3, 2))
    for one, other in zip([result, *ours], [expected, *eager], strict=True):
        assert_near(one, other)
    assert not report.stayed and len(report.islands) == 1


def test_what_is_written_may_be_returned() -> None:
    def step(cache: Any, x: Any) -> Any:
        cache.index_copy_(0, torch.tensor([2, 0]), x)
        return cache, cache.sum(0)

    ours, eager = torch.zeros(3, 4), torch.zeros(3, 4)
    torch._dynamo.reset()
    with torch.no_grad():
        expected = step(eager, draw(2, 4))
        results = torch.compile(step, backend=mugraph_torch.backend)(ours, draw(2, 4))
    for one, other in zip([*results, ours], [*expected, eager], strict=True):
        assert_near(one, other)
    assert results[0].data_ptr() == ours.data_ptr()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_cache_that_is_too_small_is_torchs_error() -> None:
    """Rows that have no place are refused by torch; a kernel would write them to the last one."""

    def step(cache: Any, x: Any) -> Any:
        return cache.index_copy_(0, torch.arange(4), x) * 2

    torch._dynamo.reset()
    cache = torch.zeros(3, 4)
    with torch.no_grad(), pytest.raises(IndexError, match="out of bounds"):
        torch.compile(step, backend=mugraph_torch.backend)(cache, draw(4, 4))


def test_options_of_programs_are_refused_for_models() -> None:
    with pytest.raises(UserError, match="tune: options of a µGraph, which a PyTorch model does no"):
        mugraph.compile(torch.nn.ReLU().eval(), (torch.ones(3),), tune=True)  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_a_model_elsewhere_than_its_inputs_is_refused() -> None:
    model = torch.nn.Linear(4, 4, device="meta").eval()
    with pytest.raises(UserError, match="weights on the meta device"):
        mugraph.compile(model, (draw(2, 4),))
    with pytest.raises(UserError, match="the model is on cpu and inputs are on meta"):
        mugraph.compile(torch.nn.Linear(4, 4).eval(), (torch.zeros(2, 4, device="meta"),))


def test_a_device_without_programs_is_named() -> None:
    torch._dynamo.reset()
    with pytest.warns(UserWarning, match="its inputs are on meta; programs run on cpu and cuda"):
        result = torch.compile(lambda x: x * 2 + 1, backend="mugraph")(torch.ones(4, device="meta"))
    assert result.device.type == "meta"


def test_what_is_on_two_devices_stays_in_torch() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x * y).sin() + torch.tensor(2.5), (y + 1).to("meta")

    with pytest.warns(UserWarning, match="its inputs are on meta; programs run on cpu and cuda"):
        _, _, report = compiled(function, torch.ones(4, device="meta"), torch.tensor(1.0))
    both = {name for name, reason in report.stayed if reason == "it has tensors on cpu and meta"}
    assert both == {"aten.mul.Tensor", "aten._to_copy.default"}


def test_numbers_in_tensors_are_taken_by_what_stays_in_torch() -> None:
    def function(x: Any) -> Any:
        chosen = torch.where(x > 0, torch.tensor(2.0).double().sqrt().float(), torch.tensor(0.0))
        return chosen.cumprod(0).clamp(max=torch.tensor(3.0))

    torch._dynamo.reset()
    made = torch.compile(function, backend="mugraph", dynamic=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_near(made(draw(3, 5)), function(draw(3, 5)))


def test_a_copy_of_an_input_in_another_order_stays_in_torch() -> None:
    torch._dynamo.reset()
    order = torch.channels_last
    made = torch.compile(lambda x: (x.to(memory_format=order), x + 1), backend="mugraph")
    with pytest.warns(UserWarning, match="puts an input into another order"), torch.no_grad():
        copy, more = made(x := draw(2, 4, 3, 5))
    assert copy.is_contiguous(memory_format=order) and torch.equal(copy, x)
    assert_near(more, x + 1)


def test_what_has_no_elements_stays_in_torch() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.MaxPool2d(2),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
    ).eval()  # fmt: skip
    eager, ours, report = compiled(model, torch.ones(0, 3, 8, 8))
    assert ours.shape == eager.shape and not report.islands


def test_parts_of_what_stays_are_not_counted() -> None:
    _, _, report = compiled(lambda x: [part * 2 for part in x.sort(-1)], draw(3, 4))
    assert [*report.stayed] == [("aten.sort.default", "mugraph has no conversion of it")]


def test_rows_that_a_mask_counts_stay_in_torch() -> None:
    """The rows that are put are different ones."""
    x, mask = draw(3, 4), torch.tensor([True, False, True])
    eager, ours, report = compiled(lambda x, part: (x * 2).index_put((mask,), part), x, x[:2])
    assert_near(ours, eager)
    assert [*report.stayed] == [("aten.index_put.default", "it puts rows where a mask is true")]


def test_convolutions_that_are_no_products_stay_in_torch() -> None:
    eager, ours, report = compiled(
        lambda x, w: functional.conv1d(x, w, groups=2) * 2, draw(1, 4, 9), draw(6, 2, 3)
    )
    assert_near(ours, eager)
    ((name, reason),) = report.stayed
    assert name == "aten.convolution.default"
    assert re.match(r"its 2 groups have too few channels .*; computed by \w+", reason)


def test_the_library_of_a_convolution_on_a_gpu_is_torchs_choice() -> None:
    graph, shapes = torch.fx.Graph(), ((1, 16, 9, 9), (16, 1, 3, 3))
    x, w = map(graph.placeholder, "xw")
    with import_module("torch._subclasses.fake_tensor").FakeTensorMode():
        for node, shape in zip((x, w), shapes, strict=True):
            node.meta["val"] = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
        given = (x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 16)
        call = graph.call_function(torch.ops.aten.convolution.default, given)
        assert library_of(call) == "torch's own depthwise kernel"


def test_windows_of_images_are_one_operator(programs: list[Any]) -> None:
    """A product may load them where the images lie; nothing is copied for each tap."""
    eager, ours, report = compiled(
        lambda x, w, b: functional.conv2d(x, w, b, (2, 1), (1, 2), (1, 2)),
        *(draw(2, 5, 9, 8), draw(6, 5, 3, 4), draw(6)),
    )
    assert_near(ours, eager)
    assert not report.stayed and ours.stride() == eager.stride()
    names = [op.name for op in only_function(programs[0]).body.block.ops]
    assert names.count("kn.windows") == 1
    assert "kn.concat" not in names and "kn.slice" not in names


def test_cubes_are_products(programs: list[Any]) -> None:
    given = draw(4, 6), draw(4, 6, dtype=torch.bfloat16), torch.arange(-3, 9)
    eager, ours, _ = compiled(lambda *each: [x**3 for x in each], *given)
    for one, other in zip(ours, eager, strict=True):
        assert_near(one, other)
    assert "kn.pow" not in str(programs[0])


def test_windows_that_stay_in_torch_are_the_same() -> None:
    images, settings = draw(2, 9, 8, 5), ([3, 4], [2, 1], [1, 2], [1, 2])
    rows = image_windows_operator()(images, *settings)
    weight = draw(6, 5, 3, 4)
    columns = weight.movedim(1, -1).reshape(6, -1)
    expected = functional.conv2d(images.movedim(-1, 1), weight, None, *settings[1:])
    assert_near((rows @ columns.t()).reshape(2, 5, 6, 6).movedim(-1, 1), expected)


@pytest.mark.parametrize(
    ("largest", "ends"),
    [(8192, (16, 64, 256, 512, 1024)), (1024, (16, 64, 256, 512)), (2048, (16, 64, 256, 512, 1024)),
     (512, (16, 64, 256)), (100, (16, 64)), (256, (16, 64, 128)), (8, ())],
)  # fmt: skip
def test_the_last_bucket_is_halved_where_there_may_be_one_more(
    largest: int, ends: tuple[int, ...]
) -> None:
    assert ends_below(largest) == ends


def test_a_model_with_weights() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 8)
    ).to(torch.bfloat16)
    eager, ours, report = compiled(model, draw(5, 16, dtype=torch.bfloat16))
    assert_near(ours, eager)
    assert len(report.islands) == 1


def test_a_model_is_compiled_as_a_callable() -> None:
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout()), draw(2, 4)
    with pytest.raises(UserError, match=r"in training mode.*call model\.eval"):
        mugraph.compile(model, (x,))
    with pytest.raises(UserError, match=r"compiled for inputs.*mugraph.compile\(model, \(x,\)\)"):
        mugraph.compile(model.eval())
    torch._dynamo.reset()
    expected = model(x).detach()
    for each in (model, torch.export.export(model, (x,))):
        assert_near(mugraph.compile(each, (x,))(x), expected)


def test_the_model_on_the_page_on_pytorch() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "pytorch.md"
    (code, *_) = re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.S | re.M)
    names: dict[str, Any] = {}
    torch._dynamo.reset()
    exec(code, names)
    assert_near(names["y"], names["model"](names["x"]).detach())


def test_it_is_known_by_its_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = torch._dynamo.list_backends()
    assert "mugraph" in names


def test_inputs_may_have_names_and_must_be_those_of_an_exported_program() -> None:
    layer, x = torch.nn.Linear(8, 8).eval(), torch.randn(4, 8)
    with torch.no_grad():
        assert_near(mugraph.compile(layer, {"input": x})(input=x), layer(x))
    exported = torch.export.export(layer, (x,))
    assert_near(mugraph.compile(exported, (x,))(x), layer(x))
    with pytest.raises(UserError, match=r"exported for other inputs \(.*\); export it for inputs"):
        mugraph.compile(exported, (x[:2],))


def test_what_is_no_module_is_refused() -> None:
    x = torch.randn(4, 8)
    with pytest.raises(UserError, match=r"a function is compiled by torch\.compile\(function"):
        mugraph.compile(torch.relu, (x,))
    with pytest.raises(UserError, match=r"made by torch\.jit"):
        mugraph.compile(torch.jit.trace(torch.nn.ReLU().eval(), x), (x,))


def test_statistics_of_another_type_than_torch_foresees() -> None:
    """torch says that they are fp32, and on a CPU gives them the type of the numbers."""
    x, mean, variance = draw(4, 3, 5).half(), draw(3).half(), draw(3).half().abs()
    eager, ours, _ = compiled(
        lambda *given: functional.batch_norm(*given, training=True) * 2, x, mean, variance
    )
    assert_near(ours, eager)


def test_training_is_refused() -> None:
    model = torch.nn.Linear(4, 4)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="compiles models for inference, and gradients are asked"):
        torch.compile(model, backend=mugraph_torch.backend)(draw(2, 4))


@pytest.mark.parametrize("given", [{"mode": "reduce-overhead"}, {"options": {"triton": True}}])
def test_modes_of_inductor_are_refused(given: dict[str, Any]) -> None:
    fast = torch.compile(torch.nn.ReLU(), backend="mugraph", **given)
    with torch.no_grad(), pytest.raises(Exception, match=r"is for torch\.compile's own backend"):
        fast(torch.zeros(4))


def test_the_report_says_which_kernels_there_are() -> None:
    report = str(mugraph_torch.explain(lambda x, w: functional.silu(x @ w).cumprod(0), draw(64, 64),
                                       draw(64, 64)))  # fmt: skip
    assert report.startswith("1 program, 1 kernel, ") and "1 operator in torch" in report
    assert "1 mm, 1 silu" in report and "kernel 0: kn.matmul, kn.silu" in report
    assert "aten.cumprod.default: mugraph has no conversion of it" in report
    assert "first at test_torch_backend.py:" in report


def test_the_report_says_what_torch_compile_leaves_out() -> None:
    def branches(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x - 1

    report = mugraph_torch.explain(branches, draw(4, 4))
    assert len(report.islands) == 2 and not report.stayed
    assert "left out by torch.compile, with every backend:\n  " in str(report)
    assert "Data-dependent branching. " in str(report)
    assert not mugraph_torch.explain(lambda x: x * 2, draw(4)).breaks


class Scaled(torch.nn.Module):
    """A model of two inputs."""

    def forward(self, x: Any, y: Any) -> Any:
        """Their product."""
        return x * y


@pytest.mark.parametrize(
    "inputs", [(draw(2, 4), draw(4)), UserDict({"y": draw(4), "x": draw(2, 4)})]
)
def test_a_model_is_explained_for_what_it_is_compiled_for(inputs: Any) -> None:
    report = mugraph_torch.explain(Scaled().eval(), inputs)
    assert not report.stayed and "program 0: 1 kernel" in str(report)


def test_what_is_explained_must_be_a_call_of_the_model() -> None:
    model, x = Scaled().eval(), draw(2, 4)
    for inputs, sentence in [
        ((), r"give a tuple of them: mugraph\.torch\.explain\(model, \(x,\)\)"),
        ((x,), "the model does not take these inputs: missing a required argument: 'y'"),
        ({"x": x, "z": x}, "the model does not take these inputs: missing a required argument"),
        ((x, draw(3)), r"does not run on these inputs: .*\b3\b"),
    ]:
        with pytest.raises(UserError, match=sentence):
            mugraph_torch.explain(model, inputs)
    with pytest.raises(UserError, match=r"does not run on these inputs: .* same dtype"):
        mugraph_torch.explain(torch.nn.Linear(4, 2).eval(), x.half())
    with pytest.raises(UserError, match="in training mode"):
        mugraph_torch.explain(Scaled(), (x, x))
    with pytest.raises(UserError, match="does not take these inputs"):
        mugraph.compile(model, (x,))


def weights_of_8_bits(x: Any, w: Any, scales: Any) -> Any:
    """As torchao and compressed-tensors write layers whose weights alone are quantised."""
    return functional.linear(x, w.to(x.dtype) * scales)


def weights_of_4_bits(x: Any, w: Any, scales: Any) -> Any:
    """Two neighbours of a row in a byte, and a scale for each group of a row."""
    both = torch.stack([w << 4 >> 4, w >> 4], -1).reshape(w.shape[0], -1)
    groups = both.to(x.dtype).reshape(*scales.shape, -1) * scales.unsqueeze(-1)
    return functional.linear(x, groups.reshape(both.shape))


def packed_weights(x: Any, w: Any, scales: Any) -> Any:
    """Torch's own operator."""
    return torch._weight_int8pack_mm(x, w, scales[:, 0])


@pytest.mark.parametrize(
    ("layer", "groups"), [(weights_of_8_bits, 1), (packed_weights, 1), (weights_of_4_bits, 2)]
)
def test_layers_with_weights_of_few_bits_are_programs(layer: Any, groups: int) -> None:
    depth = 64 if layer is not weights_of_4_bits else 32
    generator = torch.Generator().manual_seed(depth)
    w = torch.randint(-128, 128, (48, depth), generator=generator, dtype=torch.int8)
    scales = draw(48, groups, dtype=torch.bfloat16).abs() / 64
    x = draw(5, 64, dtype=torch.bfloat16)
    eager, ours, report = compiled(layer, x, w, scales)
    assert_near(ours, eager)
    assert not report.stayed and len(report.islands) == 1, str(report)


def test_bits_of_bytes_are_those_of_torch() -> None:
    every = torch.arange(-128, 128, dtype=torch.int8)
    eager, ours, report = compiled(lambda x: (x >> 3, x << 2, x & 12, (x & 15) << 4), every)
    for one, other in zip(ours, eager, strict=True):
        assert torch.equal(one, other)
    assert report.islands and not report.stayed


def test_calls_of_a_program_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of torch put calls first that need few others, such as those of weights."""

    def those_that_need_least_first(nodes: Any) -> list[Any]:
        left, done = list(nodes), list[Any]()
        while left:
            ready = [node for node in left if not any(n in left for n in node.all_input_nodes)]
            done += ready
            left = [node for node in left if node not in ready]
        return done

    sorting = import_module("torch.fx.passes.utils.fuser_utils")
    monkeypatch.setattr(sorting, "topo_sort", those_that_need_least_first)
    seen: list[list[str]] = []
    splitting = import_module("mugraph.torch.backend")
    split = splitting.split_off_programs

    def noted(*given: Any) -> Any:
        parts = split(*given)
        for part in import_module("mugraph.torch.islands").programs_of(parts).values():
            calls = [node for node in part.graph.nodes if node.op == "call_function"]
            seen.append([node.target.__name__.partition(".")[0] for node in calls])
        return parts

    monkeypatch.setattr(splitting, "split_off_programs", noted)

    def twice(x: Any, v: Any, w: Any) -> Any:
        return (x @ (v * 2.0)) @ (w * 3.0)

    x, v, w = torch.randn(4, 8), torch.randn(8, 8), torch.randn(8, 8)
    torch.compiler.reset()
    result = torch.compile(twice, backend="mugraph")(x, v, w)
    torch.testing.assert_close(result, twice(x, v, w))
    assert seen == [["mul", "mm", "mul", "mm"]]
