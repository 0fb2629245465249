"""Functions, their calls and their results, as the interpreter runs them.

xDSL has implementations of these, but to import one of its dialects' is to import all of them with
their dialects: 0.3 seconds for each process that runs a program.
"""

from __future__ import annotations

from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)


@register_impls
class FunctionCalls(InterpreterFunctions):
    """Implementations of the operators of ``func``."""

    @impl_callable(FuncOp)
    def run_function(
        self, interpreter: Interpreter, function: FuncOp, arguments: PythonValues
    ) -> PythonValues:
        """The results of a function; one without a body is refused."""
        if function.is_declaration:
            return interpreter.call_external(function.sym_name.data, function, arguments)
        return interpreter.run_ssacfg_region(function.body, arguments, function.sym_name.data)

    @impl(CallOp)
    def run_call(
        self, interpreter: Interpreter, call: CallOp, arguments: PythonValues
    ) -> PythonValues:
        """The results of the function of that name."""
        return interpreter.call_op(call.callee, arguments)

    @impl_terminator(ReturnOp)
    def run_return(
        self, interpreter: Interpreter, end: ReturnOp, results: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        """Ends a function, whose results the operands are."""
        return ReturnedValues(results), ()
