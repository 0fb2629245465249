"""Rewrite: buffers become fragments, and the operators on them read and write registers.

One function an operator (:func:`rewrite_operation`); an operator that has none touches no buffer
that was chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatch

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import Epilogue, ScalarFunction
from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.sched.structure import runs_once
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.schedule.promote_registers.linear import Domain, is_linear, reduced_rows
from mugraph.passes.schedule.promote_registers.uses import Uses


@dataclass
class Promotion:
    """What was chosen for a kernel, and the fragments that take the place of buffers."""

    kernel: sched.KernelOp
    uses: Uses
    domains: dict[SSAValue, Domain]
    promoted: set[SSAValue]
    fragments: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    made: list[sched.EmptyOp] = field(default_factory=list[sched.EmptyOp])

    def concerns(self, op: Operation) -> bool:
        """Whether an operator touches a value that is promoted."""
        return any(value in self.promoted for value in op.operands)

    def held(self, value: SSAValue) -> SSAValue:
        """The fragment in place of a value, or the value itself."""
        return self.fragments.get(value, value)

    def distribution(self, domain: Domain) -> Attribute:
        """Who holds what of a domain's values."""
        rows = domain.rows()
        if rows is not None:
            return slice_of(rows)
        assert domain.partition is not None
        return sched.LinearPartitionAttr(domain.partition)

    def fragment(self, type_: sched.TileType, hint: str | None) -> SSAValue:
        """New registers, to be declared where they are first used."""
        op = sched.EmptyOp(type_)
        op.result.name_hint = hint
        self.made.append(op)
        return op.result

    def buffer(self, value: SSAValue) -> SSAValue:
        """Another buffer like one that is promoted."""
        assert isinstance(value.type, sched.SharedType)
        alloc = sched.AllocOp(value.type)
        alloc.result.name_hint = value.name_hint
        first = self.kernel.body.block.first_op
        assert first is not None
        self.kernel.body.block.insert_op_before(alloc, first)
        return alloc.result

    def promote(self, value: SSAValue) -> None:
        """Makes the fragment that takes the place of a value."""
        own = element_type_of(value.type)
        writers = [use.operation for use in self.uses[value] if use.writes]
        as_loaded = all(isinstance(op, sched.CopyOp) or _only_masks(op) for op in writers)
        type_ = sched.TileType.of(
            shape_of(value.type),
            own if as_loaded or is_linear(value) else computing_type(own),
            self.distribution(self.domains[value]),
        )
        self.fragments[value] = self.fragment(type_, value.name_hint)
        if isinstance(value.owner, Operation):
            inherit_location(self.made[-1], value.owner)


def _only_masks(op: Operation) -> bool:
    """Whether an operator gives elements as it finds them, and numbers of their type elsewhere."""
    return (
        isinstance(op, sched.MaskOp)
        and not epilogue_of(op).functions
        and not epilogue_of(op).accumulates
        and element_type_of(op.source.type) == element_type_of(op.destination.type)
    )


def slice_of(rows: LinearRows) -> sched.SliceAttr:
    """Rows as the distribution of a fragment."""
    return sched.SliceAttr.of(sched.LinearPartitionAttr(rows.partition), rows.dim, rows.shape)


def computing_type(type_: Attribute) -> Attribute:
    """What elements of a type are computed in."""
    return i32 if is_integer(type_) else f32


def replace_by(op: Operation, *others: Operation) -> None:
    """Puts other operators in the place of one."""
    Rewriter.insert_op(others, InsertPoint.before(op))
    Rewriter.erase_op(op)


@singledispatch
def rewrite_operation(op: Operation, promotion: Promotion) -> None:
    """Replaces an operator by one on the fragments that its buffers have become."""


@rewrite_operation.register
def _(op: sched.FillOp, promotion: Promotion) -> None:
    replace_by(op, sched.FillOp(promotion.held(op.destination), op.value.value.data))


