"""Chains of element-wise operators, masks, row reductions and copies in linear fragments.

Values of the same extents that one operator touches form a *domain*, which is dealt out to the
threads in one way throughout: then each thread finds in its registers what it needs of the others.
What a reduction makes of a domain's rows, and what is computed of that, is held by all threads of
the row.  Analysis (:func:`find_domains`) and choice (:func:`choose_partition`,
:func:`choose_promoted`); the rewrite is in
:mod:`mugraph.passes.schedule.promote_registers.rewrite`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.disjoint_set import DisjointSet

from mugraph.dialects import sched
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.partition import VECTOR_BYTES, LinearPartition
from mugraph.dialects.rows import LinearRows, rows_like
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of
from mugraph.passes.costs.work import most_values
from mugraph.passes.schedule.promote_registers.uses import Uses

NARROW_BYTES = 4
"""Vectors of so few bytes are not cut up to give work to more threads."""
COMPUTED_TYPES: frozenset[Attribute] = frozenset({*HALF_TYPES, f32, i32})
"""Types whose rounding may be left out; conversions to others saturate, which changes values.

What is only stored in device memory is converted there, whatever its type."""


def is_linear(value: SSAValue) -> bool:
    """Whether a value is a fragment that a linear partition deals out."""
    return isinstance(value.type, sched.TileType) and value.type.partition is not None


def is_candidate(value: SSAValue) -> bool:
    """Whether a value could be held in a linear fragment, as far as the value itself tells."""
    owner = value.owner
    if isinstance(owner, sched.AllocOp):
        in_one_stage = owner.stage_count == 1 and not is_loaded_in_loop(owner)
        has_parts = any(_adds_parts(use.operation) and use.index == 0 for use in value.uses)
        return in_one_stage and not has_parts and isinstance(value.type, sched.SharedType)
    return is_linear(value)


def _adds_parts(op: Operation) -> TypeGuard[sched.ReduceOp]:
    """Whether an operator adds, element by element, what lies along a dimension of a buffer."""
    return isinstance(op, sched.ReduceOp) and op.drops_dim


def is_loaded_in_loop(buffer: sched.AllocOp) -> bool:
    """Whether a loop brings tiles to a buffer, which then gets several stages."""
    return any(
        isinstance(use.operation, sched.CopyOp)
        and use.operation.destination is buffer.result
        and sched.enclosing_loop(use.operation) is not None
        for use in buffer.result.uses
    )


@dataclass(eq=False)
class Domain:
    """Values of the same extents that must be dealt out alike, and the operators on them."""

    values: list[SSAValue] = field(default_factory=list[SSAValue])
    operations: list[Operation] = field(default_factory=list[Operation])
    partition: LinearPartition | None = None
    rows_of: tuple[Domain, int] | None = None
    """The domain, and the dimension, of whose rows this one holds the values."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of its values."""
        return shape_of(self.values[0].type)

    def is_loaded(self) -> bool:
        """Whether copies bring some of it: they deal it out, and no thread has all of a row's."""
        copies = (op for op in self.operations if isinstance(op, sched.CopyOp))
        return any(copy.destination in self.values for copy in copies)

    def rows(self) -> LinearRows | None:
        """The rows that it holds values of, where they are shared out evenly."""
        if self.rows_of is None:
            return None
        parent, dim = self.rows_of
        if parent.partition is None or parent.partition.inner != dim or parent.rows() is not None:
            return None
        return rows_like(parent.partition, parent.shape, self.shape)


def full_values(op: Operation) -> list[SSAValue]:
    """The buffers and fragments that an operator must find dealt out alike; none for others."""
    if isinstance(op, sched.MapOp | sched.MaskOp):
        shape = shape_of(op.destination.type)
        return [value for value in op.operands if shape_of(value.type) == shape]
    if isinstance(op, sched.StoreOp) and is_linear(op.source):
        return list(op.operands)
    if isinstance(op, sched.ReduceOp) and op.difference is not None:
        return [op.destination, op.difference]
    return []


