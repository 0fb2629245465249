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
TYPES = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2", "i8", "i32", "i64")
EVERY = inputs(27, 1)
"""One in so many cases that have nothing new is usual."""
EVERY_PAIR = inputs(9, 1)
"""One in so many cases is usual that has an operator in another type than cases before it."""

BRANCHES = (
    "graphs/qwen_mlp-3584",
    "graphs/rmsnorm-28672",
    "graphs/rmsnorm-512x4096x4096",
    "indirect/columns-69-f16",
    "maps/threads-1024x1x1",
    "maps/threads-31x33x1",
    "recurrences/linear-attention-32-bf16",
    "tb_elemwise/row-partition1",
    "tb_matmul/4096x4096x1024-tile128x128x32-mk-32x1x1",
    "types/kn-matmul-f16-compute-f16",
    "types/kn-matmul-f8E4M3FN",
    "types/kn-matmul-f8E5M2",
    "types/tb-cast-i64-f16",
)
"""Cases with nothing new that take a branch of the compiler that no other usual test takes."""

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
    """What a case is but for its type and sizes: its family, and its name without them."""
    parts = [part for part in case.name.split("-") if not any(map(str.isdigit, part))]
    return case.family, "-".join(parts)


@cache
def usual_cases() -> tuple[Case, ...]:
    """Cases with every operator and every type of each family, and with every variant of those that
    sanitizers run or that are no sizes.

    An operator is in two types; of its cases in others there is one in :data:`EVERY_PAIR`, of those
    with nothing new one in :data:`EVERY`, and all of :data:`BRANCHES`.
    """
    chosen: list[Case] = []
    had: set[tuple[str, object]] = set()
    elements: defaultdict[str, set[str]] = defaultdict(set)
    for number, case in enumerate(all_cases()):
        found = coverage(case.text)
        pairs: set[tuple[str, object]] = {(case.family, pair) for pair in found}
        has: set[tuple[str, object]] = {(case.family, part) for pair in found for part in pair}
        if case.sanitize or case.family not in SIZES:
            has.add(variant(case))
        every = EVERY if pairs <= had else EVERY_PAIR
        has_second = any(len(elements[op] | {element}) == 2 for op, element in found)
        is_new = not has <= had or (has_second and not pairs <= had) or case.id in BRANCHES
        if is_new or number % every == 0:
            chosen.append(case)
            for op, element in found:
                elements[op].add(element)
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
