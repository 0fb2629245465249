"""The models: Hugging Face's from their configurations, and a diffusion transformer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    EncoderDecoderCache,
    StaticCache,
)

from benchmarks.models.narrow import NARROWEST, narrow

MOST_IN_FLOAT64 = 4 * 10**9
"""Weights of a model that is computed in float64; a GPU has no room for more."""


@dataclass(frozen=True)
class Case:
    """A module, and the tensors of one call."""

    module: Any
    inputs: tuple[Tensor, ...]

    def ready(self) -> Case:
        """Itself, with a cache of its prompt where it has one."""
        if isinstance(self.module, Step):
            self.module.fill()
        return self

    def rewind(self) -> None:
        """Forgets what a call has added to a cache."""
        if isinstance(self.module, Step):
            self.module.rewind()

    @property
    def bytes_read(self) -> int:
        """Of weights, but for tables of which rows are looked up, and of a step's cache."""
        parts = [*self.module.modules()]
        tables = {part.weight for part in parts if isinstance(part, nn.Embedding)}
        looked_up = tables - {part.weight for part in parts if isinstance(part, nn.Linear)}
        read = {*self.module.parameters(), *self.module.buffers()} - looked_up
        kept = self.module.rows if isinstance(self.module, Step) else ()
        return sum(each.numel() * each.element_size() for each in (*read, *kept))

    def wide(self, dtype: torch.dtype) -> Case:
        """The same weights and inputs in a wider type."""
        module = in_type(deepcopy(self.module), dtype)
        for part in module.modules():
            if hasattr(part, "set_experts_implementation"):
                # The grouped products of experts take no float64.
                part.set_experts_implementation("eager")
        return Case(module, moved(self.inputs, dtype))

    def exactly(self) -> Tensor:
        """The result in float64, also where the model asks for float32.

        In float32 where there are more than ``MOST_IN_FLOAT64`` weights.
        """
        weights = sum(each.numel() for each in self.module.parameters())
        if weights > MOST_IN_FLOAT64:
            wide, widened = self.wide(torch.float32), nullcontext()
        else:
            wide, widened = self.wide(torch.float64), Widened()
        with torch.no_grad(), widened:
            return wide.ready().module(*wide.inputs)


class Widened(TorchFunctionMode):
    """Takes float64 where float32 is asked for."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """The call with float64 among its arguments."""
        func = Tensor.double if func is Tensor.float else func
        wide = [torch.float64 if each is torch.float32 else each for each in args]
        options = (kwargs or {}).items()
        return func(
            *wide, **{name: torch.float64 if v is torch.float32 else v for name, v in options}
        )


def in_type(module: Any, dtype: torch.dtype) -> Any:
    """A module with its weights in a type; what it computes of its configuration stays fp32."""
    for each in module.state_dict(keep_vars=True).values():
        if each.is_floating_point() and each.dtype is not NARROWEST:
            each.data = each.data.to(dtype)
    return module


def hidden_layers(count: int) -> dict[str, Any]:
    """What most configurations call the number of layers."""
    return {"num_hidden_layers": count}


@dataclass(frozen=True)
class Model:
    """How a model is built: in a small size, which runs on a CPU in seconds, and in its own."""

    build: Callable[..., Case]
    small: Mapping[str, Any]
    full: Mapping[str, Any]
    depth: Callable[[int], Mapping[str, Any]] = hidden_layers
    """The settings of a number of layers; where there are two kinds, the last is of the rarer."""

    def case(
        self, *, small: bool, dtype: torch.dtype, device: str, seed: int = 0, batch: int = 1,
        weights: str = "", layers: int = 0,
    ) -> Case:  # fmt: skip
        """The model with seeded weights, for inference, and inputs of a type.

        ``batch`` sequences or images are a call's.  ``weights`` names a format of ``FORMATS`` in
        which the matrices of linear layers are stored, but for those that make logits.  ``layers``
        is their number, where it is not 0; an encoder and a decoder have as many each.
        """
        settings = {
            **(self.small if small else self.full),
            **(self.depth(layers) if layers else {}),
        }
        torch.manual_seed(seed)
        with torch.no_grad(), torch.device(device):
            case = self.build(batch=batch, **settings)
            for name, weight in case.module.named_parameters():
                if "norm" in name.lower() or name.endswith("bias"):
                    weight.add_(torch.randn_like(weight) * 0.1)
        module = in_type(case.module.eval().requires_grad_(False), dtype)
        if weights:
            narrow(module, weights)
        return Case(module, moved(case.inputs, dtype)).ready()


def moved(inputs: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Tensors in a type, but for integers."""
    return tuple(each.to(dtype) if each.is_floating_point() else each for each in inputs)


