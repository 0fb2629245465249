"""Sizes of public models, as their published configurations have them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    """What a drawn layer takes from a model."""

    name: str
    hidden: int
    heads: int
    key_heads: int
    """Of keys and values; fewer than ``heads`` where these share them."""
    depth: int
    """Of a head's queries and keys."""
    inner: int
    """The width between the two products of an MLP; of one expert where there are several."""
    vocabulary: int = 0
    """Columns of the last softmax; 0 where there is none."""
    tokens: int = 0
    """Rows of an input whose number is fixed, as of an image's patches; 0 where it is not."""
    value_depth: int | None = None
    """Of a head's values, where it is another than that of its keys."""
    low_rank: int = 0
    """Width of a projection through few columns that the model itself has; 0 where none."""
    gated: bool = True
    """Whether its MLP has a gate; with one norms are RMS norms, without layer norms."""
    causal: bool = True
    """Whether a token sees only those before it."""

    def linear_layers(self) -> dict[str, tuple[int, int]]:
        """Columns of the input and of the result of each layer."""
        values = self.value_depth or self.depth
        projected = self.heads * self.depth + self.key_heads * (self.depth + values)
        return {
            "qkv": (self.hidden, projected),
            "attention output": (self.heads * values, self.hidden),
            "up": (self.hidden, self.inner),
            "down": (self.inner, self.hidden),
        }


MODELS: tuple[Model, ...] = (
    Model("Llama 3 8B", 4096, 32, 8, 128, 14336, 128256),
    Model("Llama 3 70B", 8192, 64, 8, 128, 28672, 128256),
    Model("Llama 3.2 1B", 2048, 32, 8, 64, 8192, 128256),
    Model("Llama 3.2 3B", 3072, 24, 8, 128, 8192, 128256),
    Model("Qwen2.5 0.5B", 896, 14, 2, 64, 4864, 151936),
    Model("Qwen2.5 7B", 3584, 28, 4, 128, 18944, 152064),
    Model("Qwen2.5 32B", 5120, 40, 8, 128, 27648, 152064),
    Model("Qwen3 0.6B", 1024, 16, 8, 128, 3072, 151936),
    Model("Qwen3 8B", 4096, 32, 8, 128, 12288, 151936),
    Model("Qwen3 32B", 5120, 64, 8, 128, 25600, 151936),
    Model("Gemma 2 2B", 2304, 8, 4, 256, 9216, 256000),
    Model("Gemma 2 9B", 3584, 16, 8, 256, 14336, 256000),
    Model("Gemma 3 1B", 1152, 4, 1, 256, 6912, 262144),
    Model("Mistral 7B", 4096, 32, 8, 128, 14336, 32768),
    Model("Mixtral 8x7B", 4096, 32, 8, 128, 14336, 32000),
    Model("Phi 3 mini", 3072, 32, 32, 96, 8192, 32064),
    Model("Phi 4", 5120, 40, 10, 128, 17920, 100352),
    Model("DeepSeek V2 Lite", 2048, 16, 16, 192, 1408, 102400, value_depth=128, low_rank=512),
    Model("GPT-2", 768, 12, 12, 64, 3072, 50257, gated=False),
    Model("GPT-2 XL", 1600, 25, 25, 64, 6400, 50257, gated=False),
    Model("BERT base", 768, 12, 12, 64, 3072, 30522, gated=False, causal=False),
    Model("BERT large", 1024, 16, 16, 64, 4096, 30522, gated=False, causal=False),
    Model("ViT-B/16", 768, 12, 12, 64, 3072, tokens=197, gated=False, causal=False),
    Model("ViT-H/14", 1280, 16, 16, 80, 5120, tokens=257, gated=False, causal=False),
    Model("Whisper small", 768, 12, 12, 64, 3072, 51865, tokens=1500, gated=False, causal=False),
    Model("Whisper large", 1280, 20, 20, 64, 5120, 51866, tokens=1500, gated=False, causal=False),
    Model("DiT-XL/2", 1152, 16, 16, 72, 4608, tokens=256, gated=False, causal=False),
    Model("SAM ViT-H", 1280, 16, 16, 80, 5120, tokens=4096, gated=False, causal=False),
)
