"""Torch's own products with weights of 4 bits, whose order in memory is that of its kernels."""

from __future__ import annotations

from functools import cache
from typing import Any

from mugraph.torch.decompositions.table import decomposes
from mugraph.torch.operator import define, import_torch

SCHEMA = "(Tensor packed, int depth, int columns, int group) -> Tensor"
ROWS = 1024
"""Rows of the identity that are multiplied at once."""


@cache
def unpacked_int4_operator() -> Any:
    """``torch.ops.mugraph.unpacked_int4``: the numbers (columns, depth) of packed weights, int8.

    Whatever their order is: each row of the identity times the weights is a row of them.
    """
    torch = import_torch()

    def run(packed: Any, depth: int, columns: int, group: int) -> Any:
        dtype, device = torch.bfloat16, packed.device
        scales = torch.tensor([1.0, 0.0], dtype=dtype, device=device)
        scales = scales.expand(depth // group, columns, 2).contiguous()
        parts: list[Any] = []
        for first in range(0, depth, ROWS):
            last = min(first + ROWS, depth)
            identity = torch.zeros((last - first, depth), dtype=dtype, device=device)
            identity.diagonal(first).fill_(1)
            parts.append(_product_of(packed)(identity, packed, group, scales))
        return torch.cat(parts).T.to(torch.int8).contiguous()

    def fake(packed: Any, depth: int, columns: int, group: int) -> Any:
        del group
        return packed.new_empty((columns, depth), dtype=torch.int8)

    return define("unpacked_int4", SCHEMA, run, fake)


def _product_of(packed: Any) -> Any:
    torch = import_torch()
    if packed.dtype == torch.uint8:
        return torch.ops.aten._weight_int4pack_mm_for_cpu.default
    return torch.ops.aten._weight_int4pack_mm.default


@decomposes("_weight_int4pack_mm.default", "_weight_int4pack_mm_for_cpu.default")
def _weight_int4pack_mm(x: Any, packed: Any, group: int, scales: Any) -> Any:
    """x times the transpose of (number * scale + zero), groups of numbers along k."""
    (rows, depth), (groups, columns, _) = x.shape, scales.shape
    del rows
    numbers = unpacked_int4_operator()(packed, depth, columns, group)
    scale, zero = (each.T.unsqueeze(-1) for each in scales.unbind(-1))
    wide = numbers.reshape(columns, groups, group).to(x.dtype) * scale + zero
    return x @ wide.reshape(columns, depth).T