class Diffusion(nn.Module):
    """A small diffusion transformer: patches, a time, blocks whose norms the time modulates."""

    def __init__(self, width: int, heads: int, layers: int, channels: int, patch: int) -> None:
        super().__init__()
        self.width, self.patch = width, patch
        self.embed = nn.Conv2d(channels, width, patch, patch)
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.blocks = nn.ModuleList(DiffusionBlock(width, heads) for _ in range(layers))
        self.final = nn.Linear(width, channels * patch * patch)

    def forward(self, image: Tensor, time: Tensor) -> Tensor:
        """The noise of images (batch, channels, height, width) at times (batch)."""
        batch, channels, height, wide = image.shape
        x = self.embed(image).flatten(2).transpose(1, 2)
        steps = torch.arange(self.width // 2, device=image.device, dtype=torch.float32)
        angles = time[:, None].float() * torch.exp(steps * (-9.2 / len(steps)))
        waves = torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype)
        condition = self.time(waves)
        for block in self.blocks:
            x = block(x, condition)
        x = self.final(functional.layer_norm(x, (self.width,)))
        rows, columns = height // self.patch, wide // self.patch
        x = x.view(batch, rows, columns, channels, self.patch, self.patch)
        return x.permute(0, 3, 1, 4, 2, 5).reshape(batch, channels, height, wide)


class DiffusionBlock(nn.Module):
    """Attention and a perceptron behind norms that a condition shifts, scales and gates."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.modulation = nn.Linear(width, 6 * width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """The next state of tokens (batch, tokens, width)."""
        parts = self.modulation(functional.silu(condition))[:, None].chunk(6, -1)
        shape = x.shape[-1:]
        y = functional.layer_norm(x, shape) * (1 + parts[0]) + parts[1]
        q, k, v = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for each in self.qkv(y).chunk(3, -1))  # fmt: skip
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + parts[2] * self.out(y)
        y = functional.layer_norm(x, shape) * (1 + parts[3]) + parts[4]
        return x + parts[5] * self.down(functional.gelu(self.up(y), approximate="tanh"))


class Called(nn.Module):
    """A model of transformers as a function of tensors: its logits, or its last hidden state."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        """What the model gives for its named inputs."""
        output = self.model(**dict(zip(self.names, inputs, strict=True)))
        return next(
            getattr(output, name)
            for name in ("logits", "last_hidden_state")
            if getattr(output, name, None) is not None
        )


class Step(nn.Module):
    """The logits of one more token behind a prompt, with a cache of a fixed number of places.

    ``fill`` makes the cache of the prompt, and ``rewind`` forgets what was added to it.
    """

    def __init__(self, model: Any, places: int, prompt: Tensor, encoded: Tensor | None) -> None:
        super().__init__()
        self.model, self.places = model, places
        self.register_buffer("prompt", prompt)
        self.register_buffer("encoded", encoded)
        self.cache: Any = None
        self.kept: list[tuple[Any, dict[str, Any]]] = []

    def fill(self) -> None:
        """Makes the cache, in the model's present type."""
        config = self.model.config.get_text_config(decoder=True)
        self.cache = StaticCache(config=config, max_cache_len=self.places)
        own = self.cache
        if self.encoded is not None:
            others = StaticCache(config=config, max_cache_len=self.encoded.shape[1])
            self.cache = EncoderDecoderCache(self.cache, others)
        with torch.no_grad():
            self.forward(self.prompt)
        self.kept = [(layer, _copied(layer)) for layer in own.layers]

    @property
    def rows(self) -> list[Tensor]:
        """What the cache has of the prompt: keys and values of each layer, or of its window."""
        length = self.prompt.shape[1]
        return [
            each[..., :length, :] for layer, _ in self.kept for each in (layer.keys, layer.values)
        ]

    def rewind(self) -> None:
        """The cache as it was behind the prompt, in the same tensors, but for what a step writes
        again."""
        pairs: list[tuple[Tensor, Tensor]] = []
        for layer, before in self.kept:
            for name, value in before.items():
                if isinstance(value, Tensor):
                    pairs.append((getattr(layer, name), value))
                else:
                    setattr(layer, name, value)
        torch._foreach_copy_(*map(list, zip(*pairs, strict=True)))

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits of new tokens (batch, new)."""
        if self.encoded is None:
            given: dict[str, Any] = {"input_ids": tokens}
        else:
            given = {"decoder_input_ids": tokens, "encoder_outputs": (self.encoded,)}
        return self.model(**given, past_key_values=self.cache, use_cache=True).logits


def _copied(layer: Any) -> dict[str, Any]:
    """The state of a layer's cache that a step changes; keys and values where it moves them."""
    state = vars(layer) if layer.is_sliding else {"cumulative_length": layer.cumulative_length}
    return {
        name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()
    }


