"""Complex numbers as pairs of real tensors, as rotary embeddings have them.

Programs have real numbers alone.  A complex tensor becomes its real and its imaginary part, each a
tensor of its shape.  What has no rule here stays in torch, which is given whole numbers again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mugraph.torch.graphs import insert_call
from mugraph.torch.operator import import_torch
from mugraph.torch.rules import Rules
from mugraph.torch.symbols import is_symbol

Pair = tuple[Any, Any]
"""The nodes of the real and of the imaginary part."""

PART_BY_PART = {f"aten.{name}": f"aten.{name}" for name in (
    "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "expand.default",
    "permute.default", "transpose.int", "t.default", "slice.Tensor", "select.int", "cat.default",
    "index_select.default", "clone.default", "alias.default", "detach.default", "neg.default",
)} | dict.fromkeys(
    ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"),
    "aten.reshape.default",
)  # fmt: skip
"""Operators that do the same to both parts of complex operands, and what does it.

Parts lie otherwise in memory than the whole, so that a view of it may be a copy of them.
"""


def make_pairs(graph_module: Any) -> None:
    """Rewrites complex64 tensors of a graph of functional ATen operators as pairs, in place."""
    graph = graph_module.graph
    for node in graph.find_nodes(op="get_attr"):
        node.meta.setdefault("val", getattr(graph_module, node.target))
    rewriting = _Pairing(graph_module)
    for node in list(graph.nodes):
        if not any(_is_complex(each) for each in (node, *node.all_input_nodes)):
            continue
        with graph.inserting_before(node):
            made = rewriting.made(node) if node.op == "call_function" else None
            if made is None:
                rewriting.give_whole(node)
        if isinstance(made, tuple):
            rewriting.pairs[node] = made
        elif made is not None:
            node.replace_all_uses_with(made)
    if rewriting.pairs:
        graph.eliminate_dead_code()
        graph_module.recompile()


def _is_complex(node: Any) -> bool:
    value = node.meta.get("val")
    return getattr(value, "dtype", None) == import_torch().complex64


@dataclass
class _Pairing:
    """What became of the complex tensors so far."""

    graph_module: Any
    pairs: dict[Any, Pair] = field(default_factory=dict[Any, Pair])
    wholes: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """Of what became a pair and is needed as one tensor: that tensor."""

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """A new call of the ATen operator of this name."""
        packet, overload = name.removeprefix("aten.").split(".")
        target = getattr(getattr(import_torch().ops.aten, packet), overload)
        return insert_call(self.graph_module, target, *args, **kwargs)

    def pair(self, node: Any) -> Pair:
        """The parts of a complex tensor; those of one that torch gives are views of it."""
        if node not in self.pairs:
            is_conjugated = node.meta["val"].is_conj()
            plain = self.call("aten.resolve_conj.default", node) if is_conjugated else node
            both = self.call("aten.view_as_real.default", plain)
            real, imaginary = (self.call("aten.select.int", both, -1, at) for at in range(2))
            self.pairs[node] = real, imaginary
            self.wholes[node] = node
        return self.pairs[node]

    def made(self, node: Any) -> Any:
        """The pair that a call gives, its real result, or ``None`` where torch computes it."""
        name, value = str(node.target), node.meta.get("val")
        if not _is_complex(node) and getattr(value, "is_complex", bool)():
            return None  # of another precision
        if name in PART_BY_PART:
            return self._part_by_part(PART_BY_PART[name], node)
        rule = _RULES.get(name)
        return None if rule is None else rule(self, node)

    def _part_by_part(self, name: str, node: Any) -> Pair | None:
        fx = import_torch().fx
        if name == "aten.cat.default" and not all(map(_is_complex, node.all_input_nodes)):
            return None

        def part(at: int) -> Any:
            def of(each: Any) -> Any:
                return self.pair(each)[at] if _is_complex(each) else each

            args, kwargs = fx.node.map_arg((node.args, node.kwargs), of)
            return self.call(name, *args, **kwargs)

        return part(0), part(1)

    def give_whole(self, node: Any) -> None:
        """Gives a call that stays in torch complex tensors where it takes pairs."""
        for operand in node.all_input_nodes:
            if operand in self.pairs:
                if operand not in self.wholes:
                    whole = self.call("aten.complex.default", *self.pairs[operand])
                    self.wholes[operand] = whole
                node.replace_input_with(operand, self.wholes[operand])


_RULES = Rules[Callable[[_Pairing, Any], Any]]()
"""By operator: what a call becomes."""


@_RULES.of("view_as_complex.default")
def _complex_view(pairing: _Pairing, node: Any) -> Pair:
    real, imaginary = (pairing.call("aten.select.int", node.args[0], -1, at) for at in range(2))
    return real, imaginary


@_RULES.of("complex.default")
def _of_parts(pairing: _Pairing, node: Any) -> Pair | None:
    shape = node.meta["val"].shape
    parts: list[Any] = []
    for each in node.args:
        if each.meta["val"].shape != shape:
            if any(map(is_symbol, shape)):
                return None
            each = pairing.call("aten.expand.default", each, list(shape))
        parts.append(each)
    return parts[0], parts[1]


@_RULES.of("polar.default")
def _polar(pairing: _Pairing, node: Any) -> Pair:
    length, angle = node.args
    real, imaginary = (
        pairing.call("aten.mul.Tensor", length, pairing.call(f"aten.{name}.default", angle))
        for name in ("cos", "sin")
    )
    return real, imaginary


@_RULES.of("view_as_real.default")
def _real_view(pairing: _Pairing, node: Any) -> Any:
    if node.args[0] not in pairing.pairs:
        return None
    parts = [pairing.call("aten.unsqueeze.default", each, -1)
             for each in pairing.pair(node.args[0])]  # fmt: skip
    return pairing.call("aten.cat.default", parts, -1)


@_RULES.of("_conj.default", "_conj_physical.default")
def _conjugate(pairing: _Pairing, node: Any) -> Pair:
    real, imaginary = pairing.pair(node.args[0])
    return real, pairing.call("aten.neg.default", imaginary)


@_RULES.of("add.Tensor", "sub.Tensor")
def _sum(pairing: _Pairing, node: Any) -> Pair | None:
    if len(_complex_operands(node)) < 2:
        return None
    x, y = (pairing.pair(each) for each in node.args)
    name = str(node.target)
    real, imaginary = (pairing.call(name, *both, **node.kwargs) for both in zip(x, y, strict=True))
    return real, imaginary


@_RULES.of("mul.Tensor")
def _product(pairing: _Pairing, node: Any) -> Pair | None:
    def times(a: Any, b: Any) -> Any:
        return pairing.call("aten.mul.Tensor", a, b)

    operands = _complex_operands(node)
    if any(isinstance(each, complex) for each in node.args):
        return None
    if len(operands) == 1:
        (scale,) = (each for each in node.args if each is not operands[0])
        real, imaginary = (times(each, scale) for each in pairing.pair(operands[0]))
        return real, imaginary
    (a, b), (c, d) = (pairing.pair(each) for each in operands)
    real = pairing.call("aten.sub.Tensor", times(a, c), times(b, d))
    return real, pairing.call("aten.add.Tensor", times(a, d), times(b, c))


def _complex_operands(node: Any) -> list[Any]:
    return [each for each in node.args if hasattr(each, "meta") and _is_complex(each)]
