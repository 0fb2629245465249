"""Which sharding each value of a program has: the least time of what devices send and compute.

A state says which shardings of each live value devices have so far.  Operators are taken in order;
each of their strategies asks for shardings of the operands, and what a state lacks is made of what
it has.  So a tensor that is gathered once is there for all who need it.  Of two states the second
can be left out where the first, with all that it lacks of the second made at once, costs no more.
Searches that keep few states bound what those behind them look at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects.sharding import Mesh, Sharding
from mugraph.passes.program.partition.conversions import NOTHING, Conversions, Cost, Way
from mugraph.passes.program.partition.strategies import Strategy

STATES = (8, 64, 2000)
"""So many of the cheapest are kept behind an operator in each search; none is lost of fewer."""


class Conversion(NamedTuple):
    """A sharding of a value that devices make of another one."""

    value: SSAValue
    source: Sharding
    way: Way


class Decision(NamedTuple):
    """What devices do with an operator, or with the results of the program at its end."""

    conversions: tuple[Conversion, ...]
    strategy: Strategy | None


class ShardingPlan(NamedTuple):
    """What was found."""

    decisions: tuple[Decision, ...]
    """One an operator, then one for the results."""
    results: tuple[Sharding, ...]
    cost: Cost
    is_exact: bool
    """Whether no way costs less; false where states were left out."""


class NoWayError(Exception):
    """A sharding that a result must have cannot be made of any that it can have."""

    def __init__(self, result: int, wanted: Sharding) -> None:
        super().__init__(result, wanted)
        self.result = result
        self.wanted = wanted


Forms = frozenset[int]
"""Shardings of one value, by number."""
Key = frozenset[tuple[int, Forms]]


class Made(NamedTuple):
    """A conversion, in numbers of a value and a sharding."""

    value: int
    source: int
    way: Way
    forms: Forms
    """What there is of the value afterwards."""


@dataclass(frozen=True)
class State:
    """The shardings of each live value, what they cost, and how they came to be."""

    forms: Mapping[int, Forms]
    cost: Cost = NOTHING
    made: tuple[Made, ...] = ()
    strategy: Strategy | None = None
    before: State | None = None

    @property
    def key(self) -> Key:
        """The same for states that can go on alike."""
        return frozenset(self.forms.items())


class Demand(NamedTuple):
    """A strategy in numbers: which sharding of which operand, and what it gives of the results."""

    operands: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, Forms], ...]
    strategy: Strategy


@dataclass
class Search:
    """The cheapest plan of a program."""

    mesh: Mesh
    operators: Sequence[Operation]
    strategies: Sequence[Sequence[Strategy]]
    arguments: Mapping[SSAValue, Sharding]
    returned: Sequence[SSAValue]
    wanted: Sequence[Sharding | None]
    """How each result lies; ``None`` where that is free."""
    conversions: Conversions = field(init=False)

    def __post_init__(self) -> None:
        self.conversions = Conversions(self.mesh)
        results = [result for op in self.operators for result in op.results]
        self.values = [*self.arguments, *results]
        self.number = {value: number for number, value in enumerate(self.values)}
        self.types: list[Attribute] = [value.type for value in self.values]
        self.last_use: dict[int, int] = {}
        for place, op in enumerate(self.operators):
            self.last_use |= dict.fromkeys((self.number[each] for each in op.operands), place)
        self.ends = [self.number[value] for value in self.returned]
        self.last_use |= dict.fromkeys(self.ends, len(self.operators))
        self.demands = [
            [self.demand(op, strategy) for strategy in choices]
            for op, choices in zip(self.operators, self.strategies, strict=True)
        ]
        self.best: dict[tuple[int, Forms, int], Made | None] = {}

    def demand(self, op: Operation, strategy: Strategy) -> Demand:
        """A strategy in numbers."""
        number, form = self.number, self.conversions.number_of
        operands = zip(op.operands, strategy.operands, strict=True)
        results = zip(op.results, strategy.results, strict=True)
        return Demand(
            tuple((number[value], form(sharding)) for value, sharding in operands),
            tuple((number[value], frozenset({form(to)})) for value, to in results),
            strategy,
        )

    def run(self) -> ShardingPlan:
        """Searches with more and more states; raises :class:`NoWayError`."""
        best: tuple[State, list[int]] | None = None
        is_exact = False
        for most in STATES:
            found, is_exact = self.search(most, None if best is None else best[0].cost)
            if found is not None and (best is None or found[0].cost < best[0].cost):
                best = found
            if is_exact:
                break
        assert best is not None
        return self.plan(*best, is_exact)

    def search(self, most: int, bound: Cost | None) -> tuple[tuple[State, list[int]] | None, bool]:
        """The cheapest state at the end that costs at most ``bound``, and whether none was lost.

        ``None`` where all that are kept cost more.
        """
        form = self.conversions.number_of
        start = {
            self.number[value]: frozenset({form(sharding)})
            for value, sharding in self.arguments.items()
        }
        states, is_exact = [State(start)], True
        for place, demands in enumerate(self.demands):
            found: dict[Key, State] = {}
            for state in states:
                for demand in demands:
                    after = self.after(state, place, demand)
                    if after is None or (bound is not None and after.cost > bound):
                        continue
                    key = after.key
                    if key not in found or after.cost < found[key].cost:
                        found[key] = after
            states = self.pruned(list(found.values()))
            is_exact &= len(states) <= most
            states = states[:most]
        ends = map(self.finished, states)
        return min(ends, key=lambda found: found[0].cost, default=None), is_exact

    def after(self, state: State, place: int, demand: Demand) -> State | None:
        """A state behind an operator that is shared so; ``None`` where an operand cannot be."""
        forms = dict(state.forms)
        cost = state.cost.plus(demand.strategy.cost)
        made: list[Made] = []
        for value, wanted in demand.operands:
            if wanted in forms[value]:
                continue
            one = self.cheapest(value, forms[value], wanted)
            if one is None:
                return None
            made.append(one)
            cost = cost.plus(one.way.cost)
            forms[value] = one.forms
        forms |= demand.results
        last_use = self.last_use
        live = {value: of for value, of in forms.items() if last_use.get(value, -1) > place}
        return State(live, cost, tuple(made), demand.strategy, state)

    def cheapest(self, value: int, forms: Forms, wanted: int) -> Made | None:
        """How a value gets a sharding that it lacks; ``None`` where it cannot."""
        key = (value, forms, wanted)
        if key not in self.best:
            found: Made | None = None
            for source in sorted(forms):
                way = self.conversions.ways(self.types[value], source).get(wanted)
                if way is not None and (found is None or way.cost < found.way.cost):
                    found = Made(value, source, way, forms.union(way.through))
            self.best[key] = found
        return self.best[key]

    def pruned(self, states: list[State]) -> list[State]:
        """States that no other one can stand for, the cheapest first."""
        states.sort(key=lambda state: state.cost)
        kept: list[State] = []
        for state in states:
            if not any(self.stands_for(other, state) for other in kept[:16]):
                kept.append(state)
        return kept

    def stands_for(self, one: State, other: State) -> bool:
        """Whether the first, with what it lacks of the second, costs no more."""
        cost = one.cost
        for value, forms in other.forms.items():
            own = one.forms[value]
            for wanted in sorted(forms - own):
                made = self.cheapest(value, own, wanted)
                if made is None:
                    return False
                cost, own = cost.plus(made.way.cost), made.forms
                if cost > other.cost:
                    return False
        return cost <= other.cost

    def finished(self, state: State) -> tuple[State, list[int]]:
        """A state with the results as they are wanted; nothing is left to combine in free ones."""
        forms, cost = dict(state.forms), state.cost
        made: list[Made] = []
        shardings: list[int] = []
        for place, (value, wanted) in enumerate(zip(self.ends, self.wanted, strict=True)):
            if wanted is None:
                options = self.combined_forms(value, forms[value])
            else:
                options = [self.conversions.number_of(wanted)]
            there = [option for option in options if option in forms[value]]
            if there:
                shardings.append(there[0])
                continue
            found = [one for to in options if (one := self.cheapest(value, forms[value], to))]
            if not found:
                raise NoWayError(place, wanted or Sharding(()))
            one = min(found, key=lambda made: made.way.cost)
            shardings.append(one.way.through[-1])
            made.append(one)
            cost = cost.plus(one.way.cost)
            forms[value] = one.forms
        return State(forms, cost, tuple(made), None, state), shardings

    def combined_forms(self, value: int, forms: Forms) -> list[int]:
        """The shardings that a value can have in which nothing is left to combine."""
        reached = {
            to for source in forms for to in self.conversions.ways(self.types[value], source)
        }
        return sorted(to for to in reached if not self.conversions.shardings[to].partial)

    def plan(self, last: State, results: Sequence[int], is_exact: bool) -> ShardingPlan:
        """How a state came to be."""
        shardings = self.conversions.shardings
        decisions: list[Decision] = []
        state = last
        while state.before is not None:
            made = tuple(
                Conversion(self.values[one.value], shardings[one.source], one.way)
                for one in state.made
            )
            decisions.append(Decision(made, state.strategy))
            state = state.before
        chosen = tuple(shardings[number] for number in results)
        return ShardingPlan(tuple(reversed(decisions)), chosen, last.cost, is_exact)
