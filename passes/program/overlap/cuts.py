"""What can be computed in parts before or behind a collective, by the indices of operators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.device_cuts import DeviceCut, device_cuts
from mugraph.dialects.tensor_types import (
    bytes_of,
    element_bytes_of,
    layout_of,
    shape_of,
)
from mugraph.passes.program.partition.segments import reads_again


@dataclass
class Chain:
    """Operators that are computed in parts, in their order, each by one of its indices."""

    cuts: dict[Operation, DeviceCut] = field(default_factory=dict[Operation, DeviceCut])

    @property
    def values(self) -> set[tuple[SSAValue, int]]:
        """What there is of in parts, with each dimension along which it is cut."""
        found = set[tuple[SSAValue, int]]()
        for op, cut in self.cuts.items():
            for values, dims in ((op.operands, cut.operands), (op.results, cut.results)):
                pairs = zip(values, dims, strict=True)
                found |= {(value, dim) for value, dim in pairs if dim is not None}
        return found

    @property
    def products(self) -> list[Operation]:
        """Those that read elements of their operands again, which take the time."""
        return [op for op in self.cuts if reads_again(op)]


ALIGNMENT = 16
"""Of tensors that kernels read and write, in bytes."""


def are_ranges(type_: Attribute, dim: int, devices: int) -> bool:
    """Whether a tensor has equal parts along a dimension that are ranges of memory for kernels."""
    shape = shape_of(type_)
    part = math.prod(shape) * element_bytes_of(type_) // devices
    return math.prod(shape[:dim]) == 1 and shape[dim] % devices == 0 and part % ALIGNMENT == 0


def can_be_pushed(op: kn.CollectiveOp) -> bool:
    """Whether what a device has may lie in the memory of another one as kernels read and write it.

    That of all devices is a range for each, in row-major order.
    """
    if layout_of(op.input.type) is not None or layout_of(op.result.type) is not None:
        return False
    if op.joined_dim is not None:
        return are_ranges(op.result.type, op.joined_dim, op.devices)
    return bool(shape_of(op.input.type)) and bytes_of(op.input.type) % ALIGNMENT == 0


def kernel_of(value: SSAValue) -> list[Operation]:
    """The operators from products on whose kernel makes a tensor, if one of this device does."""
    found: list[Operation] = []
    left = [value]
    while left:
        made = left.pop()
        maker = made.owner
        if isinstance(maker, Block | kn.CollectiveOp) or not made.has_one_use() or maker in found:
            continue
        found.append(maker)
        if not reads_again(maker):
            left += maker.operands
    return found


def makers_of(value: SSAValue, dim: int, devices: int) -> Chain | None:
    """The operators from a product to a value that can be computed in parts of a dimension."""
    cuts: dict[Operation, DeviceCut] = {}
    left = [(value, dim)]
    while left:
        made, along = left.pop()
        maker = made.owner
        if isinstance(maker, Block) or not made.has_one_use() or maker in cuts:
            continue
        cut = _cut_of(maker, {}, dict.fromkeys(maker.results, along))
        if cut is None:
            continue
        cuts[maker] = cut
        if not reads_again(maker):
            operands = zip(maker.operands, cut.operands, strict=True)
            left += [(each, other) for each, other in operands if other is not None]
    return _chain(cuts, devices)


def users_of(value: SSAValue, dim: int, devices: int) -> Chain | None:
    """The operators of which a value is an operand, up to what stands behind the first products."""
    cuts: dict[Operation, DeviceCut] = {}
    dims: dict[SSAValue, int] = {value: dim}
    behind = set[SSAValue]()
    for user in _behind(value):
        if dims.keys().isdisjoint(user.operands):
            continue
        again = not behind.isdisjoint(user.operands)
        cut = None if again and reads_again(user) else _cut_of(user, dims, {})
        if cut is None:
            continue
        cuts[user] = cut
        results = zip(user.results, cut.results, strict=True)
        dims |= {result: along for result, along in results if along is not None}
        if again or reads_again(user):
            behind.update(user.results)
    return _chain(cuts, devices)


def regroupings_of_argument(value: SSAValue) -> list[kn.RegroupOp]:
    """What gives an argument the extents of a value, in order: a transpose, say; or nothing."""
    found: list[kn.RegroupOp] = []
    while isinstance(value.owner, kn.RegroupOp):
        found.append(value.owner)
        value = value.owner.input
    return found[::-1] if isinstance(value.owner, Block) else []


def _behind(value: SSAValue) -> list[Operation]:
    op = value.owner
    found: list[Operation] = []
    while isinstance(op, Operation) and (op := op.next_op) is not None:
        found.append(op)
    return found


def _cut_of(
    op: Operation, operands: Mapping[SSAValue, int], results: Mapping[SSAValue, int]
) -> DeviceCut | None:
    """How an operator is computed in parts of what there is in parts; its results are in parts."""
    if isinstance(op, kn.CollectiveOp | ReturnOp) or op.regions:
        return None
    for cut in device_cuts(op):
        if cut.combiner is None and None not in cut.results:
            given = zip(op.operands, cut.operands, strict=True)
            made = zip(op.results, cut.results, strict=True)
            if all(operands.get(value, dim) == dim for value, dim in given) and all(
                results.get(value, dim) == dim for value, dim in made
            ):
                return cut
    return None


def _chain(cuts: dict[Operation, DeviceCut], devices: int) -> Chain | None:
    """The operators in their order; ``None`` where there is no product, or parts are no ranges."""
    order = sorted(cuts, key=lambda op: _number(op))
    chain = Chain({op: cuts[op] for op in order})
    can_be_cut = all(are_ranges(v.type, dim, devices) for v, dim in chain.values)
    return chain if chain.products and can_be_cut else None


def _number(op: Operation) -> int:
    block = op.parent_block()
    assert block is not None
    return block.get_operation_index(op)
