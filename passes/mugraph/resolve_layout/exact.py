"""What layouts cost on the target, in picoseconds a launch.

Every operator says which accesses to memory it will make for given strides of its tensors
(:func:`.operator_costs.layout_costs`); they are counted as the finished kernel's are, and priced by
the target (:class:`.site.Site`):

- a sector of device memory takes its 32 bytes' share of the bandwidth;
- a wavefront of shared memory takes one cycle of one of the multiprocessors;
- a warp instruction takes one issue slot of one of their four schedulers;
- a copy into the loop that cannot be asynchronous waits once an iteration for device memory;
- a byte of shared memory takes its share of a multiprocessor's for as long as the kernel's tiles
  take to come and go at full bandwidth.

Times add up as if nothing overlapped, so that a choice is better the less it needs of each.
``docs/layout-resolution.md`` derives the prices.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple, TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.layout_problem import Bounded, LayoutProblem, Literal, SoftCost, Variable
from mugraph.dialects.likeness import likeness_of
from mugraph.dialects.partition import VECTOR_BYTES
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import AnyLayout, bytes_of, element_bytes_of, op_label, shape_of
from mugraph.passes.mugraph.resolve_layout.access_work import AccessWork, plain_layout, swizzles_of
from mugraph.passes.mugraph.resolve_layout.operator_costs import (
    AccessCosts,
    LaunchUses,
    SharedUse,
    Strides,
    layout_costs,
)
from mugraph.passes.mugraph.resolve_layout.problem import layout_candidates, tensors_in
from mugraph.passes.mugraph.resolve_layout.site import Site, site_of
from mugraph.passes.mugraph.resolve_layout.solution import holds
from mugraph.passes.schedule.pipeline_loads.stages import MIN_STAGES
from mugraph.passes.targets import Target

COUNTING_STEPS = 10_000
"""Steps that counting accesses of each kind once may take; some 200 microseconds each."""
BYTES_OF_A_STEP = 1 << 13
"""Bytes of a tile whose addresses are looked at in as long as one combination takes."""
COST_ENTRIES = 1 << 16
"""Entries of the table of one operator's costs."""

Candidate: TypeAlias = tuple[tuple[Literal, ...], Strides]
"""Strides of a tensor, and what holds where it has them."""


class _Charge(NamedTuple):
    """A use of a shared tensor of given strides, where ``literals`` hold."""

    op: Operation
    literals: tuple[Literal, ...]
    use: SharedUse
    strides: Strides
    plain: AccessWork
    """The work where the tensor has no swizzle."""


@dataclass(frozen=True, eq=False)
class _Accesses:
    """Accesses of one operator, and the candidate layouts of each tensor that they depend on."""

    op: Operation
    costs: AccessCosts
    candidates: dict[SSAValue, list[Candidate]]

    @property
    def table(self) -> int:
        """The entries of a table of what they cost."""
        return math.prod(2 * len(shape_of(value.type)) for value in self.candidates)

    @property
    def combinations(self) -> int:
        """How many combinations of layouts there are."""
        return math.prod(map(len, self.candidates.values()))

    @property
    def walk(self) -> int:
        """The steps of looking at the addresses of all tiles, each under each layout."""
        size = sum(len(self.candidates[tile]) * bytes_of(tile.type) for tile in self.tiles)
        return size // BYTES_OF_A_STEP

    @property
    def tiles(self) -> list[SSAValue]:
        """The tensors in shared memory."""
        return [value for value in self.candidates if isinstance(value.type, STensorType)]

    @property
    def kind(self) -> Hashable:
        """Accesses of one kind have the same candidates, whose addresses are looked at once."""
        layouts = (tuple(strides for _, strides in each) for each in self.candidates.values())
        return self.op.name, *(value.type for value in self.candidates), *layouts

    def chosen(self, true_variables: AbstractSet[Variable]) -> dict[SSAValue, Candidate]:
        """The candidate of each tensor that holds."""
        return {
            value: next(one for one in each if all(holds(x, true_variables) for x in one[0]))
            for value, each in self.candidates.items()
        }

    def uses(self, chosen: Mapping[SSAValue, Candidate]) -> LaunchUses:
        """What a launch does under one of the candidates of each tensor."""
        return self.costs.uses([chosen[value][1] for value in self.costs.values])


