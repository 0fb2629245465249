"""The operators of whole tensors: what programs are written in."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute

from mugraph.build.elementwise import described, of_tensors
from mugraph.build.errors import (
    BuildError,
    build_errors,
    require_constant,
    require_element_type,
    require_integers,
)
from mugraph.build.named_numbers import NamedNumber
from mugraph.build.random import RandomOperators
from mugraph.build.tensors import DTensor, STensor
from mugraph.dialects import kn
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.precision import Precision
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tensor_types import dims

OPERATORS: dict[str, Any] = {op.name.removeprefix("kn."): op for op in kn.Kn.operations}


def _along(operator: str):
    """A method for an operator along one dimension."""

    def method(
        self: ProgramOperators,
        x: DTensor,
        dim: int = -1,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        made = OPERATORS[operator]
        extent = x.shape[self.dim(operator, x, dim)] if made.KEEPS_EXTENT else 1
        return self.reduce(operator, x, dim, extent, dtype, name)

    return described(method, operator, OPERATORS[operator].__doc__)


def _reduction(combiner: Combiner, what: str):
    """A method for a reduction."""

    def method(
        self: ProgramOperators,
        x: DTensor,
        dim: int,
        size: int = 1,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        return self.reduce("reduction", x, dim, size, dtype, name, combiner)

    suffix = "" if combiner is Combiner.SUM else f"_{combiner}"
    return described(
        method, f"reduction{suffix}", f"{what} of each of ``size`` runs of a dimension."
    )


class ProgramOperators(RandomOperators):
    """Operators on tensors in device memory, beside those that tiles have, too.

    Negative dimensions count from the last.  Results have the first operand's element type unless
    another is asked for; what is computed on the way is fp32.
    """

    OPERATORS: ClassVar[dict[str, Any]] = OPERATORS

    def _of_one_rank(self, operands: Sequence[DTensor]) -> Sequence[DTensor]:
        """The operands, with leading dimensions of extent 1 where others have more dimensions."""
        rank = max(len(x.shape) for x in operands)
        return [
            x if len(x.shape) == rank else self.reshape(x, (*[1] * (rank - len(x.shape)), *x.shape))
            for x in operands
        ]

    def matmul(
        self,
        a: DTensor,
        b: DTensor,
        *,
        dtype: Attribute | None = None,
        precision: Precision | None = None,
        name: str | None = None,
    ) -> DTensor:
        """The matrix product of ``[..., M, K]`` and ``[..., K, N]``; leading extents are broadcast.

        Types and precision are those of a product of tiles.
        """
        for x in (a, b):
            self._value(x)
        if len(a.shape) <= 2 or len(b.shape) != 2:
            a, b = self._of_one_rank([a, b])
            if len(a.shape) > 2:
                try:
                    leading = broadcast_shape([a.stand_ins[:-2], b.stand_ins[:-2]])
                except ShapeError as error:
                    raise BuildError(
                        f"matmul: operands {dims(a.shape)} and {dims(b.shape)} differ in leading "
                        "extents; before the last two dimensions they must be equal or 1"
                    ) from error
                a, b = (self.broadcast_to(x, (*leading, *x.stand_ins[-2:])) for x in (a, b))
            return super().matmul(a, b, dtype=dtype, precision=precision, name=name)
        rows = self.reshape(a, (-1, a.shape[-1]))
        product = super().matmul(rows, b, dtype=dtype, precision=precision)
        return self.reshape(product, (*a.shape[:-1], b.shape[-1]), name=name)

    reduction = _reduction(Combiner.SUM, "The sum")
    reduction_max = _reduction(Combiner.MAX, "The largest element")
    mean = _along("mean")
    variance = _along("variance")
    log_sum_exp = _along("log_sum_exp")

    def softmax(
        self,
        x: DTensor,
        dim: int = -1,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        """exp(x) / sum of exp(x) along a dimension, in fp32; the largest element is taken away.

        Of no elements, where masks by lengths leave none of a row, it is 0.
        """
        dim = self.dim("softmax", x, dim)
        or_zero = kn.may_be_empty(self._value(x), dim)
        return self.reduce("softmax", x, dim, x.shape[dim], dtype, name, or_zero=or_zero)

    def reduction_min(
        self,
        x: DTensor,
        dim: int,
        size: int = 1,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        """The least element of each of ``size`` runs along a dimension."""
        largest = self.reduction_max(-x, dim, size)
        return self.mul_scalar(largest, -1.0, dtype=dtype, name=name)

    def arg_max(
        self, x: DTensor, dim: int = -1, *, dtype: Attribute = i32, name: str | None = None
    ) -> DTensor:
        """The first place of the largest element along a dimension, in int32 or int64."""
        return self.reduce("arg_max", x, dim, 1, dtype, name)

    def top_k(
        self,
        x: DTensor,
        k: int,
        dim: int = -1,
        *,
        dtype: Attribute = i32,
        name: str | None = None,
    ) -> tuple[DTensor, DTensor]:
        """The ``k`` largest elements along a dimension, the largest first, and their places.

        Of equal elements the first one counts.  Places are int32 or int64, as ``dtype`` says.
        """
        value, dim = self._value(x), self.dim("top_k", x, dim)
        (count,) = require_integers("top_k", [k])
        if count < 1:
            raise BuildError(f"top_k: k is {count}; expected a number of at least 1")
        with build_errors():
            require_element_type("top_k", dtype)
            shape = self._with_extent("top_k", x, dim, count)
            types = [self._type_of(shape, element) for element in (x.dtype, dtype)]
            op = kn.TopKOp(value, dim, types)
        values, places = self._add_many(op)
        if name is not None:
            values.value.name_hint, places.value.name_hint = name, f"{name}_places"
        return values, places

    def cumsum(
        self, x: DTensor, dim: int = -1, *, dtype: Attribute | None = None, name: str | None = None
    ) -> DTensor:
        """The sums of all elements up to each one along a dimension."""
        return self.scan(x, dim=dim, dtype=dtype, name=name)

    def scan(
        self,
        x: DTensor,
        decay: DTensor | None = None,
        dim: int = -1,
        *,
        matrix: DTensor | None = None,
        exclusive: bool = False,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        """h_t = decay_t h_(t-1) + x_t along a dimension; without a decay, the sums so far.

        With a ``matrix``, h_t = decay_t h_(t-1) + matrix_t @ h_(t-1) + x_t, of matrices in the last
        two dimensions (``kn.recurrence``).  An ``exclusive`` scan gives h_(t-1) in the place of
        h_t, and 0 first.  x and the decay are broadcast to each other first; ``dim`` is one of the
        result's.
        """
        if matrix is not None:
            return self._recurrence(x, decay, dim, matrix, dtype, name, exclusive=exclusive)
        operands = [x] if decay is None else [x, decay]
        for tensor in operands:
            self._value(tensor)
        x, *decays = self._of_one_rank(operands)
        with build_errors("scan"):
            shape = broadcast_shape([each.stand_ins for each in (x, *decays)])
        size = shape[self.dim("scan", x, dim)]
        x = self.broadcast_to(x, shape)
        values = [each.value for each in decays]
        return self.reduce("scan", x, dim, size, dtype, name, *values, exclusive=exclusive)

    def _recurrence(
        self,
        x: DTensor,
        decay: DTensor | None,
        dim: int,
        matrix: DTensor,
        dtype: Attribute | None,
        name: str | None,
        *,
        exclusive: bool,
    ) -> DTensor:
        """A scan whose states are multiplied by matrices; x alone is broadcast to the others."""
        operands = [x, matrix] if decay is None else [x, matrix, decay]
        for tensor in operands:
            self._value(tensor)
        x, matrix, *decays = self._of_one_rank(operands)
        outer = [(*each.stand_ins[:-2], 1, 1) for each in (matrix, *decays)]
        with build_errors():
            shape = broadcast_shape([x.stand_ins, *outer])
        x = self.broadcast_to(x, shape)
        more = [each.value for each in (matrix, *decays)]
        size = shape[self.dim("scan", x, dim)]
        return self.reduce("recurrence", x, dim, size, dtype, name, *more, exclusive=exclusive)

    def rms_norm(
        self,
        x: DTensor,
        normalized_shape: Sequence[int],
        weight: DTensor | None = None,
        epsilon: float = 0.0,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        """x / sqrt(mean of x² + epsilon) over the last dimensions, times a weight of theirs."""
        return self._norm(kn.RmsNormOp, x, normalized_shape, [weight], epsilon, dtype, name)

    def layer_norm(
        self,
        x: DTensor,
        normalized_shape: Sequence[int],
        weight: DTensor | None = None,
        bias: DTensor | None = None,
        epsilon: float = 0.0,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        """(x - mean) / sqrt(variance + epsilon) over the last dimensions, times a weight of theirs,
        plus a bias."""
        if weight is None and bias is not None:
            return self.add(self.layer_norm(x, normalized_shape, epsilon=epsilon), bias, name=name)
        factors = [weight, bias]
        return self._norm(kn.LayerNormOp, x, normalized_shape, factors, epsilon, dtype, name)

    def _norm(
        self,
        operator: type[kn.RmsNormOp | kn.LayerNormOp],
        x: DTensor,
        normalized_shape: Sequence[int],
        factors: Sequence[DTensor | None],
        epsilon: float,
        dtype: Attribute | None,
        name: str | None,
    ) -> DTensor:
        value = self._value(x)
        values = [self._value(factor) for factor in factors if factor is not None]
        with build_errors():
            if dtype is not None:
                require_element_type(operator.name, dtype)
            type_ = self._type_of(x.shape, dtype or x.dtype)
            epsilon = require_constant(operator.name, epsilon)
            op = operator(value, normalized_shape, type_, values, epsilon)
        return self._add(op, name)

    def rotary(
        self,
        x: DTensor,
        cos: DTensor,
        sin: DTensor,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        """x cos + (-second half, first half) sin of each row: a rotary embedding.

        Cosines and sines are broadcast to x; those of half its width are of both halves.
        """
        for tensor in (x, cos, sin):
            self._value(tensor)
        halves = [
            self.concat(each, each, -1) if each.stand_ins[-1] * 2 == x.stand_ins[-1] else each
            for each in (cos, sin)
        ]
        x, cos, sin = self._of_one_rank([x, *halves])
        with build_errors():
            if dtype is not None:
                require_element_type("rotary", dtype)
            type_ = self._type_of(x.shape, dtype or x.dtype)
            op = kn.RotaryOp(x.value, cos.value, sin.value, type_)
        return self._add(op, name)

    def mask(
        self,
        x: DTensor,
        condition: Callable[..., Any] | DTensor,
        value: float = -math.inf,
        *,
        lengths: Sequence[tuple[DTensor, int] | tuple[DTensor, int, int]] = (),
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> DTensor:
        """The elements at whose coordinates a linear form is at least 0, and ``value`` elsewhere.

        A tensor as condition is broadcast; elements stay where it is not 0, or true.
        ``condition`` makes the form, or several of which all must be, of a coordinate for each
        dimension: ``lambda i, j: i - j`` keeps what lies on the diagonal of a matrix or below.

        ``lengths`` are further arguments of it: numbers that tensors of one int32 or int64 hold
        when the kernel runs, and what each is at most.  ``mask(scores, lambda i, j, n: n - 1 - j,
        lengths=[(length, 4096)])`` keeps the first ``length`` columns.  ``(lengths, 4096, 0)`` has
        a number for each place along dimension 0: that of each sequence of a batch.
        """
        operand = self._value(x)
        if isinstance(condition, DTensor):
            return self.where(condition, x, value, dtype=dtype, name=name)
        try:
            made = condition(*LinearForm.coordinates(len(x.shape) + len(lengths)))
        except TypeError as error:
            raise BuildError(
                f"mask: the condition is no linear form: {error}; expected a function of "
                f"{len(x.shape) + len(lengths)} coordinates such as lambda i, j: i - j, which is "
                "at least 0 where an element is kept"
            ) from error
        forms = cast(list[Any], made) if isinstance(made, list) else [made]
        if any(not isinstance(form, LinearForm) for form in forms):
            raise BuildError(
                f"mask: the condition gives {made!r}; expected a form of coordinates such as "
                "i - j + 4, which is at least 0 where an element is kept, or a list of them"
            )
        with build_errors():
            if dtype is not None:
                require_element_type("mask", dtype)
            constant = require_constant("mask", value)
            op = kn.MaskOp(
                *(operand, forms, constant, self._type_of(x.shape, dtype or x.dtype)),
                [self._value(each[0]) for each in lengths],
                [each[1] for each in lengths],
                [each[2] if len(each) > 2 else -1 for each in lengths],
            )
        return self._add(op, name)

    @abstractmethod
    def _length(self, name: str) -> tuple[DTensor, int]:
        """The value of a named extent as a tensor of one whole number, and what it is at most."""

    def causal_mask(
        self, x: DTensor, offset: int = 0, value: float = -math.inf, *, name: str | None = None
    ) -> DTensor:
        """Scores of keys up to ``offset`` behind each query's row, and ``value`` for later ones.

        Of named extents the offset is what there are more keys than queries, ``keys - queries`` of
        the dimensions of ``x``: the last query sees the last key then.
        """
        self.dim("causal_mask", x, -2)
        if not isinstance(offset, NamedNumber):
            (offset,) = require_integers("causal_mask: the offset", (offset,))
            return self.mask(x, lambda *at: at[-2] - at[-1] + offset, value, name=name)
        rows, keys = x.shape[-2:]
        wrong = offset - (keys - rows)
        if isinstance(wrong, NamedNumber) or wrong:
            raise BuildError(
                f"causal_mask: the offset of {x!r} is {offset}; expected a whole number, or "
                f"{keys} - {rows}, the keys and queries of the scores"
            )
        signs = {keys.text: 1} if isinstance(keys, NamedNumber) else {}
        signs |= {rows.text: -1} if isinstance(rows, NamedNumber) else {}
        constant = (0 if isinstance(keys, NamedNumber) else keys) - (
            0 if isinstance(rows, NamedNumber) else rows
        )
        lengths = [self._length(name) for name in signs]

        def is_seen(*at: LinearForm) -> LinearForm:
            """A row's place from the end, less that of a key."""
            row, key = at[len(x.shape) - 2 : len(x.shape)]
            counted = zip(at[len(x.shape) :], signs.values(), strict=True)
            return sum((length * sign for length, sign in counted), row - key + constant)

        return self.mask(x, is_seen, value, lengths=lengths, name=name)


