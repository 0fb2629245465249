"""What threadblock operators say about layouts, where several of them say the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.copies import (
    TileCopy,
    can_use_async_copy,
    copy_vector,
    excess_of_copies,
    global_innermost,
)
from mugraph.dialects.interfaces import SharedAccess
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.partition import PartitionedOperand, choose_partition
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    leading_strides,
    op_label,
    padded_strides,
    resolved_layout_of,
    shape_of,
    value_label,
)


def candidate_strides(problem: LayoutProblem, value: SSAValue, innermost: int) -> tuple[int, ...]:
    """The strides of ``value`` if ``innermost`` were chosen; a user's own where they are fixed."""
    fixed = problem.strides_fixed_for(value)
    if fixed is not None:
        return fixed
    return padded_strides(shape_of(value.type), innermost, element_bytes_of(value.type))[0]


def charge_narrow_copies(
    problem: LayoutProblem,
    dtensor: SSAValue,
    stensor: SSAValue,
    make_copy: Callable[[Sequence[int], Sequence[int]], TileCopy],
    without_wide_copy: int,
    without_async_copy: int = 0,
) -> None:
    """Charges every pair of innermost dimensions that rules out wide or asynchronous copies.

    ``without_wide_copy`` is paid in full where the tile is copied element by element, and for
    vectors in between by their excess of copies over 16-byte ones; ``without_async_copy`` is paid
    where ``cp.async`` cannot copy the tile.
    """
    if not (without_wide_copy or without_async_copy):
        return
    for global_dim in range(len(shape_of(dtensor.type))):
        for shared_dim in range(len(shape_of(stensor.type))):
            copy = make_copy(
                candidate_strides(problem, dtensor, global_dim),
                candidate_strides(problem, stensor, shared_dim),
            )
            pair = (problem.innermost(dtensor, global_dim), problem.innermost(stensor, shared_dim))
            problem.charge(
                int(without_wide_copy * excess_of_copies(copy)),
                *pair,
                reason="the tile cannot be copied 16 bytes at a time",
            )
            if not can_use_async_copy(copy):
                problem.charge(
                    without_async_copy, *pair, reason="the tile cannot be copied by cp.async"
                )


def require_swizzled_unless_innermost(
    problem: LayoutProblem, op: Operation, value: SSAValue, dim: int
) -> None:
    """Hard: ``dim`` of a shared tensor that ``op`` walks along is its innermost or is swizzled.

    A single row or column has nothing to walk along and is not restricted.
    """
    if problem.costs.foresees_swizzles and shape_of(value.type)[dim] > 1:
        problem.require_any(
            problem.innermost(value, dim),
            problem.swizzled(value, dim),
            reason=(
                f"{op_label(op)} walks along dimension {dim} of {value_label(value)}, which must "
                "be innermost or swizzled"
            ),
        )


def add_iteration_constraints(
    problem: LayoutProblem,
    op: Operation,
    values: Sequence[SSAValue],
    candidates: Sequence[int],
) -> None:
    """Hard: ``op`` walks along one of ``candidates``; its tensors are innermost or swizzled there.

    A tensor of extent 1 along that dimension is broadcast and not restricted.  A dimension along
    which all have extent 1 is no candidate: walking there would be no walk.
    """
    wide = [dim for dim in candidates if any(shape_of(value.type)[dim] > 1 for value in values)]
    if not wide or not problem.costs.foresees_swizzles:
        return
    problem.require_one([problem.iterates(op, dim) for dim in wide])
    for dim in wide:
        for value in values:
            if shape_of(value.type)[dim] > 1:
                problem.require_any(
                    problem.iterates(op, dim).negated(),
                    problem.innermost(value, dim),
                    problem.swizzled(value, dim),
                    reason=(
                        f"{op_label(op)} walks along one dimension, which must be innermost or "
                        f"swizzled in {value_label(value)}"
                    ),
                )


def copy_access(stensor: SSAValue, copy: TileCopy) -> SharedAccess:
    """How a copy touches its shared side."""
    return SharedAccess(stensor, global_innermost(copy), copy_vector(copy))


def partitioned_operand(value: SSAValue) -> PartitionedOperand:
    """A resolved shared tensor, as the choice of a partition sees it."""
    return PartitionedOperand(
        shape_of(value.type),
        leading_strides(resolved_layout_of(value)),
        element_bytes_of(value.type),
    )


def reduction_accesses(
    source: SSAValue, result: SSAValue, reduced_dim: int, lanes: int, order: Sequence[int]
) -> list[SharedAccess]:
    """Accesses of a reduction.

    Lanes that share a sum walk along the reduced dimension, groups of lanes along the results.
    """
    accesses = [SharedAccess(result, order[0], 1)]
    if lanes > 1:
        accesses.append(SharedAccess(source, reduced_dim, 1))
    if lanes < 32:
        accesses.append(SharedAccess(source, order[0], 1))
    return accesses


def elementwise_accesses(
    result: SSAValue, operands: Sequence[SSAValue], threads: int
) -> list[SharedAccess]:
    """Accesses of an element-wise operation; the same partition that scheduling will choose."""
    values = (result, *operands)
    partition = choose_partition(
        shape_of(result.type), [partitioned_operand(value) for value in values], threads
    )
    return [
        SharedAccess(
            value,
            partition.inner,
            1 if shape_of(value.type)[partition.inner] == 1 else partition.vector,
        )
        for value in values
    ]
