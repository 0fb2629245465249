"""Weights of few bits, however a checkpoint packs them, stored once as kernels read them.

Whole numbers that are computed of weights alone, such as by shifts, masks and views, and of which
bounds say that they have few bits, are bytes of their own: of neighbours along k, two or one in a
byte.  What follows, offsets and scales, is computed in the kernel of the product.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mugraph.errors import UserError
from mugraph.torch.bounds import EXACT, Bounds
from mugraph.torch.computed_once import (
    Finish,
    depends_on_weights,
    insert_computed_once,
    value_of,
)
from mugraph.torch.graphs import insert_call
from mugraph.torch.operator import import_torch
from mugraph.torch.right_matrices import (
    ARITHMETIC,
    COPIES,
    OFFSETS,
    RESHAPES,
    VIEWS,
    RightMatrix,
    Step,
    right_matrix_of,
)
from mugraph.torch.stored_numbers import (
    BYTE,
    NIBBLE,
    Stored,
    product_with_bias_operator,
    stored_numbers_operator,
)

SHORTEST_RUN = 16
"""Neighbours along k that have an offset in common, at least, for it to be added behind."""


def store_narrow_weights(
    graph_module: Any, weights: Iterable[str], inputs: Mapping[str, Any]
) -> set[str]:
    """Rewrites a graph in place; the names of the nodes that are weights in the place of others.

    ``weights`` are the names of the inputs that are the same at each call; ``inputs`` are tensors,
    as far as they are known.
    """
    rewriting = _Rewriting(graph_module, weights, inputs)
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

    def __init__(
        self, graph_module: Any, weights: Iterable[str], inputs: Mapping[str, Any]
    ) -> None:
        self._inputs = inputs
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
        while any(self._group(step, other) for step in matrix.path for other in step.others):
            matrix = right_matrix_of(node)  # through views and the same functions
            assert matrix is not None
        for step in matrix.path:
            self._lay_out_scales(matrix, step)
        self._take_out_offsets(matrix, node)
        torch, stored = import_torch(), Stored.of(known, matrix.depth)
        is_stored_so = node.op == "placeholder" and matrix.is_by_rows
        if stored is None or (is_stored_so and node.meta["val"].dtype == torch.int8):
            return
        aten = torch.ops.aten
        with self._graph_module.graph.inserting_before(_behind(node)):
            made = self._computed_once(node, _rows(matrix, stored))
            numbers = self._call(stored_numbers_operator(), made, stored.bits, stored.lowest)
            if not matrix.is_by_rows:
                numbers = self._call(aten.permute.default, numbers, [1, 0])
            shape = [*node.meta["val"].shape]
            self._in_fp32[node] = self._call(aten.reshape.default, numbers, shape)
        self._follow(node)

    def _computed_once(self, node: Any, finish: Finish) -> Any:
        """What is made of a node of weights, as a weight."""
        made = insert_computed_once(self._graph_module, node, finish)
        self.stored.add(made.name)
        return made

    def _group(self, step: Step, other: Any) -> bool:
        """Lets numbers that are repeated for neighbours be broadcast; whether there are such."""
        aten = import_torch().ops.aten
        repeated = _repeated(other) or self._of_groups(other)
        if repeated is None:
            return False
        base, shape = repeated
        op = step.operator
        with self._graph_module.graph.inserting_before(op):
            apart = self._call(aten.view.default, step.source, [*shape])
            args = [{step.source: apart, other: base}.get(each, each) for each in op.args]
            made = self._call(op.target, *args, **op.kwargs)
            whole = self._call(aten.view.default, made, [*op.meta["val"].shape])
        op.replace_all_uses_with(whole)
        self._graph_module.graph.erase_node(op)
        return True

    def _of_groups(self, node: Any) -> tuple[Any, tuple[int, ...]] | None:
        """The same of rows of a table that are chosen in groups, each the next row."""
        while _is_same(node):
            node = node.args[0]
        if str(getattr(node, "target", "")) != "aten.index_select.default":
            return None
        table, dim, places = node.args
        depth, groups = node.meta["val"].shape[0], table.meta["val"].shape[0]
        if node not in self._of_weights or dim != 0 or depth % groups or depth == groups:
            return None
        run, chosen = depth // groups, value_of(self._graph_module, places, self._inputs)
        torch = import_torch()
        if chosen is None or chosen.tolist() != [place // run for place in range(depth)]:
            return None

        def first_of_each(rows: Any) -> Any:
            apart = rows.unflatten(0, (groups, run))
            if not hasattr(rows, "fake_mode") and not torch.equal(
                apart, apart[:, :1].expand_as(apart)
            ):
                raise UserError(
                    f"weights have changed: groups of {run} neighbours have several scales or "
                    "zeros now, and the model was compiled for one each; call torch._dynamo.reset()"
                )
            return apart[:, :1].contiguous()

        with self._graph_module.graph.inserting_before(_behind(node)):
            base = self._computed_once(node, first_of_each)
        self._of_weights.add(base)
        self._bounds.take(base, self._bounds[node])
        return base, (groups, run, *node.meta["val"].shape[1:])

    def _lay_out_scales(self, matrix: RightMatrix, step: Step) -> None:
        """Puts the numbers of several columns and groups in the order that kernels read them."""
        for other in step.others:
            if other not in self._of_weights or not other.meta["val"].dtype.is_floating_point:
                continue
            shape = other.meta["val"].shape
            strides = step.places.stride()[-len(shape) :]
            along_k = [matrix.is_along_k(stride) for stride in strides]
            order = sorted(range(len(shape)), key=lambda dim: not along_k[dim])
            several = {along_k[dim] for dim in order if shape[dim] > 1}
            if len(several) == 2 and order != [*range(len(shape))]:
                with self._graph_module.graph.inserting_before(step.operator):
                    made = self._computed_once(other, _in_order(order))
                step.operator.replace_input_with(other, made)
                self._of_weights.add(made)

    def _take_out_offsets(self, matrix: RightMatrix, node: Any) -> None:
        """Adds what groups of the right matrix have beside their numbers behind the product.

        x (q s + c) is x (q s) plus the sums of x over groups times their c.
        """
        torch = import_torch()
        offsets = [step for step in matrix.path if _has_offsets(step)]
        others = [(step, other) for step in matrix.path for other in step.others]
        run = math.gcd(*(matrix.run_of(*each) for each in others))
        is_of_weights = all(
            other in self._of_weights for _, other in others if hasattr(other, "meta")
        )
        product = matrix.product
        x = product.args[-2]
        if not offsets or run < SHORTEST_RUN or not is_of_weights or product.kwargs:
            return
        if any(_is_whole(each.operator) and not self._bounds[each.operator] for each in offsets):
            return  # sums of whole numbers that may be modulo a power of two
        aten, call = torch.ops.aten, self._call
        with self._graph_module.graph.inserting_before(product):
            rest = call(aten.full_like.default, node, 0, dtype=torch.float32)
            for step in matrix.path:
                if str(step.operator.target) not in COPIES:
                    args = [rest if each is step.source else each for each in step.operator.args]
                    rest = call(step.operator.target, *args, **step.operator.kwargs)
            of_groups = self._computed_once(rest, lambda full: full[::run].float().contiguous())
            rows, depth = x.meta["val"].shape
            parts = call(aten.view.default, x, [rows, depth // run, run])
            sums = call(aten.sum.dim_IntList, self._as(parts, torch.float32), [-1])
            bias = call(aten.mm.default, sums, of_groups)
            if str(product.target) == "aten.addmm.default":
                bias = call(aten.add.Tensor, bias, product.args[0])
            whole = call(product_with_bias_operator(), x, product.args[-1], bias)
        product.replace_all_uses_with(whole)
        self._graph_module.graph.erase_node(product)
        for step in offsets:
            with self._graph_module.graph.inserting_before(step.operator):
                same = self._as(step.source, step.operator.meta["val"].dtype)
            step.operator.replace_all_uses_with(same)

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        return insert_call(self._graph_module, target, *args, **kwargs)

    def _as(self, node: Any, dtype: Any) -> Any:
        """A node's numbers in another type."""
        if node.meta["val"].dtype == dtype:
            return node
        return self._call(import_torch().ops.aten._to_copy.default, node, dtype=dtype)

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
        user.replace_input_with(node, self._as(self._in_fp32[node], user.meta["val"].dtype))

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
        return self._call(user.target, *args, **user.kwargs)

    def _number(self, value: Any) -> Any:
        """An argument in fp32, computed once of weights where it is whole numbers."""
        if not hasattr(value, "meta") or not _is_whole(value):
            return value
        if value not in self._in_fp32 and value in self._of_weights:
            self._in_fp32[value] = self._computed_once(value, lambda x: x.float())
        return self._in_fp32.get(value)