def tokens_of(vocabulary: int, batch: int, count: int) -> Tensor:
    """Drawn tokens (batch, count)."""
    return torch.randint(3, vocabulary, (batch, count))


def language_model(kind: str, batch: int, length: int, places: int = 0, **settings: Any) -> Case:
    """Logits of a prompt, or, with places in a cache, of one token behind it."""
    config = getattr(transformers, f"{kind}Config")(**settings)
    model = AutoModelForCausalLM.from_config(config)
    prompt = tokens_of(config.vocab_size, batch, length)
    if not places:
        return Case(Called(model, "input_ids"), (prompt,))
    return Case(Step(model, places, prompt, None), (tokens_of(config.vocab_size, batch, 1),))


def encoder(kind: str, batch: int, length: int, **settings: Any) -> Case:
    """The last hidden state of tokens."""
    config = getattr(transformers, f"{kind}Config")(**settings)
    tokens = tokens_of(config.vocab_size, batch, length)
    return Case(Called(AutoModel.from_config(config), "input_ids"), (tokens,))


def image_of(config: Any, batch: int) -> Tensor:
    """Drawn images (batch, channels, height, width)."""
    return torch.randn(batch, config.num_channels, config.image_size, config.image_size)


def image_encoder(kind: str, batch: int, **settings: Any) -> Case:
    """The last hidden state of images."""
    config = getattr(transformers, f"{kind}Config")(**settings)
    return Case(Called(AutoModel.from_config(config), "pixel_values"), (image_of(config, batch),))


def segment_anything(batch: int, **settings: Any) -> Case:
    """What SAM's encoder makes of images; its relative positions are drawn, too."""
    # Its own range, 1e-10, is for weights that are loaded: with it results depend on no input.
    config = transformers.SamVisionConfig(**{"initializer_range": 0.02, **settings})
    model = transformers.SamVisionModel(config)
    for name, weight in model.named_parameters():
        if "rel_pos" in name or "pos_embed" in name:
            weight.normal_(std=0.2)
    return Case(Called(model, "pixel_values"), (image_of(config, batch),))


def speech(batch: int, length: int, places: int = 0, **settings: Any) -> Case:
    """Logits of Whisper's decoder: of sound and tokens, or, with a cache, of one more token."""
    config = transformers.WhisperConfig(**settings)
    model = transformers.WhisperForConditionalGeneration(config)
    tokens = tokens_of(config.vocab_size, batch, length)
    sound = torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions)
    if not places:
        return Case(Called(model, "input_features", "decoder_input_ids"), (sound, tokens))
    encoded = torch.randn(batch, config.max_source_positions, config.d_model)
    return Case(Step(model, places, tokens, encoded), (tokens_of(config.vocab_size, batch, 1),))


def sequence_to_sequence(batch: int, length: int, places: int = 0, **settings: Any) -> Case:
    """Logits of T5's decoder: of two texts, or, with a cache, of one more token."""
    config = transformers.T5Config(**settings)
    model = transformers.T5ForConditionalGeneration(config)
    tokens = tokens_of(config.vocab_size, batch, length)
    if not places:
        read = tokens_of(config.vocab_size, batch, length + 5)
        return Case(Called(model, "input_ids", "decoder_input_ids"), (read, tokens))
    encoded = torch.randn(batch, length + 5, config.d_model)
    return Case(Step(model, places, tokens, encoded), (tokens_of(config.vocab_size, batch, 1),))


def diffusion(batch: int, size: int, channels: int, **settings: int) -> Case:
    """The noise of images."""
    module = Diffusion(channels=channels, **settings)
    return Case(module, (torch.randn(batch, channels, size, size), torch.full((batch,), 500.0)))


# Weights of small models are as large as gives scores of about 1, so that attention is not a mean.
_SMALL = {"vocab_size": 211, "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.1}  # fmt: skip
_LLAMA_ROTATION = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
}  # fmt: skip


def _sizes(vocabulary: int, width: int, inner: int, layers: int, heads: int, groups: int):
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
             "num_attention_heads", "num_key_value_heads")  # fmt: skip
    return dict(zip(names, (vocabulary, width, inner, layers, heads, groups), strict=True))


def _generating(
    name: str, build: Callable[..., Case], small: Mapping[str, Any], full: Mapping[str, Any],
    length: int = 512, places: int = 1088,
    depth: Callable[[int], Mapping[str, Any]] = hidden_layers,
) -> dict[str, Model]:  # fmt: skip
    """A model on a prompt, and its step with a cache."""
    return {
        name: Model(build, {**small, "length": 13}, {**full, "length": length}, depth),
        f"{name}-step": Model(build, {**small, "length": 13, "places": 24},
                              {**full, "length": min(1024, 2 * length), "places": places}, depth),
    }  # fmt: skip


