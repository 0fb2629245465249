"""Execution of ``kn``, ``tb`` and ``sched`` on numpy."""

from typing import TYPE_CHECKING

from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.when_used import imported_when_used

if TYPE_CHECKING:
    from mugraph.runtime.interpreter.run import Execution, execute_by_address, run_function

__all__ = ["Execution", "ExecutionError", "execute_by_address", "run_function"]

__getattr__ = imported_when_used(
    __name__, dict.fromkeys(("Execution", "execute_by_address", "run_function"), "run")
)
