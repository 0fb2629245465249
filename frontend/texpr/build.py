"""From `.te` text to a module of the ``te`` dialect: sizes, functions and what they call."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f32,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Region
from xdsl.utils.lexer import Span

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import (
    EXTENT,
    NamedExtent,
    set_named_extents,
)
from mugraph.errors import UserError
from mugraph.passes.texpr.analysis.bounds import largest_indices
from mugraph.texpr import syntax
from mugraph.texpr.body import BodyBuilder
from mugraph.texpr.expressions import UNKNOWN_EXTENT, location_of
from mugraph.texpr.parser import parse_text
from mugraph.texpr.run_time_sizes import names_of_extents
from mugraph.texpr.scope import (
    Binding,
    BufferBinding,
    CallSizeBinding,
    IndexBinding,
    SizeBinding,
    constant_of,
    fail,
    size_given,
)


def build_module(text: str, name: str, sizes: Mapping[str, int]) -> ModuleOp:
    """The module that a `.te` text describes; it is not checked for races yet.

    ``name`` is the file's: statements outside functions become a function called after it.
    ``sizes`` are values of named sizes, which come before those in the text; open sizes without a
    value have their first one.  Raises ``ParseError`` at the place of an error, and ``UserError``
    for a size that the text does not have.
    """
    file = parse_text(text, name)
    module = _ModuleBuilder(file, name, sizes).build()
    if not (file.functions or file.body):
        raise UserError(f"{name} has no function and no statement.")
    module.verify()
    return module


def build_operator(
    text: str,
    name: str,
    function: str,
    types: Sequence[te.BufferType],
    sizes: Mapping[str, int],
) -> tuple[str, ModuleOp]:
    """A function of a `.te` text for parameters of these types, as ``tb.custom`` calls it.

    Sizes in the extents of its parameters are those of the types.  Returns the name of that copy
    of the function and a module of it and those that it calls, all private.  Raises as
    :func:`build_module` does, and ``UserError`` where the text has no such function.
    """
    builder = _ModuleBuilder(parse_text(text, name), name, sizes)
    symbol, module = builder.build_operator(function, types)
    module.verify()
    return symbol, module


def sizes_of(file: syntax.File, text_name: str, given: Mapping[str, int]) -> dict[str, Binding]:
    """What the sizes of a file stand for, where some are given; raises as :func:`build_module`."""
    used = {node.name for node in syntax.nodes_of(file) if isinstance(node, syntax.Name)}
    declared = {size.name for size in file.sizes}
    for name in given:
        if name not in used | declared:
            raise UserError(f"{text_name} has no size {name}; leave it out.")
    sizes: dict[str, Binding] = {name: SizeBinding(value) for name, value in given.items()}
    for size in file.sizes:
        if size.name in given:
            continue
        if size.name in sizes:
            fail(size, f"the size '{size.name}' is defined already")
        if size.value is None:
            fail(size, f"the size {size.name} has no value; give it: {size_given(size.name)}")
        value = constant_of(size.value, sizes, "a size")
        sizes[size.name] = SizeBinding(value)
        if size.is_of_call:
            sizes[size.name] = CallSizeBinding(_extent_of_call(size, value, sizes))
    return sizes


class _ModuleBuilder:
    def __init__(self, file: syntax.File, name: str, sizes: Mapping[str, int]) -> None:
        self._file = file
        self._name = name
        self._functions: dict[str, syntax.Function] = {}
        self._built: dict[str, FuncOp | None] = {}
        self._called: set[str] = set()
        self._results: list[tuple[syntax.Parameter, BlockArgument]] = []
        self._globals = sizes_of(file, name, sizes)

    def _name_functions(self) -> None:
        for function in self._file.functions:
            if function.name in self._functions:
                fail(function, f"the function {function.name} is defined already")
            if function.name in te.ELEMENT_TYPES:
                fail(function, f"{function.name} is the name of a type")
            self._functions[function.name] = function

    def build_operator(self, name: str, types: Sequence[te.BufferType]) -> tuple[str, ModuleOp]:
        """A function for parameters of these types, and those that it calls."""
        self._name_functions()
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(self._functions) or "none"
            raise UserError(f"{self._name} has no function {name}; it has {known}.")
        if len(types) != len(function.parameters):
            fail(
                function,
                f"{name} takes {len(function.parameters)} buffers, but 'tb.custom' @{name} gives "
                f"{len(types)}",
            )
        symbol, _ = self._specialised(function, function, types)
        operations = [operation for operation in self._built.values() if operation is not None]
        return symbol, self._finished(operations)

    def build(self) -> ModuleOp:
        self._name_functions()
        for function in self._file.functions:
            if not self._free_sizes(function):
                self._function(function, function.name, self._globals)
        if self._file.body:
            self._free_statements()
        for function in self._file.functions:
            free = self._free_sizes(function)
            if free and function.name not in self._called:
                fail(
                    function,
                    f"the size {free[0]} of {function.name} has no value; give it with "
                    f"{size_given(free[0])}, or write 'size {free[0]} = 64'",
                )
        operations = [operation for operation in self._built.values() if operation is not None]
        # A function that is called comes before those that call it; the entry stays in front.
        operations.sort(key=lambda operation: operation.sym_visibility is not None)
        return self._finished(operations)

    def _finished(self, operations: Sequence[FuncOp]) -> ModuleOp:
        module = ModuleOp(list(operations))
        for result, buffer in self._results:
            if not te.is_written(buffer):
                fail(
                    result,
                    f"nothing writes to the result; write '{result.name}[...] = ...' in the "
                    "function, or leave its result out",
                )
        return module

    # Functions.

    def _free_sizes(self, function: syntax.Function) -> list[str]:
        """The names in the extents of the parameters that are no sizes of the file."""
        names: list[str] = []
        for parameter in function.parameters:
            for extent in parameter.type.extents or ():
                for node in syntax.nodes_of(extent):
                    if isinstance(node, syntax.Name) and node.name not in (*self._globals, *names):
                        names.append(node.name)
        return names

    def _function(
        self, function: syntax.Function, symbol: str, bindings: Mapping[str, Binding]
    ) -> FuncOp:
        known = self._built.get(symbol)
        if known is not None:
            return known
        if symbol in self._built:
            fail(function, f"{function.name} calls itself, which no kernel can")
        self._built[symbol] = None
        block = Block()
        scope = dict(bindings)
        extents = self._sizes_of_call(function, scope, block)
        builder = BodyBuilder(block, scope, self._specialise)
        parameters = [*function.parameters]
        if function.result is not None:
            parameters.append(function.result)
        attributes: list[DictionaryAttr] = []
        for parameter in parameters:
            space = None if parameter.space is None else te.Space(parameter.space)
            type_ = builder.buffer_type(parameter.type, space)
            if parameter.name in scope:
                fail(parameter, f"'{parameter.name}' is defined already")
            argument = block.insert_arg(type_, len(block.args) - len(extents))
            argument.name_hint = parameter.name
            argument.location = location_of(parameter.span)
            names = names_of_extents(parameter.type, scope)
            said = (parameter.type.extents or ()) if any(names) else ()
            scope[parameter.name] = BufferBinding(
                argument, type_, parameter.type.extents is None, said
            )
            entry: dict[str, Attribute] = {}
            if parameter is function.result:
                entry[te.RESULT] = UnitAttr()
                self._results.append((parameter, argument))
            if any(names):
                entry[EXTENT] = ArrayAttr([StringAttr(each) for each in names])
            attributes.append(DictionaryAttr(entry))
        attributes += [DictionaryAttr({EXTENT: StringAttr(each.name)}) for each in extents]
        builder.statements(function.body)
        builder.finish()
        operation = _func(symbol, block, attributes, function.span)
        if extents:
            set_named_extents(operation, {each.name: each for each in extents})
        self._built[symbol] = operation
        return operation

    def _sizes_of_call(
        self, function: syntax.Function, scope: dict[str, Binding], block: Block
    ) -> list[NamedExtent]:
        """Makes parameters of the sizes that a call says, of those that a function names."""
        used = {node.name for node in syntax.nodes_of(function) if isinstance(node, syntax.Name)}
        extents: list[NamedExtent] = []
        for name, binding in [*scope.items()]:
            if name in used and isinstance(binding, CallSizeBinding):
                value = block.insert_arg(IndexType(), len(block.args))
                value.name_hint = name
                scope[name] = IndexBinding(value, binding.extent)
                extents.append(binding.extent)
        in_inputs = {
            node.name
            for node in syntax.nodes_of(function.parameters)
            if isinstance(node, syntax.Name)
        }
        missing = next((each.name for each in extents if each.name not in in_inputs), None)
        if missing is not None:
            fail(
                function,
                f"{function.name} has {missing}, which a call says, and no input that is as long; "
                f"give it one, or write 'size {missing} = 64'",
            )
        return extents

    def _specialise(
        self, call: syntax.Apply, types: Sequence[te.BufferType]
    ) -> tuple[str, te.BufferType | None]:
        function = self._functions.get(call.function)
        if function is None:
            fail(call, f"there is no function {call.function}")
        if len(types) != len(function.parameters):
            fail(
                call,
                f"{call.function} takes {len(function.parameters)} buffers, got {len(types)}",
            )
        return self._specialised(call, function, types)

    def _specialised(
        self,
        call: syntax.Apply | syntax.Function,
        function: syntax.Function,
        types: Sequence[te.BufferType],
    ) -> tuple[str, te.BufferType | None]:
        """The copy of a function for parameters of these types, and what it gives."""
        free = self._free_sizes(function)
        bindings = dict(self._globals)
        for node in syntax.nodes_of(function):
            if isinstance(node, syntax.Name) and isinstance(
                bindings.get(node.name), CallSizeBinding
            ):
                fail(
                    call,
                    f"{function.name} has {node.name}, which a call from outside says, and no "
                    "function calls it then; write its body in the place of the call",
                )
        for parameter, type_ in zip(function.parameters, types, strict=True):
            self._unify(call, function, parameter, type_, free, bindings)
        values = [bindings[name] for name in free]
        symbol = "_".join(
            [function.name, *(str(v.value) for v in values if isinstance(v, SizeBinding))]
        )
        operation = self._function(function, symbol, bindings)
        self._called.add(function.name)
        operation.sym_visibility = StringAttr("private")
        result = operation.function_type.inputs.data[-1] if function.result is not None else None
        return symbol, result if isinstance(result, te.BufferType) else None

    def _unify(
        self,
        call: syntax.Apply | syntax.Function,
        function: syntax.Function,
        parameter: syntax.Parameter,
        type_: te.BufferType,
        free: Sequence[str],
        bindings: dict[str, Binding],
    ) -> None:
        """Binds the free sizes of a parameter's extents to those of an argument."""
        name = f"the parameter {parameter.name} of {function.name}"
        shape = type_.get_shape()
        extents = parameter.type.extents or ()
        if te.ELEMENT_TYPES[parameter.type.element] != type_.element_type:
            fail(call, f"{name} is of {parameter.type.element}, got {type_.element_type}")
        if extents and len(extents) != len(shape):
            fail(call, f"{name} has {len(extents)} dimensions, the buffer given {len(shape)}")
        for expression, extent in zip(extents, shape, strict=False):
            if isinstance(expression, syntax.Name) and expression.name in free:
                bindings.setdefault(expression.name, SizeBinding(extent))
            expected = constant_of(expression, bindings, "an extent")
            if expected != extent:
                fail(call, f"{name} has an extent of {expected}, the buffer given of {extent}")

    # Statements outside functions.

    def _free_statements(self) -> None:
        """The statements of the file as a function whose parameters are their free buffers."""
        names = [name for name in _free_buffers(self._file.body) if name not in self._functions]
        written = _written_buffers(self._file.body)
        names.sort(key=lambda name: name in written)  # what is only read comes first
        ranks = {
            node.buffer: len(node.indices)
            for node in reversed(list(syntax.nodes_of(self._file.body)))
            if isinstance(node, syntax.Element)
        }
        block = Block()
        scope = dict(self._globals)
        for name in names:
            type_ = te.BufferType.of([UNKNOWN_EXTENT] * ranks[name], f32)
            argument = block.insert_arg(type_, len(block.args))
            argument.name_hint = name
            scope[name] = BufferBinding(argument, type_)
        builder = BodyBuilder(block, scope, self._specialise)
        for node in syntax.nodes_of(self._file.body):
            binding = scope.get(node.name) if isinstance(node, syntax.Name) else None
            if isinstance(binding, CallSizeBinding):
                fail(
                    node,
                    f"a call says {binding.extent.name}, by the extents of buffers: write a "
                    f"function that has them, fn f(x: f32[{binding.extent.name}]) {{ ... }}",
                )
        builder.statements(self._file.body)
        builder.finish()
        symbol = _symbol_of(self._name)
        if symbol in self._functions:
            fail(
                self._file.body[0],
                f"the file has a function {symbol}, which these statements would be called as well",
            )
        operation = _func(symbol, block, [DictionaryAttr({})] * len(names), self._file.body[0].span)
        self._infer_extents(operation)
        self._built[symbol] = operation

    def _infer_extents(self, function: FuncOp) -> None:
        """Gives each parameter the smallest extents that hold all elements accessed."""
        accesses = te.accesses_in(function)
        for argument in list(function.body.block.args):
            largest = largest_indices([one for one in accesses if one.buffer is argument])
            type_ = te.BufferType.of([index + 1 for index in largest], f32)
            Rewriter.replace_value_with_new_type(argument, type_)
        function.update_function_type()


