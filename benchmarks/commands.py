"""What the command lines of the benchmarks have in common."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from mugraph.errors import UserError


def new_parser(description: str | None, module: str | None = None) -> argparse.ArgumentParser:
    """A parser of a command line; ``python -m MODULE`` is what its program is called."""
    named: dict[str, Any] = {} if module is None else {"prog": f"python -m {module}"}
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, **named
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """``--output``: where results are written."""
    parser.add_argument("--output", type=Path, required=True, help="OUTPUT.json and .md")


def add_builds(parser: argparse.ArgumentParser) -> None:
    """``--arch`` and ``--jobs``: for which GPU kernels are built, and how many at a time."""
    parser.add_argument("--arch", default="sm_90a", help="an architecture, or a GPU such as h100")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="parallel builds")


def run_command(parser: argparse.ArgumentParser) -> int:
    """Runs the command of the program's arguments; 1 where it ends with a sentence to its user.

    The parser's commands set ``command``, which takes the arguments and returns an exit code.
    """
    arguments = parser.parse_args()
    try:
        return arguments.command(arguments)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def sentence(problem: Exception) -> str:
    """The kind and the first line of an error."""
    return f"{type(problem).__name__}: {[*str(problem).strip().splitlines(), ''][0]}"[:300]


def part_of(shard: str) -> tuple[int, int]:
    """The place of a part, from 0, and how many parts there are: ``(1, 3)`` of ``2/3``.

    Raises ``UserError`` where there is no such part.
    """
    part, slash, parts = shard.partition("/")
    numbers = part.isdecimal() and parts.isdecimal()
    if not slash or not numbers or not 1 <= int(part) <= int(parts):
        raise UserError(f"--shard is {shard!r}; expected a part and their number, 1/3 for instance")
    return int(part) - 1, int(parts)
