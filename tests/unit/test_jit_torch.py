"""Tensors of torch on the CPU, by call and as an operator of torch."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.ir import Attribute

import mugraph
import mugraph.build as mi
import mugraph.torch

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

TYPES = {
    "bfloat16": mi.bfloat16,
    "float8_e4m3fn": mi.float8_e4m3fn,
    "float8_e5m2": mi.float8_e5m2,
    "float16": mi.float16,
    "float32": mi.float32,
    "int8": mi.int8,
}


def transposed_copy(name: str, dtype: Attribute) -> mi.KernelGraph:
    """A copy of a 4x8 tensor whose result is column-major."""
    graph = mi.new_kernel_graph(f"copy_{name}")
    x = graph.new_input((4, 8), dtype=dtype, name="x")
    whole = graph.concat(*graph.split(x, [2, 2], 0), 0)
    graph.mark_output(whole, strides=(1, 4))
    return graph


@pytest.mark.parametrize(("name", "dtype"), TYPES.items())
def test_every_element_type(name: str, dtype: Attribute) -> None:
    graph = transposed_copy(name, dtype)
    x = (torch.arange(32, dtype=torch.float32) - 16).reshape(4, 8).to(getattr(torch, name))
    kernel = mugraph.compile(graph, arch="cpu")
    result = kernel(x)
    assert result.dtype is x.dtype and result.stride() == (1, 4)
    assert torch.equal(result.float(), x.float())
    out = torch.zeros(8, 4).to(x.dtype).T
    assert kernel(x, out=out) is out
    assert torch.equal(out.float(), x.float())
    # Where fake tensors stand for real ones, shapes, strides and types are the same.
    fused = mugraph.torch.op(kernel)
    torch.library.opcheck(fused.default, (x,), test_utils="test_faketensor")
    assert torch.equal(fused(x).float(), x.float())


def test_what_does_not_fit_is_named() -> None:
    kernel = mugraph.compile(transposed_copy("wrong", mi.bfloat16), arch="cpu")
    with pytest.raises(ValueError, match=r"'x'\) has elements of type f16, expected bf16"):
        kernel(torch.zeros(4, 8, dtype=torch.float16))
    with pytest.raises(ValueError, match=r"has strides \(1, 4\), expected \(8, 1\)"):
        kernel(torch.zeros(8, 4, dtype=torch.bfloat16).T)
