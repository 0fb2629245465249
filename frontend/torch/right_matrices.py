"""How a tensor becomes the right matrix of a product, through views and functions of elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mugraph.torch.operator import import_torch

RESHAPES = frozenset(
    f"aten.{name}"
    for name in (
        "view.default",
        "reshape.default",
        "_unsafe_view.default",
        "unsqueeze.default",
        "squeeze.dim",
        "squeeze.dims",
    )
)
"""Operators that give the same elements in the same order."""
TRANSPOSES = frozenset({"aten.permute.default", "aten.transpose.int", "aten.t.default"})
VIEWS = RESHAPES | TRANSPOSES
"""Operators that give the same elements."""
COPIES = frozenset({"aten._to_copy.default", "aten.clone.default", "aten.alias.default"})
"""Operators that give the same numbers, where the result's type has them."""
OFFSETS = frozenset({"aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar"})
"""Operators that add a number to each element."""
ARITHMETIC = OFFSETS | {"aten.mul.Tensor", "aten.mul.Scalar"}
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
    path: tuple[Step, ...]
    """The operators between the tensor and the product."""

    def run_of(self, step: Step, operand: Any) -> int:
        """Of how many neighbours along k another operand of a step has the same number."""
        if not hasattr(operand, "meta"):
            return self.depth
        shape, strides = step.places.shape, step.places.stride()
        own = [1] * len(shape)
        own[len(shape) - operand.meta["val"].dim() :] = operand.meta["val"].shape
        run = 1
        for dim in sorted(range(len(shape)), key=lambda dim: strides[dim]):
            if self.is_along_k(strides[dim]):
                if own[dim] > 1:
                    return run
                run *= shape[dim]
        return self.depth

    def is_along_k(self, stride: int) -> bool:
        """Whether a dimension in which elements are so far apart is a part of k."""
        return stride < self.depth if self.is_by_rows else stride >= self.columns


@dataclass(frozen=True)
class Step:
    """An operator on the way to a product."""

    operator: Any
    source: Any
    """Its operand that comes from the tensor."""
    places: Any
    """Where the tensor's elements are in the result: a tensor without numbers, for its strides."""

    @property
    def others(self) -> list[Any]:
        """What else it computes with."""
        args = self.operator.args[:2] if str(self.operator.target) in ARITHMETIC else ()
        return [each for each in args if each is not self.source]


def right_matrix_of(node: Any) -> RightMatrix | None:
    """Of a tensor whose elements are those of one right matrix alone; else ``None``."""
    torch = import_torch()
    places = torch.empty(tuple(node.meta["val"].shape), device="meta")
    source, path = node, list[Step]()
    while len(source.users) == 1:
        (user,) = source.users
        name = str(user.target)
        if name in RIGHT and user.args[RIGHT[name]] is source:
            depth, columns = places.shape
            if places.stride() not in ((1, depth), (columns, 1)):
                return None
            by_rows = places.stride() == (1, depth)
            return RightMatrix(user, depth, columns, by_rows, tuple(path))
        places = _moved(user, source, places)
        if places is None:
            return None
        path.append(Step(user, source, places))
        source = user
    return None


def _moved(user: Any, source: Any, places: Any) -> Any:
    """The elements behind one more operator; ``None`` where it does something else with them."""
    name, shape = str(user.target), getattr(user.meta.get("val"), "shape", None)
    if user.op != "call_function" or shape is None:
        return None
    if name in COPIES | ARITHMETIC:
        rounds = _has_fractions(source) and not _has_fractions(user)
        return places if tuple(shape) == tuple(places.shape) and not rounds else None
    if name not in VIEWS or user.args[0] is not source:
        return None
    if name in TRANSPOSES:
        return user.target(places, *user.args[1:])
    try:
        return places.view(tuple(shape))
    except RuntimeError:
        return None  # a copy in another order


def _has_fractions(node: Any) -> bool:
    return bool(node.meta["val"].dtype.is_floating_point)
