"""Linear layers whose weights are stored in few bits, as checkpoints and PyTorch have them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

NARROWEST = torch.float8_e4m3fn
"""The element type of ``fp8`` weights; a model that is computed in a wider type keeps them."""

GROUP = 128
"""Neighbours along k that share a scale, of weights of 4 bits; fewer where this divides no k."""

LOGITS = "lm_head"
"""The layer that checkpoints of few bits keep as it is."""


class Narrow(nn.Module):
    """A linear layer that has codes and scales in place of its weight, and multiplies them."""

    def __init__(self, codes: Tensor, scales: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales)
        self.register_buffer("bias", bias)

    def matrix(self) -> Tensor:
        """The weight (columns, k)."""
        return self.codes.to(self.scales.dtype) * self.scales

    def forward(self, x: Tensor) -> Tensor:
        """The product of rows x and the weight, and the bias."""
        return functional.linear(x, self.matrix(), self.bias)


class Bytes(Narrow):
    """Codes of 8 bits, with a scale for each column: ``w8a16``."""

    @classmethod
    def of(cls, linear: nn.Linear) -> Bytes:
        """A layer with the same weights, rounded."""
        weight = linear.weight
        scales = weight.abs().amax(1, keepdim=True).float() / 127
        codes = (weight / scales).round().to(torch.int8)
        return cls(codes, scales.to(weight.dtype), linear.bias)


class Halves(Narrow):
    """Codes of 4 bits, two in a byte, with a scale for each ``GROUP`` along k: ``w4a16``."""

    @classmethod
    def of(cls, linear: nn.Linear) -> Halves:
        """A layer with the same weights, rounded."""
        weight = linear.weight.unflatten(1, (-1, math.gcd(GROUP, linear.in_features)))
        scales = weight.abs().amax(2, keepdim=True).float() / 7
        codes = ((weight / scales).round() + 8).to(torch.uint8).flatten(1)
        packed = codes[:, 0::2] | codes[:, 1::2] << 4
        return cls(packed, scales.to(weight.dtype), linear.bias)

    def matrix(self) -> Tensor:
        """The weight (columns, k)."""
        codes = torch.stack([self.codes & 15, self.codes >> 4], -1).flatten(1).to(torch.int8) - 8
        groups = codes.unflatten(1, (self.scales.shape[1], -1)).to(self.scales.dtype)
        return (groups * self.scales).flatten(1)


class Eighths(Narrow):
    """Rows and columns in e4m3, a scale for each, and products of them: ``fp8``."""

    @classmethod
    def of(cls, linear: nn.Linear) -> Eighths:
        """A layer with the same weights, rounded."""
        codes, scales = _in_fp8(linear.weight)
        return cls(codes, scales, linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """The product of rows x, rounded to e4m3, and the weight; exact rows in a wide type."""
        if x.dtype not in (torch.bfloat16, torch.float16):
            return super().forward(x)
        rows, scales = _in_fp8(x.flatten(0, -2))
        product = torch._scaled_mm(
            rows, self.codes.t(), scales, self.scales.t(), self.bias, out_dtype=x.dtype
        )
        return product.unflatten(0, x.shape[:-1])


def _in_fp8(matrix: Tensor) -> tuple[Tensor, Tensor]:
    largest = torch.finfo(NARROWEST).max
    scales = matrix.abs().amax(1, keepdim=True).float().clamp(min=1e-12) / largest
    return (matrix.float() / scales).clamp(-largest, largest).to(NARROWEST), scales


FORMATS: dict[str, Any] = {"w4a16": Halves, "w8a16": Bytes, "fp8": Eighths}
"""By the names that ``--weights`` takes."""


def narrow(module: nn.Module, weights: str) -> None:
    """Puts layers of a format in place of all linear layers of a module but the logits'."""
    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, nn.Linear) and name != LOGITS:
                setattr(part, name, FORMATS[weights].of(child))
