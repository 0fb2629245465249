"""The table of conversions: which function of the builder makes a program of an ATen operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xdsl.ir import Attribute

from mugraph.build import DTensor, KernelGraph
from mugraph.dialects.tensor_types import dims
from mugraph.errors import UserError


@dataclass(frozen=True)
class TensorLike:
    """What torch knows of a tensor before there is one; strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Attribute

    def __str__(self) -> str:
        return f"{dims(self.shape)}x{self.dtype}"


@dataclass(frozen=True)
class Call:
    """One call of an ATen operator that is being converted."""

    graph: KernelGraph
    results: Sequence[TensorLike]
    """What torch says that it gives."""
    tf32: bool
    """Whether torch allows that products of f32 are computed in TF32."""
    devices: Devices | None = None
    """The process group that the program is for, if it is for several devices."""

    @property
    def dtype(self) -> Attribute:
        """The element type of the first result."""
        return self.results[0].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the first result."""
        return self.results[0].shape


@dataclass(frozen=True)
class Devices:
    """A process group of torch whose devices exchange tensors in a program."""

    group: str
    """Torch's name of it."""
    count: int


Conversion = Callable[..., Any]
"""From a :class:`Call` and the operator's arguments to its result, or a list of several.

Tensors are handles of the builder.

Raises ``BuildError``, or :class:`NotConverted`, with the reason why the call stays in torch.
"""

C = TypeVar("C", bound=Conversion)

CONVERSIONS: dict[str, Conversion] = {}
"""By the name of the operator and its overload, ``aten.add.Tensor`` for instance."""


class NotConverted(UserError):
    """A call of an operator that has a conversion, but not for these arguments."""


def converts(*names: str, namespace: str = "aten") -> Callable[[C], C]:
    """Registers a function as the conversion of torch's operators."""

    def register(conversion: C) -> C:
        for name in names:
            CONVERSIONS[f"{namespace}.{name}"] = conversion
        return conversion

    return register


def require(holds: bool, reason: str) -> None:
    """Raises :class:`NotConverted` with the reason unless something holds."""
    if not holds:
        raise NotConverted(reason)


def require_tensor(x: Any) -> DTensor:
    """An argument that must be a tensor of the program."""
    require(isinstance(x, DTensor), f"{x!r} is no tensor with a dimension")
    return x
