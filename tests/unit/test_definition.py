"""Operators' assembly formats, which are read when they are first used, and how they are walked."""

from abc import abstractmethod
from typing import ClassVar

import pytest
from xdsl.dialects.builtin import TensorType, f16, f32
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    OpDef,
    RangeOf,
    VarConstraint,
    VarOperand,
    VarRegion,
    operand_def,
    region_def,
    var_operand_def,
    var_region_def,
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


@irdl_op_definition
class Nest(IRDLOperation):
    """Holds any regions."""

    name = "test.nest"
    inside: VarRegion = var_region_def()

    def __init__(self, *inside: Region) -> None:
        super().__init__(regions=[inside])


def _nest() -> Nest:
    """Operators in no block, in one and in several, of none, of one and of several regions."""
    deep = Nest(Region(Block([Nest(), Nest(Region()), Nest()])))
    blocks = Region([Block([Nest()]), Block(), Block([Nest(), deep, Nest()])])
    return Nest(Region(Block([Nest(), Nest(blocks, Region(Block([Nest()])))])), Region(Block()))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("region_first", [False, True])
def test_operators_are_walked_in_the_order_of_xdsl(
    backwards: bool, region_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nest = _nest()
    found = [*nest.walk(reverse=backwards, region_first=region_first)]
    monkeypatch.setattr(Nest, "walk", Operation.walk)
    expected = [*nest.walk(reverse=backwards, region_first=region_first)]
    assert [*map(id, found)] == [*map(id, expected)]
    assert len(found) == 11


def test_what_is_walked_may_be_rewritten_as_with_xdsl(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewritten() -> str:
        nest, seen = _nest(), 0
        for op in nest.walk():
            seen += 1
            block = op.parent_block()
            if seen == 3:
                op.add_region(Region(Block([Nest()])))
            elif block is not None and seen % 2:
                block.insert_op_before(Nest(), op)
                block.erase_op(op)
            elif block is not None:
                block.insert_op_after(Nest(Region()), op)
        return f"{seen} {nest}"

    found = rewritten()
    monkeypatch.setattr(Nest, "walk", Operation.walk)
    assert found == rewritten()