def _func(
    symbol: str, block: Block, attributes: Sequence[DictionaryAttr], span: Span[str]
) -> FuncOp:
    block.add_op(ReturnOp())
    type_ = FunctionType.from_lists(list[Attribute](block.arg_types), [])
    operation = FuncOp(symbol, type_, Region(block), arg_attrs=ArrayAttr(attributes))
    operation.location = location_of(span)
    return operation


def _extent_of_call(size: syntax.Size, largest: int, sizes: Mapping[str, Binding]) -> NamedExtent:
    """What is known of a size that a call says."""
    multiple = 1 if size.multiple is None else constant_of(size.multiple, sizes, "a multiple")
    found = NamedExtent(size.name, largest, multiple)
    if found.own_fault is not None:
        fail(size, f"{size.name} {found.own_fault}")
    return found


def _symbol_of(path: str) -> str:
    """A function's name from that of a file."""
    stem = os.path.splitext(os.path.basename(path))[0]
    return re.sub(r"\W", "_", stem) if re.match(r"[A-Za-z_]", stem) else "main"


def _free_buffers(body: object) -> list[str]:
    """The names with an index that no statement declares, in the order of the text."""
    declared = {
        node.name for node in syntax.nodes_of(body) if isinstance(node, (syntax.New, syntax.Let))
    }
    used = [node.buffer for node in syntax.nodes_of(body) if isinstance(node, syntax.Element)]
    return [name for name in dict.fromkeys(used) if name not in declared]


def _written_buffers(body: object) -> set[str]:
    """The names that are assigned to or updated."""
    targets = [
        node.target
        for node in syntax.nodes_of(body)
        if isinstance(node, (syntax.Assign, syntax.Update))
    ]
    return {target.buffer for target in targets if isinstance(target, syntax.Element)}
