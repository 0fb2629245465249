"""How a tensor becomes the right matrix of a product, through views and functions of elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mugraph.torch.operator import import_torch

_VIEWS = (
    "view.default",
    "reshape.default",
    "_unsafe_view.default",
    "permute.default",
    "transpose.int",
    "t.default",
    "unsqueeze.default",
    "squeeze.dim",
    "squeeze.dims",
)
VIEWS = frozenset(f"aten.{name}" for name in _VIEWS)
"""Operators that give the same elements in other dimensions."""
SAME = frozenset(
    f"aten.{name}"
    for name in (
        "_to_copy.default",
        "clone.default",
        "alias.default",
        "add.Tensor",
        "add.Scalar",
        "sub.Tensor",
        "sub.Scalar",
        "mul.Tensor",
        "mul.Scalar",
    )
)
"""Operators that compute each element of one: what else they take is broadcast."""
RIGHT = {"aten.mm.default": 1, "aten.addmm.default": 2}
"""Which argument of a product is its right matrix."""


@dataclass(frozen=True)
class RightMatrix:
    """The product that a tensor comes to, and where the tensor's elements are in the matrix."""

    product: Any
    depth: int
    columns: int
    is_by_rows: bool
    """Whether the tensor, row-major, is the transposed matrix: neighbours are along k."""


def right_matrix_of(node: Any) -> RightMatrix | None:
    """Of a tensor whose elements are those of one right matrix; else ``None``."""
    torch = import_torch()
    start = torch.empty(tuple(node.meta["val"].shape), device="meta")
    pending: list[tuple[Any, Any]] = [(node, start)]
    found: set[RightMatrix] = set()
    while pending:
        source, places = pending.pop()
        for user in source.users:
            name = str(user.target)
            if name in RIGHT and user.args[RIGHT[name]] is source:
                found.add(RightMatrix(user, *places.shape, _is_by_rows(places)))
                continue
            moved = _moved(user, source, places)
            if moved is None:
                return None
            pending.append((user, moved))
    if len(found) != 1:
        return None
    (matrix,) = found
    return matrix if matrix.is_by_rows is not None else None


def _is_by_rows(places: Any) -> Any:
    """Whether neighbours are along k, or along the columns; ``None`` for what is neither."""
    depth, columns = places.shape
    if places.stride() == (1, depth):
        return True
    return False if places.stride() == (columns, 1) else None


def _moved(user: Any, source: Any, places: Any) -> Any:
    """The elements behind one more operator; ``None`` where it does something else with them."""
    name, shape = str(user.target), getattr(user.meta.get("val"), "shape", None)
    if user.op != "call_function" or shape is None:
        return None
    if name in SAME:
        return places if tuple(shape) == tuple(places.shape) else None
    if name not in VIEWS or user.args[0] is not source:
        return None
    if name in ("aten.permute.default", "aten.transpose.int", "aten.t.default"):
        return user.target(places, *user.args[1:])
    try:
        return places.view(tuple(shape))
    except RuntimeError:
        return None  # a copy in another order