def find_domains(uses: Uses) -> dict[SSAValue, Domain]:
    """The domain of every value that could be held in a linear fragment."""
    operations = list(dict.fromkeys(use.operation for each in uses.values() for use in each))
    # Also through values that stay in memory: what is read together is best dealt out alike.
    together = [full_values(op) for op in operations]
    groups = DisjointSet(list(dict.fromkeys([*uses, *(v for values in together for v in values)])))
    for first, *others in filter(None, together):
        for other in others:
            groups.union(first, other)
    domains: dict[SSAValue, Domain] = {}
    of_value: dict[SSAValue, Domain] = {}
    for value in uses:
        if is_candidate(value):
            domain = domains.setdefault(groups.find(value), Domain())
            domain.values.append(value)
            of_value[value] = domain
    for op in operations:
        for domain in dict.fromkeys(of_value[v] for v in op.operands if v in of_value):
            domain.operations.append(op)
    # What is reduced says first whose rows results are; others have to agree with that.
    for links in (reduction_links, broadcast_links):
        for op in operations:
            for value, whole, dim in links(op):
                rows, own = of_value.get(value), of_value.get(whole)
                if rows is None or own is None or rows is own or rows.rows_of is not None:
                    continue
                if links is reduction_links or not rows.is_loaded():
                    rows.rows_of = (own, dim)
    return of_value


Link = tuple[SSAValue, SSAValue, int]
"""A value that is the rows of another one, that one, and along which dimension."""


def reduction_links(op: Operation) -> Iterator[Link]:
    """The results of a reduction are rows of its source."""
    if isinstance(op, sched.ReduceOp) and op.grouping.data is sched.Grouping.CONTIGUOUS:
        yield op.destination, op.source, op.reduced_dim


def broadcast_links(op: Operation) -> Iterator[Link]:
    """What is broadcast along one dimension is rows of what an operator computes."""
    if isinstance(op, sched.MapOp):
        shape = shape_of(op.destination.type)
        for value in op.sources:
            own = shape_of(value.type)
            broadcast = [dim for dim in range(len(shape)) if own[dim] != shape[dim]]
            if len(broadcast) == 1:
                yield value, op.destination, broadcast[0]


def choose_partition(
    domain: Domain, threads: int, held: Container[SSAValue]
) -> LinearPartition | None:
    """How a domain is dealt out: in the widest vectors that leave work for all threads.

    They have at most 16 bytes of the narrowest type that is dealt out with it and of all that is
    not ``held`` in registers, and are no wider than those of its copies to and from device memory;
    rows that are reduced are to be shared out evenly.  ``None`` where nothing says along which
    dimension threads walk.
    """
    partitions = [
        partition
        for op in domain.operations
        if (partition := _partition_in(op, domain)) is not None
    ]
    copies = [op for op in domain.operations if isinstance(op, sched.CopyOp)]
    orders = [op.partition.data.order for op in copies] or [each.order for each in partitions]
    if not orders:
        return None
    order = max(orders, key=orders.count)
    elements = math.prod(domain.shape)
    operands = [
        value
        for op in domain.operations
        for value in op.operands
        if not isinstance(value.type, sched.ChannelType)
    ]
    thinnest = min(
        element_bytes_of(value.type) for value in operands if shape_of(value.type) == domain.shape
    )
    widest = VECTOR_BYTES // max(thinnest, _widest_in_memory(domain, held))
    walking = [copy for copy in copies if copy.partition.data.order == order]
    fitting: list[LinearPartition] = []
    vector = widest
    while vector >= 1:
        narrow = vector * thinnest <= NARROW_BYTES
        # Vectors that are shifted are whole ones.
        shifted = any(copy.partition.data.vector < vector for copy in walking)
        enough = narrow or shifted or elements >= vector * threads
        moved = all(_moves(copy, vector) for copy in walking)
        if enough and moved and domain.shape[order[0]] % vector == 0:
            fitting.append(LinearPartition(threads, vector, order))
        vector //= 2
    reduced = list(_reduced_rows(domain))
    for partition in fitting:
        rows = [rows_like(partition, domain.shape, result) for result in reduced]
        if all(each is not None and each.combines for each in rows):
            return partition
    return fitting[0] if fitting else None


