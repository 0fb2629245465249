"""Generates tokens with a language model: by PyTorch, by ``torch.compile``, and by mugraph.

    python examples/chat_model/generate.py                      # a small model, on a CPU
    python examples/chat_model/generate.py --model FOLDER       # a downloaded Hugging Face model
    python examples/chat_model/generate.py --size 1b --tokens 256
    python examples/chat_model/generate.py --temperature 0.8 --top-k 50

``FOLDER`` has a model's configuration, and its weights if they are there; else weights are drawn.
Without a folder it is a Llama with drawn weights, of the size of Llama-3.2-1B on a GPU.  Each
system gets the same prompt and a static cache, and takes the most likely token at each step, or
draws one of the most likely ones, with the same random numbers.  It compiles the choice with the
model; on a GPU a step is one CUDA graph.  Printed are tokens a second, the floor (every weight and
the cache read once from device memory), how many tokens are those of PyTorch, and the largest
difference of logits up to there.  It needs torch and transformers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

from mugraph.passes.targets import target_named
from mugraph.runtime.toolchain import device_architecture

SIZES: dict[str, dict[str, int]] = {
    "tiny": {
        "vocab_size": 211, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2,
    },
    "1b": {
        "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    },
}  # fmt: skip

EAGER = "PyTorch"
"""The system that others are compared with."""


def load_model(folder: Path | None, size: str, dtype: torch.dtype, device: str) -> Any:
    """The model of a folder, or a Llama of a size, with its weights or drawn ones."""
    torch.manual_seed(0)
    if folder is not None and any(folder.glob("*.safetensors")):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    elif folder is not None:
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=dtype)
    else:
        config = transformers.LlamaConfig(**SIZES[size], tie_word_embeddings=True)
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    return model.eval().requires_grad_(False).to(device)


@dataclass
class Sampling:
    """How the next token is chosen: the most likely one at temperature 0."""

    temperature: float
    noise: Tensor
    """Numbers between 0 and 1 (steps, candidates), a row a step."""
    at: Tensor
    """The row of this step (1)."""

    def choose(self, logits: Tensor) -> Tensor:
        """The next token (1, 1) by the logits (1, vocabulary).

        The largest logit with Gumbel noise is drawn with the probabilities of a softmax.
        """
        if self.temperature == 0:
            return logits.argmax(-1, keepdim=True)
        likely, tokens = logits.float().topk(self.noise.shape[1])
        noise = self.noise.index_select(0, self.at)
        drawn = (likely / self.temperature - (-noise.log()).log()).argmax(-1, keepdim=True)
        self.at.add_(1)
        return tokens.gather(-1, drawn)


def new_sampling(model: Any, temperature: float, candidates: int, places: int) -> Sampling:
    """The same random numbers for each system."""
    random = torch.Generator().manual_seed(1)
    least = torch.finfo(torch.float32).tiny
    noise = torch.rand(places, candidates, generator=random).clamp(least, 1 - 2**-24)
    at = torch.zeros(1, dtype=torch.long, device=model.device)
    return Sampling(temperature, noise.to(model.device), at)


@dataclass
class Generator:
    """Generation by one system, with a static cache."""

    model: Any
    compiled: Callable[..., Tensor]
    """A step as the system compiles it: from a token to logits, the next token in its place."""
    cache: StaticCache
    places: int
    """How many tokens the cache takes."""
    sampling: Sampling
    token: Tensor
    """The next token (1, 1), where it lies in every step."""
    graph: Any = None
    logits: Any = None

    def read(self, prompt: Tensor) -> None:
        """Fills an empty cache with a prompt (1, length), by PyTorch."""
        self.cache.reset()
        self.sampling.at.zero_()
        logits = self.model(prompt, past_key_values=self.cache, use_cache=True).logits
        self.token.copy_(self.sampling.choose(logits[:, -1]))

    def step(self) -> None:
        """The logits of the next token, and the one that is chosen by them."""
        self.logits = self.compiled(self.token)

    def prepare(self, prompt: Tensor) -> float:
        """Compiles a step, and captures it on a GPU; returns the seconds that it took."""
        self.read(prompt)
        start = perf_counter()
        for _ in range(3):
            self.step()
        if prompt.is_cuda and not slides(self.cache, self.places):
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.step()
            torch.cuda.synchronize()
        return perf_counter() - start

    def generate(self, prompt: Tensor, count: int) -> tuple[Tensor, Tensor, float]:
        """Tokens (count), the logits (count, vocabulary) of each, and the seconds of all steps.

        Raises ``ValueError`` where the cache has no room for them.
        """
        if prompt.shape[1] + count > self.places:
            raise ValueError(
                f"the cache has {self.places} places; a prompt of {prompt.shape[1]} tokens and "
                f"{count} more need {prompt.shape[1] + count}: make it larger"
            )
        self.read(prompt)
        run = self.step if self.graph is None else self.graph.replay
        tokens, logits = [], []
        if prompt.is_cuda:
            torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(count):
            run()
            tokens.append(self.token.clone())
            logits.append(self.logits[0, -1].clone())
        if prompt.is_cuda:
            torch.cuda.synchronize()
        seconds = perf_counter() - start
        return torch.cat(tokens).flatten(), torch.stack(logits), seconds


def slides(cache: StaticCache, places: int) -> bool:
    """Whether a layer keeps fewer tokens than the cache takes.

    Transformers counts them in Python, and steps differ when they are full: a captured graph would
    always be the same step.
    """
    return any(layer.is_sliding and layer.max_cache_len < places for layer in cache.layers)


def new_generator(model: Any, system: str, places: int, sampling: Sampling) -> Generator:
    """A generator by a system, with room for so many tokens."""
    cache = StaticCache(config=model.config.get_text_config(decoder=True), max_cache_len=places)

    def forward(token: Tensor) -> Tensor:
        logits = model(token, past_key_values=cache, use_cache=True).logits
        token.copy_(sampling.choose(logits[:, -1]))
        return logits

    compiled: Callable[..., Tensor] = forward
    if system != EAGER:
        backend = "mugraph" if system == "mugraph" else "inductor"
        # Windows count tokens in Python: as a symbol, or each step is compiled again.
        dynamic = None if any(layer.is_sliding for layer in cache.layers) else False
        compiled = torch.compile(forward, backend=backend, dynamic=dynamic)
    token = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    return Generator(model, compiled, cache, places, sampling, token)


def floor_seconds(model: Any, cache: StaticCache) -> float | None:
    """Seconds of a step at least: all weights and the cache read once; ``None`` on a CPU."""
    arch = device_architecture() if model.device.type == "cuda" else None
    if arch is None:
        return None
    output = model.get_output_embeddings().weight
    looked_up = model.get_input_embeddings().weight
    read = [each for each in model.parameters() if each is not looked_up or each is output]
    kept = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]
    total = sum(each.numel() * each.element_size() for each in (*read, *kept))
    return total / target_named(arch).memory_bytes_per_ns * 1e-9


def report(
    model: Any,
    systems: Sequence[str],
    prompt: Tensor,
    count: int,
    temperature: float = 0.0,
    candidates: int = 1,
) -> dict[str, Tensor]:
    """Prints a line a system; returns the tokens of each."""
    results: dict[str, Tensor] = {}
    expected: tuple[Tensor, Tensor] | None = None
    for system in systems:
        torch.compiler.reset()
        places = prompt.shape[1] + count + 4
        sampling = new_sampling(model, temperature, candidates, places)
        generator = new_generator(model, system, places, sampling)
        compiling = generator.prepare(prompt)
        tokens, logits, seconds = generator.generate(prompt, count)
        results[system] = tokens
        line = f"{system}: {count / seconds:.1f} tokens/s, {seconds / count * 1e6:.0f} µs a token"
        if system == EAGER:
            expected = tokens, logits
            floor = floor_seconds(model, generator.cache)
            if floor is not None:
                print(f"floor: {1 / floor:.1f} tokens/s, {floor * 1e6:.0f} µs a token")
        else:
            line += f", compiled in {compiling:.1f} s"
        if expected is not None and system != EAGER:
            same = (tokens == expected[0]).int().cumprod(0).sum().item()
            # Up to the first token that differs both have read the same.
            upto = min(int(same) + 1, count)
            apart = (logits[:upto].float() - expected[1][:upto].float()).abs().max().item()
            line += f", {same} of {count} tokens are PyTorch's, logits at most {apart:.2e} apart"
        print(line, flush=True)
    return results


def main(arguments: Sequence[str] | None = None) -> dict[str, Tensor]:
    """Runs the command; returns the tokens of each system."""
    on_gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, help="a folder with a configuration, and weights")
    parser.add_argument("--size", choices=SIZES, default="1b" if on_gpu else "tiny")
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    parser.add_argument("--dtype", default="bfloat16" if on_gpu else "float32")
    parser.add_argument("--prompt", help="text, for a model with a tokenizer in its folder")
    parser.add_argument("--prompt-tokens", type=int, default=32, help="how many are drawn (32)")
    parser.add_argument("--tokens", type=int, default=256 if on_gpu else 8)
    parser.add_argument(
        "--temperature", type=float, default=0.0, help="draws tokens; 0, the default, does not"
    )
    parser.add_argument("--top-k", type=int, default=50, help="of so many likely ones (50)")
    parser.add_argument("--systems", nargs="+", default=[EAGER, "torch.compile", "mugraph"])
    given = parser.parse_args(arguments)
    with torch.no_grad():
        model = load_model(given.model, given.size, getattr(torch, given.dtype), given.device)
        tokenizer = None
        if given.prompt is not None:
            tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
            prompt = tokenizer(given.prompt, return_tensors="pt").input_ids
        else:
            prompt = torch.randint(3, model.config.vocab_size, (1, given.prompt_tokens))
        prompt = prompt.to(given.device)
        results = report(model, given.systems, prompt, given.tokens, given.temperature, given.top_k)
    if tokenizer is not None:
        print(tokenizer.decode(next(reversed(results.values()))))
    return results


if __name__ == "__main__":
    main()
