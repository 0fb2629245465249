"""Layers as checkpoints of few bits have them, by ``torch.compile(model, backend="mugraph")``."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from narrow_codes import around_halves, codes

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
mugraph_torch: Any = import_module("mugraph.torch")

pytestmark = [
    # torch's own, of its version and the interpreter's.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

DEPTH, COLUMNS, GROUP = 256, 32, 128
GROUPS = DEPTH // GROUP


def words(shape: tuple[int, ...]) -> Any:
    """Any bits, as whole numbers of 32."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-(2**31), 2**31, shape, generator=generator).to(torch.int32)


def drawn(*shape: int) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).bfloat16()


def scales(*shape: int) -> Any:
    return drawn(*shape).abs() / 16 + 0.125


class Layer(torch.nn.Module):
    """Linear, of weights that are buffers."""

    def __init__(self, dequantize: Callable[..., Any], **buffers: Any) -> None:
        super().__init__()
        self._dequantize = dequantize
        self._names = list(buffers)
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def matrix(self) -> Any:
        """The right matrix."""
        return self._dequantize(*(getattr(self, name) for name in self._names))

    def forward(self, x: Any) -> Any:
        return x @ self.matrix()


def gptq(words: Any, zeros: Any, scale: Any, shifts: Any) -> Any:
    """Words of eight rows, and zeros of eight columns, one less than they are."""
    z = (zeros.unsqueeze(2).expand(-1, -1, 8) >> shifts).to(torch.int8) & 15
    z = (z + 1).reshape(GROUPS, 1, COLUMNS)
    w = (words.unsqueeze(1).expand(-1, 8, -1) >> shifts.unsqueeze(-1)).to(torch.int8) & 15
    w = w.reshape(GROUPS, GROUP, COLUMNS)
    return (scale.reshape(GROUPS, 1, COLUMNS) * (w - z)).reshape(DEPTH, COLUMNS)


def gptq_by_index(words: Any, zeros: Any, scale: Any, shifts: Any, groups: Any) -> Any:
    """The same with the group of each row in a tensor."""
    z = ((zeros.unsqueeze(2) >> shifts) & 15).reshape(GROUPS, COLUMNS)
    w = ((words.unsqueeze(1) >> shifts.unsqueeze(-1)) & 15).reshape(DEPTH, COLUMNS)
    return scale[groups.long()] * (w - z[groups.long()]).to(torch.int8)


def awq(words: Any, zeros: Any, scale: Any, shifts: Any) -> Any:
    """Words of eight columns, in an order of their own."""
    order = torch.arange(COLUMNS).reshape(-1, 8)[:, [0, 4, 1, 5, 2, 6, 3, 7]].reshape(-1)
    w, z = (
        ((each[:, :, None] >> shifts[None, None, :]) & 15).to(torch.int8).view(len(each), -1)
        for each in (words, zeros)
    )
    w, z = w[:, order], z[:, order]
    apart = [each.repeat_interleave(GROUP, dim=0) for each in (z, scale)]
    return (w - apart[0]) * apart[1]


def compressed(words: Any, scale: Any) -> Any:
    """Words of eight neighbours along k, less 8, put one after another into a tensor of zeros."""
    w = torch.zeros((COLUMNS, DEPTH), dtype=torch.int32)
    for place in range(8):
        w[:, place::8] = (words >> (4 * place)) & 15
    w = (w - 8).to(torch.int8)
    w = w.unflatten(-1, (GROUPS, GROUP)).to(scale.dtype) * scale.unsqueeze(-1)
    return w.flatten(-2).t()


def high_first(codes: Any, scale: Any) -> Any:
    """Two neighbours in a byte without a sign, as torchao has them."""
    w = torch.stack([codes >> 4, codes & 15], -1).reshape(COLUMNS, DEPTH).to(torch.bfloat16) - 8
    return (w.reshape(COLUMNS, GROUPS, GROUP) * scale.unsqueeze(-1)).reshape(COLUMNS, DEPTH).t()


def whole_bytes(codes: Any, scale: Any) -> Any:
    """Bytes without a sign, whose zero is 128."""
    return ((codes.to(torch.int32) - 128).to(scale.dtype) * scale).t()


