"""Models of PyTorch on a GPU: extents that change from call to call, and measured reports."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
mugraph_torch: Any = import_module("mugraph.torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("gpu_architecture"),
]


class Layer(torch.nn.Module):
    """A norm, attention of heads of 64 and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.RMSNorm(256)
        self.qkv, self.out = torch.nn.Linear(256, 768), torch.nn.Linear(256, 256)
        self.up, self.down = torch.nn.Linear(256, 512), torch.nn.Linear(512, 256)

    def forward(self, x: Any) -> Any:
        """The next state of tokens (batch, tokens, 256)."""
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (part.view(batch, tokens, 4, 64).transpose(1, 2) for part in parts)
        heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


def layer() -> Any:
    torch.manual_seed(0)
    return Layer().eval().requires_grad_(False).to("cuda", torch.bfloat16)


@pytest.mark.parametrize(
    "dim, shapes",
    [(1, [(1, 5), (1, 16), (1, 17), (1, 300), (1, 1000)]), (0, [(3, 16), (2, 16), (40, 16)])],
)
def test_one_compilation_serves_all_values_of_a_symbol(
    dim: int, shapes: list[tuple[int, int]]
) -> None:
    module, graphs = layer(), list[Any]()

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return mugraph_torch.backend(graph, inputs)

    torch._dynamo.reset()
    made = torch.compile(module, backend=backend)
    with torch.no_grad():
        for shape in shapes:
            x = torch.randn(*shape, 256, device="cuda", dtype=torch.bfloat16)
            torch._dynamo.mark_dynamic(x, dim)
            exact = layer().double()(x.double())
            error, eager = (float((y - exact).norm()) for y in (made(x), module(x)))
            assert error <= 1.1 * eager
    assert len(graphs) == 1


def test_an_explained_model_has_measured_kernels() -> None:
    x = torch.randn(1, 16, 256, device="cuda", dtype=torch.bfloat16)
    report = mugraph_torch.explain(layer(), (x,))
    (island,) = report.islands
    assert island.measured and all(0 < each.nanoseconds < 1e6 for each in island.measured)
    assert " by estimate, " in str(report) and "as they ran:" in str(report)
