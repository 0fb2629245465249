"""Exports a step of generation: from a token to the most likely next one, with a static cache.

    python examples/cpp_generate/export.py decode.pt2                 # a small Llama, drawn weights
    python examples/cpp_generate/export.py decode.pt2 --model FOLDER  # a downloaded model

``mg-compile decode.pt2`` makes a library of it.  Weights have the names that the model's own files
have, so that the library also reads those.  With ``--expect N TOKEN ...`` it prints the tokens that
PyTorch generates.  It needs torch, transformers and, for mg-compile, safetensors.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "vocab_size": 211, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.2,
    },
    "1b": {
        "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
        "tie_word_embeddings": True,
    },
}  # fmt: skip


class Decode(torch.nn.Module):
    """A language model as a step: its cache and the number of tokens in it are buffers."""

    def __init__(self, model: Any, places: int) -> None:
        super().__init__()
        # The parts that Hugging Face's classes have, under the names of their files.
        self.model, self.lm_head = model.model, model.lm_head
        config = model.config
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        self.cache = StaticCache(config=config, max_cache_len=places)
        self.cache.early_initialization(
            1, config.num_key_value_heads, width, model.dtype, model.device
        )
        for at, layer in enumerate(self.cache.layers):
            for name in ("keys", "values", "cumulative_length"):
                tensor = getattr(layer, name)
                self.register_buffer(
                    f"cache.{at}.{name}".replace(".", "_"), tensor, persistent=False
                )

    def forward(self, token: Tensor) -> Tensor:
        """The next token (1, 1) behind a token (1, 1), which goes into the cache."""
        hidden = self.model(token, past_key_values=self.cache, use_cache=True).last_hidden_state
        return self.lm_head(hidden[:, -1:]).argmax(-1)

    def generate(self, prompt: Sequence[int], count: int) -> list[int]:
        """The tokens that PyTorch generates, from an empty cache."""
        self.cache.reset()
        device = self.lm_head.weight.device
        tokens: list[int] = []
        for given in (*prompt, *[None] * (count - 1)):
            token = torch.tensor([[tokens[-1] if given is None else given]], device=device)
            next_token = int(self(token))
            tokens = [*tokens, next_token] if given is None else [next_token]
        self.cache.reset()
        return tokens


def load(folder: Path | None, size: str, places: int, dtype: torch.dtype, device: str) -> Decode:
    """The step of a folder's model, or of a Llama of a size with drawn weights."""
    torch.manual_seed(0)
    if folder is None:
        config = transformers.LlamaConfig(**SIZES[size])
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    elif any(folder.glob("*.safetensors")):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    else:
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=dtype)
    return Decode(model.eval().requires_grad_(False).to(device), places).eval()


def export(step: Decode, path: Path) -> None:
    """Writes the step; its buffers are found by their names only with ``strict``."""
    token = torch.zeros(1, 1, dtype=torch.long, device=step.lm_head.weight.device)
    with torch.no_grad():
        torch.export.save(torch.export.export(step, (token,), strict=True), path)


def main(arguments: Sequence[str] | None = None) -> list[int]:
    """Runs the command; returns the tokens that PyTorch generates, where they are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, help="the file to write, decode.pt2")
    parser.add_argument("--model", type=Path, help="a folder with a configuration, and weights")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--places", type=int, default=64, help="of the cache (64)")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--expect", nargs="+", type=int, metavar="N", help="N TOKEN [TOKEN ...]")
    given = parser.parse_args(arguments)
    step = load(given.model, given.size, given.places, getattr(torch, given.dtype), given.device)
    expected: list[int] = []
    if given.expect:
        with torch.no_grad():
            expected = step.generate(given.expect[1:], given.expect[0])
        print(*expected)
    export(step, given.output)
    return expected


if __name__ == "__main__":
    main()