def _is_same(node: Any) -> bool:
    """Whether a node is a view with the extents that its operand has."""
    if str(getattr(node, "target", "")) not in RESHAPES:
        return False
    return bool(node.meta["val"].shape == node.args[0].meta["val"].shape)


def _repeated(node: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Of numbers that are repeated along a dimension these, and the extents before that is one."""
    if str(getattr(node, "target", "")) not in VIEWS:
        return None
    whole = node.args[0]
    while str(whole.target) in COPIES:
        whole = whole.args[0]
    if str(whole.target) != "aten.expand.default":
        return None
    base, shape = whole.args[0], tuple(whole.meta["val"].shape)
    same = base.meta["val"].dtype == node.meta["val"].dtype
    return (base, shape) if same and base.meta["val"].dim() == len(shape) else None


def _has_offsets(step: Step) -> bool:
    """Whether a step adds numbers of columns or groups to the tensor, or takes them away."""
    is_first = step.operator.args[0] is step.source or "sub" not in str(step.operator.target)
    return (
        str(step.operator.target) in OFFSETS
        and is_first
        and any(hasattr(each, "meta") and each.meta["val"].numel() > 1 for each in step.others)
    )


def _in_order(order: Sequence[int]) -> Finish:
    """What lays a tensor out with these dimensions from the outermost to the innermost."""
    back = sorted(range(len(order)), key=lambda dim: order[dim])
    return lambda tensor: tensor.permute(order).contiguous().permute(back)


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
