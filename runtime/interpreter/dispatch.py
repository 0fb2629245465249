"""xDSL's interpreter, set up so that an operator it cannot run is named to the user."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    OpImplResult,
    PythonValues,
    impl,
)
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.locations import note_place
from mugraph.dialects.tensor_types import op_label
from mugraph.runtime.interpreter.errors import ExecutionError

Functions = TypeVar("Functions", bound=InterpreterFunctions)
Operator = TypeVar("Operator", bound=Operation)
Writer = TypeVar("Writer", bound=sched.WritesTiles)


def implements(
    method: str, operators: Sequence[type[Operation]]
) -> Callable[[type[Functions]], type[Functions]]:
    """Makes a method of a class the implementation of several operators.

    A decorator to stand below ``register_impls``.
    """

    def add(functions: type[Functions]) -> type[Functions]:
        for operator in operators:
            setattr(functions, f"{method}_{operator.name}", impl(operator)(vars(functions)[method]))
        return functions

    return add


Implementation = Callable[[Functions, Interpreter, Operator, PythonValues], PythonValues]


def runs(
    operator: type[Operator],
) -> Callable[
    [Callable[[Functions, Operator, PythonValues], PythonValues]],
    Implementation[Functions, Operator],
]:
    """Makes a method the implementation of an operator that runs no other ones.

    It takes the operator and its operands, and returns the results.
    """

    def decorate(
        method: Callable[[Functions, Operator, PythonValues], PythonValues],
    ) -> Implementation[Functions, Operator]:
        def run(
            functions: Functions, interpreter: Interpreter, op: Operator, args: PythonValues
        ) -> PythonValues:
            return method(functions, op, args)

        return impl(operator)(run)

    return decorate


def impl_writing(
    operator: type[Writer],
) -> Callable[
    [Callable[[Functions, Writer, PythonValues], None]], Implementation[Functions, Writer]
]:
    """Makes a method that writes over what it is given the implementation of an operator.

    The operator returns the tiles that the method has written over.
    """

    def decorate(
        method: Callable[[Functions, Writer, PythonValues], None],
    ) -> Implementation[Functions, Writer]:
        @runs(operator)
        def run(functions: Functions, op: Writer, args: PythonValues) -> PythonValues:
            method(functions, op, args)
            at = [op.operands.index(tile) for tile in op.destinations()]
            return tuple(args[index] for index in at)

        return run

    return decorate


Watcher = Callable[[Operation], None]

_WATCHERS: ContextVar[tuple[Watcher, ...]] = ContextVar("watchers", default=())


@contextmanager
def watched_by(watcher: Watcher) -> Generator[None]:
    """Tells ``watcher`` of every operator before it runs, in all interpreters; it may raise."""
    token = _WATCHERS.set((*_WATCHERS.get(), watcher))
    try:
        yield
    finally:
        _WATCHERS.reset(token)


class RefuseUnknown(Interpreter.Listener):
    """Raises ``ExecutionError`` at an operator that has no implementation."""

    def __init__(self, functions: tuple[InterpreterFunctions, ...]):
        self._known = {
            op_type
            for implementations in functions
            for op_type, _ in implementations._impls()  # pyright: ignore[reportPrivateUsage]
        }

    def will_interpret_op(self, op: Operation, args: PythonValues) -> None:
        """Checks the operator that is about to run, and tells those who watch."""
        if type(op) not in self._known:
            raise ExecutionError(f"{op_label(op)} cannot be executed by the interpreter yet")
        for watcher in _WATCHERS.get():
            watcher(op)


_DUMP = "Error while interpreting op"
"""What stands in the note that xDSL adds to an error: all of the module as text."""


class _Interpreter(Interpreter):
    """xDSL's, whose errors say where the operator stands that cannot run, and nothing else."""

    def _run_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        try:
            return super()._run_op(op, inputs)
        except ExecutionError as error:
            notes: list[str] = getattr(error, "__notes__", [])
            notes[:] = [note for note in notes if _DUMP not in note]
            note_place(error, op)
            raise


def make_interpreter(
    module: ModuleOp,
    *functions: InterpreterFunctions,
    listeners: Sequence[Interpreter.Listener] = (),
) -> Interpreter:
    """An interpreter of the operators that ``functions`` implement, and no others.

    ``listeners`` see every operator before it runs.
    """
    interpreter = _Interpreter(module, listeners=(RefuseUnknown(functions), *listeners))
    for implementations in functions:
        interpreter.register_implementations(implementations)
    return interpreter
