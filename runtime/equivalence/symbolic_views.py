"""The same elements under other extents: views, windows, and one tensor after another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.pieces import Concatenation
from mugraph.dialects.tensor_types import (
    op_label,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
)
from mugraph.dialects.windows import Windows
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.tensors import Symbolic, SymbolicTensor


def concatenated(
    op: Concatenation, symbolic: Symbolic, operands: Sequence[SymbolicTensor]
) -> SymbolicTensor:
    """The operands one after the other."""
    dim = op.joined_dim
    extents = [shape_of(part.type)[dim] for part in op.inputs]
    return symbolic.concatenated(shape_of(op.result.type), dim, extents, operands)


def seen_as(op: kn.ViewOp, symbolic: Symbolic, operand: SymbolicTensor) -> SymbolicTensor:
    """The operand under other extents."""
    shape, dims = shape_of(op.result.type), op.permuted_dims()
    if dims is not None:
        return symbolic.permuted(shape, dims, operand)
    own = shape_of(op.input.type)
    if op.is_regrouped_in_order():
        return symbolic.reshaped(shape, own, operand)
    if op.has_windows():
        return symbolic.windows(shape, operand)
    if op.is_first_part():
        return symbolic.part(shape, [0] * len(shape), operand)
    orders = [_memory_order(value) for value in (op.input, op.result)]
    if None in orders:
        raise NoProofError(f"{op_label(op)} regroups dimensions; it has no normal form")
    before, after = (order or () for order in orders)
    in_memory = [own[dim] for dim in before]
    operand = symbolic.permuted(in_memory, before, operand)
    seen = symbolic.reshaped([shape[dim] for dim in after], in_memory, operand)
    return symbolic.permuted(shape, [after.index(dim) for dim in range(len(shape))], seen)


def seen_through(
    windows: Windows, symbolic: Symbolic, value: SSAValue, operand: SymbolicTensor
) -> SymbolicTensor:
    """What windows see: another order of elements, or a function of which nothing is known."""
    own = shape_of(value.type)
    order = windows.regrouped_dims(own)
    if order is None:
        return symbolic.unknown(windows.shape, str(windows), [value], [operand])
    permuted = [own[dim] for dim in order]
    return symbolic.reshaped(windows.shape, permuted, symbolic.permuted(permuted, order, operand))


def _memory_order(value: SSAValue) -> tuple[int, ...] | None:
    """A tensor's dimensions in the order of its memory; ``None`` where that has holes."""
    shape, strides = shape_of(value.type), strides_of(resolved_layout_of(value))
    order = sorted(range(len(shape)), key=lambda dim: (shape[dim] > 1, -strides[dim]))
    expected = row_major_strides([shape[dim] for dim in order])
    is_dense = all(
        strides[dim] == stride
        for dim, stride in zip(order, expected, strict=True)
        if shape[dim] > 1
    )
    return tuple(order) if is_dense else None
