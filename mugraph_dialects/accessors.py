"""Reading an operator's operands, results and regions by name, in few calls.

Passes read nothing else as often.  xDSL's own accessors make a view of the operands at each
reading, and unpack the attribute that says how many of them each name has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, cast

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
