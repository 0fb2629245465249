"""What a case is: a µGraph, the numbers it is run on, and what it must give."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from schedules import AS_WRITTEN

from mugraph.dialects.plan import Plan

Array = npt.NDArray[Any]
Reference = Callable[..., Array | Sequence[Array]]


class Level(StrEnum):
    """How far a case is taken on a CPU; every case runs on a GPU."""

    ADDRESSES = "addresses"
    """The µGraph is interpreted, transpiled, and its schedule run on bytes and addresses."""
    LOGICAL = "logical"
    """The µGraph is interpreted; its grid is too large for the level of addresses."""
    TRANSPILED = "transpiled"
    """Too large to interpret: it is taken through the passes only."""


@dataclass(frozen=True)
class Range:
    """Inputs drawn uniformly between two numbers."""

    low: float = -1.0
    high: float = 1.0


@dataclass(frozen=True)
class Case:
    """One row of a table."""

    family: str
    name: str
    text: str
    """The µGraph."""
    ranges: tuple[Range, ...]
    """One an input."""
    reference: Reference
    """The results in float64, of the inputs in float64, in numpy and nothing of ours."""
    data: str = ""
    """Cases of one family and of equal ``data`` share inputs and reference."""
    level: Level = Level.ADDRESSES
    budget: Reference | None = None
    """How far each element may be off, of the same arguments; by default it is derived from the
    operators by running error analysis."""
    sanitize: bool = False
    """Whether the case is of the set that runs under compute-sanitizer."""
    plan: Plan = AS_WRITTEN
    """What is said of how its kernels are compiled."""

    @property
    def id(self) -> str:
        """The name by which a case is selected: ``family/name``."""
        return f"{self.family}/{self.name}"

    @property
    def seed(self) -> int:
        """Of the inputs."""
        return zlib.crc32(f"{self.family}/{self.data or self.name}".encode())


TILE = re.compile(r"!tb\.stensor<((?:\d+x)*)(\w+)")
TENSOR = re.compile(r"tensor<((?:\d+x)*)(\w+)")
OPERATOR = re.compile(
    r"(?:^|= |^\s+)((?:kn|tb)\.\w+(?: (?:none|sum|mean|rms|max|bits|uniform|normal)\b)?)"
)


def coverage(text: str) -> set[tuple[str, str]]:
    """The operators in a µGraph's text, each with the element types that its line names.

    Accumulators carry their kind, random numbers their distribution: ``tb.forloop_accum rms``.
    """
    found: set[tuple[str, str]] = set()
    for line in text.splitlines():
        match = OPERATOR.search(line)
        if match is None or line.lstrip().startswith("//"):
            continue
        types = {element for _, element in TILE.findall(line)}
        if match.group(1).startswith("kn.") or match.group(1) in ("tb.input", "tb.output"):
            types |= {element for _, element in TENSOR.findall(TILE.sub("", line))}
        found |= {(match.group(1), element) for element in types}
    return found


def draw(case: Case, shapes: Sequence[Sequence[int]]) -> list[Array]:
    """The inputs in float64, before they are rounded to their types."""
    random = np.random.default_rng(case.seed)
    return [
        interval.low + (interval.high - interval.low) * random.random(tuple(shape), np.float32)
        for interval, shape in zip(case.ranges, shapes, strict=True)
    ]


def results_of(reference: Reference, inputs: Sequence[Array]) -> list[Array]:
    """The arrays that a reference or a budget gives of inputs, one a result."""
    with np.errstate(all="ignore"):
        results = reference(*(array.astype(np.float64) for array in inputs))
    return [results] if isinstance(results, np.ndarray) else list(results)
