"""Adding an operator to a graph, with the line of the user's program that asked for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Block, Operation

from mugraph.build.errors import BuildError, build_errors
from mugraph.dialects.locations import Rewriter, file_location


def calling_line() -> FileLineColLoc | None:
    """The line of the user's program: the innermost call from outside of this package."""
    frame = sys._getframe()  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_globals.get("__package__") == __package__:
        frame = frame.f_back
    if frame is None:
        return None
    positions = islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, _, column, _ = next(positions)
    return file_location(frame.f_code.co_filename, line or frame.f_lineno, (column or 0) + 1)


def append_operation(
    block: Block, op: Operation, verify: Callable[[], None] = lambda: None
) -> None:
    """Adds an operator, with the user's line; takes it away and raises where it is not valid.

    ``verify`` checks what else must hold of the block.
    """
    if (location := calling_line()) is not None:
        op.location = location
    block.add_op(op)
    try:
        with build_errors():
            op.verify()
            verify()
    except BuildError:
        Rewriter.erase_op(op)
        raise
