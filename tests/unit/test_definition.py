"""Operators' assembly formats, which are read when they are first used."""

from abc import abstractmethod
from typing import ClassVar

import pytest
from xdsl.dialects.builtin import TensorType, f16, f32
from xdsl.ir import Attribute, Block, Region
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    OpDef,
    RangeOf,
    VarConstraint,
    VarOperand,
    operand_def,
    region_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.test_value import create_ssa_value

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


def test_definitions_are_asked_once_for_equal_types(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[IRDLOperation] = []
    verify = OpDef.verify

    def counted(self: OpDef, op: IRDLOperation) -> None:
        asked.append(op)
        verify(self, op)

    @irdl_op_definition
    class Same(IRDLOperation):
        name = "test.same"
        T: ClassVar = VarConstraint("T", AnyAttr())
        left = operand_def(T)
        right = operand_def(T)

    def verified(*extents: int) -> None:
        left, right = (create_ssa_value(TensorType(f32, [extent])) for extent in extents)
        Same(operands=[left, right]).verify()

    monkeypatch.setattr(OpDef, "verify", counted)
    verified(4, 4)
    verified(4, 4)
    assert len(asked) == 1
    for _ in range(2):
        with pytest.raises(VerifyException, match="T"):
            verified(4, 8)
    verified(8, 8)
    assert len(asked) == 4


def test_regions_that_a_definition_lacks_are_an_error_also_behind_an_operator_alike() -> None:
    @irdl_op_definition
    class Plain(IRDLOperation):
        name = "test.plain"

    Plain().verify()
    with pytest.raises(VerifyException, match="Expected 0 regions"):
        Plain.create(regions=[Region()]).verify()


def test_arguments_and_blocks_of_regions_are_part_of_what_is_known() -> None:
    @irdl_op_definition
    class Loop(IRDLOperation):
        name = "test.loop"
        T: ClassVar = VarConstraint("T", AnyAttr())
        start = operand_def(T)
        body = region_def("single_block", entry_args=RangeOf(T))

    def verified(*arguments: Attribute, blocks: int = 1) -> None:
        body = Region([Block(arg_types=arguments), *(Block() for _ in range(blocks - 1))])
        operation = Loop(operands=[create_ssa_value(f32)], regions=[body])
        Loop.verify_(operation)

    for _ in range(2):
        verified(f32)
        verified(f32, f32)
        with pytest.raises(VerifyException, match="T"):
            verified(f16)
        with pytest.raises(VerifyException, match="T"):
            verified(f32, f16)
        with pytest.raises(VerifyException, match="expected a single block, but got 2"):
            verified(f32, blocks=2)


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
