"""Random tensor expressions, and whether they have a race: isl's answer against enumeration.

``PYTHONPATH=tests python -m fuzz.texpr_races -n 1000`` makes programs until it has 1,000 with a
race and 1,000 without, by enumeration of all accesses; of the former each must be rejected with a
witness that holds, of the latter none.  Programs in which no parallel loop of several iterations
writes to what they share are not counted.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mugraph.passes.texpr.analysis.bounds import find_out_of_bounds
from mugraph.passes.texpr.analysis.domains import Access
from mugraph.passes.texpr.analysis.races import Race, find_race
from mugraph.texpr import build_module

LARGEST_DOMAIN = 4000
"""Iterations of a program, so that enumeration takes little time."""


@dataclass
class Loop:
    """A loop of a random program."""

    parallel: bool
    variable: str
    extent: int
    body: list[Statement] = field(default_factory=list["Statement"])


@dataclass
class Condition:
    """``if``: conditions as text."""

    tests: list[str]
    body: list[Statement] = field(default_factory=list["Statement"])


@dataclass
class Private:
    """A buffer made in the body of a loop."""

    buffer: str
    extent: int


@dataclass
class Touch:
    """An access: a read (into an anchor), a write, a reduction or an atomic operation."""

    kind: str
    buffer: str
    indices: list[str]


Statement = Loop | Condition | Private | Touch

TEXTS = {
    "read": "anchor {}",
    "write": "{} = {}",
    "add": "red {} += {}",
    "max": "red {} max= {}",
    "atomic": "atomic {} += {}",
}


class Generator:
    """Makes random programs; ``biased`` ones write through digits of the parallel variables."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = itertools.count()
        self.biased = self.random.random() < 0.7
        self.buffers = {"A": 1, "B": 2}
        self.digits: dict[str, list[str]] = {}

    def program(self) -> list[Statement]:
        """The statements of a function on the buffers A (1-D) and B (2-D)."""
        body: list[Statement] = []
        for _ in range(self.random.choice((1, 1, 2))):
            body.append(self.loop([], 1, 0))
        return body

    def loop(self, loops: list[Loop], iterations: int, depth: int) -> Loop:
        """A loop of up to four levels."""
        choices = [extent for extent in (1, 2, 3, 4, 6, 8) if iterations * extent <= LARGEST_DOMAIN]
        extent = self.random.choice(choices or [1])
        loop = Loop(self.random.random() < 0.7, f"k{next(self.names)}", extent)
        inside = [*loops, loop]
        if self.random.random() < 0.15:
            name = f"t{next(self.names)}"
            loop.body.append(Private(name, 8))
            self.buffers[name] = -8
        if depth < 3 and self.random.random() < 0.65:
            loop.body.append(self.loop(inside, iterations * extent, depth + 1))
            if self.random.random() < 0.2:
                loop.body.append(self.loop(inside, iterations * extent, depth + 1))
        if len(loop.body) == 0 or self.random.random() < 0.3:
            touches = [self.touch(inside) for _ in range(self.random.choice((1, 1, 2, 3)))]
            if self.random.random() < 0.3:
                loop.body.append(Condition(self.tests(inside), [*touches]))
            else:
                loop.body += touches
        for name in [name for name, rank in self.buffers.items() if rank == -8]:
            if any(isinstance(one, Private) and one.buffer == name for one in loop.body):
                del self.buffers[name]
        return loop

    def tests(self, loops: list[Loop]) -> list[str]:
        """Conditions on the variables."""
        tests: list[str] = []
        for _ in range(self.random.choice((1, 1, 2))):
            operator = self.random.choice(("<", "<=", ">", ">=", "=="))
            tests.append(f"{self.affine(loops)} {operator} {self.random.randint(0, 5)}")
        return tests

    def touch(self, loops: list[Loop]) -> Touch:
        """An access with random or, of biased programs, distinct indices."""
        name = self.random.choice(list(self.buffers))
        rank = self.buffers[name]
        kind = self.random.choice(
            ("read", "read", "write", "write", "write", "add", "max", "atomic")
        )
        if rank == -8:
            return Touch(kind, name, [f"({self.affine(loops)}) % 8"])
        if self.biased and self.random.random() < 0.85:
            return Touch(kind, name, self.distinct(name, loops, rank))
        return Touch(kind, name, [self.affine(loops) for _ in range(rank)])

    def affine(self, loops: list[Loop]) -> str:
        """A quasi-affine expression."""
        terms = [str(self.random.randint(0, 4))]
        for loop in self.random.sample(loops, self.random.randint(0, len(loops))):
            term = loop.variable
            shape = self.random.random()
            if shape < 0.2:
                term = f"{term} / {self.random.randint(2, 3)}"
            elif shape < 0.4:
                term = f"{term} % {self.random.randint(2, 4)}"
            elif shape < 0.5:
                term = f"({term} + {self.random.randint(0, 3)}) / 2 % 3"
            coefficient = self.random.choice((1, 1, 1, 2, 3, -1, -2, 4))
            terms.append(f"{coefficient} * ({term})")
        return " + ".join(terms)

    def distinct(self, buffer: str, loops: list[Loop], rank: int) -> list[str]:
        """Indices that tell the iterations apart, the same for all accesses to a buffer mostly."""
        digits: list[tuple[str, int]] = []
        for loop in loops:
            half = loop.extent // 2
            if loop.extent % 2 == 0 and half > 1 and int(loop.variable[1:]) % 2:
                digits += [(f"{loop.variable} % 2", 2), (f"{loop.variable} / 2", half)]
            else:
                digits.append((loop.variable, loop.extent))
        order = random.Random(f"{buffer}{len(digits)}")
        order.shuffle(digits)
        indices: list[str] = []
        for part in range(rank):
            stride, terms = 1, ["0"]
            for text, extent in digits[part::rank]:
                terms.append(f"{stride} * ({text})")
                stride *= extent
            indices.append(" + ".join(terms))
        return indices


