"""silu(a) * b in Triton, tuned: the element-wise kernel behind two products of the library."""

from typing import Any

import torch
import triton
import triton.language as tl

_SHAPES = [
    triton.Config({"block": block}, num_warps=warps)
    for block in (512, 1024, 2048, 4096)
    for warps in (4, 8)
]


@triton.autotune(configs=_SHAPES, key=["columns", "stride"])
@triton.jit
def _gate(a, b, out, columns, stride, block: tl.constexpr):
    """A row of ``columns`` elements of a and b, ``stride`` elements from the next, a program."""
    row = tl.program_id(0).to(tl.int64)
    index = tl.program_id(1) * block + tl.arange(0, block)
    x = tl.load(a + row * stride + index, index < columns).to(tl.float32)
    y = tl.load(b + row * stride + index, index < columns).to(tl.float32)
    tl.store(out + row * columns + index, x / (1.0 + tl.exp(-x)) * y, index < columns)


def gate(a: Any, b: Any) -> Any:
    """silu(a) * b of two matrices whose rows are equally far apart; tuned on the first call."""
    rows, columns = a.shape
    out = torch.empty((rows, columns), dtype=a.dtype, device=a.device)

    def grid(shape: Any) -> tuple[int, int]:
        return rows, triton.cdiv(columns, shape["block"])

    _gate[grid](a, b, out, columns, a.stride(0))
    return out
