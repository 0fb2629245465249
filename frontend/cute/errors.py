"""What recording a kernel raises."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

from mugraph.dialects.cute import LayoutError
from mugraph.errors import UserError

DECIDED_BY_PYTHON = (
    "Python's 'while', 'or', an 'if' in an expression or in a function with another decorator, or "
    "one that joins a ':=', or that 'return' or 'break' leaves"
)
"""What the kernel cannot decide."""


class KernelError(UserError, ValueError):
    """A kernel that cannot be recorded; its text begins with the line of Python that says so."""


_OURS = frozenset(("mugraph", "xdsl"))
_LIBRARIES = _OURS | {"numpy", "torch"} | sys.stdlib_module_names


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def is_of_user(frame: FrameType) -> bool:
    """Whether a frame is not one of mugraph's own, or of what it or the user's program calls."""
    return _package_of(frame) not in _LIBRARIES


def user_frame() -> FrameType | None:
    """The innermost frame of the user's program."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and not is_of_user(frame):
        frame = frame.f_back
    return frame


def place_of_frame(frame: FrameType) -> tuple[str, int, int]:
    """File, line and column, from 1 on, of what a frame does now; files below this folder alone."""
    positions = list(frame.f_code.co_positions())
    column = positions[frame.f_lasti // 2][2]
    return short_path(frame.f_code.co_filename), frame.f_lineno, (column or 0) + 1


def short_path(file: str) -> str:
    """A file below the current folder by its path from there."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def place_in_traceback(trace: TracebackType | None) -> str | None:
    """``file:line`` of the user's innermost frame that an error went through."""
    found: str | None = None
    while trace is not None:
        if is_of_user(trace.tb_frame):
            found = f"{short_path(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def _ends_in_own_code(trace: TracebackType) -> bool:
    """Whether an error was raised by mugraph itself, not by the user's program or a library."""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return _package_of(trace.tb_frame) in _OURS


_OF_ALGEBRA = (UserError, LayoutError, DiagnosticException, IndexError, TypeError)
_OF_PYTHON = (NameError, AttributeError, ArithmeticError)
"""What Python says of a program; an error of ours, if mugraph's own code raises it."""


_PLACED = re.compile(r"[^:]+:\d+(:\d+)?: ")
"""How a text begins that has a place."""


@contextmanager
def reported() -> Generator[None]:
    """Errors of a kernel become :class:`KernelError` with the line of Python they come from."""
    try:
        yield
    except (*_OF_ALGEBRA, *_OF_PYTHON) as error:
        trace = error.__traceback__
        if isinstance(error, _OF_PYTHON) and trace is not None and _ends_in_own_code(trace):
            raise
        place, frame = place_in_traceback(trace), user_frame()
        if place is None and frame is not None:
            place = ":".join(map(str, place_of_frame(frame)[:2]))
        text = str(error)
        if place is not None and not _PLACED.match(text):
            text = f"{place}: {text}"
        raise KernelError(text) from None


def _show_uncaught(kind: Any, error: BaseException, trace: Any) -> None:
    """Shows an error that ends a program: one of a user is a sentence, others are as ever."""
    if not isinstance(error, UserError | LayoutError):
        sys.__excepthook__(kind, error, trace)
        return
    place, text = place_in_traceback(trace), str(error)
    has_place = place is None or isinstance(error, KernelError)
    print(text if has_place else f"{place}: {text}", file=sys.stderr)


if sys.excepthook is sys.__excepthook__:  # a program that shows errors by itself goes on to
    sys.excepthook = _show_uncaught
