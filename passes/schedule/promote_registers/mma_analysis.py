"""Which buffers of a schedule could be fragments of tensor-core products: an analysis.

A *chain* is a set of buffers and fragments that operators join: what one of them computes on
fragments, each thread can compute on the values it holds, where all operands have the arrangement
of the same product.  Values that something else needs in memory may be in a chain too: they are
stored as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import singledispatch

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.chaining import accumulator_is_operand
from mugraph.dialects.element_types import element_type_name, is_integer
from mugraph.dialects.interfaces import read_by, written_by
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of
from mugraph.passes.connected import connected

Product = sched.MmaOp | sched.WarpgroupMmaOp
"""What adds a product to a fragment."""

PHASES = (sched.PrologueOp, sched.ForloopOp, sched.EpilogueOp)


def phases_of_kernel(kernel: sched.KernelOp) -> Iterator[Operation]:
    """The phases of the threads that compute, in order."""
    for op in sched.computing_block(kernel).ops:
        if isinstance(op, PHASES):
            yield op


def operators_of(kernel: sched.KernelOp) -> list[Operation]:
    """The operators of all phases, in the order of the text."""
    return [
        op for phase in phases_of_kernel(kernel) for region in phase.regions for op in region.ops
    ]


@singledispatch
def joined(op: Operation) -> Sequence[SSAValue] | None:
    """The values that an operator joins if it computes on fragments; ``None`` where it cannot.

    An operator registers a function of its own; the one that is written is among them.
    """
    return None


def _matrices(value: SSAValue) -> tuple[int, int, int] | None:
    """How many matrices a value is along its first dimension, and their extents."""
    shape = shape_of(value.type)
    if len(shape) < 2 or any(extent != 1 for extent in shape[1:-2]):
        return None
    return 1 if len(shape) == 2 else shape[0], shape[-2], shape[-1]


def _broadcasts(values: Sequence[SSAValue], destination: SSAValue) -> bool:
    """Whether values are of the destination's extents, or numbers of its rows, columns or all."""
    whole = _matrices(destination)
    if whole is None:
        return False
    count, rows, columns = whole
    possible = {whole, (count, rows, 1), (count, 1, columns), (count, 1, 1)}
    return all(_matrices(value) in possible for value in values)


def has_columns(value: SSAValue, destination: SSAValue) -> bool:
    """Whether a source has a number for each of the columns of several rows."""
    rows = shape_of(destination.type)[-2]
    return rows > 1 and shape_of(value.type)[-2] == 1 and shape_of(value.type)[-1] > 1


@joined.register
def _(op: sched.FillOp) -> Sequence[SSAValue] | None:
    return [op.destination]


@joined.register
def _(op: sched.StoreOp) -> Sequence[SSAValue] | None:
    return None if op.at is not None else [op.source, op.destination]


@joined.register
def _(op: sched.MapOp) -> Sequence[SSAValue] | None:
    if not _broadcasts(op.sources, op.destination):
        return None
    return [*op.sources, op.destination]


@joined.register
def _(op: sched.MaskOp) -> Sequence[SSAValue] | None:
    """Of rows and columns of one matrix."""
    rank = len(shape_of(op.source.type))
    is_of_matrix = all(entry.dim >= rank - 2 for entry in op.ragged)
    joins = is_of_matrix and not epilogue_of(op).accumulates
    return [op.source, op.destination] if joins else None


@joined.register
def _(op: sched.ReduceOp) -> Sequence[SSAValue] | None:
    source, result = _matrices(op.source), _matrices(op.destination)
    if source is None or result != (*source[:2], 1):
        return None
    differences = [] if op.difference is None else [op.difference]
    return [op.source, op.destination, *differences]


@joined.register
def _(op: sched.MmaOp) -> Sequence[SSAValue] | None:
    """The left operand only where accumulators are operand A of the instruction."""
    mma = sched.arrangement_in(op.accumulator)
    if op.at is not None or mma is None:
        return None
    atom = mma_atom(mma.atom)
    depth = shape_of(op.lhs.type)[-1]
    takes_stored = element_type_name(element_type_of(op.lhs.type)) == atom.a_type
    if atom.is_scalar or not takes_stored:
        return None
    if accumulator_is_operand(atom, atom) and depth % atom.shape_mnk[2] == 0:
        return [op.lhs, op.accumulator]
    return None


def _could_be_fragment(value: SSAValue) -> bool:
    """Whether a value may move to registers, by its type: computed in fp32, and one matrix, or
    one for each of some warps.

    What is rounded to 8 bits or to integers is rounded for good, and stays where it is.  Sums of
    i8 are integers until they become numbers.
    """
    owner, type_ = value.owner, element_type_of(value.type)
    if isinstance(owner, Block) or _matrices(value) is None:
        return False
    if element_bytes_of(value.type) == 1:
        return False
    if is_integer(type_) and not all(_keeps_integers(use.operation) for use in value.uses):
        return False
    if isinstance(owner, sched.AllocOp):
        return owner.stage_count == 1
    if sched.arrangement_in(value) is not None and shape_of(value.type)[-1] == 1:
        # A product of one column looks like numbers of rows, and is none.
        return False
    return isinstance(owner, sched.EmptyOp) and type_ in (f32, i32)


