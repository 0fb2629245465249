"""Compile a µGraph and call it: ``mugraph.compile``.

    kernel = mugraph.compile(graph)        # a KernelGraph, a module, or MLIR text
    y = kernel(x, w)                       # torch, CuPy, JAX or NumPy arrays

On a machine with a GPU the result is a CUDA kernel, kept in an on-disk cache; ``arch="cpu"``, and
any machine without a GPU, gives the interpreter behind the same call.  ``mugraph.load`` gives the
same kernel of what ``mg-compile`` wrote, on machines that cannot compile.
"""

from mugraph.jit.arguments import ArgumentError
from mugraph.jit.compilation import Graph, compile, compile_all, compile_beside
from mugraph.jit.cpu import CpuKernel
from mugraph.jit.cuda import CudaKernel
from mugraph.jit.kernel import Kernel
from mugraph.jit.loading import load
from mugraph.jit.mesh import MeshKernel

__all__ = [
    "ArgumentError",
    "CpuKernel",
    "CudaKernel",
    "Graph",
    "Kernel",
    "MeshKernel",
    "compile",
    "compile_all",
    "compile_beside",
    "load",
]
