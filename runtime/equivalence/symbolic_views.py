"""The same elements under other extents: views, windows, and one tensor after another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.pieces import Concatenation
from mugraph.dialects.tensor_types import (
    base_layout,
    leaves_in_memory,
    op_label,
    resolved_layout_of,
    row_major_strides,
    shape_of,
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
    if (start := op.part_start()) is not None:
        return symbolic.part(shape, start, operand)
    if op.offset:
        raise NoProofError(f"{op_label(op)} regroups a part of a tensor; it has no normal form")
    if kn.is_reshape(op):
        return symbolic.reshaped(shape, own, operand)
    # Nested modes are seen apart, as dimensions of their own.
    (extents, strides), (seen, strides_seen) = (
        leaves_in_memory(base_layout(resolved_layout_of(value))) for value in (op.input, op.result)
    )
    before, after = _memory_order(extents, strides), _memory_order(seen, strides_seen)
    if before is None or after is None:
        raise NoProofError(f"{op_label(op)} regroups dimensions; it has no normal form")
    in_memory = [extents[dim] for dim in before]
    apart = symbolic.reshaped(extents, own, operand)
    memory = symbolic.permuted(in_memory, before, apart)
    regrouped = symbolic.reshaped([seen[dim] for dim in after], in_memory, memory)
    places = [after.index(dim) for dim in range(len(seen))]
    return symbolic.reshaped(shape, seen, symbolic.permuted(seen, places, regrouped))


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


def _memory_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """Dimensions in the order of their memory; ``None`` where that has holes."""
    order = sorted(range(len(shape)), key=lambda dim: (shape[dim] > 1, -strides[dim]))
    expected = row_major_strides([shape[dim] for dim in order])
    is_dense = all(
        strides[dim] == stride
        for dim, stride in zip(order, expected, strict=True)
        if shape[dim] > 1
    )
    return tuple(order) if is_dense else None
