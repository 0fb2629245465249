"""Constants of element-wise operators: fields that Mirage does not write, and our export does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from mugraph.dialects.elementwise import UNARY_FUNCTIONS
from mugraph.dialects.precision import Precision
from mugraph.tools.import_mirage.document import Node

Operator = TypeVar("Operator")


def with_constants(prefix: str, operators: Mapping[str, Operator]) -> dict[str, Operator]:
    """Of the operators by function those that take constants, by their ``op_type``."""
    return {
        f"{prefix}_{name}_op": operator
        for name, operator in operators.items()
        if UNARY_FUNCTIONS[name].constants
    }


def without_constants(prefix: str, operators: Mapping[str, Operator]) -> dict[str, Operator]:
    """Of the operators by function those that take none, by their ``op_type``."""
    return {
        f"{prefix}_{name}_op": operator
        for name, operator in operators.items()
        if not UNARY_FUNCTIONS[name].constants
    }


def read_precision(operator: Node) -> Precision | None:
    """The precision of a product of f32: our field ``precision``."""
    found = operator.optional_field("precision")
    if found is None:
        return None
    known = [str(precision) for precision in Precision]
    if found.text() not in known:
        raise found.error(f"{found.value!r} is none of {', '.join(known)}.")
    return Precision(found.text())


def read_constants(operator: Node) -> list[float]:
    """The constants of an element-wise operator; ``MirageImportError`` where one is missing."""
    kind = operator.field("op_type")
    function = kind.text().split("_", 1)[1].removesuffix("_op")
    constants: list[float] = []
    for constant in UNARY_FUNCTIONS[function].constants:
        found = operator.optional_field(constant.name)
        if found is None:
            raise kind.error(
                f"Mirage does not save the constants of a {function}; add the field "
                f"'{constant.name}' with the number that is meant."
            )
        constants.append(found.number())
    return constants
