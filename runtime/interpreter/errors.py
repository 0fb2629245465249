"""The errors of the interpreter."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from mugraph.dialects.tensor_types import op_label
from mugraph.errors import UserError

MOST_ITERATIONS = 1 << 22
"""Of a loop, of which an interpreter runs some thousands a second."""


class ExecutionError(InterpretationError, UserError):
    """A module that the interpreter cannot run, or inputs that do not fit the function."""


def iterations_of(op: Operation, count: int, step: int = 1) -> range:
    """The iterations of a loop that its body begins with.

    Raises ``ExecutionError`` where running them would take hours.
    """
    if count > MOST_ITERATIONS:
        raise ExecutionError(
            f"{op_label(op)} has {count} iterations, which an interpreter runs one by one; "
            f"it takes at most {MOST_ITERATIONS}: choose a smaller 'forloop', or run the kernel on "
            "a GPU"
        )
    return range(0, count, step)
