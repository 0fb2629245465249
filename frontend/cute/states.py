"""How often pipelines' states have been advanced, where loops are recorded once.

What an iteration advances a state by is known at the end of a loop, and needed at its begin.  So a
kernel that has such loops is recorded again, with the steps that were found, until they are right.

A state that was advanced under a condition is one of the threads, or iterations, for which it
holds: under the same condition it is used again, elsewhere not.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from xdsl.ir import SSAValue

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Atom, Index, Numeric, Part, Predicate, Variable, as_index

Path = tuple[tuple[tuple[int, ...], Any], ...]
"""The conditions under which a state was advanced, the outermost first.

Of each the numbers of the loops that it depends on, and a key.
"""
_NOWHERE = (), "nowhere"
"""A condition of which no use is: how often a state was advanced is not known any more."""
Steps = dict[tuple[int, int], tuple[Numeric, Path]]
"""By the numbers of a loop and a state: what an iteration advances it by, and where."""


class Count:
    """How often a state was advanced, and for which threads that holds."""

    def __init__(self, number: Numeric) -> None:
        self.number = number
        self.path: Path = ()


class States:
    """The states of a kernel while it is recorded; ``assumed`` are those of the time before."""

    def __init__(self, assumed: Steps) -> None:
        self.assumed = assumed
        self.found: Steps = {}
        self._states: list[Count] = []
        self._begun = 0
        """How many loops have begun."""
        self._loops: dict[SSAValue, int] = {}

    def is_right(self) -> bool:
        """Whether what was assumed of loops is what was found."""
        return all(
            _text(self.assumed.get(key, (0, ()))) == _text(step) for key, step in self.found.items()
        )

    def new(self, number: Numeric) -> Count:
        """A state that was advanced so often."""
        self._states.append(Count(number))
        return self._states[-1]

    @contextmanager
    def loop(self, variable: Numeric, extent: Numeric) -> Generator[None]:
        """What an iteration does, in which states stand for those of all iterations."""
        number, self._begun = self._begun, self._begun + 1
        self._loops |= dict.fromkeys(as_index(variable).variables(), number)
        before = [(state, state.number, state.path) for state in self._states]
        begins: list[Numeric] = []
        for place, (state, first, path) in enumerate(before):
            step, again = self.assumed.get((number, place), (0, path))
            state.path = max(path, again, key=len)
            if not all(one == other for one, other in zip(path, again, strict=False)):
                state.path = (_NOWHERE, *path)
            state.number = first + variable * step
            begins.append(state.number)
        yield
        for place, (state, first, path) in enumerate(before):
            if state.number is begins[place] and (number, place) not in self.assumed:
                state.number, state.path = first, path
                continue
            step = state.number - begins[place]
            self.found[number, place] = step, state.path
            state.number = first + extent * step
            if any(number in loops for loops, _conditions in state.path):
                state.path = (_NOWHERE, *state.path)  # not in all iterations

    @contextmanager
    def condition(self, predicate: Predicate) -> Generator[None]:
        """What runs where a condition holds."""
        used = {one for index, _ in predicate.conditions for one in index.variables()}
        loops = tuple(sorted(self._loops[one] for one in used & self._loops.keys()))
        key = loops, tuple(sorted((self._key(one), same) for one, same in predicate.conditions))
        before = [(state, state.number, state.path) for state in self._states]
        for state, _number, path in before:
            if path[:1] == (key,):
                state.path = path[1:]
        yield
        for state, number, path in before:
            is_advanced = state.number is not number
            if is_advanced and not _is_kept(predicate, self._loops):
                raise KernelError(
                    f"the state of a pipeline is advanced where '{predicate}', which iterations "
                    "decide; advance it in each iteration, or in all before the last ones"
                )
            state.path = (key, *state.path) if is_advanced or path[:1] == (key,) else path

    @contextmanager
    def unchanged(self, condition: str) -> Generator[None]:
        """What may advance no state.  Raises KernelError where it does."""
        before = [(state, state.number) for state in self._states]
        yield
        if any(state.number is not number for state, number in before):
            raise KernelError(f"the state of a pipeline is advanced under {condition}")

    def _key(self, index: Index) -> str:
        """The same text for the same index whenever a kernel is recorded."""
        terms = (f"{factor}*{self._atom(atom)}" for atom, factor in index.terms)
        return f"{index.constant}+{'+'.join(sorted(terms))}"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Part):
            return f"({self._key(atom.index)}){'%' if atom.is_remainder else '/'}{atom.divisor}"
        return f"{atom.name}{self._loops.get(atom.value, '')}"


def _text(step: tuple[Numeric, Path]) -> str:
    return f"{step[0]}, {step[1]}"


def _is_kept(predicate: Predicate, loops: dict[SSAValue, int]) -> bool:
    """Whether a condition that does not hold in an iteration holds in no later one either."""
    for index, is_same in predicate.conditions:
        for atom, factor in index.terms:
            is_plain = isinstance(atom, Variable)
            of_loop = [one for one in loops if index.uses(one)]
            if of_loop and (is_same or (is_plain and atom.value in loops and factor > 0)):
                return False
            if isinstance(atom, Part) and any(atom.index.uses(one) for one in of_loop):
                return False
    return True
