"""Calls of functions, and inline PTX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_region_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, SymbolTable
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te.accesses import AccessKind, HasTouches, Touch, whole_touch
from mugraph.dialects.te.loops import IfOp, ParOp, SeqOp
from mugraph.dialects.te.types import ELEMENT_TYPES, BufferType, Space


@irdl_op_definition
class CallOp(IRDLOperation):
    """Calls a function on buffers: ``te.call @mma(%a, %b, %c) : types``.

    The callee's parameters stand for the buffers given, which have the same extents and elements.
    """

    name = "te.call"

    callee = prop_def(SymbolRefAttr)
    arguments = var_operand_def(BufferType)
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` type($arguments)"

    def __init__(self, callee: str, arguments: Sequence[SSAValue]) -> None:
        super().__init__(operands=[arguments], properties={"callee": SymbolRefAttr(callee)})

    def function(self) -> FuncOp:
        """The function that is called; ``VerifyException`` where there is none."""
        function = SymbolTable.lookup_symbol(self, self.callee)
        if not isinstance(function, FuncOp):
            raise VerifyException(f"'te.call': there is no function {self.callee}")
        return function

    def verify_(self) -> None:
        """Checks the arguments against the callee's parameters."""
        function = self.function()
        parameters = function.function_type.inputs.data
        name = function.sym_name.data
        if len(parameters) != len(self.arguments):
            raise VerifyException(
                f"'te.call': @{name} takes {len(parameters)} buffers, got {len(self.arguments)}"
            )
        for position, (parameter, argument) in enumerate(
            zip(parameters, self.arguments, strict=True)
        ):
            given = cast(BufferType, argument.type)
            if not isinstance(parameter, BufferType) or (
                parameter.get_shape() != given.get_shape()
                or parameter.element_type != given.element_type
            ):
                raise VerifyException(
                    f"'te.call': parameter {position} of @{name} is {parameter}, got {given}"
                )


