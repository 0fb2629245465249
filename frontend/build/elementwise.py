"""The operators that a kernel graph and a threadblock graph have alike.

Each that is element-wise is a function of tensors, too: ``mi.silu(x)`` is ``graph.silu(x)``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar, Concatenate, Generic, ParamSpec, TypeVar

from xdsl.dialects.builtin import i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.build.errors import BuildError, build_errors, require_element_type
from mugraph.build.tensors import DTensor, Handle, STensor
from mugraph.dialects.shapes import broadcast_shape, matmul_shape

P = ParamSpec("P")
T = TypeVar("T", DTensor, STensor)


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

    def _unary(self, operator: str, x: T, name: str | None, *constants: float) -> T:
        value = self._value(x)
        with build_errors():
            type_ = self._type_of(x.shape, x.dtype)
            make = self.OPERATORS[operator]
            op = make(value, type_, constants) if constants else make(value, type_)
        return self._add(op, name)

    def _add_many(self, op: Operation) -> list[T]:
        """Adds an operator of several results."""
        self._append(op)
        return [self._handle(result) for result in op.results]

    def _binary(self, operator: str, a: T, b: T, name: str | None) -> T:
        lhs, rhs = self._value(a), self._value(b)
        with build_errors():
            type_ = self._type_of(broadcast_shape([a.shape, b.shape]), a.dtype)
            op = self.OPERATORS[operator](lhs, rhs, type_)
        return self._add(op, name)

    def _with_extent(self, operator: str, x: T, dim: int, extent: int) -> tuple[int, ...]:
        """The extents of a tensor, but for one dimension, which must exist."""
        if not 0 <= dim < len(x.shape):
            raise BuildError(
                f"{operator}: dimension {dim} does not exist in a tensor of rank {len(x.shape)}: "
                f"expected 0 to {len(x.shape) - 1}"
            )
        return (*x.shape[:dim], extent, *x.shape[dim + 1 :])

    def _reduce(self, operator: str, x: T, dim: int, size: int, name: str | None) -> T:
        value = self._value(x)
        with build_errors():
            type_ = self._type_of(self._with_extent(operator, x, dim, size), x.dtype)
            op = self.OPERATORS[operator](value, dim, type_)
        return self._add(op, name)

    def matmul(self, a: T, b: T, *, dtype: Attribute | None = None, name: str | None = None) -> T:
        """The matrix product of ``[..., M, K]`` and ``[..., K, N]``; leading extents are equal.

        The result has the operands' element type unless another is asked for; int32 of int8.
        """
        lhs, rhs = self._value(a), self._value(b)
        if dtype is None:
            dtype = i32 if a.dtype == i8 else a.dtype
        with build_errors():
            type_ = self._type_of(matmul_shape(a.shape, b.shape), dtype)
            op = self.OPERATORS["matmul"](lhs, rhs, type_)
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
        values = [self._value(a), self._value(b)]
        extent = sum(x.shape[dim] if 0 <= dim < len(x.shape) else 0 for x in (a, b))
        with build_errors():
            type_ = self._type_of(self._with_extent("concat", a, dim, extent), a.dtype)
            op = self.OPERATORS["concat"](values, dim, type_)
        return self._add(op, name)

    def split(self, x: T, sizes: Sequence[int], dim: int) -> list[T]:
        """Parts of these extents along a dimension."""
        return self._parts("split", x, sizes, dim)

    def _parts(self, operator: str, x: T, sizes: Sequence[int], dim: int) -> list[T]:
        value = self._value(x)
        with build_errors():
            types = [
                self._type_of(self._with_extent(operator, x, dim, size), x.dtype) for size in sizes
            ]
            op = self.OPERATORS[operator](value, dim, types)
        return self._add_many(op)

    def exp(self, x: T, *, name: str | None = None) -> T:
        """e to the power of each element."""
        return self._unary("exp", x, name)

    def silu(self, x: T, *, name: str | None = None) -> T:
        """x / (1 + exp(-x)) of each element."""
        return self._unary("silu", x, name)

    def sigmoid(self, x: T, *, name: str | None = None) -> T:
        """1 / (1 + exp(-x)) of each element."""
        return self._unary("sigmoid", x, name)

    def softplus(self, x: T, *, name: str | None = None) -> T:
        """log(1 + exp(x)) of each element."""
        return self._unary("softplus", x, name)

    def tanh(self, x: T, *, name: str | None = None) -> T:
        """The hyperbolic tangent of each element."""
        return self._unary("tanh", x, name)

    def gelu(self, x: T, *, name: str | None = None) -> T:
        """x (1 + erf(x / sqrt 2)) / 2 of each element."""
        return self._unary("gelu", x, name)

    def relu(self, x: T, *, name: str | None = None) -> T:
        """The larger of each element and 0."""
        return self._unary("relu", x, name)

    def clamp(self, x: T, min_val: float, max_val: float, *, name: str | None = None) -> T:
        """Each element, no less than ``min_val`` and no more than ``max_val``, fp32 constants."""
        return self._unary("clamp", x, name, min_val, max_val)

    def log(self, x: T, *, name: str | None = None) -> T:
        """The natural logarithm of each element."""
        return self._unary("log", x, name)

    def square(self, x: T, *, name: str | None = None) -> T:
        """The square of each element."""
        return self._unary("square", x, name)

    def sqrt(self, x: T, *, name: str | None = None) -> T:
        """The square root of each element."""
        return self._unary("sqrt", x, name)

    def mul_scalar(self, x: T, scalar: float, *, name: str | None = None) -> T:
        """Each element times an fp32 constant."""
        return self._unary("mul_scalar", x, name, scalar)

    def add_scalar(self, x: T, scalar: float, *, name: str | None = None) -> T:
        """Each element plus an fp32 constant."""
        return self._unary("add_scalar", x, name, scalar)

    def max(self, a: T, b: T, *, name: str | None = None) -> T:
        """The larger of both, element by element; an extent of 1 is broadcast."""
        return self._binary("max", a, b, name)

    def add(self, a: T, b: T, *, name: str | None = None) -> T:
        """The sum, element by element; an extent of 1 is broadcast."""
        return self._binary("add", a, b, name)

    def sub(self, a: T, b: T, *, name: str | None = None) -> T:
        """The difference, element by element; an extent of 1 is broadcast."""
        return self._binary("sub", a, b, name)

    def mul(self, a: T, b: T, *, name: str | None = None) -> T:
        """The product, element by element; an extent of 1 is broadcast."""
        return self._binary("mul", a, b, name)

    def div(self, a: T, b: T, *, name: str | None = None) -> T:
        """The quotient, element by element; an extent of 1 is broadcast."""
        return self._binary("div", a, b, name)

    def pow(self, a: T, b: T, *, name: str | None = None) -> T:
        """``a`` to the power of ``b``, element by element; an extent of 1 is broadcast."""
        return self._binary("pow", a, b, name)


_Graph = GraphOperators[STensor]


def _of_tensors(
    method: Callable[Concatenate[GraphOperators[Any], Any, P], Any],
) -> Callable[Concatenate[Any, P], Any]:
    """A method of graphs as a function that calls it on the graph of its first operand."""

    @wraps(method)
    def call(x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        if not isinstance(x, Handle):
            raise BuildError(f"{method.__name__}: {x!r} is no tensor of a graph")
        return getattr(x.graph, method.__name__)(x, *args, **kwargs)

    return call


cast = _of_tensors(_Graph.cast)
clamp = _of_tensors(_Graph.clamp)
exp = _of_tensors(_Graph.exp)
gelu = _of_tensors(_Graph.gelu)
log = _of_tensors(_Graph.log)
max = _of_tensors(_Graph.max)
pow = _of_tensors(_Graph.pow)
relu = _of_tensors(_Graph.relu)
sigmoid = _of_tensors(_Graph.sigmoid)
silu = _of_tensors(_Graph.silu)
sqrt = _of_tensors(_Graph.sqrt)
square = _of_tensors(_Graph.square)
softplus = _of_tensors(_Graph.softplus)
tanh = _of_tensors(_Graph.tanh)

__all__ = [
    "cast",
    "clamp",
    "exp",
    "gelu",
    "log",
    "max",
    "pow",
    "relu",
    "sigmoid",
    "silu",
    "softplus",
    "sqrt",
    "square",
    "tanh",
]
"""The functions of tensors; ``mugraph.build`` has all of them."""
