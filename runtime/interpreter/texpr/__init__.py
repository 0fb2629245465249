"""Tensor expressions on numpy: the parallel iterations in random order, or many at once."""

from typing import TYPE_CHECKING

from mugraph.when_used import imported_when_used

if TYPE_CHECKING:
    from mugraph.runtime.interpreter.texpr.run import TexprExecution, run_texpr

__all__ = ["TexprExecution", "run_texpr"]

__getattr__ = imported_when_used(__name__, dict.fromkeys(__all__, "run"))
