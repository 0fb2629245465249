"""Two extents that change from call to call, such as a batch and its tokens, as one.

No program has a tensor whose strides change with an extent, as those of ``(batch, tokens, width)``
do.  Most operators do not tell apart whose token a row is: they are called on ``(1, batch * tokens,
width)`` instead, which is the same memory, and a program has one named extent.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mugraph.torch.aten import CONVERSIONS
from mugraph.torch.graphs import insert_call
from mugraph.torch.operator import import_torch
from mugraph.torch.symbols import factors_of, is_symbol
from mugraph.torch.translation import as_list


def merge_rows(graph_module: Any, refusal: Callable[[Any], str | None]) -> None:
    """Lets calls whose tensors start with two symbols, or have neither, take and give one.

    Views between both forms stand where other calls use results.  ``refusal`` says of such a call
    why no program has it, as of one that combines elements along the rows or asks where a row
    stands; it stays as it was.
    """
    for pair in _leading_pairs(graph_module):
        merging = _Merging(graph_module, refusal, *pair)
        for node in list(graph_module.graph.nodes):
            merging.visit(node)
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()


def _leading_pairs(graph_module: Any) -> list[tuple[Any, Any]]:
    """The pairs of symbols that tensors of a graph start with, each once."""
    found: dict[tuple[str, str], tuple[Any, Any]] = {}
    for node in graph_module.graph.nodes:
        for shape in _shapes_of(node):
            first, second = (factors_of(extent) for extent in (*shape[:2], 0, 0)[:2])
            if len(first) == len(second) == 1 and first != second:
                found.setdefault((str(first[0]), str(second[0])), (shape[0], shape[1]))
    return [*found.values()]


def _shapes_of(node: Any) -> Iterator[Any]:
    """The shapes of the tensors that a node gives."""
    value = node.meta.get("val")
    for each in as_list(value):
        if isinstance(each, import_torch().Tensor):
            yield each.shape


def _expression(extent: Any) -> Any:
    """A number or a symbol, to compare and to multiply."""
    return extent.node.expr if is_symbol(extent) else extent


@dataclass
class _Merging:
    """Rewrites calls on rows that two symbols count."""

    graph_module: Any
    refusal: Callable[[Any], str | None]
    outer: Any
    inner: Any
    merged: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """What a node gives, with all rows along one dimension behind one of one element."""
    numbers: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """The nodes of the two symbols, and of their product, by what they are."""

    def __post_init__(self) -> None:
        graph = self.graph_module.graph
        for node in graph.nodes:
            value = node.meta.get("val")
            if is_symbol(value):
                self.numbers.setdefault(value.node.expr, node)
        # They are computed in front of everything else.
        first = next(node for node in graph.nodes if node.op != "placeholder")
        with graph.inserting_before(first):
            for extent in (self.outer, self.inner):
                known = self.numbers.get(_expression(extent))
                if known is None or known.op != "placeholder":
                    self.numbers[_expression(extent)] = self._size(extent)
            outer, inner = (self.numbers[_expression(each)] for each in (self.outer, self.inner))
            product = insert_call(self.graph_module, operator.mul, outer, inner)
        self.numbers[product.meta["val"].node.expr] = self.product = product

    def _size(self, extent: Any) -> Any:
        """A new node that reads a symbol from a tensor of a call."""
        size = import_torch().ops.aten.sym_size.int
        for node in self.graph_module.graph.find_nodes(op="placeholder"):
            for shape in _shapes_of(node):
                for dim, other in enumerate(shape):
                    if _expression(other) == _expression(extent):
                        return insert_call(self.graph_module, size, node, dim)
        raise AssertionError(f"no tensor of a call has the extent {extent}")

    def visit(self, node: Any) -> None:
        """Rewrites a node where all it takes and gives has both symbols in front, or neither."""
        if node.op != "call_function" or not self._is_on_rows(node):
            return
        graph_module = self.graph_module
        with graph_module.graph.inserting_before(node):
            if not self._is_parallel(node):
                return
            made = self._on_rows(node, self._of_rows, 1, self.product)
            made.meta = {**node.meta, "val": made.meta["val"]}
            self.merged[node] = made
            if isinstance(made.meta["val"], (tuple, list)):
                return  # those that pick a result of it are rewritten, too
            both = [self.numbers[_expression(each)] for each in (self.outer, self.inner)]
            apart = self._viewed(made, *both)
        self.merged[apart] = made
        node.replace_all_uses_with(apart)

    def _is_parallel(self, node: Any) -> bool:
        """Whether programs have a call with all rows along either dimension.

        Then it combines elements along neither of them.
        """
        is_part = node.target is operator.getitem
        return is_part or (self._has(node, 1, self.product) and self._has(node, self.product, 1))

    def _has(self, node: Any, outer: Any, inner: Any) -> bool:
        """Whether programs have a call with these numbers of rows."""
        views = list[Any]()

        def viewed(operand: Any) -> Any:
            views.append(self._viewed(operand, outer, inner))
            return views[-1]

        made = self._on_rows(node, viewed, outer, inner)
        is_taken = self.refusal(made) is None
        for each in (made, *views):
            self.graph_module.graph.erase_node(each)
        return is_taken

    def _on_rows(self, node: Any, rows: Callable[[Any], Any], outer: Any, inner: Any) -> Any:
        """The same call with these numbers of rows, and ``rows`` of each tensor that has both."""

        def given(operand: Any) -> Any:
            if self._starts_with_both(operand):
                return rows(operand)
            value = operand.meta["val"]
            if not is_symbol(value):
                return operand
            known = {_expression(self.outer): outer, _expression(self.inner): inner}
            return known.get(_expression(value), self.product)

        args, kwargs = import_torch().fx.node.map_arg((node.args, node.kwargs), given)
        return insert_call(self.graph_module, node.target, *args, **kwargs)

    def _viewed(self, node: Any, outer: Any, inner: Any) -> Any:
        """A view of a node's tensor whose first two dimensions have these extents."""
        shape = [outer, inner, *node.meta["val"].shape[2:]]
        return insert_call(self.graph_module, import_torch().ops.aten.view.default, node, shape)

    def _of_rows(self, node: Any) -> Any:
        """A tensor with all rows along one dimension."""
        if node not in self.merged:
            self.merged[node] = self._viewed(node, 1, self.product)
        return self.merged[node]

    def _is_on_rows(self, node: Any) -> bool:
        """Whether a call of an operator that programs have is on rows that both symbols count."""
        if node.target is operator.getitem:
            return node.args[0] in self.merged
        if str(node.target) not in CONVERSIONS:
            return False
        kinds = [self._starts_with_both(each) for each in (*node.all_input_nodes, node)]
        return True in kinds and None not in kinds

    def _starts_with_both(self, node: Any) -> bool | None:
        """Whether a node's tensors start with the two symbols; ``None`` for what is neither that
        nor free of them."""
        value = node.meta.get("val")
        if is_symbol(value):
            numbers = (self.outer, self.inner, self.product.meta["val"])
            return False if _expression(value) in map(_expression, numbers) else None
        free = self._symbols((self.outer, self.inner))
        starts = False
        for each in as_list(value):
            if not isinstance(each, import_torch().Tensor):
                return None
            if not self._symbols(each.shape) & free:
                continue
            pair = [*map(_expression, each.shape[:2])]
            is_pair = pair == [_expression(self.outer), _expression(self.inner)]
            if not is_pair or self._symbols(each.shape[2:]) or not self._in_one(each, node):
                return None
            starts = True
        return starts

    def _in_one(self, tensor: Any, node: Any) -> bool:
        """Whether rows of one outer element follow those of the one before."""
        steps = [*map(_expression, tensor.stride()[:2])]
        return node in self.merged or steps[0] == steps[1] * _expression(self.inner)

    @staticmethod
    def _symbols(extents: Iterable[Any]) -> set[Any]:
        """The symbols in some extents."""
        return {each for one in extents if is_symbol(one) for each in one.node.expr.free_symbols}