class Direction(StrEnum):
    """Whether an operand of inline PTX is read, written, or both."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"


_PLACEHOLDER = re.compile(r"%(\d+)")


@irdl_custom_directive
class DirectedOperands(CustomDirective):
    """``inout %c, in %a, in %b``, or nothing."""

    directions: AttributeVariable
    arguments: VariadicOperandVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the operands."""

        def direction() -> Direction | None:
            return next((one for one in Direction if parser.parse_optional_keyword(one)), None)

        directions: list[Attribute] = []
        operands: list[UnresolvedOperand] = []
        while (one := direction()) is not None:
            directions.append(StringAttr(str(one)))
            operands.append(parser.parse_unresolved_operand())
            if parser.parse_optional_punctuation(",") is None:
                break
        self.directions.set(state, ArrayAttr(directions))
        self.arguments.set(state, operands)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the operands."""
        directions = self.directions.get(op)
        if not isa(directions, ArrayAttr[StringAttr]):
            return
        for position, (one, argument) in enumerate(
            zip(directions, self.arguments.get(op), strict=True)
        ):
            printer.print_string(f"{', ' if position else ' '}{one.data} ")
            printer.print_ssa_value(argument)


@irdl_op_definition
class AsmOp(IRDLOperation, HasTouches):
    """Inline PTX, on registers, numbers and addresses.

    ``te.asm "mma.sync... %0, %1, %2, %0;" inout %c, in %a, in %b : types``.  ``%n`` in the text is
    operand n: a number; all registers of a buffer in registers, in braces, two 16-bit elements a
    32-bit register; or, of a buffer or a section in memory, the address of its first element
    (32 bits in shared memory, 64 in device memory), where the instruction touches all its elements.
    A text without any is an instruction whose operands are these, in order.
    It has the effects of the instruction: it is neither removed, repeated nor moved over others.

    ``means { te.mbarrier_arrive %full[0] : !te.mbarriers<1> }`` says what it does by operators:
    that is what is checked and interpreted, and its operands in memory are addresses only.

    An instruction with ``.aligned`` is executed by whole warps: parallel loops around it, if the
    function has any, include a ``fully`` one of a multiple of 32 iterations.
    """

    name = "te.asm"

    text = prop_def(StringAttr)
    directions = prop_def(ArrayAttr[StringAttr])
    arguments = var_operand_def(Attribute)
    meaning = opt_region_def("single_block")
    traits = traits_def(NoTerminator())
    custom_directives = (DirectedOperands,)
    assembly_format = (
        "$text custom<DirectedOperands>($directions, $arguments) attr-dict (`:` type($arguments)^)?"
        " (`means` $meaning^)?"
    )

    def __init__(
        self,
        text: str,
        directions: Sequence[Direction],
        arguments: Sequence[SSAValue],
        meaning: Block | None = None,
    ) -> None:
        super().__init__(
            operands=[arguments],
            regions=[[] if meaning is None else [Region(meaning)]],
            properties={
                "text": StringAttr(text),
                "directions": ArrayAttr([StringAttr(str(one)) for one in directions]),
            },
        )

    @property
    def operand_directions(self) -> list[Direction]:
        """One direction an operand."""
        return [Direction(one.data) for one in self.directions.data]

    @property
    def template(self) -> str:
        """The text with a placeholder ``%n`` for each operand."""
        text = self.text.data.strip()
        if _PLACEHOLDER.search(text) is None and self.arguments:
            operands = ", ".join(f"%{position}" for position in range(len(self.arguments)))
            text = f"{text.removesuffix(';')} {operands};"
        return text if text.endswith((";", "}")) else f"{text};"

    @property
    def instruction(self) -> str:
        """The name of the first instruction, with its modifiers."""
        words = self.text.data.replace("{", " ").split()
        return words[0].rstrip(";") if words else ""

    @property
    def is_of_warp(self) -> bool:
        """Whether all threads of a warp execute the instruction together."""
        return ".sync." in self.instruction and self.meaning is None

    @property
    def moves_matrices(self) -> bool:
        """Whether it is ``ldmatrix`` or ``stmatrix``, to which each thread gives a line."""
        return self.instruction.startswith(("ldmatrix.", "stmatrix."))

    def touches(self) -> Sequence[Touch]:
        """What its operands say; only registers if it has a meaning, which says the rest."""
        found = self.operand_touches()
        if self.meaning is None:
            return found
        return [one for one in found if one.type.memory_space is Space.REGISTER]

    def operand_touches(self) -> list[Touch]:
        """The elements of each operand that is a buffer, or the section of one."""
        found: list[Touch] = []
        for direction, argument in zip(self.operand_directions, self.arguments, strict=True):
            if isinstance(argument.type, BufferType):
                kind = AccessKind.READ if direction is Direction.IN else AccessKind.WRITE
                found.append(whole_touch(argument, kind))
        return found

    def verify_(self) -> None:
        """Checks that operands have registers and that the text refers to them."""
        if not self.instruction:
            raise VerifyException("'te.asm': the text names no instruction")
        if len(self.directions) != len(self.arguments):
            raise VerifyException(
                f"'te.asm' has {len(self.arguments)} operands and {len(self.directions)} directions"
            )
        for position, (one, argument) in enumerate(
            zip(self.directions.data, self.arguments, strict=True)
        ):
            label = f"'te.asm': operand {position}"
            if one.data not in list(Direction):
                raise VerifyException(f"{label} is {', '.join(Direction)}, not '{one.data}'")
            type_ = argument.type
            if isinstance(type_, BufferType):
                in_registers = type_.memory_space is Space.REGISTER
                if type_.memory_space is Space.CLUSTER:
                    raise VerifyException(
                        f"{label} is in the memory of a cluster, where no text takes addresses"
                    )
                if in_registers and type_.element_type in HALF_TYPES and type_.elements % 2:
                    raise VerifyException(
                        f"{label} has {type_.elements} elements of {type_.element_type}; two of "
                        "them take a register, so their number must be even"
                    )
            elif type_ not in ELEMENT_TYPES.values():
                raise VerifyException(f"{label} is of type {type_}, which no register holds")
            elif one.data != Direction.IN:
                raise VerifyException(f"{label} is a value, which cannot be written; use a 'reg'")
        for match in _PLACEHOLDER.finditer(self.text.data):
            if int(match.group(1)) >= len(self.arguments):
                raise VerifyException(
                    f"'te.asm': the text refers to operand {match.group(0)}, but there are "
                    f"{len(self.arguments)}"
                )
        if ".aligned" in self.text.data:
            self._verify_whole_warps()

    def _verify_whole_warps(self) -> None:
        loops: list[ParOp] = []
        around = self.parent_op()
        while around is not None and not isinstance(around, FuncOp):
            if not isinstance(around, (ParOp, SeqOp, IfOp)):
                return  # mapped to threads already
            if isinstance(around, ParOp):
                loops.append(around)
            around = around.parent_op()
        if loops and not any(loop.is_fully and loop.iterations % WARP == 0 for loop in loops):
            raise VerifyException(
                f"'te.asm': {self.instruction} is an instruction of a warp, so it stands in a "
                f"'fully par' of a multiple of {WARP} iterations"
            )