class _Charger:
    """Charges a problem with the accesses of one launch.

    Where accesses to a tensor conflict in its plain layout, which of its swizzles it gets becomes
    a choice of its own: all its accesses share it.
    """

    def __init__(self, problem: LayoutProblem, site: Site) -> None:
        self.problem = problem
        self.site = site
        self.charges: list[_Charge] = []
        self.conflicting: set[tuple[int, Strides]] = set()
        self.bounded: list[_Accesses] = []
        self.label = cache(op_label)

    def accesses_of(self, op: Operation) -> list[_Accesses]:
        """What an operator accesses, to be added later.

        Accesses to a tile that no multiprocessor has room for are left out: there is no kernel that
        makes them.
        """
        found = [
            _Accesses(
                op,
                costs,
                {value: layout_candidates(self.problem, value) for value in costs.values},
            )
            for costs in layout_costs(op, self.site)
        ]
        room = self.site.target.shared_memory_per_multiprocessor
        return [each for each in found if all(bytes_of(tile.type) <= room for tile in each.tiles)]

    def add(self, accesses: _Accesses) -> None:
        """Charges what strides alone decide, for every combination, and notes the rest."""
        for choice in product(*accesses.candidates.values()):
            chosen = dict(zip(accesses.candidates, choice, strict=True))
            literals = tuple(x for own, _ in choice for x in own)
            uses = accesses.uses(chosen)
            self.charge(accesses.op, uses.other, literals)
            for use in uses.shared:
                self.note(accesses.op, literals, use, chosen[use.value][1])

    def bound(self, accesses: _Accesses) -> None:
        """Charges what each tensor costs at least, whatever the others' strides are."""
        for value, candidates in accesses.candidates.items():
            for literals, strides in candidates:
                least = accesses.costs.least(value, strides)
                self.charge(accesses.op, least, literals, is_bound=True)
        self.bounded.append(accesses)

    def price(self, true_variables: AbstractSet[Variable]) -> int:
        """What the accesses of which bounds were charged cost under one choice of layouts.

        Tensors that they touch get the best of their swizzles; what that changes for accesses that
        were counted belongs to the price.
        """
        uses: dict[SSAValue, list[SharedUse]] = {}
        layouts: dict[SSAValue, Sequence[AnyLayout]] = {}
        total = 0
        for accesses in self.bounded:
            chosen = accesses.chosen(true_variables)
            found = accesses.uses(chosen)
            total += self.weight(found.other)
            for use in found.shared:
                value, (_, strides) = use.value, chosen[use.value]
                uses.setdefault(value, []).append(use)
                size = element_bytes_of(value.type)
                layouts[value] = swizzles_of(shape_of(value.type), strides, size)
        for charge in self.charges:
            value = charge.use.value
            if value in uses and all(holds(x, true_variables) for x in charge.literals):
                uses[value].append(charge.use)
                known = self.layouts(value, charge.strides)
                swizzles = (self.problem.permuted(value, k) for k in range(1, len(known)))
                held = [holds(swizzle, true_variables) for swizzle in swizzles]
                counted = known[held.index(True) + 1] if True in held else known[0]
                total -= self.weight(charge.use.work(counted))
        for value, each in uses.items():
            total += min(
                sum(self.weight(use.work(layout)) for use in each) for layout in layouts[value]
            )
        return total

    def weight(self, work: AccessWork) -> int:
        """What work is charged with, in picoseconds."""
        return sum(round(each) for each in self.site.picoseconds(work).values())

    def note(
        self, op: Operation, literals: tuple[Literal, ...], use: SharedUse, strides: Strides
    ) -> None:
        """Keeps a use for later; finds out whether its tensor needs a swizzle."""
        plain = use.work(plain_layout(shape_of(use.value.type), strides))
        self.charges.append(_Charge(op, literals, use, strides, plain))
        if plain.conflicts:
            self.conflicting.add((self.problem.number_of(use.value), strides))

    def layouts(self, value: SSAValue, strides: Strides) -> Sequence[AnyLayout]:
        """The plain layout of a tensor, then the swizzled ones that it may get."""
        shape = shape_of(value.type)
        if (self.problem.number_of(value), strides) in self.conflicting:
            return swizzles_of(shape, strides, element_bytes_of(value.type))
        return (plain_layout(shape, strides),)

    def charge(
        self,
        op: Operation,
        work: AccessWork,
        literals: tuple[Literal, ...],
        *,
        is_bound: bool = False,
    ) -> None:
        """Charges an operator's work where all literals hold."""
        label = self.label(op)
        for term, picoseconds in self.site.picoseconds(work).items():
            self.problem.charge(
                round(picoseconds), *literals, reason=f"{term}, {label}", is_bound=is_bound
            )

    def settle(self) -> None:
        """Charges the uses of shared tensors, for each of the swizzles that matter."""
        counts: dict[SSAValue, int] = {}
        for charge in self.charges:
            value = charge.use.value
            layouts = self.layouts(value, charge.strides)
            works = [charge.plain, *(charge.use.work(layout) for layout in layouts[1:])]
            cases: list[tuple[Literal, ...]] = [()]
            if any(work != works[0] for work in works):
                swizzles = [self.problem.permuted(value, k) for k in range(1, len(layouts))]
                cases = [tuple(literal.negated() for literal in swizzles)]
                cases += [(swizzle,) for swizzle in swizzles]
                counts[value] = max(counts.get(value, 0), len(swizzles))
            for work, case in zip(works, cases, strict=False):
                self.charge(charge.op, work, (*charge.literals, *case))
        for value, count in counts.items():
            self.problem.require_at_most_one(
                [self.problem.permuted(value, k) for k in range(1, count + 1)]
            )
        if self.bounded:
            labels = tuple(self.label(accesses.op) for accesses in self.bounded)
            self.problem.bounded.append(Bounded(labels, self.price))


