"""How the command-line tools talk to their user: one message on stderr, and whole files or none."""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import re
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import IO, Any, NoReturn, cast

from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    MultipleSpansParseError,
    ParseError,
)

from mugraph.errors import UserError
from mugraph.version import __version__

TRACEBACK_VARIABLE = "MUGRAPH_TRACEBACK"
"""An environment variable: when set, an unforeseen error shows its Python traceback."""

_LONGEST_OPERATION = 200
"""Characters of an operation's text that a message quotes."""


class ToolError(UserError):
    """A command line or an input that a tool cannot do anything with."""


class ArgumentParser(argparse.ArgumentParser):
    """Raises ``ToolError`` for wrong arguments, in place of printing the usage and exiting.

    ``--version`` prints mugraph's version.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        version = f"%(prog)s of mugraph {__version__}"
        self.add_argument("--version", action="version", version=version)

    def error(self, message: str) -> NoReturn:
        """Raise it."""
        raise ToolError(f"{message}; {self.prog} --help explains the arguments.")


def add_size_argument(parser: argparse.ArgumentParser, *, of_call: bool = False) -> None:
    """``--size M=64,N=32``: named sizes of a `.te` file; ``of_call``: or those that a call says."""
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=VALUE[,...]",
        help="values of the named sizes of a .te file"
        + (", or of a function's named extents" if of_call else ""),
    )


def run_tool(tool: str, main: Callable[[], int]) -> int:
    """Run ``main`` and return its exit code; an error becomes one message on stderr and 1.

    ``BrokenPipeError`` (the reader of our output left) also gives 1, silently, and an interrupt
    gives 130, as shells expect.
    """
    # What is left at the end goes with the process: the interpreter need not look through it.
    atexit.register(gc.freeze)
    try:
        code = main()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What is still in the buffer has no reader; without this the interpreter complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except (Exception, ArgSpecParseError) as error:
        print(f"{tool}: {describe_error(error)}", file=sys.stderr)
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exc()
        return 1


def describe_error(error: BaseException) -> str:
    """The message for ``error``, with ``file:line:column`` and the operation where known."""
    from mugraph.dialects.locations import place_in

    place = place_in(error)
    message = _message_of(error)
    return message if place is None else f"{place}: {message}"


def _message_of(error: BaseException) -> str:
    match error:
        case UserError():
            return f"error: {error}"
        case ParseError():
            return _describe_parse_error(error)
        case DiagnosticException():
            operation = _operation_of(error)
            named = re.match(r"'([\w.]+)'", str(error))
            # A message about an operation around it speaks for itself.
            if operation is None or (named is not None and f'"{named[1]}"' not in operation):
                return f"error: {error}"
            return f"error: {error}\n  in: {operation}"
        case ArgSpecParseError():
            return f"error: {str(error).rstrip()}"
        case UnicodeDecodeError():
            return f"error: the input is not UTF-8 text: {error}"
        case OSError() if error.filename is not None:
            return f"error: {os.fspath(error.filename)}: {error.strerror}"
        case MemoryError():
            return f"error: there is not enough memory: {str(error) or 'use smaller extents'}"
        case RecursionError():
            return "error: the input is nested too deeply."
        case _:
            return (
                f"internal error: {type(error).__name__}: {error}\n"
                f"This is a defect of mugraph; {TRACEBACK_VARIABLE}=1 shows where it happened."
            )


def _describe_parse_error(error: ParseError) -> str:
    """``file:line:column: error: what``, the line it is in, and a caret under the column."""
    span = error.span
    location = span.get_location()
    source = span.input
    start = source.get_start_of_line(span.start)
    end = source.get_end_of_line(span.start)
    line = _text(source.content[start:end])
    before = _text(source.content[start : span.start])
    length = max(1, min(len(_text(span.content)), len(line) - len(before)))
    indent = "".join("\t" if character == "\t" else " " for character in before)
    caret = indent + "^" * length
    message = f"{location}: error: {error.msg}\n{line}\n{caret}"
    if isinstance(error, MultipleSpansParseError):
        for reference, note in error.refs:
            message += f"\n{reference.get_location()}: note: {note or error.ref_text or ''}"
    return message


def _text(content: str | bytes) -> str:
    return content.decode(errors="replace") if isinstance(content, bytes) else content


def _operation_of(error: DiagnosticException) -> str | None:
    """The text of the operation that does not verify, from the note that xDSL adds to the error.

    The note is the whole module in the generic form, with a row of ``^^^---`` under that operation.
    """
    for note in getattr(error, "__notes__", ()):
        previous = ""
        for line in cast(str, note).splitlines():
            stripped = line.strip()
            if stripped.startswith("^^") and not stripped.strip("^-"):
                if len(previous) > _LONGEST_OPERATION:
                    return previous[:_LONGEST_OPERATION] + " …"
                return previous
            previous = stripped
    return None


@contextmanager
def atomic_path(path: str) -> Generator[str]:
    """The path of a file to write, which becomes ``path`` when the block ends without an error.

    It is a temporary file in the same folder, which is renamed.  Where something is at ``path``
    that is no regular file (``/dev/stdout``, a pipe), it is that itself.
    """
    target = os.path.realpath(path)
    if os.path.isdir(target):
        raise ToolError(f"cannot write to {path}: it is a folder.")
    if os.path.exists(target) and not os.path.isfile(target):
        yield target
        return
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb"):
            pass
    except OSError as error:
        raise ToolError(f"cannot write to {path}: {error.strerror}.") from error
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


@contextmanager
def atomic_output(path: str) -> Generator[IO[str]]:
    """A text file that appears at ``path`` when the block ends, and not at all if it raises."""
    with atomic_path(path) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        yield stream
