"""Tensor expressions on numpy: the parallel iterations in random order, or many at once."""

from mugraph.runtime.interpreter.texpr.run import TexprExecution, run_texpr

__all__ = ["TexprExecution", "run_texpr"]