def charge_bytes(problem: LayoutProblem, value: SSAValue, site: Site, price: float) -> None:
    """Charges each candidate layout of a shared tensor with the bytes its buffer takes."""
    shape, owner = shape_of(value.type), value.owner
    moves = isinstance(owner, tb.InputOp) and owner.loop_dim >= 0 and site.graph is not None
    stages = min(MIN_STAGES, site.graph.forloop_range) if moves and site.graph else 1
    for literals, strides in layout_candidates(problem, value):
        last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        size = (last + 1) * element_bytes_of(value.type) * stages
        padded = math.ceil(size / VECTOR_BYTES) * VECTOR_BYTES
        problem.charge(round(padded * price), *literals, reason="bytes of shared memory")


def charge_exact_costs(problem: LayoutProblem, function: FuncOp, target: Target) -> None:
    """Charges the accesses of every operator of a µGraph, and the bytes of its shared tensors.

    Accesses are counted for each combination of layouts, kinds with the fewest first, within
    ``COUNTING_STEPS``; of others a lower bound is charged.
    """
    launches: list[_Launch] = []
    first: dict[Hashable, _Launch] = {}
    for op in function.body.block.ops:
        launch = _Launch(op, problem, target)
        launch.like = first.setdefault(launch.look(), launch)
        launches.append(launch)
    counted = _counted([each for own in first.values() for each in own.accesses])
    for launch in launches:
        like = launch.like or launch
        if like is launch or like.charger.bounded:
            launch.charge([each in counted for each in like.accesses])
        else:
            launch.charge_as(like)


class _Launch:
    """What is charged of one operator, of which some are alike."""

    def __init__(self, op: Operation, problem: LayoutProblem, target: Target) -> None:
        self.op = op
        self.graph = op if isinstance(op, kn.CustomizedOp) else None
        self.problem = problem
        self.target = target
        self.like: _Launch | None = None
        """The first launch that is like it, perhaps itself."""
        self.costs: Sequence[SoftCost] = ()
        self.groups: Sequence[Sequence[Variable]] = ()

    @cached_property
    def tensors(self) -> list[SSAValue]:
        """All tensors of a custom kernel, in an order that is the same for those that are alike."""
        if self.graph is None:
            return []
        inside = tensors_in(self.graph.body.block)
        return [*self.graph.operands, *self.graph.results, *inside]

    def look(self) -> Hashable:
        """What decides what is charged, and what that is called; others are alone."""
        if self.graph is None:
            return self.op
        return (
            likeness_of(self.graph, besides=(kn.CERTIFICATE,)),
            tuple(map(self.problem.strides_fixed_for, self.tensors)),
            tuple(map(op_label, self.graph.body.block.ops)),
        )

    @cached_property
    def charger(self) -> _Charger:
        """Charges the problem."""
        site = site_of(self.graph, self.target) if self.graph else Site(self.target)
        return _Charger(self.problem, site)

    @cached_property
    def accesses(self) -> list[_Accesses]:
        """All accesses to memory."""
        ops = self.graph.body.block.ops if self.graph else (self.op,)
        taking_part = (inner for inner in ops if isinstance(inner, HasLayoutConstraints))
        return [each for op in taking_part for each in self.charger.accesses_of(op)]

    def charge(self, is_counted: Sequence[bool]) -> None:
        """Charges its accesses, or bounds of those that are not counted, and the bytes of tiles."""
        costs, groups = len(self.problem.soft), len(self.problem.at_most_one)
        for each, counts in zip(self.accesses, is_counted, strict=True):
            (self.charger.add if counts else self.charger.bound)(each)
        charge_all_bytes(self.problem, self.charger.site)
        self.charger.settle()
        self.costs, self.groups = self.problem.soft[costs:], self.problem.at_most_one[groups:]

    def charge_as(self, other: _Launch) -> None:
        """Charges what was charged of another launch that is like it."""
        number_of = self.problem.number_of
        tensors = zip(other.tensors, self.tensors, strict=True)
        self.problem.repeat(
            other.costs,
            other.groups,
            {number_of(theirs): number_of(own) for theirs, own in tensors},
        )


def _counted(accesses: Iterable[_Accesses]) -> set[_Accesses]:
    """Those that are counted for every combination, with the fewest steps first.

    One of each kind takes steps, and all of a kind are counted or none: identical layers of a model
    get the same layouts, however many there are.  Where steps end, kinds that take as many come in
    turns: of those that were counted before, all are.
    """
    counted: set[_Accesses] = set()
    kinds: set[Hashable] = set()
    steps = 0
    for each in sorted(accesses, key=lambda each: each.combinations + each.walk):
        if each.table > COST_ENTRIES:
            continue
        if each.kind not in kinds:
            steps += each.combinations + each.walk
            if steps > COUNTING_STEPS:
                continue
            kinds.add(each.kind)
        counted.add(each)
    return counted


def charge_all_bytes(problem: LayoutProblem, site: Site) -> None:
    """Charges the bytes of all shared tensors of a launch."""
    price = site.price_of_a_byte()
    for op in site.graph.body.block.ops if site.graph else ():
        for result in op.results:
            if isinstance(result.type, STensorType):
                charge_bytes(problem, result, site, price)