def _moves(copy: sched.CopyOp, vector: int) -> bool:
    """Whether a copy may move so many elements at once, or whole vectors of one row that it shifts.

    Several short rows are faster by elements: 3840 x 407 took 4.8 us on an H200 so, and 5.2 to 5.7
    in kernels by hand that shift.
    """
    own, shape = copy.partition.data, shape_of(copy.source.type)
    is_one_row = math.prod(shape) == shape[own.inner]
    return vector <= own.vector or (is_one_row and vector == copy.shifted_partition.vector)


def _widest_in_memory(domain: Domain, held: Container[SSAValue]) -> int:
    """The bytes of the widest elements that operators on a domain touch in shared memory, or 0."""
    sizes = [0]
    for op in domain.operations:
        for value in op.operands:
            if not isinstance(value.type, sched.SharedType) or value in held:
                continue
            if (_adds_parts(op) and value is op.source) or shape_of(value.type) == domain.shape:
                sizes.append(element_bytes_of(value.type))
    return max(sizes)


def _partition_in(op: Operation, domain: Domain) -> LinearPartition | None:
    if isinstance(op, sched.MapOp) and op.destination in domain.values:
        return op.linear
    if isinstance(op, sched.MaskOp):
        return op.linear
    if _adds_parts(op) and isinstance(op.distribution, sched.LinearPartitionAttr):
        return op.distribution.data
    if isinstance(op, sched.ReduceOp) and op.source in domain.values:
        inner = op.reduced_dim
        rest = (dim for dim in reversed(range(len(domain.shape))) if dim != inner)
        return LinearPartition(1, 1, (inner, *rest))
    return None


def _reduced_rows(domain: Domain) -> Iterator[tuple[int, ...]]:
    for op in domain.operations:
        if isinstance(op, sched.ReduceOp) and op.source in domain.values:
            yield shape_of(op.destination.type)


def partition_domains(domains: Sequence[Domain], threads: int, held: Container[SSAValue]) -> None:
    """Deals out every domain; what holds rows of another follows from that one."""
    for domain in domains:
        domain.partition = choose_partition(domain, threads, held)


def values_held(value: SSAValue, domain: Domain) -> int:
    """How many values of a buffer a thread would hold."""
    rows = domain.rows()
    if rows is not None:
        return rows.values
    return 0 if domain.partition is None else domain.partition.values_per_thread(domain.shape)


def choose_promoted(uses: Uses, of_value: dict[SSAValue, Domain]) -> set[SSAValue]:
    """The buffers that can be fragments, every operator that touches them being able to do so.

    Starts from all candidates and takes out, until nothing changes, those that an operator cannot
    have in registers while others stay in memory.
    """
    promoted = {
        value
        for value, domain in of_value.items()
        if uses[value] and _may_be_held(value, uses, domain)
    }
    while True:
        failing = {
            value
            for value in promoted
            if not all(_allows(use.operation, value, promoted, of_value) for use in uses[value])
        }
        if not failing:
            return promoted
        promoted -= failing


def _may_be_held(value: SSAValue, uses: Uses, domain: Domain) -> bool:
    dealt_out = domain.partition is not None or domain.rows() is not None
    partition = domain.partition
    threads, vector = (0, 1) if partition is None else (partition.threads, partition.vector)
    of_one_row = vector > 1 and any(math.prod(rows) == 1 for rows in _reduced_rows(domain))
    most = most_values(threads, of_one_row=of_one_row)
    if not dealt_out or values_held(value, domain) > most:
        return False
    loaded = all(isinstance(use.operation, sched.CopyOp) for use in uses[value] if use.writes)
    stored = all(isinstance(use.operation, sched.CopyOp) for use in uses[value] if not use.writes)
    return loaded or stored or element_type_of(value.type) in COMPUTED_TYPES


