"""CUDA of mapped tensor expressions: a ``__global__`` function a kernel, and their launches."""

from mugraph.codegen.cuda.texpr.module import print_texpr

__all__ = ["print_texpr"]
