"""``examples/chat_model``: PyTorch and mugraph generate the same tokens."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat_model" / "generate.py"


@pytest.mark.filterwarnings("ignore::UserWarning")
# What transformers 5.24 says of an argument that releases before it take.
@pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")
@pytest.mark.parametrize("more", [[], ["--temperature", "0.9", "--top-k", "7"]])
def test_tokens_are_those_of_pytorch(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The most likely ones, and drawn ones."""
    main = runpy.run_path(str(EXAMPLE))["main"]
    results = main(["--device", "cpu", "--dtype", "float32", "--size", "tiny", "--tokens", "6",
                    "--systems", "PyTorch", "mugraph", *more])  # fmt: skip
    assert torch.equal(results["PyTorch"], results["mugraph"])
    assert "6 of 6 tokens are PyTorch's" in capsys.readouterr().out


def test_steps_of_layers_whose_window_is_full_are_others() -> None:
    """Such steps are not captured once: a layer of 6 places slides where the cache takes 7."""
    transformers = pytest.importorskip("transformers")
    slides = runpy.run_path(str(EXAMPLE))["slides"]
    config = transformers.Gemma2Config(num_hidden_layers=2, sliding_window=6)
    caches = {n: transformers.StaticCache(config=config, max_cache_len=n) for n in (6, 7)}
    assert [slides(cache, n) for n, cache in caches.items()] == [False, True]
    whole = transformers.StaticCache(config=transformers.LlamaConfig(), max_cache_len=7)
    assert not slides(whole, 7)