def _allows(
    op: Operation, value: SSAValue, promoted: set[SSAValue], of_value: dict[SSAValue, Domain]
) -> bool:
    """Whether an operator can have a value in registers."""
    domain = of_value[value]
    rows = domain.rows()
    if isinstance(op, sched.FillOp):
        return True
    if isinstance(op, sched.CopyOp):
        if rows is not None:
            # Rows, which many threads hold, go through shared memory.
            written = value is op.source and isinstance(op.destination.type, sched.GlobalType)
            return written and sched.tile_of_named_rows(op.destination) is None
        if isinstance(tile := op.source.owner, sched.LocalTileOp) and tile.is_scattered:
            return False
        if sched.tile_of_named_rows(op.destination) is not None:
            return False
        partition = op.partition.data
        is_load = isinstance(op.source.type, sched.GlobalType)
        return (
            op.ahead_of == 0
            and domain.partition is not None
            and partition.inner == domain.partition.inner
            and (
                _moves(op, domain.partition.vector)
                if is_load
                else domain.partition.vector <= partition.vector
            )
        )
    if isinstance(op, sched.StoreOp):
        held = op.source in promoted
        return is_linear(op.source) and held and not epilogue_of(op).accumulates
    if isinstance(op, sched.MaskOp) or _adds_parts(op):
        return rows is None
    if isinstance(op, sched.MapOp):
        return _elementwise_allows(op, value, promoted, of_value)
    if isinstance(op, sched.ReduceOp):
        return _reduction_allows(op, value, promoted, of_value)
    return False


def _elementwise_allows(
    op: sched.MapOp,
    value: SSAValue,
    promoted: set[SSAValue],
    of_value: dict[SSAValue, Domain],
) -> bool:
    shape = shape_of(op.destination.type)
    domain = of_value[value]
    if shape_of(value.type) != shape:
        # It is broadcast: rows of what the operator computes.
        whole = of_value.get(op.destination)
        if domain.rows() is None or domain.rows_of is None:
            return False
        return whole is not None and domain.rows_of[0] is whole
    if domain.rows() is None:
        return True
    # Values of rows are held by all lanes, so that all operands have to be; results may be written.
    sources = all(operand in promoted and shape_of(operand.type) == shape for operand in op.sources)
    return sources and (op.destination in promoted or not epilogue_of(op).accumulates)


def reduced_rows(op: sched.ReduceOp, whole: Domain) -> LinearRows | None:
    """The rows that a reduction makes numbers of, where the threads of each can combine."""
    partition = whole.partition
    if partition is None or partition.inner != op.reduced_dim or whole.rows() is not None:
        return None
    if op.grouping.data is not sched.Grouping.CONTIGUOUS:
        return None
    rows = rows_like(partition, whole.shape, shape_of(op.destination.type))
    return rows if rows is not None and rows.combines else None


def _reduction_allows(
    op: sched.ReduceOp,
    value: SSAValue,
    promoted: set[SSAValue],
    of_value: dict[SSAValue, Domain],
) -> bool:
    results = [op.destination, *([] if op.difference is None else [op.difference])]
    whole = of_value.get(op.source)
    rows = None if whole is None else reduced_rows(op, whole)
    if rows is None or op.source not in promoted:
        return False
    held = all(
        result in promoted and of_value[result].rows_of == (whole, op.reduced_dim)
        for result in results
    )
    # What is not added to can be written from registers.
    plain = op.difference is None and not epilogue_of(op).accumulates
    unheld = not any(result in promoted for result in results)
    return held or (value is op.source and plain and unheld)
