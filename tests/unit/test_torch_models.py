"""Whole models on a CPU, in their smallest sizes: right, and whole programs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from thorough import THOROUGH

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
measure: Any = import_module("benchmarks.models.run").measure
MODELS: dict[str, Any] = import_module("benchmarks.models.zoo").MODELS

pytestmark = [
    # torch's own and those of transformers, of their versions and the interpreter's.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

USUAL = ("llama-step", "bert", "diffusion")
"""What every run takes; the others are for ``MUGRAPH_THOROUGH=1``."""

WITHOUT_A_STEP = [name for name in MODELS if not name.endswith("-step")]

IN_PLACE = "aten.index_put"
"""What stays in torch of a step: elements are put into its cache."""


@pytest.mark.parametrize("name", MODELS if THOROUGH else USUAL)
def test_a_model_is_right_and_one_program(name: str) -> None:
    seeds = range(4 if THOROUGH else 1)
    record = measure(name, device="cpu", small=True, dtype="bfloat16", seeds=seeds)
    assert record.right, f"error {record.error:.2e}, eager's {record.eager_error:.2e}"
    if name.endswith("-step"):
        assert all(what.startswith(IN_PLACE) for what in record.stayed)
    else:
        assert record.islands == 1 and not record.stayed


@pytest.mark.parametrize("name", WITHOUT_A_STEP if THOROUGH else ("sam",))
def test_results_depend_on_inputs(name: str) -> None:
    """Else errors say nothing: SAM's own range of weights, 1e-10, makes results of biases alone."""
    torch: Any = import_module("torch")
    case = MODELS[name].case(small=True, dtype=torch.float32, device="cpu")
    with torch.no_grad():
        result = case.module(*case.inputs)
        other = case.module(*(each.flip(-1) for each in case.inputs))
    assert (result - other).norm() > 0.1 * result.norm()


def test_the_floor_of_a_step_counts_stored_weights_and_the_cache_of_its_prompt() -> None:
    """Two layers of width 64, in 8 bits with an f32 for each column; the embedding is looked up."""
    torch: Any = import_module("torch")
    columns, in_layers = 2 * 544, 2 * 41984
    logits, norms, cache, positions = 211 * 64, 2 * 192 + 64, 2 * 2 * 13 * 32, 13 * 8 + 2 * 16 * 4

    def read(weights: str) -> int:
        return (
            MODELS["qwen3-8b-step"]
            .case(small=True, dtype=torch.bfloat16, device="cpu", weights=weights)
            .bytes_read
        )

    others = 2 * (logits + norms + cache) + positions
    assert read("") == 2 * in_layers + others
    assert read("fp8") == in_layers + 4 * columns + others


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_routers_and_grouped_experts_are_one_program(dtype: str) -> None:
    """As transformers writes them for compilers; fp32 has an operator of its own for products."""
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    backend: Any = import_module("mugraph.torch")
    torch.manual_seed(0)
    config = transformers.MixtralConfig(
        hidden_size=32, intermediate_size=48, num_local_experts=4, num_attention_heads=2,
        num_key_value_heads=1, num_hidden_layers=1, vocab_size=61, initializer_range=0.2,
        experts_implementation="grouped_mm",
    )  # fmt: skip
    model = transformers.MixtralModel(config).layers[0].mlp.eval().requires_grad_(False)
    model, x = model.to(getattr(torch, dtype)), torch.randn(1, 9, 32).to(getattr(torch, dtype))
    report = backend.Report()
    torch._dynamo.reset()

    def compiler(graph: Any, inputs: Any) -> Any:
        return backend.backend(graph, inputs, report=report)

    with torch.no_grad():
        ours, eager = torch.compile(model, backend=compiler)(x), model(x)
    assert (ours - eager).norm() < (1e-6 if dtype == "float32" else 0.02) * eager.norm()
    assert not report.stayed and len(report.islands) == 1, str(report)
