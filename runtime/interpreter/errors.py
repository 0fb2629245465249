"""The errors of the interpreter."""

from __future__ import annotations

from xdsl.utils.exceptions import InterpretationError

from mugraph.runtime.errors import UserError


class ExecutionError(InterpretationError, UserError):
    """A module that the interpreter cannot run, or inputs that do not fit the function."""
