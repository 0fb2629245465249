"""From one sharding of a tensor to others: the collectives that take the least time."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xdsl.ir import Attribute, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.sharding import Axes, Mesh, Sharding, part_type
from mugraph.dialects.tensor_types import bytes_of, shape_of
from mugraph.passes.costs.devices import COPIED_BYTES, links_between

WORK_PER_BYTE = 1000
"""Multiplications in the time of a byte that a device sends.  An H200 multiplies 3.8e14 pairs a
second and sends 3.65e11 bytes (``benchmarks/results/collectives_h200x2.md``).  Tensors that are
not summed go at a pace of their own (``Links``)."""

WORK_PER_START = 5_700_000_000
"""Multiplications in the 15 us that a collective takes whatever it sends: NCCL's take 10 to 12, and
functions end before it and begin behind it.  The way that is then chosen was the fastest one of
seven products before a sum on two H200 (``benchmarks/results/collectives_h200x2.md``)."""
WORK_PER_COPIED_BYTE = 170
"""Multiplications in the time in which a byte is copied in a device's memory: it is read and
written, at 4.2e12 bytes a second."""


class Cost(NamedTuple):
    """What ways are compared by, the first field first; of one device."""

    time: int = 0
    """Of what is started, sent, copied and multiplied, in multiplications."""
    collectives: int = 0
    """Operators that send something."""
    work: int = 0
    """Elements that operators compute, or multiplications."""
    sent: int = 0
    """Bytes."""

    @staticmethod
    def of_collective(sent: int, copied: int, pace: float = COPIED_BYTES) -> Cost:
        """The cost of a collective in which a device sends, and copies, so many bytes.

        It sends so many a microsecond as ``pace`` says.
        """
        time = WORK_PER_START + round(sent * WORK_PER_BYTE * COPIED_BYTES / pace)
        return Cost(time + copied * WORK_PER_COPIED_BYTE, 1, 0, sent)

    def plus(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(*(one + two for one, two in zip(self, other, strict=True)))


NOTHING = Cost()


class ConversionStep(NamedTuple):
    """One collective: what it does along ``axes``, and to which sharding it leads."""

    to: Sharding
    axes: Axes
    cut: int | None = None
    joined: int | None = None
    combiner: Combiner | None = None

    def cost(self, part: Attribute, mesh: Mesh) -> Cost:
        """What it sends of a device's part."""
        sent = kn.bytes_sent(
            part,
            mesh.size(self.axes),
            cuts=self.cut is not None,
            joins=self.joined is not None,
            combines=self.combiner is not None,
        )
        is_sent = self.joined is not None or self.combiner is not None
        if not is_sent:
            return Cost(work=1)
        # Parts along an inner dimension do not lie one behind the other as they are sent.
        copied, own, size = 0, bytes_of(part), mesh.size(self.axes)
        if self.cut is not None and not _is_outermost(part, self.cut):
            copied += own
        if self.joined is not None and not _is_outermost(part, self.joined):
            copied += own * (1 if self.cut is not None else size)
        if self.combiner is not None:
            return Cost.of_collective(sent, copied)
        links = links_between(size)
        pace = links.gathered_bytes if self.cut is None else links.exchanged_bytes
        return Cost.of_collective(sent, copied, pace)

    @property
    def name(self) -> str:
        """The name of the operator that does it."""
        cuts, joins, combines = (
            each is not None for each in (self.cut, self.joined, self.combiner)
        )
        if combines:
            return kn.ReduceScatterOp.name if cuts else kn.AllReduceOp.name
        if joins:
            return kn.AllToAllOp.name if cuts else kn.AllGatherOp.name
        return kn.AllSliceOp.name

    def operator(self, operand: SSAValue, type_: Attribute) -> kn.CollectiveOp:
        """The operator, of the type of a device's part of the result."""
        match self:
            case ConversionStep(combiner=Combiner() as combiner, cut=None):
                return kn.AllReduceOp(operand, type_, self.axes, combiner)
            case ConversionStep(combiner=Combiner() as combiner, cut=int(dim)):
                return kn.ReduceScatterOp(operand, self.axes, dim, type_, combiner)
            case ConversionStep(cut=int(dim), joined=int(joined)):
                return kn.AllToAllOp(operand, self.axes, dim, joined, type_)
            case ConversionStep(joined=int(dim)):
                return kn.AllGatherOp(operand, self.axes, dim, type_)
            case ConversionStep(cut=int(dim)):
                return kn.AllSliceOp(operand, self.axes, dim, type_)
            case _:
                raise ValueError(f"{self} does nothing")