def text_of(
    body: list[Statement], extents: dict[str, list[int]], shift: dict[str, list[int]]
) -> str:
    """The program as `.te` text; indices are shifted so that none is negative."""
    parameters = ", ".join(
        f"{name}: f32[{', '.join(map(str, sizes))}]" for name, sizes in extents.items()
    )
    lines = [f"fn f({parameters}) {{"]

    def add(statements: list[Statement], depth: int, variables: list[str]) -> None:
        pad = "  " * depth
        for one in statements:
            match one:
                case Loop():
                    word = "par" if one.parallel else "seq"
                    lines.append(f"{pad}{word} {one.extent} {one.variable} {{")
                    add(one.body, depth + 1, [*variables, one.variable])
                    lines.append(f"{pad}}}")
                case Condition():
                    lines.append(f"{pad}if {' and '.join(one.tests)} {{")
                    add(one.body, depth + 1, variables)
                    lines.append(f"{pad}}}")
                case Private():
                    lines.append(f"{pad}new {one.buffer}: f32[{one.extent}]")
                    lines.append(f"{pad}seq {one.extent} z {{ {one.buffer}[z] = 0.0 }}")
                case Touch():
                    moved = shift.get(one.buffer, [0] * len(one.indices))
                    place = ", ".join(
                        f"{index} + {by}" for index, by in zip(one.indices, moved, strict=True)
                    )
                    # Another number in each iteration, so that their order shows.
                    terms = [f"{2 * at + 3} * {name}" for at, name in enumerate(variables)]
                    value = f"f32({' + '.join(terms)} + 1)"
                    lines.append(pad + TEXTS[one.kind].format(f"{one.buffer}[{place}]", value))

    add(body, 1, [])
    return "\n".join([*lines, "}"]) + "\n"


Event = tuple[Touch, tuple[tuple[Loop, int], ...], tuple[int, ...], int]
"""An access, the iterations of the loops around it, the element, and how many loops around it the
buffer was made in."""


def events_of(body: list[Statement]) -> Iterator[Event]:
    """Every access that the program makes, by running it."""

    def walk(
        statements: list[Statement],
        path: tuple[tuple[Loop, int], ...],
        values: dict[str, int],
        made: dict[str, int],
    ) -> Iterator[Event]:
        for one in statements:
            match one:
                case Loop():
                    for value in range(one.extent):
                        inner = values | {one.variable: value}
                        yield from walk(one.body, (*path, (one, value)), inner, made)
                case Condition():
                    if all(_value(test, values) for test in one.tests):
                        yield from walk(one.body, path, values, made)
                case Private():
                    made = made | {one.buffer: len(path)}
                case Touch():
                    element = tuple(int(_value(index, values)) for index in one.indices)
                    yield one, path, element, made.get(one.buffer, 0)

    yield from walk(body, (), {}, {})


_COMPILED: dict[str, object] = {}


def _value(text: str, values: dict[str, int]) -> int:
    code = _COMPILED.get(text)
    if code is None:
        code = _COMPILED[text] = compile(text.replace("/", "//"), "index", "eval")
    return eval(code, {}, values)  # type: ignore[arg-type]


