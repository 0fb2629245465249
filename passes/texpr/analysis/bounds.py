"""Accesses outside their buffers, found exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.dialects import te
from mugraph.dialects.te.sizes import ends_of
from mugraph.passes.texpr.analysis.domains import Domain, domain_of, first_point, isl_set, isl_text


@dataclass(frozen=True)
class OutOfBounds:
    """An access that leaves its buffer in some iteration."""

    op: Operation
    buffer: SSAValue
    dimension: int
    """Which of the indices."""
    index: int
    """Its value in that iteration."""
    extent: int
    """What it must be below."""
    iteration: dict[SSAValue, int]
    """The variables of the loops around."""


def find_out_of_bounds(root: Operation) -> OutOfBounds | None:
    """The first access in the text of ``root`` that leaves its buffer, if there is any.

    A section must lie in its buffer, and accesses to a function's parameter in the parameter's
    extents, so that functions are checked by themselves.
    """
    for op in root.walk():
        if isinstance(op, (te.AccessOp, te.AsyncCopy, te.BulkCopyOp, te.WarpgroupMmaOp)):
            touches = [touch for touch in op.touches() if not touch.clipped]
            found = next(filter(None, (_check_touch(op, touch) for touch in touches)), None)
        elif isinstance(op, te.SectionOp):
            source, result = cast(te.BufferType, op.buffer.type), op.result.type
            extents = tuple(
                whole - part + 1
                for whole, part in zip(source.get_shape(), result.get_shape(), strict=True)
            )
            index = op.index_map.results
            found = _check(op, op.buffer, op.indices, index, extents, domain_of(op))
        else:
            continue
        if found is not None:
            return found
    return None


def _check_touch(op: Operation, touch: te.Touch) -> OutOfBounds | None:
    """An element, or neighbours along the last index."""
    shape = touch.type.get_shape()
    extents = shape if len(touch.expressions) == len(shape) else (touch.type.elements,)
    fits = [extent - part + 1 for extent, part in zip(extents, touch.box, strict=True)]
    return _check(op, touch.buffer, touch.indices, touch.expressions, fits, domain_of(op).of(touch))


def _check(
    op: Operation,
    buffer: SSAValue,
    indices: Sequence[SSAValue],
    expressions: Sequence[AffineExpr],
    extents: Sequence[int],
    domain: Domain,
) -> OutOfBounds | None:
    name = domain.named("i")
    names = [name[value] for value in indices]
    shape, ends = cast(te.BufferType, buffer.type).get_shape(), ends_of(buffer)
    for dimension, (expression, extent) in enumerate(zip(expressions, extents, strict=True)):
        end = ends.get(dimension)
        # Where a call says the size, as many elements less can begin there.
        below = str(extent) if end is None else f"{name[end]} + {extent - shape[dimension]}"
        constraints = [
            *domain.constraints(name),
            f"x = {isl_text(expression, names)}",
            f"(x < 0 or x >= {below})",
        ]
        point = first_point(isl_set([*name.values(), "x"], [], constraints))
        if point is not None:
            iteration = dict(zip(name, point[:-1], strict=True))
            below = extent if end is None else iteration[end] + extent - shape[dimension]
            return OutOfBounds(op, buffer, dimension, point[-1], below, iteration)
    return None


def largest_indices(accesses: Sequence[te.AccessOp]) -> list[int]:
    """The largest value of each index over accesses with as many indices; at least 0."""
    largest = [0] * len(accesses[0].index_map.results)
    for op in accesses:
        domain = domain_of(op)
        name = domain.named("i")
        names = [name[value] for value in op.indices]
        for position, expression in enumerate(op.index_map.results):
            values = isl_set(
                ["x"],
                list(name.values()),
                [*domain.constraints(name), f"x = {isl_text(expression, names)}"],
            )
            if not values.is_empty():
                bound = values.dim_max_val(0).to_python()
                largest[position] = max(largest[position], int(bound))
    return largest
