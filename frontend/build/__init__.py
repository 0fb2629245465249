"""µGraphs in Python: ``import mugraph.build as mi``.

Names and meanings follow Mirage's Python interface, so that a program moves over by changing the
import.  A graph is built call by call; a call that makes no sense raises :class:`BuildError` at
that line.  ``print(graph)`` shows the µGraph as MLIR text, ``graph.module()`` is the xDSL module.

    import mugraph.build as mi

    graph = mi.new_kernel_graph()
    x = graph.new_input((16, 4096), dtype=mi.float16, name="x")
    w = graph.new_input((4096, 6144), dtype=mi.float16, name="w")
    block = mi.new_threadblock_graph(grid_dim=(96, 1, 1), block_dim=(128, 1, 1), forloop_range=32)
    tile_x = block.new_input(x, input_map=(-1, -1, -1), forloop_dim=1)
    tile_w = block.new_input(w, input_map=(1, -1, -1), forloop_dim=0)
    product = block.forloop_accum(block.matmul(tile_x, tile_w))
    norm = block.forloop_accum(tile_x, "rms")
    block.new_output(block.div(product, norm), output_map=(1, -1, -1))
    (y,) = graph.customized([x, w], block)
    graph.mark_output(y)
"""

from xdsl.dialects.builtin import bf16 as bfloat16
from xdsl.dialects.builtin import f8E4M3FN, f8E5M2
from xdsl.dialects.builtin import f16 as float16
from xdsl.dialects.builtin import f32 as float32
from xdsl.dialects.builtin import i1 as bool_
from xdsl.dialects.builtin import i8 as int8
from xdsl.dialects.builtin import i32 as int32
from xdsl.dialects.builtin import i64 as int64

from mugraph.build import elementwise, groups, programs, quantized, random
from mugraph.build.convolution import convolution
from mugraph.build.elementwise import *  # noqa: F403 (one list of functions, in that module)
from mugraph.build.errors import BuildError
from mugraph.build.extents import Extent
from mugraph.build.groups import *  # noqa: F403 (one list of functions, in that module)
from mugraph.build.kernel_graph import KernelGraph, new_kernel_graph
from mugraph.build.pointwise import pointwise
from mugraph.build.programs import *  # noqa: F403 (one list of functions, in that module)
from mugraph.build.quantized import *  # noqa: F403 (one list of functions, in that module)
from mugraph.build.random import *  # noqa: F403 (one list of functions, in that module)
from mugraph.build.tensors import DTensor, STensor
from mugraph.build.threadblock_graph import ThreadblockGraph, new_threadblock_graph

float8_e4m3fn, float8_e5m2 = f8E4M3FN, f8E5M2

__all__ = [
    "BuildError",
    "DTensor",
    "Extent",
    "KernelGraph",
    "STensor",
    "ThreadblockGraph",
    "bfloat16",
    "bool_",
    "convolution",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "int8",
    "int32",
    "int64",
    "new_kernel_graph",
    "new_threadblock_graph",
    "pointwise",
]
__all__ += elementwise.__all__
__all__ += groups.__all__
__all__ += programs.__all__
__all__ += quantized.__all__
__all__ += random.__all__
