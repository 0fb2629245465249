"""``cost-model=exact``: what layouts cost on the target, in picoseconds a launch.

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
``docs/layout-resolution.md`` derives the prices and compares both models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.cute import Layout
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.layout_problem import LayoutProblem, Literal
from mugraph.dialects.partition import VECTOR_BYTES
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import AnyLayout, element_bytes_of, op_label, shape_of
from mugraph.passes.resolve_layout.access_work import Work, swizzles_of
from mugraph.passes.resolve_layout.operator_costs import SharedUse, Strides, layout_costs
from mugraph.passes.resolve_layout.problem import layout_candidates
from mugraph.passes.resolve_layout.site import Site, site_of
from mugraph.passes.schedule_threadblock.choose import MIN_STAGES
from mugraph.passes.targets import Target


@dataclass(frozen=True)
class _Charge:
    """A use of a shared tensor of given strides, where ``literals`` hold."""

    op: Operation
    literals: tuple[Literal, ...]
    use: SharedUse
    strides: Strides


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

    def add(self, op: Operation) -> None:
        """Charges what strides alone decide of an operator, and notes the rest."""
        for costs in layout_costs(op, self.site):
            values = list(dict.fromkeys(costs.values))
            candidates = [layout_candidates(self.problem, value) for value in values]
            for choice in product(*candidates):
                strides = {v: own for v, (_, own) in zip(values, choice, strict=True)}
                literals: tuple[Literal, ...] = tuple(x for own, _ in choice for x in own)
                uses = costs.uses([strides[value] for value in costs.values])
                self.charge(op, uses.other, literals)
                for use in uses.shared:
                    self.note(_Charge(op, literals, use, strides[use.value]))

    def note(self, charge: _Charge) -> None:
        """Keeps a use for later; finds out whether its tensor needs a swizzle."""
        value = charge.use.value
        self.charges.append(charge)
        plain = Layout(shape_of(value.type), charge.strides)
        if charge.use.work(plain).conflicts:
            self.conflicting.add((self.problem.number_of(value), charge.strides))

    def charge(self, op: Operation, work: Work, literals: tuple[Literal, ...]) -> None:
        """Charges an operator's work where all literals hold."""
        label = op_label(op)
        for term, picoseconds in self.site.picoseconds(work).items():
            self.problem.charge(round(picoseconds), *literals, reason=f"{term}, {label}")

    def settle(self) -> None:
        """Charges the uses of shared tensors, for each of the swizzles that matter."""
        counts: dict[SSAValue, int] = {}
        for charge in self.charges:
            value = charge.use.value
            shape = shape_of(value.type)
            layouts: Sequence[AnyLayout] = (Layout(shape, charge.strides),)
            if (self.problem.number_of(value), charge.strides) in self.conflicting:
                layouts = swizzles_of(shape, charge.strides, element_bytes_of(value.type))
            works = [charge.use.work(layout) for layout in layouts]
            if all(work == works[0] for work in works):
                self.charge(charge.op, works[0], charge.literals)
                continue
            swizzles = [self.problem.permuted(value, k) for k in range(1, len(layouts))]
            plain = tuple(literal.negated() for literal in swizzles)
            self.charge(charge.op, works[0], (*charge.literals, *plain))
            for work, swizzle in zip(works[1:], swizzles, strict=True):
                self.charge(charge.op, work, (*charge.literals, swizzle))
            counts[value] = max(counts.get(value, 0), len(swizzles))
        for value, count in counts.items():
            self.problem.require_at_most_one(
                [self.problem.permuted(value, k) for k in range(1, count + 1)]
            )


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
    """Charges the accesses of every operator of a µGraph, and the bytes of its shared tensors."""
    for op in function.body.block.ops:
        if isinstance(op, kn.CustomizedOp):
            _charge_graph(problem, op, target)
        elif isinstance(op, HasLayoutConstraints):
            _Charger(problem, Site(target)).add(op)


def _charge_graph(problem: LayoutProblem, graph: kn.CustomizedOp, target: Target) -> None:
    site = site_of(graph, target)
    price = site.price_of_a_byte()
    charger = _Charger(problem, site)
    for op in graph.body.block.ops:
        if isinstance(op, HasLayoutConstraints):
            charger.add(op)
        for result in op.results:
            if isinstance(result.type, STensorType):
                charge_bytes(problem, result, site, price)
    charger.settle()
