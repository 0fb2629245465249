"""From the ``te`` dialect back to `.te` text, which reads to the same module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import IO, Any, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, f32, f64, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr
from xdsl.utils.target import Target

from mugraph.dialects import te
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.named_extents import NamedExtent, named_extents
from mugraph.dialects.te.indices import compared, index_text
from mugraph.dialects.te.numbers import comparison_symbol
from mugraph.dialects.te.sizes import ends_of, size_arguments
from mugraph.texpr.notation import (
    ATOM,
    COMBINATIONS,
    COMPARISON,
    FUNCTIONS,
    INFIX,
    SUM,
    TYPE_NAMES,
    UNARY,
    Expression,
    TexprPrintError,
    constant_expression,
    is_scalar_use,
    is_used_once,
    stores,
    update_of,
    widens,
)
from mugraph.texpr.parser import KEYWORDS


def texpr_text(module: ModuleOp) -> str:
    """The `.te` text of a module of ``te`` functions.

    Raises ``TexprPrintError`` for what the language has no words for: other operators, layouts.
    """
    functions: list[str] = []
    sizes: dict[str, NamedExtent] = {}
    for op in module.ops:
        if not isinstance(op, FuncOp):
            raise TexprPrintError(f"there is no .te text for '{op.name}'.")
        for name, size in named_extents(op).items():
            if sizes.setdefault(name, size) != size:
                raise TexprPrintError(f"{name} is of two kinds; a .te file has one size of a name.")
        functions.append(_FunctionPrinter(op).text())
    return "\n".join([*map(_size_text, sizes.values()), *functions])


def _size_text(size: NamedExtent) -> str:
    multiple = "" if size.multiple == 1 else f" #multiple({size.multiple})"
    return f"size {size.name} <= {size.largest}{multiple}"


@dataclass(frozen=True)
class TexprTarget(Target):
    """Prints functions of the ``te`` dialect as `.te` text: ``mg-opt gemm.te -t te``."""

    name = "te"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Writes the text."""
        output.write(texpr_text(module))


