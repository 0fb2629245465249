"""The operators that a kernel graph and a threadblock graph have alike.

Each that is element-wise is a function of tensors, too: ``mi.silu(x)`` is ``graph.silu(x)``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from numbers import Real
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from xdsl.dialects.builtin import f32, i1, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.build.errors import (
    BuildError,
    build_errors,
    require_constant,
    require_element_type,
    require_integers,
)
from mugraph.build.tensors import DTensor, Handle, STensor
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import COMPARISONS, CONDITIONS, FUNCTIONS
from mugraph.dialects.precision import Precision
from mugraph.dialects.shapes import broadcast_shape, matmul_shape
from mugraph.dialects.tensor_types import shape_of

P = ParamSpec("P")
T = TypeVar("T", DTensor, STensor)
M = TypeVar("M", bound=Callable[..., Any])

FP32_BITS = 24
"""Of a whole number that fp32 has exactly."""


def _of_one(function: str):
    """A method for a function of one tensor."""

    def method(
        self: GraphOperators[T],
        x: T,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> T:
        return self.apply(function, [x], dtype, name)

    return described(method, function, FUNCTIONS[function].summary)


def _of_two(function: str):
    """A method for a function of two tensors."""

    def method(
        self: GraphOperators[T],
        a: T | float,
        b: T | float,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> T:
        return self.apply(function, [a, b], dtype, name)

    return described(method, function, FUNCTIONS[function].summary)


def described(method: M, name: str, sentence: str) -> M:
    """The method with a name and what is said of it."""
    method.__name__, method.__doc__ = name, sentence
    return method


class GraphOperators(ABC, Generic[T]):
    """Operators whose result follows from their operands, the same at both levels.

    Each method adds one operator and returns its result, of the first operand's element type.
    All of them raise :class:`BuildError` for operands of another graph or that do not fit.
    """

    OPERATORS: ClassVar[dict[str, Any]]
    """The operator class of each name without its dialect, such as ``exp``."""

    @abstractmethod
    def _type_of(self, shape: Sequence[int], dtype: Attribute) -> Attribute:
        """The type of a tensor at this level."""

    @abstractmethod
    def _handle(self, value: SSAValue) -> T:
        """The handle of a value of this graph."""

    @abstractmethod
    def _append(self, op: Operation) -> None:
        """Adds an operator to the graph's body, or raises and leaves the graph as it was."""

    def _value(self, tensor: T) -> SSAValue:
        """The value of an operand; it must be a tensor of this graph."""
        if getattr(tensor, "graph", None) is not self:
            raise BuildError(
                f"{tensor!r} is not a tensor of this {type(self).__name__}; operands must come "
                "from calls on the same graph"
            )
        return tensor.value

    def _add(self, op: Operation, name: str | None) -> T:
        """Adds an operator of one result and names that."""
        self._append(op)
        op.results[0].name_hint = name
        return self._handle(op.results[0])

    def apply(
        self,
        function: str,
        operands: Sequence[T | float],
        dtype: Attribute | None,
        name: str | None,
        constants: Sequence[float] = (),
    ) -> T:
        """A scalar function of each element; of the first tensor's type unless one is given.

        A number beside tensors is an fp32 constant, and beside integers one of theirs.  Comparisons
        of integers are truths.
        """
        others: list[Any] = [x for x in operands if not isinstance(x, Real)]
        for x in others:
            self._value(x)
        tensors = [x for x in operands if isinstance(x, Handle)]
        if not tensors:
            raise BuildError(f"{function}: {list(operands)} are numbers; one must be a tensor")
        smallest = sorted(tensors, key=lambda x: math.prod(x.stand_ins))[0]
        numbers = [x for at, x in enumerate(operands) if at != CONDITIONS.get(function)]
        whole = [x.dtype for x in numbers if isinstance(x, Handle) and is_integer(x.dtype)]
        constant_type = whole[0] if whole else f32
        filled = [
            x if isinstance(x, Handle) else self._number(smallest, x, constant_type)
            for x in operands
        ]
        if dtype is None and whole and function in COMPARISONS:
            dtype = i1
        values = [self._value(x) for x in self._of_one_rank(filled)]
        with build_errors(function):
            if dtype is not None:
                require_element_type(function, dtype)
            shape = broadcast_shape([shape_of(value.type) for value in values])
            type_ = self._type_of(shape, dtype or tensors[0].dtype)
            more = [[require_constant(function, each) for each in constants]] if constants else []
            op = self.OPERATORS[function](*values, type_, *more)
        return self._add(op, name)

    def _number(self, like: T, value: float, dtype: Attribute) -> T:
        """A number for each element; what fp32 does not have of whole ones is added to the rest."""
        if not is_integer(dtype) or not isinstance(value, int):
            return self.fill(like, value, dtype=dtype)
        low = value.bit_length() - FP32_BITS
        rest = value - (value >> low << low) if low > 0 else 0
        made = self.fill(like, value - rest, dtype=dtype)
        return self.add(made, self._number(like, rest, dtype)) if rest else made

    def _of_one_rank(self, operands: Sequence[T]) -> Sequence[T]:
        """Operands of an element-wise function with as many dimensions each, where it can be."""
        return operands

    def _add_many(self, op: Operation) -> list[T]:
        """Adds an operator of several results."""
        self._append(op)
        return [self._handle(result) for result in op.results]

    def dim(self, operator: str, x: T, dim: int) -> int:
        """A dimension that must exist; negative numbers count from the last."""
        rank = len(x.shape)
        require_integers(f"{operator}: dim", [dim])
        if not -rank <= dim < rank:
            raise BuildError(
                f"{operator}: dimension {dim} does not exist in a tensor of rank {rank}: expected "
                f"{-rank} to {rank - 1}"
            )
        return dim % rank

    def _with_extent(self, operator: str, x: T, dim: int, extent: int) -> tuple[int, ...]:
        """The extents of a tensor, but for one dimension, which must exist."""
        dim = self.dim(operator, x, dim)
        return (*x.shape[:dim], extent, *x.shape[dim + 1 :])

    def reduce(
        self,
        operator: str,
        x: T,
        dim: int,
        size: int,
        dtype: Attribute | None,
        name: str | None,
        *more: Any,
        **options: Any,
    ) -> T:
        """An operator along a dimension, whose extent becomes ``size``."""
        value = self._value(x)
        with build_errors():
            if dtype is not None:
                require_element_type(operator, dtype)
            type_ = self._type_of(self._with_extent(operator, x, dim, size), dtype or x.dtype)
            dim = self.dim(operator, x, dim)
            op = self.OPERATORS[operator](value, dim, type_, *more, **options)
        return self._add(op, name)

    def matmul(
        self,
        a: T,
        b: T,
        *,
        dtype: Attribute | None = None,
        precision: Precision | None = None,
        name: str | None = None,
    ) -> T:
        """The matrix product of ``[..., M, K]`` and ``[..., K, N]``; leading extents are equal.

        The result has the operands' element type unless another is asked for; int32 of int8.
        f32 is multiplied as TF32, or in plain fp32 with ``precision=Precision.IEEE``.
        """
        lhs, rhs = self._value(a), self._value(b)
        if dtype is None:
            dtype = i32 if a.dtype == i8 else a.dtype
        with build_errors("matmul"):
            type_ = self._type_of(matmul_shape(a.stand_ins, b.stand_ins), dtype)
            op = self.OPERATORS["matmul"](lhs, rhs, type_, precision=precision)
        return self._add(op, name)

    def cast(self, x: T, dtype: Attribute, *, name: str | None = None) -> T:
        """Each element in another element type, rounded to nearest even."""
        value = self._value(x)
        with build_errors():
            require_element_type("cast", dtype)
            op = self.OPERATORS["cast"](value, self._type_of(x.shape, dtype))
        return self._add(op, name)

    def concat(self, a: T, b: T, dim: int, *, name: str | None = None) -> T:
        """Two tensors one after the other along a dimension."""
        return self.concat_all([a, b], dim, name=name)

    def concat_all(self, tensors: Sequence[T], dim: int, *, name: str | None = None) -> T:
        """Tensors one after the other along a dimension."""
        values = [self._value(x) for x in tensors]
        dims = [self.dim("concat", x, dim) for x in tensors]
        extent = sum(x.shape[own] for x, own in zip(tensors, dims, strict=True))
        with build_errors():
            type_ = self._type_of(
                self._with_extent("concat", tensors[0], dim, extent), tensors[0].dtype
            )
            op = self.OPERATORS["concat"](values, dims[0], type_)
        return self._add(op, name)

    def split(self, x: T, sizes: Sequence[int], dim: int) -> list[T]:
        """Parts of these extents along a dimension."""
        return self._parts("split", x, sizes, dim)

    def _parts(self, operator: str, x: T, sizes: Sequence[int], dim: int) -> list[T]:
        value, sizes = self._value(x), require_integers(f"{operator}: sizes", sizes)
        with build_errors():
            types = [
                self._type_of(self._with_extent(operator, x, dim, size), x.dtype) for size in sizes
            ]
            op = self.OPERATORS[operator](value, self.dim(operator, x, dim), types)
        return self._add_many(op)

    def mul_scalar(
        self, x: T, scalar: float, *, dtype: Attribute | None = None, name: str | None = None
    ) -> T:
        """Each element times an fp32 constant."""
        return self.apply("mul_scalar", [x], dtype, name, [scalar])

    def add_scalar(
        self, x: T, scalar: float, *, dtype: Attribute | None = None, name: str | None = None
    ) -> T:
        """Each element plus an fp32 constant."""
        return self.apply("add_scalar", [x], dtype, name, [scalar])

    def bits(
        self,
        x: T,
        first: int,
        count: int,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> T:
        """The number that ``count`` bits of whole numbers are, from the bit ``first`` upwards."""
        return self.apply("bits", [x], dtype, name, [first, count])

    def fill(
        self, x: T, value: float, *, dtype: Attribute | None = None, name: str | None = None
    ) -> T:
        """An fp32 constant for each element."""
        return self.apply("fill", [x], dtype, name, [value])

    def clamp(
        self,
        x: T,
        min_val: float,
        max_val: float,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> T:
        """Each element, no less than ``min_val`` and no more than ``max_val``, fp32 constants."""
        return self.apply("clamp", [x], dtype, name, [min_val, max_val])

    exp = _of_one("exp")
    silu = _of_one("silu")
    sigmoid = _of_one("sigmoid")
    softplus = _of_one("softplus")
    tanh = _of_one("tanh")
    gelu = _of_one("gelu")
    relu = _of_one("relu")
    log = _of_one("log")
    abs = _of_one("abs")
    square = _of_one("square")
    rsqrt = _of_one("rsqrt")
    reciprocal = _of_one("reciprocal")
    reciprocal_or_zero = _of_one("reciprocal_or_zero")
    erf = _of_one("erf")
    cos = _of_one("cos")
    round = _of_one("round")
    floor = _of_one("floor")
    fp4 = _of_one("fp4")
    nf4 = _of_one("nf4")
    sin = _of_one("sin")
    sqrt = _of_one("sqrt")
    add = _of_two("add")
    sub = _of_two("sub")
    mul = _of_two("mul")
    div = _of_two("div")
    pow = _of_two("pow")
    max = _of_two("max")
    min = _of_two("min")
    less = _of_two("less")
    less_equal = _of_two("less_equal")

    def where(
        self,
        condition: T,
        x: T | float,
        y: T | float,
        *,
        dtype: Attribute | None = None,
        name: str | None = None,
    ) -> T:
        """``x`` where the condition is not 0, else ``y``; an extent of 1 is broadcast.

        A condition may be of truths.  Of two numbers the result has the condition's type, or f32.
        """
        if dtype is None:
            chosen = next((each for each in (x, y) if isinstance(each, Handle)), condition)
            dtype = f32 if chosen is condition and condition.dtype == i1 else chosen.dtype
        return self.apply("where", [condition, x, y], dtype, name)


_Graph = GraphOperators[STensor]


def of_tensors(
    method: Callable[Concatenate[Any, Any, P], Any],
) -> Callable[Concatenate[Any, P], Any]:
    """A method of graphs as a function that calls it on the graph of its first tensor."""

    @wraps(method)
    def call(first: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        x = next((each for each in (first, *args) if isinstance(each, Handle)), None)
        if x is None:
            hint = "; tensors are arguments of their own" if isinstance(first, list | tuple) else ""
            raise BuildError(f"{method.__name__}: {first!r} is no tensor of a graph{hint}")
        if not hasattr(x.graph, method.__name__):
            raise BuildError(f"{method.__name__}: {x!r} is a tile; it takes whole tensors")
        return getattr(x.graph, method.__name__)(first, *args, **kwargs)

    return call


abs = of_tensors(_Graph.abs)
bits = of_tensors(_Graph.bits)
cast = of_tensors(_Graph.cast)
clamp = of_tensors(_Graph.clamp)
cos = of_tensors(_Graph.cos)
round = of_tensors(_Graph.round)
floor = of_tensors(_Graph.floor)
fp4 = of_tensors(_Graph.fp4)
nf4 = of_tensors(_Graph.nf4)
erf = of_tensors(_Graph.erf)
exp = of_tensors(_Graph.exp)
fill = of_tensors(_Graph.fill)
gelu = of_tensors(_Graph.gelu)
less = of_tensors(_Graph.less)
less_equal = of_tensors(_Graph.less_equal)
log = of_tensors(_Graph.log)
max = of_tensors(_Graph.max)
min = of_tensors(_Graph.min)
pow = of_tensors(_Graph.pow)
reciprocal = of_tensors(_Graph.reciprocal)
reciprocal_or_zero = of_tensors(_Graph.reciprocal_or_zero)
relu = of_tensors(_Graph.relu)
rsqrt = of_tensors(_Graph.rsqrt)
sigmoid = of_tensors(_Graph.sigmoid)
silu = of_tensors(_Graph.silu)
sin = of_tensors(_Graph.sin)
sqrt = of_tensors(_Graph.sqrt)
square = of_tensors(_Graph.square)
softplus = of_tensors(_Graph.softplus)
tanh = of_tensors(_Graph.tanh)
where = of_tensors(_Graph.where)

__all__ = [
    "abs",
    "bits",
    "cast",
    "clamp",
    "cos",
    "erf",
    "exp",
    "fill",
    "floor",
    "fp4",
    "gelu",
    "less",
    "less_equal",
    "log",
    "max",
    "min",
    "nf4",
    "pow",
    "reciprocal",
    "reciprocal_or_zero",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "softplus",
    "sqrt",
    "square",
    "tanh",
    "where",
]
"""The functions of tensors; ``mugraph.build`` has all of them."""
