"""How an operator is made of its record: how many tensors it has, and what else the record says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.elementwise import FUNCTIONS
from mugraph.dialects.precision import Precision
from mugraph.tools.import_mirage.document import Node
from mugraph.tools.import_mirage.generations import OWN_FUNCTIONS

Choice = TypeVar("Choice", bound=StrEnum)
Make = Callable[[Node, Sequence[SSAValue], Sequence[Attribute]], Operation]
"""An operator of its record, its operands and the types of its results."""

NAMED_DIMS = 3
"""The format names operators along a dimension by it: 0, 1 or 2."""


@dataclass(frozen=True)
class Reader:
    """How many tensors operators of one ``op_type`` have (any, for ``None``), and how one is made.

    ``make`` raises ``MirageImportError`` for fields that it lacks or that do not fit.
    """

    inputs: int | None
    results: int | None
    make: Make


def along_each_dim(pattern: str, reader: Reader) -> dict[str, Reader]:
    """The reader for each ``op_type`` of a pattern such as ``kn_concat_{}_op``."""
    return {pattern.format(dim): reader for dim in range(NAMED_DIMS)}


def elementwise_readers(
    level: str, unary: Mapping[str, Any], binary: Mapping[str, Any], matmul: Make
) -> dict[str, Reader]:
    """Readers of the element-wise operators of a level, by function, and of matrix products."""

    def of_one(make: Any) -> Reader:
        return Reader(1, 1, lambda node, x, types: make(x[0], types[0], read_constants(node)))

    def of_two(make: Any) -> Reader:
        return Reader(2, 1, lambda node, x, types: make(x[0], x[1], types[0]))

    return {
        f"{level}_matmul_op": Reader(2, 1, matmul),
        **{f"{level}_{name}_op": of_one(make) for name, make in unary.items()},
        **{
            f"{level}_{name}_op": of_two(make)
            for name, make in binary.items()
            if name not in OWN_FUNCTIONS
        },
    }


def read_constants(operator: Node) -> list[float]:
    """The constants of an element-wise operator: fields that our export writes, and Mirage not.

    Raises ``MirageImportError`` where one is missing.
    """
    kind = operator.field("op_type")
    function = kind.text().split("_", 1)[1].removesuffix("_op")
    constants: list[float] = []
    for constant in FUNCTIONS[function].constants:
        found = operator.optional_field(constant.name)
        if found is None:
            raise kind.error(
                f"Mirage does not save the constants of a {function}; add the field "
                f"'{constant.name}' with the number that is meant."
            )
        constants.append(found.number())
    return constants


def read_choice(operator: Node, name: str, choices: type[Choice]) -> Choice | None:
    """One of some words: a field of ours."""
    found = operator.optional_field(name)
    if found is None:
        return None
    known = [str(choice) for choice in choices]
    if found.text() not in known:
        raise found.error(f"{found.value!r} is none of {', '.join(known)}.")
    return choices(found.text())


def read_precision(operator: Node) -> Precision | None:
    """The precision of a product of f32: our field ``precision``."""
    return read_choice(operator, "precision", Precision)


def read_dim(operator: Node, name: str | None = None, *, required: bool = False) -> int:
    """The dimension in an ``op_type`` such as ``kn_reduction_1_op``.

    The field ``name`` must repeat it, where there is one or it is required.
    """
    parts = operator.field("op_type").text().split("_")
    dim = next(int(part) for part in parts if part.isdigit())
    if name is not None:
        recorded = operator.field(name) if required else operator.optional_field(name)
        if recorded is not None and recorded.integer() != dim:
            raise recorded.error(f"{recorded.value} does not fit the op_type; expected {dim}.")
    return dim


def read_weight(operator: Node, operands: Sequence[SSAValue]) -> SSAValue | None:
    """The weight of a norm, its second tensor; Mirage's norms have one alone."""
    if len(operands) not in (1, 2):
        raise operator.field("input_tensors").error(
            f"holds {len(operands)} tensors; expected 1, or 2 with a weight."
        )
    return operands[1] if len(operands) == 2 else None


def read_epsilon(operator: Node) -> float:
    """The epsilon of a norm: a field of ours."""
    epsilon = operator.optional_field("epsilon")
    return 0.0 if epsilon is None else epsilon.number()
