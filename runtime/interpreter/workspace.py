"""What the workspace of a function holds while its kernels run."""

from __future__ import annotations

from xdsl.interpreter import Interpreter, PythonValues
from xdsl.ir import Operation, SSAValue

from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.kn.workspace import memory_root, places_of, workspace_size
from mugraph.dialects.tensor_types import op_label, value_label
from mugraph.runtime.interpreter.errors import ExecutionError


class Workspace(Interpreter.Listener):
    """Raises ``ExecutionError`` where a kernel leaves the workspace, or reads what is overwritten.

    Values are arrays of their own in the interpreter; this is what planned offsets make of them.
    """

    def __init__(self) -> None:
        self._places: dict[SSAValue, range] = {}
        self._overwritten: dict[SSAValue, str] = {}
        """By which operator, of each tensor of which bytes were written again."""

    def will_interpret_op(self, op: Operation, args: PythonValues) -> None:
        """Writes the results of a kernel to their places, and looks at what it reads."""
        if isinstance(op, HasWorkspace):
            self._write(op)
        for operand in op.operands:
            by = self._overwritten.get(memory_root(operand))
            if by is not None:
                raise ExecutionError(
                    f"{op_label(op)} reads {value_label(operand)}, of which {by} has overwritten "
                    "bytes of the workspace"
                )

    def _write(self, op: HasWorkspace) -> None:
        size = workspace_size(op)
        for result, place in places_of(op).items():
            if place.start < 0 or (size is not None and place.stop > size):
                raise ExecutionError(
                    f"{op_label(op)} writes bytes {place.start} to {place.stop - 1} of the "
                    f"workspace, which has {size}"
                )
            for other, taken in self._places.items():
                if other is not result and max(taken.start, place.start) < min(
                    taken.stop, place.stop
                ):
                    self._overwritten[other] = op_label(op)
            self._places[result] = place
            self._overwritten.pop(result, None)
