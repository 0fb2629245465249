"""What the command lines of the benchmarks have in common."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Protocol, TypeVar

from mugraph.errors import UserError


class Named(Protocol):
    """A case of a benchmark."""

    @property
    def name(self) -> str:
        """What ``--only`` looks in."""
        ...


Case = TypeVar("Case", bound=Named)
Warmed = TypeVar("Warmed")


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


def part_of(shard: str) -> tuple[int, int]:
    """The place of a part, from 0, and how many parts there are: ``(1, 3)`` of ``2/3``.

    Raises ``UserError`` where there is no such part.
    """
    part, slash, parts = shard.partition("/")
    numbers = part.isdecimal() and parts.isdecimal()
    if not slash or not numbers or not 1 <= int(part) <= int(parts):
        raise UserError(f"--shard is {shard!r}; expected a part and their number, 1/3 for instance")
    return int(part) - 1, int(parts)


def case_parser(description: str | None, *, jobs: int) -> argparse.ArgumentParser:
    """A parser of the options of a benchmark of cases: ``only``, ``compile`` and ``jobs``."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", default="", help="cases whose name has this")
    parser.add_argument("--compile", action="store_true", help="compile only, without a GPU")
    parser.add_argument("--jobs", type=int, default=jobs)
    return parser


def case_options(description: str | None, *, jobs: int) -> argparse.Namespace:
    """The options of a benchmark of cases that has no other."""
    return case_parser(description, jobs=jobs).parse_args()


def warm_all(
    warm: Callable[[Case], Warmed], cases: Sequence[Case], jobs: int, what: str
) -> list[Warmed]:
    """What a function that compiles a case into the cache gives for each, in processes."""
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        warmed = list(pool.map(warm, cases))
    print(f"{len(cases)} {what} compiled in {time.perf_counter() - start:.0f} s")
    return warmed
