"""All cases."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache

from cases.case import Case
from cases.tables import (
    alignment,
    graphs,
    indirect,
    input_output,
    kernel,
    maps,
    masks,
    matmul,
    operators,
    ragged,
    recurrences,
    reduction,
    softmax,
    threadblock_elementwise,
    types,
)

TABLES = (
    kernel,
    threadblock_elementwise,
    input_output,
    matmul,
    reduction,
    operators,
    types,
    maps,
    ragged,
    alignment,
    softmax,
    masks,
    recurrences,
    indirect,
    graphs,
)


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case of every table, in the order of the tables."""
    return tuple(case for table in TABLES for case in table.cases())


def select(patterns: Sequence[str]) -> list[Case]:
    """The cases of which one of the shell patterns matches the id; all, where there are none."""
    return [
        case
        for case in all_cases()
        if not patterns or any(fnmatchcase(case.id, pattern) for pattern in patterns)
    ]
