"""How the operators of all dialects are defined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeVar, cast

from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, OpDef, get_accessors_from_op_def
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import NominalMeta
from mugraph.dialects.accessors import with_few_calls
from mugraph.dialects.maps import PartitionError
from mugraph.dialects.named_extents import is_dynamic, is_verified_when_static
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.tensor_types import op_label
from mugraph.dialects.walk import walk

Operator = TypeVar("Operator", bound=IRDLOperation)


class OperatorError(VerifyException):
    """What is wrong with an operator; its verifier says before the message which one it is."""


def irdl_op_definition(cls: type[Operator]) -> type[Operator]:
    """Defines an operator as xDSL's decorator of this name does, but reads its format when needed.

    A process parses and prints few of the operators that it loads, and reading their assembly
    formats takes longer than the rest of their definitions.  A wrong format raises xDSL's
    ``ParseError`` where the operator is first parsed or printed.
    """
    definition = OpDef.from_pyrdl(cls)
    without_format = replace(definition, assembly_format=None)
    verify = getattr(cls, "verify_", None)
    members = get_accessors_from_op_def(without_format, None)
    members |= {"verify_": _verifier(without_format, verify), "walk": walk}
    if definition.assembly_format is not None:
        members |= _format_members(definition, definition.assembly_format)
    for name, member in members.items():
        setattr(cls, name, with_few_calls(member))
    # Also of operators that inherit from no abstract class of the dialects.
    type.__setattr__(cls, "__class__", NominalMeta)
    return cls


def dialect_of(name: str, exported: Mapping[str, object]) -> Dialect:
    """The dialect of all operators, types and attributes of its name that a package exports.

    Classes without a name of their own, from which several operators inherit, are none; classes
    stand by themselves or in tuples.
    """
    groups = [
        cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        for value in exported.values()
    ]
    named = [
        each
        for each in chain.from_iterable(groups)
        if isinstance(each, type) and str(vars(each).get("name")).startswith(f"{name}.")
    ]
    classes = list(dict.fromkeys(named))
    return Dialect(
        name,
        [each for each in classes if issubclass(each, Operation)],
        [each for each in classes if issubclass(each, Attribute)],
    )


MOST_KNOWN = 1 << 12
"""Combinations of types and properties of an operator that are remembered."""


class _Known(NamedTuple):
    """Types and attributes of an operator that are what its definition says.

    They are kept, so that nothing else has their identities.
    """

    is_dynamic: bool
    """Whether one of the types has an extent that is not known."""
    types: Sequence[Attribute]
    attributes: Sequence[Attribute]


def _verifier(
    definition: OpDef, verify: Callable[[Any], None] | None
) -> Callable[[IRDLOperation], None]:
    """What verifies an operator: by its definition, its traits, and what it says of itself.

    The definition depends on types, on how many blocks each region has, and on attributes alone,
    but for successors, and is asked once for equal ones: passes leave most operators as they are,
    and modules have many alike.  Operators that have successors are not remembered.  An operator on
    tensors with named extents says nothing of itself: of that a copy with extents is verified
    (``--name-extents``).  Where it finds an error, extents do not go together, or a map does not
    fit them, the error says of which operator.
    """
    known: dict[object, _Known] = {}

    def verify_traits(op: IRDLOperation) -> None:
        for trait in definition.traits:
            trait.verify(op)

    def verified(op: IRDLOperation) -> None:
        operands, results = (*op.operands,), op.results
        types = [value.type for value in (*operands, *results)]
        of_values = len(types)
        regions: list[tuple[int, int]] = []
        for region in op.regions:
            arguments = () if region.first_block is None else region.first_block.arg_types
            types += arguments
            regions.append((len(region.blocks), len(arguments)))
        properties, others = op.properties, op.attributes
        attributes = [*properties.values(), *others.values()]
        names = len(operands), (*regions,), (*properties,), (*others,)
        identities = names, *map(id, types), *map(id, attributes)
        has_others = bool(op.successors)
        found = None if has_others else known.get(identities)
        if found is None:
            # Equal ones, such as those of another module, take longer to look up.
            values = names, *types, *attributes
            found = None if has_others else known.get(values)
            if found is None:
                definition.verify(op)
                found = _Known(any(map(is_dynamic, types[:of_values])), types, attributes)
            else:
                verify_traits(op)
                found = _Known(found.is_dynamic, types, attributes)
            if not has_others:
                if len(known) >= MOST_KNOWN:
                    known.clear()
                known[identities] = known[values] = found
        else:
            verify_traits(op)
        if verify is None or (found.is_dynamic and is_verified_when_static(op)):
            return
        try:
            verify(op)
        except (OperatorError, ShapeError, PartitionError) as error:
            raise VerifyException(f"{op_label(op)}: {error}") from error

    return verified


def _format_members(definition: OpDef, assembly_format: str) -> dict[str, Any]:
    """What an operator with an assembly format has besides."""

    @cache
    def program() -> FormatProgram:
        return FormatProgram.from_str(assembly_format, definition)

    @classmethod
    def get_irdl_definition(_cls: type[IRDLOperation]) -> OpDef:
        return definition

    @classmethod
    def parse(cls: type[Operator], parser: Parser) -> Operator:
        return program().parse(parser, cls)

    def print(self: IRDLOperation, printer: Printer) -> None:
        program().print(printer, self)

    return {"get_irdl_definition": get_irdl_definition, "parse": parse, "print": print}
