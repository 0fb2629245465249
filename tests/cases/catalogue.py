"""All cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache

from thorough import inputs

from cases.case import Case, coverage
from cases.tables import (
    alignment,
    graphs,
    indirect,
    input_output,
    kernel,
    launches,
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

SIZES = (
    *("tb_bcast", "tb_input_output", "tb_matmul", "tb_reduction"),
    *("alignment", "kn_operators", "tb_operators", "types"),
)
"""Families whose cases are one operator each, in many sizes, cuts and layouts."""
EACH_TYPE = ("kn_operators", "tb_operators")
"""Those of them that have each operator in each type."""
TYPES = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "i8", "i32", "i64")
EVERY = inputs(9, 1)
"""One in so many cases that have nothing new is usual."""
EVERY_PAIR = inputs(3, 1)
"""One in so many cases is usual that has an operator in another type than cases before it."""

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
    launches,
    graphs,
)


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case of every table, in the order of the tables."""
    return tuple(case for table in TABLES for case in table.cases())


def variant(case: Case) -> tuple[str, str]:
    """What a case is but for its type: its family, and its name without one."""
    return case.family, "-".join(part for part in case.name.split("-") if part not in TYPES)


@cache
def usual_cases() -> tuple[Case, ...]:
    """Cases with every operator and every type of each family, and with every variant of those that
    sanitizers run or that are no sizes.

    Where a family has each operator in each type, there are two of them and one in
    :data:`EVERY_PAIR`; of sizes with nothing new, one in :data:`EVERY`.
    """
    chosen: list[Case] = []
    had: set[tuple[str, object]] = set()
    elements: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for number, case in enumerate(all_cases()):
        found = coverage(case.text)
        pairs: set[tuple[str, object]] = {(case.family, pair) for pair in found}
        has: set[tuple[str, object]] = {(case.family, part) for pair in found for part in pair}
        if case.family not in EACH_TYPE:
            has |= pairs
        if case.sanitize or case.family not in SIZES:
            has.add(variant(case))
        every = EVERY if pairs <= had else EVERY_PAIR
        has_second = any(len(elements[case.family, op] | {element}) == 2 for op, element in found)
        if not has <= had or (has_second and not pairs <= had) or number % every == 0:
            chosen.append(case)
            for op, element in found:
                elements[case.family, op].add(element)
        had |= has | pairs
    return tuple(chosen)


def select(patterns: Sequence[str]) -> list[Case]:
    """The cases of which one of the shell patterns matches the id; all, where there are none.

    Raises ``LookupError`` where a pattern matches no case.
    """
    cases = all_cases()
    for pattern in patterns:
        if not any(fnmatchcase(case.id, pattern) for case in cases):
            raise LookupError(f"no case matches {pattern}")
    return [
        case
        for case in cases
        if not patterns or any(fnmatchcase(case.id, pattern) for pattern in patterns)
    ]