def _is_outermost(part: Attribute, dim: int) -> bool:
    """Whether parts along a dimension lie one behind the other."""
    return math.prod(shape_of(part)[:dim]) == 1


class Way(NamedTuple):
    """The cheapest way from one sharding to another."""

    cost: Cost
    steps: tuple[ConversionStep, ...]
    through: tuple[int, ...]
    """The numbers of the shardings that the steps lead to."""


def _orders(axes: Axes) -> Iterator[Axes]:
    """The axes, or some of them, in each order."""
    for count in range(1, len(axes) + 1):
        yield from itertools.permutations(axes, count)


def _with(sharding: Sharding, dim: int, axes: Axes) -> Sharding:
    split = list(sharding.split_axes)
    split[dim] = axes
    return replace(sharding, split_axes=tuple(split))


def _without_partial(sharding: Sharding, axes: Axes) -> Sharding:
    left = tuple(axis for axis in sharding.partial if axis not in axes)
    return replace(sharding, partial=left, combiner=sharding.combiner if left else Combiner.SUM)


def steps_from(sharding: Sharding, mesh: Mesh) -> Iterator[ConversionStep]:
    """Every collective on a tensor that lies so; extents may not divide."""
    split, dims = sharding.split_axes, range(len(sharding.split_axes))
    for axes in _orders(sharding.partial):
        rest = _without_partial(sharding, axes)
        if axes == tuple(sorted(axes)):
            yield ConversionStep(rest, axes, combiner=sharding.combiner)
        for dim in dims:
            to = _with(rest, dim, (*split[dim], *axes))
            yield ConversionStep(to, axes, cut=dim, combiner=sharding.combiner)
    for dim in dims:
        for kept in range(len(split[dim])):
            axes = split[dim][kept:]
            whole = _with(sharding, dim, split[dim][:kept])
            yield ConversionStep(whole, axes, joined=dim)
            for other in dims:
                if other != dim:
                    to = _with(whole, other, (*split[other], *axes))
                    yield ConversionStep(to, axes, cut=other, joined=dim)
    free = tuple(axis for axis in range(len(mesh.shape)) if axis not in sharding.axes)
    for axes in _orders(free):
        for dim in dims:
            yield ConversionStep(_with(sharding, dim, (*split[dim], *axes)), axes, cut=dim)


@dataclass
class Conversions:
    """The cheapest ways from each sharding of tensors of one mesh, found once for all alike.

    Shardings have numbers, which are compared faster.
    """

    mesh: Mesh
    shardings: list[Sharding] = field(default_factory=list[Sharding])
    """The sharding of each number."""
    numbers: dict[Sharding, int] = field(default_factory=dict[Sharding, int])
    known: dict[tuple[Attribute, int], dict[int, Way]] = field(
        default_factory=dict[tuple[Attribute, int], dict[int, Way]]
    )

    def number_of(self, sharding: Sharding) -> int:
        """The number of a sharding."""
        if sharding not in self.numbers:
            self.numbers[sharding] = len(self.shardings)
            self.shardings.append(sharding)
        return self.numbers[sharding]

    def ways(self, type_: Attribute, source: int) -> dict[int, Way]:
        """The cheapest way to each sharding that can be reached, the nearest first."""
        key = (type_, source)
        if key not in self.known:
            self.known[key] = self._search(type_, self.shardings[source])
        return self.known[key]

    def _search(self, type_: Attribute, source: Sharding) -> dict[int, Way]:
        found: dict[Sharding, Way] = {}
        count = itertools.count()
        pending = [(NOTHING, next(count), source, tuple[ConversionStep, ...]())]
        while pending:
            cost, _, sharding, steps = heapq.heappop(pending)
            if sharding in found:
                continue
            found[sharding] = Way(cost, steps, tuple(self.number_of(step.to) for step in steps))
            part = part_type(type_, sharding, self.mesh)
            for step in steps_from(sharding, self.mesh):
                if step.to in found or not divides(type_, step.to, self.mesh):
                    continue
                total = cost.plus(step.cost(part, self.mesh))
                heapq.heappush(pending, (total, next(count), step.to, (*steps, step)))
        return {self.number_of(sharding): way for sharding, way in found.items()}


def divides(type_: Attribute, sharding: Sharding, mesh: Mesh) -> bool:
    """Whether all devices have parts of equal extents."""
    try:
        sharding.part_shape(shape_of(type_), mesh)
    except ShapeError:
        return False
    return True