def has_race(events: list[Event]) -> bool:
    """Whether two iterations of a parallel loop touch an element, by looking at all accesses."""
    groups: dict[tuple[object, ...], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for touch, path, element, made in events:
        for depth, (loop, value) in enumerate(path):
            if loop.parallel and depth >= made:
                outer = tuple(number for _, number in path[:depth])
                groups[id(loop), outer, touch.buffer, element][touch.kind].add(value)
    for kinds in groups.values():
        for (one, first), (other, second) in itertools.combinations_with_replacement(
            kinds.items(), 2
        ):
            allowed = one == other and one != "write"
            if not allowed and len(first | second) > 1:
                return True
    return False


def may_race(events: list[Event]) -> bool:
    """Whether a parallel loop of several iterations changes what they share."""
    return any(
        touch.kind != "read" and any(loop.parallel and loop.extent > 1 for loop, _ in path[made:])
        for touch, path, _, made in events
    )


def make(seed: int) -> tuple[str, bool] | None:
    """A program, and whether it has a race; ``None`` for one that cannot have any."""
    body = Generator(seed).program()
    events = list(events_of(body))
    if not may_race(events):
        return None
    low: dict[str, list[int]] = {"A": [0], "B": [0, 0]}
    high: dict[str, list[int]] = {"A": [0], "B": [0, 0]}
    for touch, _, element, _ in events:
        if touch.buffer in low:
            for dimension, index in enumerate(element):
                low[touch.buffer][dimension] = min(low[touch.buffer][dimension], index)
                high[touch.buffer][dimension] = max(high[touch.buffer][dimension], index)
    extents = {
        name: [top - bottom + 1 for top, bottom in zip(high[name], low[name], strict=True)]
        for name in low
    }
    shift = {name: [-bottom for bottom in bottoms] for name, bottoms in low.items()}
    return text_of(body, extents, shift), has_race(events)


def witness_holds(race: Race) -> bool:
    """Whether the two accesses touch that element in those iterations, by enumeration."""
    first, second = race.accesses
    if first.buffer is not second.buffer or race.iterations[0] == race.iterations[1]:
        return False
    if not first.conflicts(second):
        return False
    return all(
        _touches(access, race.outer | {race.loop.variable: iteration}, race.element)
        for access, iteration in zip(race.accesses, race.iterations, strict=True)
    )


def _touches(access: Access, fixed: dict[SSAValue, int], element: tuple[int, ...]) -> bool:
    loops = access.domain.loops
    ranges = [
        (fixed[loop.variable],) if loop.variable in fixed else range(loop.iterations)
        for loop in loops
    ]
    for values in itertools.product(*ranges):
        value = {loop.variable: one for loop, one in zip(loops, values, strict=True)}
        holds = all(
            (number == 0) if equal else (number >= 0)
            for condition in access.domain.conditions
            for expression, equal in condition.conditions()
            for number in [expression.eval([value[one] for one in condition.indices], [])]
        )
        indices = [value[one] for one in access.indices]
        if holds and element == tuple(one.eval(indices, []) for one in access.expressions):
            return True
    return False


def check(seed: int) -> tuple[bool, str] | None:
    """Whether the program of a seed has a race, and what is wrong with the answer ('' if right).

    ``None`` where it cannot have any.
    """
    made = make(seed)
    if made is None:
        return None
    text, racy = made
    module = build_module(text, "random.te", {})
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    if find_out_of_bounds(function) is not None:
        return racy, f"seed {seed}: an access is said to leave its buffer\n{text}"
    race = find_race(function)
    if racy and race is None:
        return racy, f"seed {seed}: a race was missed\n{text}"
    if not racy and race is not None:
        return racy, f"seed {seed}: a race was made up: {race}\n{text}"
    if race is not None and not witness_holds(race):
        return racy, f"seed {seed}: the witness does not hold: {race}\n{text}"
    return racy, ""


def main() -> int:
    """Runs programs until there are enough of both kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="how many of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts = {True: 0, False: 0}
    started, slowest, seed = time.perf_counter(), 0.0, options.seed
    while min(counts.values()) < options.n:
        before = time.perf_counter()
        checked = check(seed)
        slowest = max(slowest, time.perf_counter() - before)
        seed += 1
        if checked is None:
            continue
        racy, wrong = checked
        if wrong:
            print(wrong)
            return 1
        counts[racy] += 1
    elapsed = time.perf_counter() - started
    print(
        f"{counts[True]} programs with a race, each rejected with a witness that holds; "
        f"{counts[False]} without, none rejected; seeds {options.seed} to {seed - 1}, "
        f"{elapsed:.0f} s, slowest {slowest:.2f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