class _FunctionPrinter:
    def __init__(self, function: FuncOp) -> None:
        self._function = function
        self._lines: list[str] = []
        self._depth = 0
        self._names: dict[SSAValue, str] = {}
        self._scalars: set[SSAValue] = set()
        self._pending: dict[SSAValue, Expression] = {}
        self._skipped: set[Operation] = set()
        self._updates: dict[te.BindOp, str] = {}
        self._updating: set[Operation] = set()
        self._sizes = set(size_arguments(function).values())
        for op in function.walk():
            if isinstance(op, te.BindOp) and (update := update_of(op)) is not None:
                self._updates[op], operator = update
                self._updating.add(operator)

    def text(self) -> str:
        """The function."""
        function = self._function
        parameters: list[str] = []
        result = ""
        for name, argument in size_arguments(function).items():
            self._names[argument] = name
        for position, argument in enumerate(function.body.block.args):
            name = self._names.get(argument) or self._name(argument)
            type_ = argument.type
            if argument in self._sizes:
                continue
            if not isinstance(type_, te.BufferType):
                raise TexprPrintError(
                    f"@{function.sym_name.data} takes {type_}; functions of .te text take buffers."
                )
            text = f"{name}: {self._type(argument, type_)}"
            if te.is_result(function, position):
                result = f": {text.removeprefix('result: ')}"
            else:
                in_register = type_.memory_space is te.Space.REGISTER
                parameters.append(f"reg {text}" if in_register else text)
        self._line(f"fn {function.sym_name.data}({', '.join(parameters)}){result} {{")
        self._block(function.body.block)
        self._line("}")
        return "\n".join(self._lines) + "\n"

    # Lines, names and types.

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def _name(self, value: SSAValue) -> str:
        """A new name for a value, which no name in scope has."""
        hint = value.name_hint or "v"
        if not hint.isidentifier() or hint in KEYWORDS or hint in te.ELEMENT_TYPES:
            hint = f"v_{hint}" if f"v_{hint}".isidentifier() else "v"
        taken = set(self._names.values())
        name = next(
            name
            for name in (hint, *(f"{hint}_{number}" for number in range(1, len(taken) + 2)))
            if name not in taken
        )
        self._names[value] = name
        return name

    def _type(self, value: SSAValue, type_: te.BufferType) -> str:
        if isinstance(type_.layout, LayoutAttr):
            raise TexprPrintError(f"there is no .te text for the layout of {type_}.")
        element = TYPE_NAMES[type_.element_type]
        if type_.get_shape() == (1,) and all(is_scalar_use(use.operation) for use in value.uses):
            self._scalars.add(value)
            return element
        extents = [str(extent) for extent in type_.get_shape()]
        for dim, size in ends_of(value).items():
            extents[dim] = self._names[size]
        return f"{element}[{', '.join(extents)}]"

    def _block(self, block: Block) -> None:
        names = dict(self._names)
        self._depth += 1
        for op in block.ops:
            if op not in self._skipped:
                self._print(op)
        self._flush()
        self._depth -= 1
        self._names = names

    def _loop(self, word: str, op: te.LoopOp, pragmas: str = "") -> None:
        self._flush()
        names = dict(self._names)
        self._line(f"{word} {op.iterations} |{self._name(op.variable)}|{pragmas} {{")
        self._block(op.body.block)
        self._line("}")
        self._names = names

    # Values.

    def _flush(self, used: Sequence[SSAValue] = (), *, reads_only: bool = False) -> None:
        """Names the values that are not used by the statement that comes now."""
        for value in list(self._pending):
            expression = self._pending[value]
            if value not in used and (expression.reads or not reads_only):
                del self._pending[value]
                self._let(value, expression)

    def _let(self, value: SSAValue, expression: Expression) -> None:
        self._line(f"let {self._name(value)} = {expression.text}")

    def _define(self, value: SSAValue, text: str, level: int, *, reads: bool) -> None:
        """Keeps the text of a value for its use, or names it where it is used more than once."""
        expression = Expression(text, level, reads)
        uses = list(value.uses)
        owner = value.owner
        same_block = len(uses) == 1 and uses[0].operation.parent is (
            owner.parent if isinstance(owner, Operation) else owner
        )
        if same_block:
            self._pending[value] = expression
        else:
            self._flush(reads_only=True)
            self._let(value, expression)

    def _expression(self, value: SSAValue) -> Expression:
        pending = self._pending.pop(value, None)
        if pending is not None:
            return pending
        owner = value.owner
        if isinstance(owner, arith.ConstantOp):
            return constant_expression(cast(FloatAttr[Any] | IntegerAttr, owner.value))
        return Expression(self._names[value], ATOM, False)

    def _converted(self, value: SSAValue, type_: Attribute) -> Expression:
        """A value as a place of a type takes it."""
        expression = self._expression(value)
        owner = value.owner
        if isinstance(owner, arith.ConstantOp) and value.type not in (type_, f32, i32):
            return Expression(f"{TYPE_NAMES[value.type]}({expression.text})", ATOM, False)
        return expression

    def _index(self, expression: AffineExpr, operands: Sequence[SSAValue]) -> str:
        return index_text(expression, [self._names[value] for value in operands], ("/", "%"))

    def _place(self, op: te.AccessOp) -> str:
        name = self._names[op.buffer]
        if op.buffer in self._scalars:
            return name
        indices = [self._index(one, op.indices) for one in op.index_map.results]
        word = "distinct " if te.DISTINCT in op.attributes else ""
        return f"{name}[{word}{', '.join(indices)}]"

    def _buffer(self, value: SSAValue) -> str:
        """A buffer, or a section of one."""
        if isinstance(section := value.owner, te.SectionOp):
            starts = [self._index(one, section.indices) for one in section.index_map.results]
            extents = section.result.type.get_shape()
            parts = [f"{start} : {n}" for start, n in zip(starts, extents, strict=True)]
            return f"{self._names[section.buffer]}[{', '.join(parts)}]"
        return self._names[value]

    # Operators.

    @singledispatchmethod
    def _print(self, op: Operation) -> None:
        symbol = INFIX.get(type(op))
        if symbol is not None:
            self._infix(op, *symbol)
            return
        name = FUNCTIONS.get(type(op))
        if name is None or len(op.results) != 1:
            raise TexprPrintError(f"there is no .te text for '{op.name}'.")
        if self._print_update(op):
            return
        operands = [self._operand(value, op) for value in op.operands]
        texts = [one.text for one in operands]
        if isinstance(op, arith.SelectOp) and op.result.type == i32:
            constant = isinstance(op.lhs.owner, arith.ConstantOp)
            if constant and isinstance(op.rhs.owner, arith.ConstantOp):
                texts[1] = f"i32({texts[1]})"  # two constants alone are of f32
        arguments = ", ".join(texts)
        reads = any(one.reads for one in operands)
        self._define(op.results[0], f"{name}({arguments})", ATOM, reads=reads)

    def _operand(self, value: SSAValue, user: Operation) -> Expression:
        """An operand of an arithmetic operator; a number takes the type of what it meets."""
        met = {one.type for one in user.operands if not isinstance(one.owner, arith.ConstantOp)}
        return self._converted(value, f64 if f64 in met else f32)

    def _infix(self, op: Operation, symbol: str, level: int) -> None:
        if self._print_update(op):
            return
        left, right = (self._operand(value, op) for value in op.operands)
        text = f"{left.at(level)} {symbol} {right.at(level + 1)}"
        self._define(op.results[0], text, level, reads=left.reads or right.reads)

    def _print_update(self, op: Operation) -> bool:
        """Leaves the old element to the statement, where ``op`` is what a ``+=`` computes."""
        if op not in self._updating:
            return False
        self._expression(op.operands[0])
        value = self._operand(op.operands[1], op)
        self._define(op.results[0], value.text, value.level, reads=value.reads)
        return True

    @_print.register
    def _(self, op: ReturnOp) -> None:
        self._flush()

    @_print.register
    def _(self, op: arith.ConstantOp) -> None:
        pass  # written where it is used

    @_print.register
    def _(self, op: te.SectionOp) -> None:
        if any(isinstance(use.operation, (te.AccessOp, te.SectionOp)) for use in op.result.uses):
            raise TexprPrintError(
                "there is no .te text for accesses to a 'te.section' outside the function that it "
                "is given to; run --te-inline."
            )

    @_print.register
    def _(self, op: arith.NegfOp) -> None:
        operand = self._operand(op.operand, op)
        self._define(op.result, f"-{operand.at(ATOM)}", UNARY, reads=operand.reads)

    @_print.register(arith.CmpfOp)
    @_print.register(arith.CmpiOp)
    def _(self, op: arith.CmpfOp | arith.CmpiOp) -> None:
        symbol = comparison_symbol(op)
        if symbol is None:
            raise TexprPrintError(f"there is no .te text for the predicate of '{op.name}'.")
        left, right = self._operand(op.lhs, op), self._operand(op.rhs, op)
        text = f"{left.at(SUM)} {symbol} {right.at(SUM)}"
        self._define(op.result, text, COMPARISON, reads=left.reads or right.reads)

    @_print.register(arith.ExtFOp)
    @_print.register(arith.TruncFOp)
    @_print.register(arith.SIToFPOp)
    @_print.register(arith.ExtSIOp)
    @_print.register(arith.ExtUIOp)
    @_print.register(arith.TruncIOp)
    @_print.register(arith.FPToSIOp)
    def _(self, op: Any) -> None:
        result = cast(SSAValue, op.results[0])
        source = cast(SSAValue, op.operands[0])
        operand = self._converted(source, source.type)
        implied = (
            isinstance(op, (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp))
            and is_used_once(op)
            and all(widens(use.operation, result) for use in result.uses)
        ) or (
            isinstance(op, arith.TruncFOp)
            and is_used_once(op)
            and all(stores(use.operation, result) for use in result.uses)
        )
        if implied:
            self._define(result, operand.text, operand.level, reads=operand.reads)
        else:
            text = f"{TYPE_NAMES[result.type]}({operand.text})"
            self._define(result, text, ATOM, reads=operand.reads)

    @_print.register
    def _(self, op: te.IndexOfOp) -> None:
        self._names[op.result] = self._operand(op.value, op).text

    @_print.register
    def _(self, op: te.IndexValueOp) -> None:
        text = self._index(op.expression, op.indices)
        if isinstance(op.expression, AffineConstantExpr):
            text = f"i32({text})"
        self._define(op.result, text, SUM, reads=False)

    @_print.register
    def _(self, op: te.ViewOp) -> None:
        self._define(op.result, self._place(op), ATOM, reads=True)

    # Statements.

    @_print.register
    def _(self, op: te.BindOp) -> None:
        self._flush([op.value])
        value = self._converted(op.value, op.buffer_type.element_type)
        self._line(f"{self._place(op)} {self._updates.get(op, '=')} {value.text}")

    @_print.register
    def _(self, op: te.RedOp) -> None:
        self._flush([op.value])
        value = self._converted(op.value, op.buffer_type.element_type)
        self._line(f"red {self._place(op)} {COMBINATIONS[op.combines]} {value.text}")

    @_print.register
    def _(self, op: te.AtomicOp) -> None:
        self._flush([op.value])
        value = self._converted(op.value, op.buffer_type.element_type)
        update = f"atomic {self._place(op)} {COMBINATIONS[op.combines]} {value.text}"
        used = op.result.first_use is not None
        self._line(f"let {self._name(op.result)} = {update}" if used else update)

    @_print.register
    def _(self, op: te.AnchorOp) -> None:
        self._flush([op.value])
        value = self._converted(op.value, op.value.type)
        self._line(f"anchor {value.text}")

    @_print.register
    def _(self, op: te.NewOp) -> None:
        space = op.result.type.memory_space
        value = ""
        first = op.next_op
        name = self._name(op.result)
        type_ = self._type(op.result, op.result.type)
        if (
            op.result in self._scalars
            and isinstance(first, te.BindOp)
            and first.buffer is op.result
            and first.value.owner is not op
        ):
            self._flush([first.value])
            stored = self._converted(first.value, op.result.type.element_type)
            value = f" = {stored.text}"
            self._skipped.add(first)
        elif listed := _first_elements(op):
            self._flush([bind.value for bind in listed])
            element = op.result.type.element_type
            texts = [self._converted(bind.value, element).text for bind in listed]
            value = f" = [{', '.join(texts)}]"
            self._skipped.update(listed)
        elif self._pending:
            self._flush()
        pragma = "" if space in (None, te.Space.REGISTER) else f" #{space}"
        word = "reg" if space is te.Space.REGISTER else "new"
        self._line(f"{word} {name}: {type_}{value}{pragma}")

    @_print.register
    def _(self, op: te.ParOp) -> None:
        pragmas = ""
        if op.alignment is not None:
            pragmas += f" #align({op.thread_alignment})"
        if op.scope is not None:
            pragmas += f" #{op.scope}"
        self._loop("fully par" if op.is_at_once else "par", op, pragmas)

    @_print.register
    def _(self, op: te.SeqOp) -> None:
        pragma = "" if op.ahead is None else f" #prefetch({op.ahead})"
        self._loop("seq", op, pragma)

    @_print.register
    def _(self, op: te.IfOp) -> None:
        self._flush()
        tests = [self._test(expression, equal, op.indices) for expression, equal in op.conditions()]
        self._line(f"if {' and '.join(tests)} {{")
        self._block(op.body.block)
        self._line("}")

    @_print.register
    def _(self, op: te.WhenOp) -> None:
        self._flush([op.condition])
        self._line(f"if {self._operand(op.condition, op).at(COMPARISON)} {{")
        self._block(op.body.block)
        self._line("}")

    def _test(self, expression: AffineExpr, equal: bool, operands: Sequence[SSAValue]) -> str:
        """A condition, with a constant on its right."""
        left, operator, bound = compared(expression, equal=equal)
        return f"{self._index(left, operands)} {operator} {bound}"

    @_print.register
    def _(self, op: te.CallOp) -> None:
        self._flush()
        callee = op.function()
        arguments = [self._buffer(argument) for argument in op.arguments]
        name = callee.sym_name.data
        if te.is_result(callee, len(arguments) - 1):
            self._line(f"{arguments[-1]} = {name}({', '.join(arguments[:-1])})")
        else:
            self._line(f"{name}({', '.join(arguments)})")

    @_print.register
    def _(self, op: te.AsmOp) -> None:
        if op.meaning is not None:
            raise TexprPrintError("there is no .te text for what an 'asm' means.")
        self._flush(op.operands)
        parts = [f'"{op.text.data}"']
        for direction, argument in zip(op.operand_directions, op.arguments, strict=True):
            word = "" if direction is te.Direction.IN else f"{direction} "
            if isinstance(argument.type, te.BufferType):
                parts.append(word + self._buffer(argument))
            else:
                parts.append(word + self._converted(argument, argument.type).text)
        self._line(f"asm({', '.join(parts)})")


def _first_elements(op: te.NewOp) -> list[te.BindOp]:
    """The statements behind it that write all its elements in order, or none."""
    found: list[te.BindOp] = []
    bind = op.next_op
    for position in range(op.result.type.elements):
        constant = (AffineExpr.constant(position),)
        if not isinstance(bind, te.BindOp) or bind.buffer is not op.result:
            return []
        if bind.map.data.results != constant or bind.value.owner is op:
            return []
        found.append(bind)
        bind = bind.next_op
    return found
