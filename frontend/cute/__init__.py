"""Kernels on CuTe tensors: ``from mugraph import cute``.

The layout algebra of :mod:`mugraph.dialects.cute` under one roof, and ``@cute.kernel``, which makes
a kernel of a Python function on tensors.  Names are those of NVIDIA's CuTe DSL.

    @cute.kernel
    def add(a, b, c):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        tiles = [cute.local_tile(one, 1024, block) for one in (a, b, c)]
        mine = [cute.local_partition(one, cute.Layout(128), thread) for one in tiles]
        ...

    launch = add(a, b, c).launch(grid=(64,), block=(128,))
    launch.run()               # by the interpreter
    module = launch.trace()    # for --check-hazards, -t cuda ...
"""

from mugraph.cute import arch, cutlass, math, nvgpu, pipeline
from mugraph.cute.compiled import CompiledFunction, compile
from mugraph.cute.control import SmemAllocator, dynamic_range, elem_less, printf, when
from mugraph.cute.errors import KernelError
from mugraph.cute.kernel import (
    Kernel,
    KernelCall,
    Launch,
    jit,
    kernel,
)
from mugraph.cute.math import ReductionOp, full_like, where
from mugraph.cute.numbers import size_in_bytes
from mugraph.cute.nvgpu import (
    make_copy_atom,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_tv,
    make_tiled_mma,
    warpgroup,
)
from mugraph.cute.parameters import FakeTensor, make_fake_tensor
from mugraph.cute.sizes import ceil_div, divisibility, size, sym_int
from mugraph.cute.storage import struct
from mugraph.dialects import cute as algebra
from mugraph.dialects.cute import *  # noqa: F403 (one list of operations, in that module)
from mugraph.dialects.cute import operations
from mugraph.dialects.cute.algorithms import (
    axpby,
    call_mma,
    clear,
    copy,
    copy_if,
    fill,
    gemm,
    reduce,
)
from mugraph.dialects.cute.atoms import copy_atom, mma_atom, tma_atom, umma_atom
from mugraph.dialects.cute.operations import *  # noqa: F403 (on tensors as on layouts)
from mugraph.dialects.cute.tensor import (
    Tensor,
    domain_offset,
    local_partition,
    local_tile,
    make_counting_tensor,
    make_fragment_like,
    make_fragment_of_shape,
    make_identity_tensor,
    make_tensor,
    transform,
)
from mugraph.dialects.cute.tiled import TiledCopy, TiledMma, make_layout_tv, make_tiled_copy_for
from mugraph.dialects.cute.tma import TmaCopy, make_tma_copy, tma_partition

__all__ = [
    "CompiledFunction",
    "FakeTensor",
    "Kernel",
    "KernelCall",
    "KernelError",
    "Launch",
    "ReductionOp",
    "SmemAllocator",
    "Tensor",
    "TiledCopy",
    "TiledMma",
    "TmaCopy",
    "arch",
    "axpby",
    "call_mma",
    "ceil_div",
    "clear",
    "compile",
    "copy",
    "copy_atom",
    "copy_if",
    "cutlass",
    "divisibility",
    "domain_offset",
    "dynamic_range",
    "elem_less",
    "fill",
    "full_like",
    "gemm",
    "jit",
    "kernel",
    "local_partition",
    "local_tile",
    "make_copy_atom",
    "make_counting_tensor",
    "make_fake_tensor",
    "make_fragment_like",
    "make_fragment_of_shape",
    "make_identity_tensor",
    "make_layout_tv",
    "make_tensor",
    "make_tiled_copy",
    "make_tiled_copy_A",
    "make_tiled_copy_B",
    "make_tiled_copy_C",
    "make_tiled_copy_for",
    "make_tiled_copy_tv",
    "make_tiled_mma",
    "make_tma_copy",
    "math",
    "mma_atom",
    "nvgpu",
    "pipeline",
    "printf",
    "reduce",
    "size",
    "size_in_bytes",
    "struct",
    "sym_int",
    "tma_atom",
    "tma_partition",
    "transform",
    "umma_atom",
    "warpgroup",
    "when",
    "where",
]
__all__ += [*algebra.__all__, *operations.__all__]
