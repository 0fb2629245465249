"""Execution of ``kn``, ``tb`` and ``sched`` on numpy."""

from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.run import run_function

__all__ = ["ExecutionError", "run_function"]
