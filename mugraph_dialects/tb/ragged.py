"""Which elements of the tiles of a threadblock graph exist, from its inputs' maps on.

What each operator does with ragged tiles is its own (:class:`HasRaggedTiles`); this module holds
what several of them say alike.  Meaning: ``docs/semantics.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.interfaces import HasRaggedTiles
from mugraph.dialects.maps import Bound
from mugraph.dialects.ragged import Bounds, Padding, RaggedDim
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import op_label, shape_of, value_label


def says_which_exist(bound: Bound | None) -> str:
    """A bound in words, for diagnostics."""
    if bound is None:
        return "always whole"
    return f"ragged ({RaggedDim(0, bound)})".replace("dim 0, ", "")


def merged_bounds(op: Operation, operands: Sequence[Bounds]) -> Bounds:
    """The bounds of an element-wise result: operands that are not broadcast must agree.

    A tile of extent 1 that may be empty cannot be broadcast over more.
    """
    shapes = [shape_of(value.type) for value in op.operands]
    merged: list[Bound | None] = []
    for dim in range(len(shapes[0])):
        extent = max(shape[dim] for shape in shapes)
        merged.append(_merged_bound(op, operands, dim, extent))
    return tuple(merged)


def _merged_bound(op: Operation, operands: Sequence[Bounds], dim: int, extent: int) -> Bound | None:
    found: list[tuple[SSAValue, Bound | None]] = []
    for value, bounds in zip(op.operands, operands, strict=True):
        if shape_of(value.type)[dim] == extent and (extent > 1 or bounds[dim] is not None):
            found.append((value, bounds[dim]))
        elif bounds[dim] is not None:
            raise VerifyException(
                f"{op_label(op)} broadcasts {value_label(value)} along dimension {dim}, where its "
                "one element does not exist in every block and iteration; choose a grid and "
                "a forloop that leave no tile empty"
            )
    if not found:
        return None
    (first, bound), *others = found
    for value, other in others:
        require_same_bound(op, (first, dim, bound), (value, dim, other))
    return bound


def require_same_bound(
    op: Operation,
    one: tuple[SSAValue, int, Bound | None],
    other: tuple[SSAValue, int, Bound | None],
) -> None:
    """Raises ``VerifyException`` unless the same elements of two dimensions exist."""
    (value, dim, bound), (second, second_dim, second_bound) = one, other
    if bound != second_bound:
        raise VerifyException(
            f"{op_label(op)}: dimension {dim} of {value_label(value)} is "
            f"{says_which_exist(bound)}, but dimension {second_dim} of {value_label(second)} is "
            f"{says_which_exist(second_bound)}; they must have the same elements in every block "
            "and iteration, so split tensors of one extent in one way"
        )


def matmul_bounds(op: Operation, operands: Sequence[Bounds]) -> Bounds:
    """Rows as of the first operand, columns as of the second; the contracted ones must agree."""
    (lhs, rhs), (left, right) = op.operands, operands
    rank = len(left)
    require_same_bound(op, (lhs, rank - 1, left[-1]), (rhs, rank - 2, right[-2]))
    leading = [_merged_bound(op, operands, dim, shape_of(lhs.type)[dim]) for dim in range(rank - 2)]
    return (*leading, left[-2], right[-1])


def whole_along(bounds: Bounds, dim: int) -> Bounds:
    """The same bounds with all elements along one dimension, as a sum over it has."""
    return tuple(None if at == dim else bound for at, bound in enumerate(bounds))


def accumulated_bounds(bounds: Bounds) -> Bounds:
    """Bounds of what is combined over the iterations: an element that exists in one exists."""
    return tuple(None if bound is None else bound.of_first_iteration() for bound in bounds)


def moving_dims(bounds: Bounds) -> list[int]:
    """The dimensions along which other elements exist from iteration to iteration."""
    return [dim for dim, bound in enumerate(bounds) if bound is not None and bound.moves]


def function_padding(function: ScalarFunction, operands: Sequence[Padding]) -> Padding:
    """What a scalar function makes of the padding that all its operands have."""
    padding: dict[int, float] = {}
    for dim in operands[0]:
        if not all(dim in operand for operand in operands):
            continue
        value = function.at([operand[dim] for operand in operands])
        if value is not None:
            padding[dim] = value
    return padding


def check_bounds(op: Operation, operands: Sequence[Bounds]) -> Bounds:
    """The bounds of an operator's results; raises ``VerifyException`` as its interface does.

    Results are as in the first of them, the operator's epilogue and accumulation included.
    """
    rank = len(shape_of(op.results[0].type))
    if not any(bound for bounds in operands for bound in bounds):
        return (None,) * rank
    if not isinstance(op, HasRaggedTiles):
        ragged = next(
            value
            for value, bounds in zip(op.operands, operands, strict=True)
            if any(bound is not None for bound in bounds)
        )
        raise VerifyException(
            f"{op_label(op)} works on whole tiles only, but {value_label(ragged)} is ragged: some "
            "of its elements do not exist in some blocks or iterations; choose a grid and a "
            "forloop that divide its extents"
        )
    bounds = op.result_bounds(operands)
    return accumulated_bounds(bounds) if epilogue_of(op).accumulates else bounds
