"""Operators' assembly formats, which are read when they are first used."""

from abc import abstractmethod

import pytest
from xdsl.irdl import IRDLOperation, VarOperand, var_operand_def
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.utils.exceptions import ParseError

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.kn import Kn
from mugraph.dialects.sched import Sched
from mugraph.dialects.tb import Tb
from mugraph.dialects.te import Te

OPERATORS = [op for dialect in (Kn, Tb, Sched, Te) for op in dialect.operations]


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_every_format_can_be_read(operator: type[IRDLOperation]) -> None:
    definition = operator.get_irdl_definition()
    if definition.assembly_format is not None:
        assert FormatProgram.from_str(definition.assembly_format, definition).stmts


def test_a_wrong_format_is_an_error_where_it_is_used() -> None:
    @irdl_op_definition
    class Misspelt(IRDLOperation):
        name = "test.misspelt"
        values: VarOperand = var_operand_def()
        assembly_format = "$value attr-dict"

    with pytest.raises(ParseError, match="value"):
        str(Misspelt(operands=[[]]))


def test_abstract_operators_are_not_made_and_recognise_what_inherits_from_them() -> None:
    class Named(Abstract):
        @abstractmethod
        def name_of(self) -> str: ...

    class Child(Named):
        def name_of(self) -> str:
            return "child"

    with pytest.raises(TypeError, match="abstract"):
        Named()  # pyright: ignore[reportAbstractUsage]
    assert isinstance(Child(), Named) and issubclass(Child, Abstract)
    assert not isinstance("child", Named) and not issubclass(str, Named)