@rewrite_operation.register
def _(op: sched.CopyOp, promotion: Promotion) -> None:
    source, destination = (promotion.held(value) for value in op.operands)
    tile = op.source if op.source in promotion.promoted else op.destination
    partition = promotion.domains[tile].partition
    assert partition is not None
    if promotion.domains[tile].rows() is not None:
        buffer = promotion.buffer(op.source)
        Rewriter.insert_op(sched.StoreOp(source, buffer, Epilogue()), InsertPoint.before(op))
        op.operands[0] = buffer
        return
    iteration = op.fixed_iteration
    replace_by(
        op,
        sched.CopyOp(source, destination, partition, iteration=iteration, within=op.checked_dims),
    )


def _domain_of(op: sched.MapOp | sched.MaskOp, promotion: Promotion) -> Domain:
    shape = shape_of(op.destination.type)
    return next(
        promotion.domains[value]
        for value in (op.destination, *op.operands)
        if value in promotion.domains and shape_of(value.type) == shape
    )


@rewrite_operation.register
def _(op: sched.MapOp, promotion: Promotion) -> None:
    sources = [promotion.held(source) for source in op.sources]
    destination = promotion.held(op.destination)
    domain = _domain_of(op, promotion)
    distribution = promotion.distribution(domain)
    function = op.function.data
    before: list[Operation] = []
    after: list[Operation] = []
    if isinstance(distribution, sched.SliceAttr) and destination is op.destination:
        destination = promotion.fragment(
            sched.TileType.of(
                shape_of(destination.type),
                computing_type(element_type_of(destination.type)),
                distribution,
            ),
            destination.name_hint,
        )
        after.append(sched.StoreOp(destination, op.destination, Epilogue()))
    if function.name == "div" and _is_worth_inverting(sources[1], destination):
        inversion = _inversion(sources[1], promotion)
        before.append(inversion)
        function, sources = ScalarFunction("mul"), [sources[0], inversion.destination]
    replace_by(
        op,
        *before,
        sched.MapOp(function, sources, destination, epilogue_of(op), domain.partition),
        *after,
    )


def _inversion(divisor: SSAValue, promotion: Promotion) -> sched.MapOp:
    """1 divided by each row."""
    type_ = divisor.type
    assert isinstance(type_, sched.TileType)
    inverse = promotion.fragment(type_, divisor.name_hint)
    return sched.MapOp(ScalarFunction("reciprocal"), [divisor], inverse)


def _is_worth_inverting(divisor: SSAValue, result: SSAValue) -> bool:
    """Whether a thread divides several elements by one number of a row.

    A quotient in fp32 takes about ten instructions and a branch, which wait for one another.
    """
    type_ = divisor.type
    if not isinstance(type_, sched.TileType) or type_.rows is None or type_.element_type != f32:
        return False
    held = result.type
    return not (isinstance(held, sched.TileType) and held.rows is not None)


@rewrite_operation.register
def _(op: sched.MaskOp, promotion: Promotion) -> None:
    partition = _domain_of(op, promotion).partition
    assert partition is not None
    source, destination = (promotion.held(value) for value in op.operands)
    replace_by(
        op,
        sched.MaskOp(
            source,
            destination,
            op.constant,
            op.ragged,
            epilogue_of(op),
            partition,
            op.forms(),
        ),
    )


@rewrite_operation.register
def _(op: sched.StoreOp, promotion: Promotion) -> None:
    source, destination = (promotion.held(value) for value in op.operands)
    if op.destination not in promotion.promoted:
        replace_by(op, sched.StoreOp(source, destination, epilogue_of(op)))
        return
    if source is destination:
        op.detach()
        op.erase()
        return
    identity = ScalarFunction("identity")
    replace_by(op, sched.MapOp(identity, [source], destination, epilogue_of(op)))


