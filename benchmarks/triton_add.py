"""A Triton kernel for ``calls.py``; Triton reads the source of its kernels from their file."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, count, block: tl.constexpr):
    """``out = x + y`` on flat arrays of ``count`` elements."""
    index = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(
        out + index,
        tl.load(x + index, index < count) + tl.load(y + index, index < count),
        index < count,
    )