SHIFTS = torch.arange(0, 32, 4, dtype=torch.int32)
LAYERS = {
    "gptq": Layer(
        gptq,
        words=words((DEPTH // 8, COLUMNS)),
        zeros=words((GROUPS, COLUMNS // 8)),
        scale=scales(GROUPS, COLUMNS),
        shifts=SHIFTS,
    ),
    "gptq by index": Layer(
        gptq_by_index,
        words=words((DEPTH // 8, COLUMNS)),
        zeros=words((GROUPS, COLUMNS // 8)),
        scale=scales(GROUPS, COLUMNS),
        shifts=SHIFTS,
        groups=torch.arange(DEPTH, dtype=torch.int32) // GROUP,
    ),
    "awq": Layer(
        awq,
        words=words((DEPTH, COLUMNS // 8)),
        zeros=words((GROUPS, COLUMNS // 8)),
        scale=scales(GROUPS, COLUMNS),
        shifts=SHIFTS,
    ),
    "compressed": Layer(
        compressed, words=words((COLUMNS, DEPTH // 8)), scale=scales(COLUMNS, GROUPS)
    ),
    "high first": Layer(
        high_first,
        codes=words((COLUMNS, DEPTH // 2)).to(torch.uint8),
        scale=scales(COLUMNS, GROUPS),
    ),
    "whole bytes": Layer(
        whole_bytes, codes=words((COLUMNS, DEPTH)).to(torch.uint8), scale=scales(COLUMNS, 1)
    ),
}


class Packed(torch.nn.Module):
    """Weights in the order of torch's own kernel, with zeros that are added."""

    def __init__(self) -> None:
        super().__init__()
        codes = words((COLUMNS, DEPTH)) & 15
        scale, zero = scales(GROUPS, COLUMNS), drawn(GROUPS, COLUMNS)
        pack = torch.ops.aten._convert_weight_to_int4pack_for_cpu
        self.register_buffer("packed", pack(codes, 8))
        self.register_buffer("scales", torch.stack([scale, zero], -1))
        scale, zero = (each.repeat_interleave(GROUP, 0) for each in (scale, zero))
        self.wide = (codes.T - 8) * scale + zero

    def matrix(self) -> Any:
        return self.wide

    def forward(self, x: Any) -> Any:
        return torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.packed, GROUP, self.scales)


class Layers(torch.nn.Module):
    """Several on the same input."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x: Any) -> Any:
        return tuple(layer(x) for layer in self.layers)


def compiled(layer: Any) -> tuple[Callable[..., Any], Any]:
    """A compiled layer, and the report."""
    report = mugraph_torch.Report()

    def backend(graph: Any, examples: Any) -> Any:
        return mugraph_torch.backend(graph, examples, report=report)

    torch._dynamo.reset()
    return torch.compile(layer, backend=backend), report


def assert_right(result: Any, x: Any, matrix: Any) -> None:
    """Weights are rounded to bf16 once, by torch or by us, and results once more."""
    exact, most = x.double() @ matrix.double(), x.double().abs() @ matrix.double().abs()
    assert ((result.double() - exact).abs() <= 2.0**-8 * (exact.abs() + most)).all()


def test_packed_weights_are_unpacked_in_the_program_of_their_products() -> None:
    """Two numbers are in a byte, and nothing stays in torch at a call."""
    model, x = Layers(*LAYERS.values(), Packed()), drawn(3, DEPTH)
    ours, report = compiled(model)
    with torch.no_grad():
        for result, layer in zip(ours(x), model.layers, strict=True):
            assert_right(result, x, layer.matrix())
    assert len(report.islands) == 1, str(report)
    assert report.islands[0].operators["mugraph.stored_numbers.default"] == len(model.layers)
    assert not any("shift" in name or "index" in name for name in report.islands[0].operators)


def test_weights_that_change_are_stored_again() -> None:
    layer, x = LAYERS["whole bytes"], drawn(2, DEPTH)
    ours, _ = compiled(layer)
    with torch.no_grad():
        assert_right(ours(x), x, layer.matrix())
        layer.codes.bitwise_xor_(85)
        assert_right(ours(x), x, layer.matrix())


def test_weights_in_the_place_of_others_are_stored_again() -> None:
    """Memory of weights that are replaced is given to the next ones, as a checkpoint is loaded."""
    layer, x = deepcopy(LAYERS["whole bytes"]), drawn(2, DEPTH)
    ours, _ = compiled(layer)
    with torch.no_grad():
        for number in range(5):
            codes = layer.codes.bitwise_xor(number)
            del layer.codes  # what comes next may lie at its address
            layer.register_buffer("codes", codes.clone())
            assert_right(ours(x), x, layer.matrix())


def test_weights_made_in_inference_mode_are_stored_at_each_call() -> None:
    """Torch does not count what is written to them."""
    with torch.inference_mode():
        layer, x = deepcopy(LAYERS["whole bytes"]), drawn(2, DEPTH)
        ours, _ = compiled(layer)
        assert_right(ours(x), x, layer.matrix())
        layer.codes.bitwise_xor_(85)
        assert_right(ours(x), x, layer.matrix())


def test_bytes_in_words_are_multiplied_as_bytes() -> None:
    """As torchao multiplies on a CPU, with whole sums."""
    a, b = (words(shape).to(torch.int8) for shape in ((3, 32), (32, 8)))
    ours, report = compiled(lambda a, b: a.to(torch.int32) @ b.to(torch.int32))
    assert torch.equal(ours(a, b), a.to(torch.int32) @ b.to(torch.int32))
    assert report.islands and not report.stayed, str(report)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_casts_of_f8_are_those_of_torch(name: str) -> None:
    """Of numbers around all halves, and of all codes into wider types and the other f8.

    What is larger than the largest number becomes that; torch's e5m2 has an infinity there.
    """
    dtype, narrow = np.dtype(getattr(ml_dtypes, name)), getattr(torch, name)
    other = torch.float8_e5m2 if name == "float8_e4m3fn" else torch.float8_e4m3fn
    numbers = torch.from_numpy(around_halves(dtype))
    every = torch.from_numpy(codes(np.uint8)).view(narrow)

    def casts(x: Any, codes: Any) -> Any:
        wider = (torch.float32, torch.float16, torch.bfloat16, other)
        return x.to(narrow), *(codes.to(each) for each in wider)

    ours, report = compiled(casts)
    found, expected = ours(numbers, every), casts(numbers, every)
    assert report.islands and not report.stayed, str(report)
    largest = float(torch.finfo(narrow).max)
    assert found[0].float().nan_to_num().abs().max() == largest
    for result, wanted in zip(found, expected, strict=True):
        assert result.dtype == wanted.dtype
        limit = float(torch.finfo(result.dtype).max) if result.dtype in (narrow, other) else None
        if limit is not None:
            wanted = wanted.float().clamp(-limit, limit)
        torch.testing.assert_close(result.float(), wanted.float(), rtol=0, atol=0, equal_nan=True)