@rewrite_operation.register
def _(op: sched.ReduceOp, promotion: Promotion) -> None:
    if op.drops_dim:
        destination = promotion.held(op.destination)
        replace_by(op, sched.ReduceOp(op.source, destination, op.reduced_dim, epilogue_of(op)))
        return
    rows = reduced_rows(op, promotion.domains[op.source])
    assert rows is not None
    slice_ = slice_of(rows)
    source = promotion.held(op.source)
    destination = promotion.held(op.destination)
    others: list[Operation] = []
    if op.destination not in promotion.promoted:
        type_ = computing_type(element_type_of(op.destination.type))
        destination = promotion.fragment(
            sched.TileType.of(rows.result_shape(), type_, slice_), op.destination.name_hint
        )
        others.append(sched.StoreOp(destination, op.destination, Epilogue()))
    difference = None if op.difference is None else promotion.held(op.difference)
    first: list[Operation] = []
    if rows.warps > 1 or rows.lanes > 32:
        parts, dim = _parts(op, rows, promotion), op.reduced_dim
        first = [sched.ReduceOp(source, parts, dim, None, op.combination, parts=rows.warps)]
        source = parts
    reduction = sched.ReduceOp(
        source,
        destination,
        op.reduced_dim,
        epilogue_of(op),
        op.combination,
        difference,
    )
    replace_by(op, *first, reduction, *others)


def _parts(op: sched.ReduceOp, rows: LinearRows, promotion: Promotion) -> SSAValue:
    """Shared memory for what each warp makes of its part of each row, a row's side by side."""
    shape = list(rows.result_shape())
    shape[rows.dim] *= rows.warps
    strides, span = [0] * len(shape), 1
    for dim in rows.partition.order:
        strides[dim] = span
        span *= shape[dim]
    kernel = promotion.kernel
    element = computing_type(element_type_of(op.source.type))
    layout = LayoutAttr(Layout(tuple(shape), tuple(strides)))
    # In a loop the next iteration's parts may be written while some still read this one's.
    looped = sched.enclosing_loop(op) is not None and not runs_once(kernel)
    alloc = sched.AllocOp(sched.SharedType.of(shape, element, layout), 2 if looped else 1)
    hint = op.destination.name_hint
    alloc.result.name_hint = f"{hint}_parts" if hint else None
    first = kernel.body.block.first_op
    assert first is not None
    kernel.body.block.insert_op_before(alloc, first)
    return alloc.result


def _aliases(promotion: Promotion) -> dict[SSAValue, SSAValue]:
    """Buffers that only hold what a fragment holds already, from when it changes no more."""
    found: dict[SSAValue, SSAValue] = {}
    position = {op: index for index, op in enumerate(promotion.kernel.walk())}
    for value in promotion.promoted:
        writers = [use.operation for use in promotion.uses[value] if use.writes]
        if len(writers) != 1 or not isinstance(writers[0], sched.StoreOp):
            continue
        store = writers[0]
        later = any(
            use.writes and position[use.operation] > position[store]
            for use in promotion.uses[store.source]
        )
        if not epilogue_of(store) and not later and sched.enclosing_loop(store) is None:
            found[value] = store.source
    return found


def apply(promotion: Promotion) -> None:
    """Rewrites a kernel in place."""
    aliases = _aliases(promotion)
    for value in promotion.uses:
        if value in promotion.promoted and value not in aliases:
            promotion.promote(value)
    for value, source in aliases.items():
        promotion.fragments[value] = promotion.fragments[source]
    for op in tuple(promotion.kernel.body.walk()):
        if op.parent is not None and promotion.concerns(op):
            rewrite_operation(op, promotion)
    for value in promotion.promoted:
        owner = value.owner
        assert isinstance(owner, Operation)
        owner.detach()
        owner.erase()
    for fragment in promotion.made:
        declare(fragment, promotion.kernel)


def declare(fragment: sched.EmptyOp, kernel: sched.KernelOp) -> None:
    """Puts a fragment before its first use: in the phase that alone uses it, or before all."""
    order = {op: index for index, op in enumerate(kernel.walk())}
    users = sorted(
        dict.fromkeys(use.operation for use in fragment.result.uses), key=order.__getitem__
    )
    phases = {user.parent_op() for user in users}
    first = users[0] if users else None
    if (
        first is not None
        and len(phases) == 1
        and isinstance(first, HasBufferEffects)
        and fragment.result not in first.buffers_read()
        and first.parent is not None
    ):
        first.parent.insert_op_before(fragment, first)
        return
    block = sched.computing_block(kernel)
    start = block.first_op
    assert start is not None
    block.insert_op_before(fragment, start)