def _decoder(kind: str, small: Mapping[str, Any], full: Mapping[str, Any]) -> dict[str, Any]:
    return {"build": partial(language_model, kind), "small": {**_SMALL, **small}, "full": full}


MODELS: dict[str, Model] = {
    **_generating("llama", **_decoder(
        "Llama", {"max_position_embeddings": 131072, "rope_parameters": _LLAMA_ROTATION,
                  "tie_word_embeddings": True},
        {**_sizes(128256, 2048, 8192, 16, 32, 8), "head_dim": 64, "tie_word_embeddings": True,
         "max_position_embeddings": 131072, "rope_parameters": _LLAMA_ROTATION})),
    **_generating("qwen3", **_decoder(
        "Qwen3", {"head_dim": 32},
        {**_sizes(151936, 2048, 6144, 28, 16, 8), "head_dim": 128, "tie_word_embeddings": True})),
    **_generating("qwen3-8b", **_decoder(
        "Qwen3", {"head_dim": 32, "num_key_value_heads": 1},
        {**_sizes(151936, 4096, 12288, 36, 32, 8), "head_dim": 128})),
    **_generating("gemma3", **_decoder(
        "Gemma3Text", {"head_dim": 16, "sliding_window": 6,
                       "layer_types": ["sliding_attention", "full_attention"]},
        {**_sizes(262144, 1152, 6912, 26, 4, 1), "head_dim": 256, "sliding_window": 512}),
        depth=lambda count: {
            "num_hidden_layers": count,
            "layer_types": [*["sliding_attention"] * (count - 1), "full_attention"]}),
    **_generating("mistral", **_decoder(
        "Mistral", {"sliding_window": 8},
        {**_sizes(32768, 4096, 14336, 32, 32, 8), "sliding_window": None})),
    **_generating("phi4", **_decoder(
        "Phi3", {"pad_token_id": 0, "partial_rotary_factor": 0.5},
        {**_sizes(200064, 3072, 8192, 32, 24, 8), "partial_rotary_factor": 0.75,
         "pad_token_id": 0, "tie_word_embeddings": True})),
    **_generating("gpt2", partial(language_model, "GPT2"),
                  {"vocab_size": 211, "n_embd": 64, "n_layer": 2, "n_head": 4,
                   "initializer_range": 0.1}, {}, 448, 1024,
                  lambda count: {"n_layer": count}),
    **_generating("mixtral", **_decoder(
        "Mixtral", {"num_local_experts": 4, "experts_implementation": "batched_mm"},
        {**_sizes(32000, 1024, 3584, 8, 16, 4), "num_local_experts": 8})),
    "bert": Model(
        partial(encoder, "Bert"),
        {"length": 13, "vocab_size": 211, "hidden_size": 64, "intermediate_size": 112,
         "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.1},
        {"length": 512}),
    "vit": Model(
        partial(image_encoder, "ViT"),
        {"image_size": 32, "patch_size": 8, "hidden_size": 64, "intermediate_size": 112,
         "num_hidden_layers": 2, "num_attention_heads": 4, "initializer_range": 0.1},
        {}),
    **_generating(
        "whisper", speech,
        {"vocab_size": 211, "d_model": 64, "encoder_layers": 2, "decoder_layers": 2,
         "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 112,
         "decoder_ffn_dim": 112, "num_mel_bins": 16, "max_source_positions": 20,
         "max_target_positions": 40, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
         "decoder_start_token_id": 1, "init_std": 0.1},
        {"d_model": 768, "encoder_layers": 12, "decoder_layers": 12, "encoder_ffn_dim": 3072,
         "decoder_ffn_dim": 3072, "encoder_attention_heads": 12, "decoder_attention_heads": 12},
        128, 448, lambda count: {"encoder_layers": count, "decoder_layers": count}),
    **_generating(
        "t5", sequence_to_sequence,
        {"vocab_size": 211, "d_model": 64, "d_kv": 16, "d_ff": 112, "num_layers": 2,
         "num_heads": 4},
        {}, depth=lambda count: {"num_layers": count}),
    "sam": Model(
        segment_anything,
        {"image_size": 64, "patch_size": 8, "hidden_size": 64, "mlp_dim": 112, "window_size": 3,
         "num_hidden_layers": 2, "num_attention_heads": 4, "global_attn_indexes": [1],
         "output_channels": 32, "initializer_range": 0.1},
        {}, lambda count: {"num_hidden_layers": count, "global_attn_indexes": [count - 1]}),
    "diffusion": Model(
        diffusion,
        {"size": 8, "channels": 4, "width": 64, "heads": 4, "layers": 2, "patch": 2},
        {"size": 32, "channels": 4, "width": 768, "heads": 12, "layers": 12, "patch": 2},
        lambda count: {"layers": count}),
}  # fmt: skip
"""By name; those whose names end in ``-step`` are a step of generation with a cache."""
