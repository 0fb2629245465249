"""Writes operators in parts, and what devices exchange of them."""

from __future__ import annotations

from functools import reduce

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.sharding import Part, set_part
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.program.expand_mesh import COMBINING
from mugraph.passes.program.overlap.cuts import Chain

Parts = dict[SSAValue, list[SSAValue]]
"""Values as their parts, by the places of the members that these are of."""


def deliver(op: kn.CollectiveOp, chain: Chain) -> None:
    """Lets what a sum over devices is of be computed in parts, each in the memory of its device."""
    dim, devices = op.cut_dim or 0, op.devices
    _write_parts(op, chain, {})
    given = kn.AllToAllOp(op.input, op.grid_axes, dim, dim, op.input.type, delivered=True)
    pieces = [_slice(given.result, dim, place, devices) for place in range(devices)]
    made: list[Operation] = [given, *pieces]
    assert op.combination is not None
    function = kn.BINARY_OPERATORS[COMBINING[op.combination]]

    def combine(one: SSAValue, other: SSAValue) -> SSAValue:
        made.append(function(one, other, one.type))
        return made[-1].results[0]

    own = reduce(combine, [piece.result for piece in pieces])
    if op.cut_dim is None:
        copies = _copies(op, own)
        whole = kn.ConcatOp([copy.result for copy in copies[op.devices :]], dim, op.result.type)
        made += [*copies, whole]
    Rewriter.replace_op(op, made, made[-1].results)


def fetch(op: kn.CollectiveOp, chain: Chain) -> None:
    """Lets what is computed of a gathered tensor be computed in parts, as these arrive."""
    assert op.joined_dim is not None
    copies = _copies(op, op.input)
    parts: list[SSAValue] = [copy.result for copy in copies[op.devices :]]
    block = op.parent_block()
    assert block is not None
    for copy in copies:
        inherit_location(copy, op)
        block.insert_op_before(copy, op)
    _write_parts(op, chain, {op.result: parts})
    # What takes the gathered tensor whole has its parts joined.
    whole = [kn.ConcatOp(parts, op.joined_dim, op.result.type)] if op.result.first_use else []
    Rewriter.replace_op(op, whole, [each.result for each in whole] or [None])


def _copies(op: kn.CollectiveOp, value: SSAValue) -> list[kn.PeerOp | kn.CopyOp]:
    """The tensors of all members, and then a copy of each."""
    axes = op.grid_axes
    peers = [kn.PeerOp(value, axes, place) for place in range(op.devices)]
    copies = [kn.CopyOp(peer.result, peer.result.type) for peer in peers]
    for place, copy in enumerate(copies):
        set_part(copy, Part(place, axes))
    return [*peers, *copies]


def _write_parts(op: kn.CollectiveOp, chain: Chain, parts: Parts) -> None:
    """Writes operators in parts, and puts together what others take whole."""
    for each, cut in chain.cuts.items():
        block = each.parent_block()
        assert block is not None
        for place in range(op.devices):
            part = Part(place, op.grid_axes)
            operands = list(each.operands)
            for number, dim in enumerate(cut.operands):
                value = operands[number]
                if dim is None:
                    continue
                if value not in parts:
                    slices = [_slice(value, dim, p, op.devices) for p in range(op.devices)]
                    for p, piece in enumerate(slices):
                        set_part(piece, Part(p, op.grid_axes))
                        inherit_location(piece, each)
                        block.insert_op_before(piece, each)
                    parts[value] = [piece.result for piece in slices]
                operands[number] = parts[value][place]
            results = zip(each.results, cut.results, strict=True)
            new = type(each).create(
                operands=operands,
                result_types=[_part_type(r.type, dim, op.devices) for r, dim in results],
                properties=each.properties.copy(),
                attributes=each.attributes.copy(),
            )
            set_part(new, part)
            inherit_location(new, each)
            block.insert_op_before(new, each)
            for result, made in zip(each.results, new.results, strict=True):
                made.name_hint = result.name_hint
                parts.setdefault(result, []).append(made)
        for result, dim in zip(each.results, cut.results, strict=True):
            others = [use for use in result.uses if use.operation not in chain.cuts]
            if others:
                assert dim is not None
                whole = kn.ConcatOp(parts[result], dim, result.type)
                inherit_location(whole, each)
                block.insert_op_before(whole, each)
                for use in others:
                    use.operation.operands[use.index] = whole.result
    for each in reversed(chain.cuts):
        Rewriter.erase_op(each)


def _part_type(type_: Attribute, dim: int | None, devices: int) -> Attribute:
    shape = list(shape_of(type_))
    if dim is not None:
        shape[dim] //= devices
    return TensorType(element_type_of(type_), shape)


def _slice(value: SSAValue, dim: int, place: int, devices: int) -> kn.SliceOp:
    """The part of a place of a tensor."""
    type_ = _part_type(value.type, dim, devices)
    size = shape_of(type_)[dim]
    start = [place * size if d == dim else 0 for d in range(len(shape_of(type_)))]
    return kn.SliceOp(value, start, type_)


__all__ = ["deliver", "fetch"]
