"""Writes operators in parts, and what devices exchange of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.reductions import COMBINING
from mugraph.dialects.sharding import Part, part_of, set_part
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.program.overlap.cuts import Chain, regroupings_of_argument

Parts = dict[SSAValue, list[SSAValue]]
"""Values as their parts, by the places of the members that these are of."""


def deliver(op: kn.CollectiveOp, dim: int, chain: Chain, members: int) -> SSAValue:
    """Lets what a sum over devices is of be computed in parts, each in the memory of its device.

    A kernel computes the parts of so many ``members``.  Returns the part of the sum that a device
    adds up.
    """
    _write_parts(op, chain, {}, members)
    made = op.input.owner
    if members > 1:
        assert isinstance(made, kn.ConcatOp)
        places = (divmod(place, members) for place in range(op.devices))
        ranges = [_slice(made.inputs[part], dim, inner, members) for part, inner in places]
        joined = kn.ConcatOp([each.result for each in ranges], dim, op.input.type)
        insert(ranges, op, _places(op, members, 1))
        insert([joined], op)
        op.operands[0] = joined.result
        Rewriter.erase_op(made)
    return _added(op, _delivered(op, op.input, dim), dim)


def push(op: kn.CollectiveOp) -> None:
    """Lets what makes a tensor write it into the memory of each member.

    Each joins what it got, or adds it up.
    """
    dim = 0 if op.joined_dim is None else op.joined_dim
    own = op.input
    copies = [kn.CopyOp(own, own.type, place=place) for place in range(op.devices)]
    shape = list(shape_of(own.type))
    shape[dim] *= op.devices
    all_of_them = TensorType(element_type_of(own.type), shape)
    joined = kn.ConcatOp([copy.result for copy in copies], dim, all_of_them)
    insert([*copies, joined], op)
    given = _delivered(op, joined.result, dim)
    made = given if op.combination is None else _added(op, given, dim)
    Rewriter.replace_op(op, [], [made])


def _delivered(op: kn.CollectiveOp, value: SSAValue, dim: int) -> SSAValue:
    """What a device gets where all deliver the parts of a tensor."""
    given = kn.AllToAllOp(value, op.grid_axes, dim, dim, value.type, delivered=True)
    given.result.name_hint = op.result.name_hint
    insert([given], op)
    return given.result


def _added(op: kn.CollectiveOp, value: SSAValue, dim: int) -> SSAValue:
    """The sum of what a device got, in the order of places."""
    pieces = [_slice(value, dim, place, op.devices) for place in range(op.devices)]
    insert(pieces, op)
    assert op.combination is not None
    function = kn.BINARY_OPERATORS[COMBINING[op.combination]]
    total, *others = (piece.result for piece in pieces)
    for part in others:
        made = function(total, part, total.type)
        insert([made], op)
        (total,) = made.results
    if shape_of(total.type) == shape_of(op.result.type):
        total = Rewriter.replace_value_with_new_type(total, op.result.type)
    total.name_hint = op.result.name_hint
    return total


def fetch(op: kn.CollectiveOp, own: SSAValue, dim: int, chain: Chain | None, members: int) -> None:
    """Lets what is computed of the result be computed in parts, as these arrive from the others.

    ``own`` is this device's part.  A kernel takes the parts of so many ``members``.  Without a
    chain they are put together.
    """
    axes = op.grid_axes
    peers = [kn.PeerOp(own, axes, place) for place in range(op.devices)]
    copies = [kn.CopyOp(peer.result, peer.result.type) for peer in peers]
    parts: list[SSAValue] = [copy.result for copy in copies]
    insert(peers, op)
    insert(copies, op, _places(op, members, 1))
    if members > 1 and chain is not None:
        together = _part_type(op.result.type, dim, op.devices // members)
        starts = range(0, op.devices, members)
        joins = [kn.ConcatOp(parts[at : at + members], dim, together) for at in starts]
        insert(joins, op, _places(op, members, members))
        parts = [join.result for join in joins]
    if chain is not None:
        _write_parts(op, chain, {op.result: parts}, members)
    # What takes the result whole has its parts joined.
    whole = [kn.ConcatOp(parts, dim, op.result.type)] if op.result.first_use else []
    Rewriter.replace_op(op, whole, [each.result for each in whole] or [None])


def _places(op: kn.CollectiveOp, members: int, step: int) -> list[Part]:
    """The parts of so many members, or of each of them with a ``step`` of 1."""
    return [Part(place, op.grid_axes, members) for place in range(0, op.devices, step)]


def insert(operators: Sequence[Operation], op: Operation, places: Iterable[Part] = ()) -> None:
    """Puts operators before one from which they come; those of parts say of which."""
    block = op.parent_block()
    assert block is not None
    for each, part in zip(operators, places, strict=False):
        set_part(each, part)
    for each in operators:
        inherit_location(each, op)
        block.insert_op_before(each, op)


def _write_parts(op: kn.CollectiveOp, chain: Chain, parts: Parts, members: int) -> None:
    """Writes operators in parts, and puts together what others take whole."""
    places = _places(op, members, members)
    count = len(places)
    for each, cut in chain.cuts.items():
        for part in places:
            operands = list(each.operands)
            for number, dim in enumerate(cut.operands):
                value = operands[number]
                if dim is None:
                    operands[number] = regrouped(value, each, part)
                    continue
                if value not in parts and (joined := _joined_parts(value, dim, places)):
                    parts[value] = joined
                if value not in parts:
                    slices = [_slice(value, dim, p.number, count) for p in places]
                    insert(slices, each, places)
                    parts[value] = [piece.result for piece in slices]
                operands[number] = parts[value][part.number]
            results = zip(each.results, cut.results, strict=True)
            types = [_part_type(result.type, dim, count) for result, dim in results]
            new = type(each).create(
                operands=operands,
                result_types=types,
                properties=each.properties.copy(),
                attributes=each.attributes.copy(),
            )
            insert([new], each, [part])
            for result, made in zip(each.results, new.results, strict=True):
                made.name_hint = result.name_hint
                parts.setdefault(result, []).append(made)
        for result, dim in zip(each.results, cut.results, strict=True):
            others = [use for use in result.uses if use.operation not in chain.cuts]
            if others:
                assert dim is not None
                whole = kn.ConcatOp(parts[result], dim, result.type)
                insert([whole], each)
                for use in others:
                    use.operation.operands[use.index] = whole.result
    whole = [operand.owner for each in chain.cuts for operand in each.operands]
    for each in reversed(chain.cuts):
        Rewriter.erase_op(each)
    for each in dict.fromkeys(whole):
        # What was put together for these operators alone.
        if isinstance(each, kn.ConcatOp) and not each.result.first_use:
            Rewriter.erase_op(each)


def regrouped(value: SSAValue, op: Operation, part: Part) -> SSAValue:
    """The same value for a part alone, where an argument under other extents is one: a transpose.

    The function of the part then reads the argument, where a tensor that several functions take
    would be written before them.
    """
    own: dict[SSAValue, SSAValue] = {}
    for each in regroupings_of_argument(value):
        copy = each.clone(own)
        insert([copy], op, [part])
        own[each.result] = copy.result
    return own.get(value, value)


def _joined_parts(value: SSAValue, dim: int, places: Sequence[Part]) -> list[SSAValue]:
    """The parts that a value was put together from, if they are those of the places; or none."""
    made = value.owner
    if not isinstance(made, kn.ConcatOp) or made.joined_dim != dim:
        return []
    parts = list(made.inputs)
    owners = [part.owner for part in parts]
    found = [part_of(owner) if isinstance(owner, Operation) else None for owner in owners]
    return parts if found == [*places] else []


def _part_type(type_: Attribute, dim: int | None, count: int) -> Attribute:
    return range_of(type_, dim, 1 if dim is None else shape_of(type_)[dim] // count)


def range_of(type_: Attribute, dim: int | None, extent: int) -> Attribute:
    """The type of a range of a tensor, of another extent along a dimension."""
    shape = [extent if d == dim else size for d, size in enumerate(shape_of(type_))]
    return TensorType(element_type_of(type_), shape)


def _slice(value: SSAValue, dim: int, number: int, count: int) -> kn.SliceOp:
    """One of so many equal parts of a tensor."""
    type_ = _part_type(value.type, dim, count)
    size = shape_of(type_)[dim]
    start = [number * size if d == dim else 0 for d in range(len(shape_of(type_)))]
    return kn.SliceOp(value, start, type_)