def _keeps_integers(op: Operation) -> bool:
    """Whether an operator makes sums of integers, passes them on, or makes numbers of them."""
    if isinstance(op, sched.MapOp):
        return op.function.data.name == "identity"
    return isinstance(op, Product | sched.FillOp | sched.StoreOp)


@dataclass
class Uses:
    """Who writes and who reads each buffer and fragment, in the order of the text."""

    writers: dict[SSAValue, list[Operation]] = field(
        default_factory=dict[SSAValue, list[Operation]]
    )
    readers: dict[SSAValue, list[Operation]] = field(
        default_factory=dict[SSAValue, list[Operation]]
    )

    @staticmethod
    def of(operators: Sequence[Operation]) -> Uses:
        """The uses by some operators."""
        uses = Uses()
        for op in operators:
            for value in read_by(op):
                uses.readers.setdefault(value, []).append(op)
            for value in written_by(op):
                uses.writers.setdefault(value, []).append(op)
        return uses


@dataclass(frozen=True)
class Chain:
    """Values that become fragments together, and the operators that then compute on them.

    ``products`` add up in fragments of the chain.  ``has_rows``: whether numbers of rows are among
    the values, or accumulators are multiplied as they are.
    """

    values: frozenset[SSAValue]
    operators: frozenset[Operation]
    products: tuple[Product, ...]
    has_rows: bool
    kept: frozenset[SSAValue]
    """Buffers of the chain that others read."""
    loaded: frozenset[SSAValue] = frozenset()
    """Buffers that stay in memory, and of which threads load what they need for an operator."""

    @property
    def removed(self) -> list[SSAValue]:
        """Buffers that need no memory any more."""
        return [
            value
            for value in self.values
            if isinstance(value.owner, sched.AllocOp) and value not in self.kept
        ]


def find_chains(kernel: sched.KernelOp) -> list[Chain]:
    """The chains of a kernel that need fewer buffers in registers, in the order of the text."""
    operators = operators_of(kernel)
    uses = Uses.of(operators)
    joins = {
        op: values
        for op in operators
        if not _makes_number_of_all(op, uses) and (values := joined(op)) is not None
    }
    loaded = _loadable(operators, joins, uses)
    joins = {
        op: [value for value in values if value not in loaded]
        for op, values in joins.items()
        if not _takes_columns_of(op, loaded)
    }
    values = [*dict.fromkeys((*uses.writers, *uses.readers))]
    here = set(operators)
    possible = {
        value
        for value in values
        # Other roles, and channels, need their buffers in memory.
        if _could_be_fragment(value) and all(use.operation in here for use in value.uses)
    }

    def runs(op: Operation) -> bool:
        return op in joins and all(value in possible for value in joins[op])

    def stays(value: SSAValue) -> bool:
        """Whether all that writes a value can do so to registers; of a fragment, reads it there."""
        users = list(uses.writers.get(value, []))
        if isinstance(value.owner, sched.EmptyOp):
            users += uses.readers.get(value, [])
            return all(runs(op) or _leaves_in_place(op, value) for op in users)
        return all(runs(op) for op in users)

    shrinking = True
    while shrinking:
        impossible = {value for value in possible if not stays(value)}
        possible -= impossible
        shrinking = bool(impossible)

    running = [op for op in operators if runs(op)]
    return [
        chain
        for group in connected(running, joins.__getitem__)
        if (chain := _chain_of(group, operators, joins, uses)) is not None
    ]


def _takes_columns_of(op: Operation, loaded: frozenset[SSAValue]) -> bool:
    """Whether an operator takes numbers of columns that are not loaded from memory."""
    return isinstance(op, sched.MapOp) and any(
        has_columns(source, op.destination) and source not in loaded for source in op.sources
    )


def _makes_number_of_all(op: Operation, uses: Uses) -> bool:
    """Whether an operator makes one number that others take beside several rows.

    It stays in memory: threads load it for all of their rows.
    """
    return (
        isinstance(op, sched.MapOp)
        and math.prod(shape_of(op.destination.type)) == 1
        and any(
            isinstance(reader, sched.MapOp)
            and math.prod(shape_of(reader.destination.type)[:-1]) > 1
            for reader in uses.readers.get(op.destination, [])
        )
    )


