"""Compiled µGraphs called from Python on a GPU: torch tensors, CUDA graphs, operators of torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mugraph
import mugraph.build as mi
from mugraph.codegen.architecture import choose_architecture
from mugraph.jit import ArgumentError, CudaKernel
from mugraph.passes.targets import default_targets
from mugraph.reading import make_context
from mugraph.runtime import toolchain
from mugraph.runtime.ahead_of_time import build
from mugraph.runtime.execute import DeviceError
from mugraph.runtime.library_sources import generate_sources

ROWS, INNER, COLUMNS = 16, 256, 192


def normed_linear() -> mi.KernelGraph:
    graph = mi.new_kernel_graph("normed_linear")
    x = graph.new_input((ROWS, INNER), name="x")
    w = graph.new_input((INNER, COLUMNS), name="w")
    block = mi.new_threadblock_graph((3, 1, 1), (128, 1, 1), 4)
    tile_x = block.new_input(x, (-1, -1, -1), 1)
    product = block.forloop_accum(block.matmul(tile_x, block.new_input(w, (1, -1, -1), 0)))
    block.new_output(block.div(product, block.forloop_accum(tile_x, "rms")), (1, -1, -1))
    graph.mark_output(*graph.customized([x, w], block, names=["y"]), strides=(COLUMNS, 1))
    return graph


def two_kernels() -> mi.KernelGraph:
    """exp(x)² / 2, through the workspace."""
    graph = mi.new_kernel_graph("two_kernels")
    x = graph.new_input((ROWS, INNER), name="x")
    graph.mark_output(graph.mul_scalar(graph.square(graph.exp(x)), 0.5), strides=(INNER, 1))
    return graph


@pytest.fixture(scope="module")
def torch(gpu_architecture: str) -> Any:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no PyTorch on this machine")
    import torch

    return torch


@pytest.fixture(scope="module")
def kernel(torch: Any) -> CudaKernel:
    compiled = mugraph.compile(normed_linear())
    assert isinstance(compiled, CudaKernel)
    return compiled


def tensors(torch: Any, seed: int = 0) -> tuple[Any, Any]:
    torch.manual_seed(seed)
    x = torch.randn(ROWS, INNER, dtype=torch.float16, device="cuda")
    return x, torch.randn(INNER, COLUMNS, dtype=torch.float16, device="cuda") / 16


def reference(torch: Any, x: Any, w: Any) -> Any:
    x, w = x.double(), w.double()
    return x @ w / x.square().mean(1, keepdim=True).sqrt()


def close(torch: Any, result: Any, expected: Any) -> bool:
    error = (result.double() - expected).abs().max() / expected.abs().max()
    return bool(error < 2e-3)


@pytest.mark.gpu
def test_torch_tensors_in_and_out(torch: Any, kernel: CudaKernel) -> None:
    x, w = tensors(torch)
    y = kernel(x, w)
    assert y.device == x.device and y.dtype == torch.float16 and y.shape == (ROWS, COLUMNS)
    assert close(torch, y, reference(torch, x, w))
    assert all(torch.equal(kernel(x, w), y) for _ in range(20))
    out = torch.full_like(y, float("nan"))
    assert kernel(x, w, out=out) is out and torch.equal(out, y)
    assert torch.equal(kernel(torch.nn.Parameter(x, requires_grad=False), w), y)


@pytest.mark.gpu
def test_any_array_with_dlpack(torch: Any, kernel: CudaKernel) -> None:
    class Wrapped:
        """An array of another library, as far as DLPack tells."""

        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    class Interface:
        """The same by __cuda_array_interface__."""

        def __init__(self, tensor: Any) -> None:
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    x, w = tensors(torch)
    expected = kernel(x, w)
    torch.cuda.synchronize()
    assert torch.equal(kernel(Wrapped(x), Wrapped(w)), expected)
    assert torch.equal(kernel(Interface(x), Wrapped(w)), expected)


WRONG: dict[str, tuple[Callable[[Any, Any, Any], tuple[Any, ...]], str]] = {
    "shape": (lambda torch, x, w: (x[:, :128].contiguous(), w), "input 0 ('x') has shape 16x128"),
    "type": (lambda torch, x, w: (x, w.float()), "input 1 ('w') has elements of type f32"),
    "strides": (lambda torch, x, w: (x, w.T.contiguous().T), "input 1 ('w') has strides (1, 256)"),
    "device": (lambda torch, x, w: (x, w.cpu()), "input 1 ('w') is in host memory"),
    "first device": (lambda torch, x, w: (x.cpu(), w), "input 0 ('x') is in host memory"),
    "alignment": (
        lambda torch, x, w: (torch.cat([x.flatten(), x[0]])[1:][: x.numel()].view(x.shape), w),
        "x is at",
    ),
    "count": (lambda torch, x, w: (x,), "takes 2 inputs, got 1"),
    "kind": (lambda torch, x, w: (x, [1, 2]), "input 1 ('w') is a list"),
    "host array": (lambda torch, x, w: (x, np.ones((INNER, COLUMNS), np.float16)), "host memory"),
}


@pytest.mark.gpu
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_argument_is_named(torch: Any, kernel: CudaKernel, what: str) -> None:
    make, message = WRONG[what]
    with pytest.raises(ArgumentError) as caught:
        kernel(*make(torch, *tensors(torch)))
    assert message in str(caught.value)
    # The process and the GPU are as well as before.
    x, w = tensors(torch)
    assert close(torch, kernel(x, w), reference(torch, x, w))


@pytest.mark.gpu
def test_a_freed_tensor_is_refused(torch: Any, kernel: CudaKernel) -> None:
    x, w = tensors(torch)
    w.untyped_storage().resize_(0)
    with pytest.raises(ArgumentError, match="w is NULL"):
        kernel(x, w)


@pytest.mark.gpu
@pytest.mark.parametrize("graph", [normed_linear, two_kernels])
def test_a_call_is_captured_in_a_cuda_graph(
    torch: Any, graph: Callable[[], mi.KernelGraph]
) -> None:
    kernel = mugraph.compile(graph())
    arguments = tensors(torch)[: len(kernel.interface.inputs)]
    expected = kernel(*arguments)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        result = kernel(*arguments)
    others = tensors(torch, seed=1)[: len(arguments)]
    for argument, other in zip(arguments, others, strict=True):
        argument.copy_(other)
    captured.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, kernel(*others)) and not torch.equal(result, expected)


def compile_ahead_of_time(arch: str, folder: Path) -> None:
    context = make_context()
    build(generate_sources(normed_linear().module(), context, [arch]), folder, "")


@pytest.mark.gpu
@pytest.mark.parametrize("is_native", [True, False])
def test_what_mg_compile_made_runs_without_nvcc(
    torch: Any,
    gpu_architecture: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_native: bool,
) -> None:
    """As a cubin, and as PTX of the oldest architecture."""
    arch = choose_architecture(gpu_architecture, list(default_targets())) if is_native else "sm_80"
    compile_ahead_of_time(arch, tmp_path)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    loaded = mugraph.load(tmp_path)
    x, w = tensors(torch)
    assert loaded.arch == arch and close(torch, loaded(x, w), reference(torch, x, w))


@pytest.mark.gpu
def test_code_of_another_architecture_is_refused(gpu_architecture: str, tmp_path: Path) -> None:
    other = next(arch for arch in ("sm_90a", "sm_100a") if arch != gpu_architecture)
    compile_ahead_of_time(other, tmp_path)
    with pytest.raises(DeviceError, match=rf"this was compiled for {other} \(\d+\.0 only\): "):
        mugraph.load(tmp_path)


@pytest.mark.gpu
def test_a_call_runs_on_the_current_stream(torch: Any, kernel: CudaKernel) -> None:
    x, w = tensors(torch)
    expected = kernel(x, w)
    stream = torch.cuda.Stream()
    late = torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # The input arrives long after the call is made; only this stream waits for it.
        torch.cuda._sleep(100_000_000)
        late.copy_(x)
        result = kernel(late, w)
    stream.synchronize()
    assert torch.equal(result, expected)


# torch.compile warns of what torch itself still uses.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.gpu
def test_an_operator_of_torch(torch: Any) -> None:
    import mugraph.torch
    from mugraph.errors import UserError

    operator = mugraph.torch.op(normed_linear(), "normed_linear_tested")
    x, w = tensors(torch)
    expected = reference(torch, x, w)
    assert operator is torch.ops.mugraph.normed_linear_tested
    assert close(torch, operator(x, w), expected)
    torch.library.opcheck(operator.default, (x, w), test_utils=("test_schema", "test_faketensor"))

    class Layer(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return torch.ops.mugraph.normed_linear_tested(x * 2, w) + 1

    compiled = torch.compile(Layer(), fullgraph=True)
    assert close(torch, compiled(x, w), expected + 1)
    exported = torch.export.export(Layer(), (x, w))
    assert close(torch, exported.module()(x, w), expected + 1)
    with pytest.raises(UserError, match="registered already"):
        mugraph.torch.op(normed_linear(), "normed_linear_tested")
