"""Do passes keep what a tensor expression computes?

It is run in float64 on random inputs before the first pass and after each, its parallel iterations
in another random order each time: what it leaves in its buffers and what its anchors observe must
be the same but for rounding in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.dialects.func import FuncOp

from mugraph.dialects.functions import argument_types
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.runtime.equivalence.errors import CheckError
from mugraph.runtime.interpreter.arithmetic import Array, Precision
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.texpr import TexprExecution, run_texpr

ROOM = 1e-9
"""How far elements may be off, in parts of the largest one."""


@dataclass
class TexprWatch:
    """One tensor expression as it was before the passes."""

    inputs: list[Array]
    expected: TexprExecution
    stages: int = 0
    """How many passes have been checked."""

    @classmethod
    def begin(cls, function: FuncOp, seed: int) -> TexprWatch:
        """Runs the function; ``CheckError`` where the interpreter cannot."""
        generator = np.random.default_rng(seed)
        inputs: list[Array] = []
        for type_ in argument_types(function):
            values = generator.standard_normal(shape_of(type_))
            whole = element_type_of(type_) == i32
            inputs.append(np.rint(values * 16).astype(np.int32) if whole else values)
        return cls(inputs, _run(function, inputs, 0, "before any pass"))

    def check(self, function: FuncOp, when: str) -> None:
        """Raises ``CheckError`` unless the function computes what it did."""
        self.stages += 1
        found = _run(function, self.inputs, self.stages, when)
        name = function.sym_name.data
        if found.outputs.keys() != self.expected.outputs.keys():
            raise CheckError(
                f"{when} @{name} writes {', '.join(found.outputs) or 'nothing'}; before the passes "
                f"it wrote {', '.join(self.expected.outputs) or 'nothing'}."
            )
        pairs = [
            (name, found.outputs[name], array) for name, array in self.expected.outputs.items()
        ]
        anchors = zip(found.anchors, self.expected.anchors, strict=False)
        pairs += [(f"anchor {number}", *both) for number, both in enumerate(anchors)]
        if len(found.anchors) != len(self.expected.anchors):
            raise CheckError(f"{when} @{name} has another number of anchors.")
        for what, one, other in pairs:
            if one.shape != other.shape or not _is_close(one, other):
                raise CheckError(
                    f"{when} @{name} is another function: {what} is not what it was before the "
                    "passes."
                )


def _run(function: FuncOp, inputs: list[Array], seed: int, when: str) -> TexprExecution:
    try:
        return run_texpr(function, inputs, precision=Precision.FLOAT64, seed=seed)
    except ExecutionError as error:
        name = function.sym_name.data
        raise CheckError(f"{when} @{name} cannot be executed: {error}") from error


def _is_close(one: Array, other: Array) -> bool:
    finite = np.abs(other[np.isfinite(other)].astype(np.float64))
    room = ROOM * float(finite.max(initial=0.0))
    return bool(np.allclose(one, other, rtol=0, atol=room, equal_nan=True))
