"""Weights of few bits, however a checkpoint packs them, stored once as kernels read them.

Whole numbers that are computed of weights alone, such as by shifts, masks and views, and of which
bounds say that they have few bits, are bytes of their own: of neighbours along k, two or one in a
byte.  What follows, offsets and scales, is computed in the kernel of the product.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mugraph.torch.bounds import EXACT, Bounds
from mugraph.torch.computed_once import depends_on_weights, insert_computed_once
from mugraph.torch.graphs import insert_call
from mugraph.torch.operator import import_torch
from mugraph.torch.right_matrices import VIEWS, RightMatrix, right_matrix_of
from mugraph.torch.stored_numbers import BYTE, NIBBLE, Stored, stored_numbers_operator

ARITHMETIC = frozenset(
    f"aten.{name}.{kind}" for name in ("add", "sub", "mul") for kind in ("Tensor", "Scalar")
)
"""Functions of whole numbers that fp32 computes exactly, as long as it has their results."""
COPIES = frozenset({"aten._to_copy.default", "aten.clone.default", "aten.alias.default"})
"""Functions that give the same numbers, where the result's type has them."""


def store_narrow_weights(graph_module: Any, weights: Iterable[str]) -> set[str]:
    """Rewrites a graph in place; the names of the nodes that are weights in the place of others.

    ``weights`` are the names of the inputs that are the same at each call.
    """
    rewriting = _Rewriting(graph_module, weights)
    for bits in (NIBBLE, BYTE):
        for node in list(graph_module.graph.nodes):
            if rewriting.has_at_most(node, bits) and not any(
                rewriting.has_at_most(user, bits) for user in node.users
            ):
                rewriting.store(node)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return rewriting.stored


class _Rewriting:
    """A graph, and what is known of its whole numbers."""

    def __init__(self, graph_module: Any, weights: Iterable[str]) -> None:
        self.stored: set[str] = set()
        self._graph_module = graph_module
        self._bounds = Bounds(graph_module)
        self._of_weights = depends_on_weights(graph_module, weights)
        self._in_fp32: dict[Any, Any] = {}
        """Of whole numbers the same numbers in fp32."""

    def has_at_most(self, node: Any, bits: int) -> bool:
        """Whether a node gives whole numbers of so few bits, made of weights alone."""
        if node not in self._of_weights or node in self._in_fp32 or not _is_whole(node):
            return False
        known = self._bounds[node]
        return known is not None and known.last - known.first < 1 << bits

    def store(self, node: Any) -> None:
        """Stores the numbers of a node anew, if they are a right matrix and that takes less."""
        matrix, known = right_matrix_of(node), self._bounds[node]
        if matrix is None or known is None:
            return
        stored = Stored.of(known, matrix.depth)
        is_stored_so = node.op == "placeholder" and matrix.is_by_rows
        if stored is None or (is_stored_so and str(node.meta["val"].dtype) == "torch.int8"):
            return
        aten = import_torch().ops.aten
        with self._graph_module.graph.inserting_before(_behind(node)):
            made = insert_computed_once(self._graph_module, node, _rows(matrix, stored))
            self.stored.add(made.name)
            numbers = insert_call(
                self._graph_module, stored_numbers_operator(), made, stored.bits, stored.lowest
            )
            if not matrix.is_by_rows:
                numbers = insert_call(self._graph_module, aten.permute.default, numbers, [1, 0])
            shape = [*node.meta["val"].shape]
            self._in_fp32[node] = insert_call(
                self._graph_module, aten.reshape.default, numbers, shape
            )
        self._follow(node)

    def _follow(self, node: Any) -> None:
        """Lets what is computed of whole numbers be computed of the same ones in fp32."""
        for user in list(node.users):
            with self._graph_module.graph.inserting_before(user):
                if not _is_whole(user):
                    self._use_in(user, node)
                    continue
                made = self._in_fp32_too(user)
            if made is not None:
                self._in_fp32[user] = made
                self._follow(user)

    def _use_in(self, user: Any, node: Any) -> None:
        """Gives fractions that are computed of whole numbers these in their own type."""
        aten, dtype = import_torch().ops.aten, user.meta["val"].dtype
        number = self._in_fp32[node]
        if number.meta["val"].dtype != dtype:
            number = insert_call(self._graph_module, aten._to_copy.default, number, dtype=dtype)
        user.replace_input_with(node, number)

    def _in_fp32_too(self, user: Any) -> Any:
        """A function of whole numbers in fp32; ``None`` where that is not known to be exact."""
        name = str(user.target)
        known = self._bounds[user]
        if known is None or not known.within(-EXACT, EXACT):
            return None
        if name in COPIES:
            return self._in_fp32[user.args[0]]
        if name not in VIEWS | ARITHMETIC:
            return None
        args = [self._number(each) for each in user.args]
        if any(each is None for each in args):
            return None
        return insert_call(self._graph_module, user.target, *args, **user.kwargs)

    def _number(self, value: Any) -> Any:
        """An argument in fp32, computed once of weights where it is whole numbers."""
        if not hasattr(value, "meta") or not _is_whole(value):
            return value
        if value not in self._in_fp32 and value in self._of_weights:
            made = insert_computed_once(self._graph_module, value, lambda x: x.float())
            self.stored.add(made.name)
            self._in_fp32[value] = made
        return self._in_fp32.get(value)


def _behind(node: Any) -> Any:
    """The first node behind another that may follow what is inserted."""
    following = node.next
    while following.op == "placeholder":
        following = following.next
    return following


def _is_whole(node: Any) -> bool:
    value = node.meta.get("val")
    torch = import_torch()
    return (
        isinstance(value, torch.Tensor)
        and not value.dtype.is_floating_point
        and not value.dtype.is_complex
        and value.dtype != torch.bool
    )


def _rows(matrix: RightMatrix, stored: Stored) -> Any:
    """What makes bytes of a tensor of a right matrix: rows of neighbours along k."""

    def finish(numbers: Any) -> Any:
        if matrix.is_by_rows:
            return stored.bytes_of(numbers.reshape(matrix.columns, matrix.depth))
        return stored.bytes_of(numbers.reshape(matrix.depth, matrix.columns).T.contiguous())

    return finish
