"""Reading an operator's operands, results, regions and properties by name, in few calls.

Passes read nothing else as often.  xDSL's own accessors make a view of the operands at each
reading, and unpack the attribute that says how many of them each name has.

Of properties that are integers, or only there or not, operators say by another name what they mean,
as Python's own numbers: ``warp_count = number_of("warps")``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Operation
from xdsl.irdl.operations import (
    BaseAttrAccessor,
    BeforeVariadicSingleAccessor,
    OptionalAttrAccessor,
    SingleAttrAccessor,
    VariadicAttrAccessor,
    VarIRConstruct,
)

Held = Callable[[Operation], tuple[Any, ...]]

_operands: Held = attrgetter("_operands")

HELD: dict[VarIRConstruct, Held] = {
    VarIRConstruct.OPERAND: _operands,
    VarIRConstruct.RESULT: attrgetter("results"),
    VarIRConstruct.REGION: attrgetter("regions"),
}
"""The tuple in which an operation holds those of each kind."""


_item = cast("Callable[[tuple[Any, ...], int], Any]", vars(tuple)["__getitem__"])
"""xDSL's tuples of values ask first whether they are given a slice; this does not."""


@dataclass(frozen=True)
class One(BeforeVariadicSingleAccessor):
    """One value or region, before any name that may have several."""

    held: Held

    def __get__(self, obj: Operation, objtype: object = None) -> Any:
        return _item(self.held(obj), self.idx)


@cache
def _sizes(array: bytes) -> tuple[int, ...]:
    """The numbers of an ``array<i32>``."""
    return i32.unpack(array, len(array) // i32.size)


class _Counted(BaseAttrAccessor):
    """Operands of an operator that has an attribute with how many each name has."""

    def __get__(self, obj: Operation, objtype: object = None) -> Any:
        sizes = self.option.container(obj)[self.option.attribute_name]
        array = cast("DenseArrayBase[Any]", sizes).data.data
        return self.index(_sizes(array), _operands(obj))


class CountedOne(_Counted, SingleAttrAccessor):
    """One of them."""


class CountedSeveral(_Counted, VariadicAttrAccessor):
    """Any number of them."""


class CountedOptional(_Counted, OptionalAttrAccessor):
    """One of them or ``None``."""


COUNTED: dict[type, type[BaseAttrAccessor]] = {
    SingleAttrAccessor: CountedOne,
    VariadicAttrAccessor: CountedSeveral,
    OptionalAttrAccessor: CountedOptional,
}
"""What takes the place of each of xDSL's accessors of operands."""


def with_few_calls(member: Any) -> Any:
    """What reads the same as one of xDSL's accessors; other members of operators as they are."""
    match member:
        case BeforeVariadicSingleAccessor(construct=kind, idx=idx) if kind in HELD:
            return One(kind, idx, HELD[kind])
        case BaseAttrAccessor(construct=VarIRConstruct.OPERAND as kind, idx=idx, option=option):
            return COUNTED[type(member)](kind, idx, option)
        case _:
            return member


Read = TypeVar("Read")


class Reading(property, Generic[Read]):
    """What an operator says of one of its properties."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type, /) -> property: ...
        @overload
        def __get__(self, instance: Any, owner: type | None = None, /) -> Read: ...
        def __get__(self, instance: Any, owner: type | None = None, /) -> Any: ...


def number_of(name: str) -> Reading[int]:
    """The number in an integer property."""
    return Reading[int](attrgetter(f"{name}.value.data"))


def number_or(name: str, default: int) -> Reading[int]:
    """The number in an integer property, or a default without one."""

    def read(op: Operation) -> int:
        found = getattr(op, name)
        return default if found is None else found.value.data

    return Reading[int](read)


def number_if_given(name: str) -> Reading[int | None]:
    """The number in an integer property, or ``None`` without one."""

    def read(op: Operation) -> int | None:
        found = getattr(op, name)
        return None if found is None else found.value.data

    return Reading[int | None](read)


def is_given(name: str) -> Reading[bool]:
    """Whether the operator has a property."""

    def read(op: Operation) -> bool:
        return getattr(op, name) is not None

    return Reading[bool](read)
