"""Statements of one function, as operators of the ``te`` dialect."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import takewhile

from xdsl.dialects.builtin import AffineMapAttr, IndexType, UnitAttr, f32, i1, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.numbers import COMPARISONS
from mugraph.passes.texpr.analysis.numbers import is_number
from mugraph.texpr import scalars, syntax
from mugraph.texpr.expressions import FUNCTIONS, is_builtin, location_of
from mugraph.texpr.instructions import InstructionBuilder, buffers_in_shared_memory
from mugraph.texpr.run_time_sizes import RunTimeSizes, move_inwards
from mugraph.texpr.scope import (
    Binding,
    Bindings,
    BufferBinding,
    IndexBinding,
    MbarriersBinding,
    ValueBinding,
    constant_of,
    fail,
    index_of,
    lookup,
)
from mugraph.texpr.scope import is_number as depends_on_numbers

Specialise = Callable[[syntax.Apply, Sequence[te.BufferType]], tuple[str, te.BufferType | None]]
"""The symbol of a function for arguments of these types, and the type of its declared result."""

COMBINATIONS = {"+=": te.Combination.ADD, "max=": te.Combination.MAX, "min=": te.Combination.MIN}
"""Reductions and atomic operations, as they are written."""


class BodyBuilder(InstructionBuilder):
    """Adds the statements of one function to a block."""

    def __init__(self, block: Block, bindings: dict[str, Binding], specialise: Specialise) -> None:
        super().__init__(block, bindings)
        self._outer: Bindings = {}
        self._specialise = specialise
        self._named_indices: list[SSAValue] = []
        self._sizes = RunTimeSizes(self._bindings)
        self._in_shared_memory: set[str] = set()

    @contextmanager
    def _inside(self, block: Block) -> Generator[None]:
        """Statements go to another block, and names defined there end with it.

        They may hide names of the blocks around.
        """
        block_around, around, hidden = self._block, dict(self._bindings), self._outer
        self._block, self._outer = block, around
        yield
        self._block, self._bindings, self._outer = block_around, around, hidden

    # Statements.

    def statements(self, statements: Sequence[syntax.Statement]) -> None:
        """Adds the statements of a block in order."""
        around = self._in_shared_memory
        self._in_shared_memory = buffers_in_shared_memory(statements)
        for statement in statements:
            self._span = statement.span
            self._statement(statement)
        self._in_shared_memory = around

    def finish(self) -> None:
        """Ends the function: an index that is used in indices alone is no number."""
        unused = self._named_indices
        while unused:
            op = unused.pop().owner
            if not isinstance(op, Operation) or op.parent is None or not is_number(op):
                continue
            if not any(one.first_use for one in op.results):
                unused += op.operands
                Rewriter.erase_op(op)

    def _statement(self, statement: syntax.Statement) -> None:
        match statement:
            case syntax.Loop():
                self._loop(statement)
            case syntax.If():
                self._if(statement)
            case syntax.New():
                self._new(statement)
            case syntax.Let(name=name, value=value):
                if isinstance(value, syntax.Update):
                    stored = self._update(value)
                    binding = ValueBinding(0 if stored is None else stored)
                else:
                    binding = self._named_value(value)
                if isinstance(binding.value, SSAValue):
                    binding.value.name_hint = name
                    if binding.index is not None:
                        self._named_indices.append(binding.value)
                self._bindings[name] = binding
            case syntax.Assign():
                self._assign(statement)
            case syntax.Update():
                self._update(statement)
            case syntax.Anchor(value=value):
                anchored = scalars.typed(self._value(value), self._add)
                self._append(te.AnchorOp(anchored), statement)
            case syntax.NewMbarriers():
                self._mbarriers(statement)
            case syntax.Call(call=call) if "." in call.function:
                self.instruction(call)
            case syntax.Call(call=call):
                self._call(call, None)
            case syntax.Asm():
                self._asm(statement)

    def _loop(self, loop: syntax.Loop) -> None:
        of_call = self._sizes.extent_of(loop, self._bindings)
        if of_call is None:
            extent = constant_of(loop.extent, self._bindings, "the extent of a loop")
        else:
            extent = of_call.largest
        if extent < 1:
            fail(loop.extent, f"the extent of a loop is at least 1, not {extent}")
        block = Block(arg_types=[IndexType()])
        variable = block.args[0]
        variable.name_hint = loop.variable
        if loop.parallel:
            alignment = None
            if loop.alignment is not None:
                alignment = constant_of(loop.alignment, self._bindings, "an alignment")
            level = None if loop.level is None else te.Level(loop.level)
            operation = te.ParOp(extent, block, fully=loop.fully, alignment=alignment, level=level)
        else:
            ahead = None
            if loop.prefetch is not None:
                ahead = constant_of(loop.prefetch, self._bindings, "a number of iterations ahead")
                if ahead < 1:
                    fail(loop.prefetch, f"#prefetch is of 1 or more iterations, not {ahead}")
            operation = te.SeqOp(extent, block, ahead)
        self._append(operation, loop)
        with self._inside(block):
            self._bindings[loop.variable] = IndexBinding(variable)
            if of_call is None:
                self.statements(loop.body)
                return
            # The largest loop, with nothing behind the end that a call says.
            condition = of_call.condition(variable, Block())
            self._append(condition, loop)
            with self._inside(condition.body.block):
                self.statements(loop.body)
            move_inwards(condition)

    def _if(self, statement: syntax.If) -> None:
        self._under(list(statement.conditions), statement)

    def _under(self, conditions: list[syntax.Expression], statement: syntax.If) -> None:
        """The body under conditions that are asked in order: those on indices in a row are one."""
        if not conditions:
            self.statements(statement.body)
            return
        if self._is_of_numbers(conditions[0]):
            holds = self._value(conditions.pop(0))
            assert isinstance(holds, SSAValue)
            block = Block()
            operation: Operation = te.WhenOp(holds, block)
        else:
            count = sum(1 for _ in takewhile(lambda one: not self._is_of_numbers(one), conditions))
            block = Block()
            operation = self._index_condition(conditions[:count], block)
            del conditions[:count]
        operation.location = location_of(statement.span)
        self._block.add_op(operation)
        with self._inside(block):
            self._under(conditions, statement)
        self._check(operation, statement)

    def _is_of_numbers(self, condition: syntax.Expression) -> bool:
        """Whether a condition compares numbers rather than indices, or is a truth."""
        if isinstance(condition, (syntax.Name, syntax.Element)):
            named = condition.name if isinstance(condition, syntax.Name) else condition.buffer
            match self._bindings.get(named):
                case ValueBinding(value=SSAValue() as value):
                    type_ = value.type
                case BufferBinding(type=buffer):
                    type_ = buffer.element_type
                case _:
                    type_ = None
            if type_ == i1:
                return True
        if not (isinstance(condition, syntax.Binary) and condition.operator in COMPARISONS):
            fail(condition, "a condition compares two indices or numbers: i < N")
        sides = condition.left, condition.right
        return any(depends_on_numbers(one, self._bindings) for one in sides)

    def _index_condition(self, conditions: Sequence[syntax.Expression], block: Block) -> te.IfOp:
        variables: list[SSAValue] = []
        expressions: list[AffineExpr] = []
        equalities: list[bool] = []
        for condition in conditions:
            assert isinstance(condition, syntax.Binary)
            if condition.operator == "!=":
                fail(condition, "'!=' is no condition of an 'if'; write one for '<', one for '>'")
            left = index_of(condition.left, self._bindings, variables)
            right = index_of(condition.right, self._bindings, variables)
            difference = left + right * -1
            match condition.operator:
                case "<":
                    expressions.append(difference * -1 + -1)
                case "<=":
                    expressions.append(difference * -1)
                case ">":
                    expressions.append(difference + -1)
                case _:
                    expressions.append(difference)
            equalities.append(condition.operator == "==")
        map_ = AffineMapAttr(AffineMap(len(variables), 0, tuple(expressions)))
        return te.IfOp(variables, map_, equalities, block)

    def buffer_type(self, type_: syntax.Type, space: te.Space | None) -> te.BufferType:
        """The type of a buffer as it is declared."""
        extents = [
            self._sizes.largest_extent(extent, self._bindings) for extent in type_.extents or ()
        ]
        for extent, expression in zip(extents, type_.extents or (), strict=True):
            if extent < 1:
                fail(expression, f"an extent is at least 1, not {extent}")
        return te.BufferType.of(extents or (1,), te.ELEMENT_TYPES[type_.element], None, space)

    def _new(self, new: syntax.New) -> None:
        space = None if new.space is None else te.Space(new.space)
        if space is None and new.name in self._in_shared_memory:
            space = te.Space.SHARED
        value: scalars.Scalar | None = None
        if isinstance(new.value, tuple):
            self._new_of_list(new, new.value, space)
            return
        if isinstance(new.value, syntax.Apply) and self._is_function_call(new.value):
            type_ = None if new.type is None else self.buffer_type(new.type, space)
            self._new_of_call(new, new.value, type_, space)
            return
        if new.value is not None:
            value = self._value(new.value)
        if new.type is None:
            type_ = te.BufferType.of((1,), scalars.computed_type(value), None, space)
        else:
            type_ = self.buffer_type(new.type, space)
        scalar = new.type is None or new.type.extents is None
        if value is None:
            self._declare(new, type_, scalar)
            return
        if not scalar:
            fail(new, "a buffer of several elements has no single first value")
        stored = self._converted(value, type_.element_type, new)
        buffer = self._declare(new, type_, scalar)
        map_ = AffineMapAttr(AffineMap.constant_map(0))
        self._append(te.BindOp(stored, buffer, [], map_), new)

    def _declare(self, new: syntax.New, type_: te.BufferType, scalar: bool) -> SSAValue:
        if self._bindings.get(new.name) is not self._outer.get(new.name):
            fail(new, f"'{new.name}' is defined already")
        operation = te.NewOp(type_)
        self._append(operation, new)
        operation.result.name_hint = new.name
        self._bindings[new.name] = BufferBinding(operation.result, type_, scalar)
        return operation.result

    def _mbarriers(self, new: syntax.NewMbarriers) -> None:
        count = constant_of(new.count, self._bindings, "a number of mbarriers")
        if count < 1:
            fail(new.count, f"there is at least 1 mbarrier, not {count}")
        arrivals = constant_of(new.arrivals, self._bindings, "a number of arrivals")
        operation = te.NewMbarriersOp(count, arrivals)
        self._append(operation, new)
        operation.result.name_hint = new.name
        self._bindings[new.name] = MbarriersBinding(operation.result)

    def _new_of_list(
        self, new: syntax.New, elements: tuple[syntax.Expression, ...], space: te.Space | None
    ) -> None:
        """A buffer with its first elements in row-major order, all evaluated before it exists."""
        if not elements:
            fail(new, "a list has at least one element")
        values = [self._value(element) for element in elements]
        if new.type is None:
            types = {value.type for value in values if isinstance(value, SSAValue)}
            integers = all(scalars.type_name(value) in ("i32", "integer") for value in values)
            element_type = i32 if integers else types.pop() if len(types) == 1 else f32
            type_ = te.BufferType.of((len(values),), element_type, None, space)
        else:
            type_ = self.buffer_type(new.type, space)
        if type_.elements != len(values):
            fail(new, f"'{new.name}' has {type_.elements} elements, its list {len(values)}")
        stored = [
            self._converted(value, type_.element_type, element)
            for value, element in zip(values, elements, strict=True)
        ]
        buffer = self._declare(new, type_, False)
        for position, value in enumerate(stored):
            place = AffineMapAttr(AffineMap.constant_map(position))
            self._append(te.BindOp(value, buffer, [], place), elements[position])

    def _new_of_call(
        self,
        new: syntax.New,
        call: syntax.Apply,
        type_: te.BufferType | None,
        space: te.Space | None,
    ) -> None:
        arguments, symbol, result = self._resolve(call)
        if result is None:
            fail(call, f"{call.function} has no result")
        if type_ is None:
            type_ = te.BufferType.of(result.get_shape(), result.element_type, None, space)
        buffer = self._declare(new, type_, False)
        self._append(te.CallOp(symbol, [*arguments, buffer]), new)

    def _assign(self, assign: syntax.Assign) -> None:
        value = assign.value
        if isinstance(value, syntax.Apply) and self._is_function_call(value):
            if assign.operator != "=":
                fail(assign, f"the result of a call is stored with '=', not '{assign.operator}'")
            self._call(value, assign.target)
            return
        if isinstance(assign.target, syntax.Section):
            fail(assign.target, "only the result of a call is stored in a section")
        buffer, variables, map_ = self._place(assign.target)
        element = buffer.type.element_type
        number = self._value(value)
        if assign.operator != "=":
            old = te.ViewOp(buffer.value, variables, map_)
            self._append(old, assign)
            number = scalars.binary(
                assign.operator.removesuffix("="),
                old.result,
                number,
                self._add,
                self._failing(assign),
            )
        stored = self._converted(number, element, assign)
        operation = te.BindOp(stored, buffer.value, variables, map_)
        if isinstance(assign.target, syntax.Element) and assign.target.distinct:
            if assign.operator != "=":
                fail(assign, "an element that is 'distinct' is only written, by '='")
            operation.attributes[te.DISTINCT] = UnitAttr()
        self._append(operation, assign)

    def _update(self, update: syntax.Update) -> SSAValue | None:
        buffer, variables, map_ = self._place(update.target)
        value = self._converted(self._value(update.value), buffer.type.element_type, update)
        combination = COMBINATIONS[update.operator]
        if update.atomic:
            atomic = te.AtomicOp(combination, value, buffer.value, variables, map_)
            self._append(atomic, update)
            return atomic.result
        self._append(te.RedOp(combination, value, buffer.value, variables, map_), update)
        return None

    def _asm(self, asm: syntax.Asm) -> None:
        arguments: list[SSAValue] = []
        for direction, operand in asm.operands:
            binding = self._bindings.get(operand.name) if isinstance(operand, syntax.Name) else None
            if isinstance(binding, BufferBinding):
                arguments.append(binding.value)
            elif isinstance(operand, syntax.Section):
                arguments.append(self._section(operand))
            elif isinstance(operand, (syntax.Name, syntax.Element)) and self.is_mbarrier(operand):
                address = te.MbarrierAddressOp(*self.mbarrier(operand))
                self._append(address, operand)
                arguments.append(address.result)
            elif direction != te.Direction.IN:
                fail(operand, "only a 'reg' or a section can be written by an instruction")
            else:
                arguments.append(scalars.typed(self._value(operand), self._add))
        directions = [te.Direction(direction) for direction, _ in asm.operands]
        meaning = None if asm.meaning is None else Block()
        operation = te.AsmOp(asm.text, directions, arguments, meaning)
        self._append(operation, asm)
        if meaning is not None and asm.meaning is not None:
            with self._inside(meaning):
                self.statements(asm.meaning)

    # Calls.

    def _is_function_call(self, call: syntax.Apply) -> bool:
        return not is_builtin(call.function)

    def _resolve(self, call: syntax.Apply) -> tuple[list[SSAValue], str, te.BufferType | None]:
        arguments = [self._buffer_argument(one, call.function) for one in call.arguments]
        types = [argument.type for argument in arguments]
        symbol, result = self._specialise(
            call, [type_ for type_ in types if isinstance(type_, te.BufferType)]
        )
        return arguments, symbol, result

    def _buffer_argument(self, argument: syntax.Expression, function: str) -> SSAValue:
        match argument:
            case syntax.Name(name=name):
                binding = lookup(argument, name, self._bindings)
                if not isinstance(binding, BufferBinding):
                    fail(argument, f"a function takes buffers, and '{name}' is none")
                if binding.extents:
                    fail(
                        argument,
                        f"a call says how long '{name}' is, and a function takes as many elements "
                        f"as its text says: give it a section, {name}[i * 16 : 16]",
                    )
                return binding.value
            case syntax.Section():
                return self._section(argument)
            case _:
                fail(
                    argument,
                    f"{function} is no function of numbers ({FUNCTIONS}), and a 'fn' takes "
                    "buffers and sections of them: A or A[i : 16]",
                )

    def _call(
        self, call: syntax.Apply, target: syntax.Name | syntax.Element | syntax.Section | None
    ) -> None:
        arguments, symbol, result = self._resolve(call)
        if target is not None:
            if result is None:
                fail(call, f"{call.function} has no result")
            if isinstance(target, syntax.Element):
                fail(target, f"the result of {call.function} is a buffer, not one element")
            arguments.append(self._buffer_argument(target, call.function))
        elif result is not None:
            fail(call, f"the result of {call.function} is not stored: write c = {call.function}()")
        self._append(te.CallOp(symbol, arguments), call)
