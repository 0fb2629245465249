"""Whole numbers of few bits as kernels read them: bytes of two numbers, or of one, along k."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from xdsl.dialects.builtin import f32

import mugraph.build as mi
from mugraph.build import DTensor
from mugraph.build.quantized import HALF
from mugraph.torch.aten.conversion import CONVERSIONS, Call
from mugraph.torch.bounds import Interval
from mugraph.torch.operator import define, import_torch

SCHEMA = "(Tensor bytes, int bits, int lowest) -> Tensor"
NAME = "stored_numbers"
NIBBLE, BYTE = 4, 8


@dataclass(frozen=True)
class Stored:
    """How whole numbers are stored: the bits of one, and what is added to these."""

    bits: int
    lowest: int

    @classmethod
    def of(cls, known: Interval, depth: int) -> Stored | None:
        """The fewest bits that rows of so many numbers between these bounds take."""
        span = known.last - known.first
        if span < 1 << NIBBLE and depth % (2 * HALF) == 0:
            return cls(NIBBLE, -8 if known.within(-8, 7) else known.first)
        if known.within(-128, 127):
            return cls(BYTE, -128)
        return cls(BYTE, known.first) if span < 1 << BYTE else None

    def bytes_of(self, numbers: Any) -> Any:
        """The bytes of rows of whole numbers, of int8."""
        torch = import_torch()
        if (self.bits, self.lowest) == (BYTE, -128):
            return numbers.to(torch.int8)
        codes = (numbers - self.lowest).to(torch.uint8)
        if self.bits == NIBBLE:
            rows, depth = codes.shape
            low, high = codes.reshape(rows, depth // (2 * HALF), 2, HALF).unbind(2)
            codes = (low | high << NIBBLE).reshape(rows, depth // 2)
        return codes.view(torch.int8)


@cache
def stored_numbers_operator() -> Any:
    """``torch.ops.mugraph.stored_numbers``: the rows of numbers in bytes, as fp32."""
    torch = import_torch()

    def run(stored: Any, bits: int, lowest: int) -> Any:
        if (bits, lowest) == (BYTE, -128):
            return stored.float()
        codes = stored.view(torch.uint8)
        if bits == NIBBLE:
            rows, half = codes.shape
            parts = [part.reshape(rows, half // HALF, HALF) for part in (codes & 15, codes >> 4)]
            codes = torch.stack(parts, 2).reshape(rows, 2 * half)
        return codes.float() + lowest

    def fake(stored: Any, bits: int, lowest: int) -> Any:
        del lowest
        rows, count = stored.shape
        return stored.new_empty((rows, count * BYTE // bits), dtype=torch.float32)

    return define(NAME, SCHEMA, run, fake)


@cache
def product_with_bias_operator() -> Any:
    """``torch.ops.mugraph.product_with_bias``: a product plus numbers of fp32, rounded once."""

    def run(x: Any, w: Any, bias: Any) -> Any:
        return (x.float() @ w.float() + bias).to(x.dtype)

    def fake(x: Any, w: Any, bias: Any) -> Any:
        del bias
        return x.new_empty((x.shape[0], w.shape[1]))

    return define("product_with_bias", "(Tensor x, Tensor w, Tensor bias) -> Tensor", run, fake)


def _product_with_bias(call: Call, x: DTensor, w: DTensor, bias: DTensor) -> DTensor:
    return CONVERSIONS["aten.addmm.default"](call, bias, x, w)


def _stored_numbers(call: Call, stored: DTensor, bits: int, lowest: int) -> DTensor:
    del call
    if (bits, lowest) == (BYTE, -128):
        return mi.cast(stored, f32)
    format = "uint4" if bits == NIBBLE else "uint8"
    numbers = mi.unpack(stored, format, 1, storage="halves")
    return numbers + float(lowest) if lowest else numbers


CONVERSIONS[f"mugraph.{NAME}.default"] = _stored_numbers
CONVERSIONS["mugraph.product_with_bias.default"] = _product_with_bias
