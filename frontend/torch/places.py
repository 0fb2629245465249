"""Tensors whose elements follow from their places alone, whatever extents a call has: analysis.

Models make masks of positions.  Where extents are symbols these are no constants, but they are
linear in the places of elements, and so are the conditions that compare them.  The constant of such
a form may be a symbol of torch, or what is computed of several: how many tokens came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mugraph.dialects.linear_forms import LinearForm
from mugraph.torch.operator import import_torch
from mugraph.torch.rules import Rules
from mugraph.torch.symbols import is_symbol


@dataclass(frozen=True)
class Places:
    """What stands at each place: a linear form, or whether all ``forms`` are at least 0 there."""

    forms: tuple[LinearForm, ...]
    is_condition: bool = False

    @property
    def form(self) -> LinearForm | None:
        """The number at each place; 0 and 1 where a condition holds nowhere and everywhere."""
        if not self.is_condition:
            return self.forms[0]
        if self == NEVER:
            return LinearForm(())
        return None if self.forms else LinearForm((), 1)

    @property
    def number(self) -> int | None:
        """The number at all places, where it is the same and no symbol."""
        form = self.form
        is_number = form is not None and not any(form.coefficients) and _is_number(form.constant)
        return form.constant if form is not None and is_number else None


ALWAYS, NEVER = Places((), is_condition=True), Places((LinearForm((), -1),), is_condition=True)

Known = Places | None
Rule = Callable[["KnownPlaces", Any], Known]
_RULES = Rules[Rule]()


class KnownPlaces:
    """What is known of each node of a graph of functional ATen operators."""

    def __init__(self, graph_module: Any) -> None:
        self._graph_module = graph_module
        self._known: dict[Any, Known] = {}

    def __getitem__(self, value: Any) -> Known:
        """Of a node, or of a number among its arguments."""
        if isinstance(value, (bool, int)):
            return Places((LinearForm((), int(value)),))
        if is_symbol(getattr(value, "meta", {}).get("val")):
            return Places((LinearForm((), value.meta["val"].node.expr),))
        if getattr(value, "op", "") not in ("call_function", "get_attr"):
            return None
        if value not in self._known:
            self._known[value] = self._computed(value)
        return self._known[value]

    def _computed(self, node: Any) -> Known:
        torch, value = import_torch(), node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex():
            return None
        if node.op == "get_attr":
            constant = getattr(self._graph_module, node.target)
            is_number = constant.numel() == 1 and not constant.is_meta
            return _of_constant(constant) if is_number else None
        rule = _RULES.get(str(node.target))
        known = None if rule is None else rule(self, node)
        if known is None:
            return None
        # Along a dimension of one element nothing changes; missing ones stand in front.
        sizes = [1 if not is_symbol(each) and each == 1 else 0 for each in value.shape]
        forms = [_aligned(form, sizes) for form in known.forms]
        return condition(forms) if known.is_condition else Places(tuple(forms))


def _is_number(constant: Any) -> bool:
    """Whether the constant of a form is no symbol."""
    return isinstance(constant, int) or bool(constant.is_Integer)


def _step(form: LinearForm, dim: int) -> int:
    """How much a form grows from a place to the next along a dimension."""
    return form.coefficients[dim] if form.coefficients else 0


def _of_constant(constant: Any) -> Places:
    """The only element of a tensor."""
    if constant.dtype == import_torch().bool:
        return ALWAYS if constant.item() else NEVER
    return Places((LinearForm((), int(constant.item())),))


def _aligned(form: LinearForm, is_one: Sequence[int]) -> LinearForm:
    missing = len(is_one) - len(form.coefficients)
    steps = (*[0] * missing, *form.coefficients)
    pairs = zip(steps, is_one, strict=True)
    return LinearForm(tuple(0 if one else step for step, one in pairs), form.constant)


def condition(forms: Iterable[LinearForm]) -> Places:
    """Where all forms are at least 0; those that always are, are left out."""
    kept: list[LinearForm] = []
    for form in forms:
        least, most = min(form.coefficients, default=0), max(form.coefficients, default=0)
        if not _is_number(form.constant):
            kept.append(form)
        elif most <= 0 and form.constant < 0:
            return NEVER
        elif (least < 0 or form.constant < 0) and form not in kept:
            kept.append(form)
    return Places(tuple(kept), is_condition=True)


def _two(known: KnownPlaces, node: Any) -> tuple[LinearForm, LinearForm] | None:
    """The forms of two operands, with as many coefficients; ``None`` where one is unknown."""
    if node.kwargs or len(node.args) != 2:
        return None
    found = [each.form for value in node.args if (each := known[value]) is not None]
    forms = [form for form in found if form is not None]
    if len(forms) != 2:
        return None
    rank = max(len(form.coefficients) for form in forms)
    one, other = (_aligned(form, [0] * rank) for form in forms)
    return one, other


def _computes(*names: str) -> Callable[[Callable[[LinearForm, LinearForm], Known]], object]:
    """Registers what a call gives of the forms of its two operands."""

    def register(compute: Callable[[LinearForm, LinearForm], Known]) -> object:
        def rule(known: KnownPlaces, node: Any) -> Known:
            forms = _two(known, node)
            return None if forms is None else compute(*forms)

        return _RULES.of(*names)(rule)

    return register


def _both(name: str) -> tuple[str, str]:
    return f"{name}.Tensor", f"{name}.Scalar"


_computes(*_both("add"))(lambda a, b: Places((a + b,)))
_computes(*_both("sub"))(lambda a, b: Places((a - b,)))
_computes(*_both("ge"))(lambda a, b: condition([a - b]))
_computes(*_both("gt"))(lambda a, b: condition([a - b + -1]))
_computes(*_both("le"))(lambda a, b: condition([b - a]))
_computes(*_both("lt"))(lambda a, b: condition([b - a + -1]))
_computes(*_both("eq"))(lambda a, b: condition([a - b, b - a]))


@_computes(*_both("ne"))
def _differs(a: LinearForm, b: LinearForm) -> Known:
    difference = a - b
    if any(difference.coefficients) or not _is_number(difference.constant):
        return None
    return ALWAYS if difference.constant else NEVER


@_RULES.of("mul.Tensor", "mul.Scalar")
def _product(known: KnownPlaces, node: Any) -> Known:
    operands = [known[value] for value in node.args[:2]]
    if any(each is not None and each.number == 0 for each in operands):
        return Places((LinearForm(()),))
    forms = _two(known, node)
    constants = [each for each in forms or () if not any(each.coefficients)]
    constants = [each for each in constants if _is_number(each.constant)]
    if forms is None or not constants:
        return None
    other = forms[0] if constants[0] is forms[1] else forms[1]
    return Places((other * int(constants[0].constant),))


@_RULES.of("bitwise_and.Tensor", "logical_and.default", "__and__.Tensor")
def _all(known: KnownPlaces, node: Any) -> Known:
    operands = [known[value] for value in node.args]
    if any(value.meta["val"].dtype != import_torch().bool for value in node.all_input_nodes):
        return None
    if any(each is not None and each.number == 0 for each in operands):
        return NEVER
    rank = node.meta["val"].dim()
    forms: list[LinearForm] = []
    for each in operands:
        if each is None or (not each.is_condition and each.number is None):
            return None
        forms += each.forms if each.is_condition else ()
    return condition(_aligned(form, [0] * rank) for form in forms)


@_RULES.of("where.self")
def _chosen(known: KnownPlaces, node: Any) -> Known:
    decided = known[node.args[0]]
    if decided is None or decided.number is None:
        return None
    return known[node.args[1 if decided.number else 2]]


@_RULES.of("arange.start_step")
def _counted(known: KnownPlaces, node: Any) -> Known:
    first, _, step = [*node.args, 1][:3]
    if not isinstance(first, int) or not isinstance(step, int):
        return None
    return Places((LinearForm((step,), first),))


@_RULES.of("cumsum.default")
def _summed(known: KnownPlaces, node: Any) -> Known:
    operand = known[node.args[0]]
    return Places((LinearForm(()),)) if operand is not None and operand.number == 0 else None


def _moved(known: Known, dims: Iterable[int | None], start: int = 0, along: int = 0) -> Known:
    """What a view has whose dimensions are some of its operand, from a place along one on."""
    if known is None:
        return None
    order = [*dims]
    forms = [
        LinearForm(
            tuple(0 if dim is None else _step(form, dim) for dim in order),
            form.constant + start * _step(form, along),
        )
        for form in known.forms
    ]
    return Places(tuple(forms), known.is_condition)


@_RULES.of("expand.default", "_to_copy.default", "clone.default", "alias.default")
def _same(known: KnownPlaces, node: Any) -> Known:
    is_number = node.meta["val"].dtype != import_torch().bool
    operand = known[node.args[0]]
    if operand is None or operand.is_condition != is_number:
        return operand
    return Places((form,)) if is_number and (form := operand.form) is not None else None


@_RULES.of("unsqueeze.default")
def _unsqueezed(known: KnownPlaces, node: Any) -> Known:
    source, dim = node.args
    rank = node.meta["val"].dim()
    dims = [*range(rank - 1)]
    return _moved(known[source], [*dims[: dim % rank], None, *dims[dim % rank :]])


@_RULES.of("permute.default")
def _permuted(known: KnownPlaces, node: Any) -> Known:
    source, order = node.args
    return _moved(known[source], order)


@_RULES.of("view.default", "reshape.default")
def _viewed(known: KnownPlaces, node: Any) -> Known:
    """Of a view that adds and takes dimensions of one element."""
    own, new = (_wide_dims(each.meta["val"].shape) for each in (node.args[0], node))
    if [*own.values()] != [*new.values()]:
        return None
    source_of = dict(zip(new, own, strict=True))
    return _moved(known[node.args[0]], map(source_of.get, range(node.meta["val"].dim())))


def _wide_dims(shape: Sequence[Any]) -> dict[int, str]:
    """The dimensions that have not one element, and how many these have."""
    return {dim: size for dim, size in enumerate(map(str, shape)) if size != "1"}


@_RULES.of("slice.Tensor")
def _sliced(known: KnownPlaces, node: Any) -> Known:
    source, dim, start, _, step = [*node.args, *(0, 0, None, 1)[len(node.args) - 1 :]]
    start = 0 if start is None else start
    if not isinstance(start, int) or start < 0 or step != 1:
        return None
    rank = node.meta["val"].dim()
    return _moved(known[source], range(rank), start, dim % rank)


@_RULES.of("select.int")
def _picked(known: KnownPlaces, node: Any) -> Known:
    source, dim, index = node.args
    if not isinstance(index, int) or index < 0:
        return None
    rank = source.meta["val"].dim()
    dims = (each for each in range(rank) if each != dim % rank)
    return _moved(known[source], dims, index, dim % rank)


@_RULES.of("index_select.default")
def _selected(known: KnownPlaces, node: Any) -> Known:
    source, dim, index = node.args
    of, at = known[source], known[index]
    place = None if at is None else at.form
    if of is None or place is None:
        return None
    forms = [
        _with(form, dim, _step(form, dim) * _step(place, 0)) + _step(form, dim) * place.constant
        for form in of.forms
    ]
    return Places(tuple(forms), of.is_condition)


def _with(form: LinearForm, dim: int, step: int) -> LinearForm:
    """A form with another coefficient."""
    steps = form.coefficients
    return LinearForm((*steps[:dim], step, *steps[dim + 1 :]), form.constant) if steps else form


@_RULES.of("cat.default")
def _joined(known: KnownPlaces, node: Any) -> Known:
    """Parts that continue one another."""
    dim: int = (node.args[1] if len(node.args) > 1 else 0) % node.meta["val"].dim()
    forms: list[tuple[LinearForm, int, bool]] = []
    start = 0
    for part in node.args[0]:
        of = known[part]
        form = None if of is None else of.form
        if form is None or not form.coefficients or start < 0:
            return None
        extent = part.meta["val"].shape[dim]
        is_one = not is_symbol(extent) and extent == 1
        forms.append((form, start, is_one))
        start = -1 if is_symbol(extent) else start + int(extent)
    form, start, _ = forms[-1]
    step = _step(form, dim)
    whole = form + -start * step
    for form, start, is_one in forms:
        # One element has no step of its own.
        seen = _with(form, dim, step) if is_one else form
        if seen + -start * _step(seen, dim) != whole:
            return None
    return Places((whole,))