def _loadable(
    operators: Sequence[Operation], joins: Mapping[Operation, Sequence[SSAValue]], uses: Uses
) -> frozenset[SSAValue]:
    """Tiles that are brought from device memory for element-wise operators on products.

    Such as a mask or a bias that is added to scores, or scales of rows and columns, beside them:
    threads load what they need, and the products stay in registers.  None of products by single
    warps of which none multiplies what another operator made, is scaled and added up in a loop, or
    becomes part of a state that a loop carries.
    """
    made = {value for value, ops in uses.writers.items() if any(op in joins for op in ops)}
    chained = any(isinstance(op, sched.MmaOp) and op.lhs in made for op in joins)
    added_up = any(
        isinstance(op, sched.MapOp)
        and epilogue_of(op).accumulates
        and isinstance(op.parent_op(), sched.ForloopOp)
        for op in joins
    )
    by_groups = any(isinstance(op, sched.WarpgroupMmaOp) for op in operators)
    if not chained and not added_up and not by_groups and not _carries_states(joins, uses):
        return frozenset()
    maps = [op for op in joins if isinstance(op, sched.MapOp)]
    readers = [
        op
        for op in maps
        if any(
            source in made and shape_of(source.type) == shape_of(op.destination.type)
            for source in op.sources
        )
    ]
    readers += _makers(readers, joins, made, uses)
    return frozenset(
        source
        for op in readers
        for source in op.sources
        if isinstance(source.owner, sched.AllocOp)
        and source not in made
        and all(
            # What was loaded for a chain before stays as it is.
            reader in readers or isinstance(reader, sched.LoadOp)
            for reader in uses.readers.get(source, [])
        )
    )


def _carries_states(joins: Iterable[Operation], uses: Uses) -> bool:
    """Whether a loop makes new states of old ones, which are filled before it."""
    return any(
        isinstance(op, sched.MapOp)
        and isinstance(op.parent_op(), sched.ForloopOp)
        and any(isinstance(by, sched.FillOp) for by in uses.writers.get(op.destination, []))
        for op in joins
    )


def _makers(
    readers: Sequence[sched.MapOp],
    joins: Mapping[Operation, Sequence[SSAValue]],
    made: Set[SSAValue],
    uses: Uses,
) -> list[sched.MapOp]:
    """What computes the tiles that operators take beside a product, of what is loaded alone.

    Such as the decays between the rows and the columns of scores, of a number of each: one operator
    may take what another one, or a mask, has computed.
    """

    def made_of_loaded(value: SSAValue) -> list[sched.MapOp]:
        """What computes a value, nothing where something else than loaded tiles is in it."""
        found: dict[Operation, None] = {}
        values = [value]
        while values:
            for op in uses.writers.get(values.pop(), []):
                if op not in joins or op in found:
                    continue
                if not isinstance(op, sched.MapOp | sched.MaskOp):
                    return []
                found[op] = None
                sources = op.sources if isinstance(op, sched.MapOp) else [op.source]
                values += [source for source in sources if source in made]
        return [op for op in found if isinstance(op, sched.MapOp)]

    taken = dict.fromkeys(source for op in readers for source in op.sources)
    return [op for value in taken for op in made_of_loaded(value)]


def _leaves_in_place(op: Operation, value: SSAValue) -> bool:
    """Whether an operator uses a product's fragment as well however its warps are arranged."""
    if isinstance(op, sched.MmaOp):
        return op.accumulator is value and op.at is None
    if isinstance(op, sched.WarpgroupMmaOp):
        return op.accumulator is value
    if isinstance(op, sched.StoreOp) and op.at is None:
        return sched.arrangement_in(value) is not None
    return False


def _chain_of(
    group: Sequence[Operation],
    operators: Sequence[Operation],
    joins: Mapping[Operation, Sequence[SSAValue]],
    uses: Uses,
) -> Chain | None:
    """The chain of connected operators, ``None`` where nothing is won."""
    values = frozenset(value for op in group for value in joins[op])
    running = frozenset(group)
    products = tuple(op for op in operators if isinstance(op, Product) and op.accumulator in values)
    if not products or any(isinstance(op, sched.MmaOp) and op.at for op in products):
        return None
    kept = frozenset(
        value
        for value in values
        if isinstance(value.owner, sched.AllocOp)
        and any(
            op not in running or (isinstance(op, sched.MmaOp) and op.rhs is value)
            for op in uses.readers.get(value, [])
        )
    )
    has_rows = any(isinstance(op, sched.ReduceOp | sched.MmaOp) for op in group) or any(
        shape_of(value.type)[-1] == 1 for value in values
    )
    loaded = frozenset(
        source
        for op in group
        if isinstance(op, sched.MapOp)
        for source in op.sources
        if source not in values
    )
    has_rows |= any(shape_of(value.type)[-1] == 1 for value in loaded)
    chain = Chain(values, running, products, has_rows, kept, loaded)
    return chain if chain.removed else None