def rms_norm(
    x: DTensor | STensor,
    weight: DTensor | STensor | None = None,
    eps: float = 0.0,
    **options: Any,
) -> Any:
    """x / sqrt(mean of x² + eps) times a weight, over the weight's dimensions or the last one."""
    if isinstance(x, STensor):
        return x.graph.rms_norm(x, weight, eps, **options)
    shape = x.shape[-1:] if weight is None else weight.shape
    return x.graph.rms_norm(x, shape, weight, eps, **options)


def layer_norm(
    x: DTensor,
    weight: DTensor | None = None,
    bias: DTensor | None = None,
    eps: float = 0.0,
    **options: Any,
) -> DTensor:
    """As :func:`rms_norm`, of x without its mean, plus a bias."""
    shape = next((each.shape for each in (weight, bias) if each is not None), x.shape[-1:])
    return x.graph.layer_norm(x, shape, weight, bias, eps, **options)


arg_max = of_tensors(ProgramOperators.arg_max)
broadcast_to = of_tensors(ProgramOperators.broadcast_to)
causal_mask = of_tensors(ProgramOperators.causal_mask)
chunk = of_tensors(ProgramOperators.chunk)
concat = of_tensors(ProgramOperators.concat)
cumsum = of_tensors(ProgramOperators.cumsum)
gather = of_tensors(ProgramOperators.gather)
windows = of_tensors(ProgramOperators.windows)
log_sum_exp = of_tensors(ProgramOperators.log_sum_exp)
mask = of_tensors(ProgramOperators.mask)
matmul = of_tensors(ProgramOperators.matmul)
mean = of_tensors(ProgramOperators.mean)
reduction = of_tensors(ProgramOperators.reduction)
reduction_max = of_tensors(ProgramOperators.reduction_max)
reduction_min = of_tensors(ProgramOperators.reduction_min)
repeat = of_tensors(ProgramOperators.repeat)
reshape = of_tensors(ProgramOperators.reshape)
rotary = of_tensors(ProgramOperators.rotary)
scan = of_tensors(ProgramOperators.scan)
scatter = of_tensors(ProgramOperators.scatter)
softmax = of_tensors(ProgramOperators.softmax)
split = of_tensors(ProgramOperators.split)
top_k = of_tensors(ProgramOperators.top_k)
transpose = of_tensors(ProgramOperators.transpose)
variance = of_tensors(ProgramOperators.variance)

__all__ = [
    "arg_max",
    "broadcast_to",
    "causal_mask",
    "chunk",
    "concat",
    "cumsum",
    "gather",
    "layer_norm",
    "log_sum_exp",
    "mask",
    "matmul",
    "mean",
    "reduction",
    "reduction_max",
    "reduction_min",
    "repeat",
    "reshape",
    "rms_norm",
    "rotary",
    "scan",
    "scatter",
    "softmax",
    "split",
    "top_k",
    "transpose",
    "variance",
    "windows",
]
