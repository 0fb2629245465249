"""Tensors that operators of a group load in several roles.

What one operator sums over another one may have along its results: of ``x * sigmoid(x @ w)`` a
block loads rows of x for the product, and the columns of its results.  As one argument, rows and
columns of w would be one index.  In each role x is an argument of its own.  So is what
element-wise operators make of x: of ``(d @ p) * d`` with ``d = x - m`` they stand in the kernel
once for each role.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.kn import ElementwiseOp
from mugraph.passes.program.fuse_kernels.atoms import Atoms
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.part import block_of

Use = tuple[int, Hashable]
"""A tensor, by its number among those that are loaded, and what it is used for."""


class Roles(NamedTuple):
    """Operators on an argument for each role of what they load."""

    operators: Sequence[Operation]
    loaded: Sequence[SSAValue]
    """The arguments."""
    sources: Sequence[int]
    """Of each argument the number of the tensor that it is."""
    stored: Sequence[SSAValue]


def once_for_each_use(
    operators: Sequence[Operation], loaded: Sequence[SSAValue], stored: Sequence[SSAValue]
) -> Roles | None:
    """The operators, with element-wise ones on what is loaded written once for each use.

    ``None`` where none of these is used more than once.
    """
    known, light = set(loaded), dict[SSAValue, Operation]()
    for op in operators:
        if isinstance(op, ElementwiseOp) and known.issuperset(op.operands):
            light[op.result] = op
            known.add(op.result)
    uses = Counter(value for op in operators for value in op.operands if value in light)
    uses.update(value for value in stored if value in light)
    if max(uses.values(), default=0) < 2:
        return None
    block = block_of(loaded)
    values: dict[SSAValue, SSAValue] = dict(zip(loaded, block.args, strict=True))

    def written(op: Operation) -> Operation:
        """A copy of an operator, behind copies of the light ones that it uses."""
        sources = [values[v] if v in values else written(light[v]).results[0] for v in op.operands]
        copy = op.clone()
        for number, source in enumerate(sources):
            copy.operands[number] = source
        block.add_op(copy)
        return copy

    kept: dict[SSAValue, SSAValue] = {}
    for op in operators:
        if light.keys().isdisjoint(op.results):
            values.update(zip(op.results, written(op).results, strict=True))
        elif op.results[0] in stored:
            kept[op.results[0]] = written(op).results[0]
    return Roles(
        list(block.ops), block.args, range(len(loaded)), [(values | kept)[v] for v in stored]
    )


def in_roles(
    operators: Sequence[Operation], loaded: Sequence[SSAValue], stored: Sequence[SSAValue]
) -> Roles | None:
    """The operators with tensors apart that they load in several roles.

    ``None`` where there are none, or where that does not help.
    """
    places = {value: number for number, value in enumerate(loaded)}
    uses = {
        (user, number): (places[value], (user, number))
        for user, op in enumerate(operators)
        for number, value in enumerate(op.operands)
        if value in places
    }
    if len(uses) == len(loaded):
        return None
    alone = _rewritten(operators, loaded, stored, uses)
    try:
        atoms = Atoms.of(alone.operators)
    except NotFusedError:
        return None
    # What is used along the same indices is one argument again.
    alike = {
        (user, number): (
            source,
            tuple(map(tuple, atoms.dims(alone.operators[user].operands[number]))),
        )
        for (user, number), (source, _) in uses.items()
    }
    if len({*alike.values()}) == len(loaded):
        return None
    return _rewritten(operators, loaded, stored, alike)


def _rewritten(
    operators: Sequence[Operation],
    loaded: Sequence[SSAValue],
    stored: Sequence[SSAValue],
    uses: Mapping[tuple[int, int], Use],
) -> Roles:
    """The operators on an argument for each use, by the number of the user and of its operand."""
    kinds = list(dict.fromkeys(uses.values()))
    sources = [source for source, _ in kinds]
    block = block_of([loaded[source] for source in sources])
    arguments = dict(zip(kinds, block.args, strict=True))
    values: dict[SSAValue, SSAValue] = {}
    own: list[Operation] = []
    for user, op in enumerate(operators):
        new = op.clone(values)
        for number in range(len(op.operands)):
            if (user, number) in uses:
                new.operands[number] = arguments[uses[user, number]]
        own.append(new)
    block.add_ops(own)
    return Roles(own, block.args, sources, [values[value] for value in stored])
