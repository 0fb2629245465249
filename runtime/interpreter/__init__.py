"""Execution of ``kn``, ``tb`` and ``sched`` on numpy."""

from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.run import Execution, execute_by_address, run_function

__all__ = ["Execution", "ExecutionError", "execute_by_address", "run_function"]
