"""The functions that are compared, and what a test finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.dialects.tensor_types import dims, element_type_of, shape_of, value_label
from mugraph.passes.program.expand_mesh import expand_function
from mugraph.runtime.equivalence.errors import CheckError
from mugraph.runtime.interpreter.arithmetic import Arithmetic, is_quantizing, storage_dtype
from mugraph.runtime.interpreter.run import evaluate_function, find_function

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Subject:
    """A function in its module."""

    module: ModuleOp
    function: FuncOp

    @classmethod
    def of(cls, module: ModuleOp) -> Subject:
        """The only function of a verified module; raises ``ExecutionError`` if there are others."""
        return cls(module, find_function(module, None))

    @cached_property
    def whole(self) -> FuncOp:
        """The function; of a program of several devices, what they compute together."""
        return expand_function(self.function)

    @property
    def input_shapes(self) -> list[tuple[int, ...]]:
        """The extents of the arguments; raises ``CheckError`` for one that is no tensor."""
        for argument in self.whole.args:
            if isinstance(argument.type, IndexType):
                raise CheckError(
                    f"@{self.function.sym_name.data} takes {value_label(argument)}, an index; "
                    "functions are compared on tensors alone."
                )
        return [shape_of(type_) for type_ in self.whole.function_type.inputs.data]

    @property
    def input_dtypes(self) -> list[np.dtype[Any]]:
        """The numpy types of the arguments."""
        types = self.whole.function_type.inputs.data
        return [storage_dtype(element_type_of(type_)) for type_ in types]

    @property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """The extents of the results."""
        return [shape_of(type_) for type_ in self.whole.function_type.outputs.data]

    def evaluate(self, inputs: Sequence[Any], arithmetic: Arithmetic) -> list[Any]:
        """The results in any arithmetic."""
        return evaluate_function(self.module, self.whole, inputs, arithmetic)


def expect_same_signature(one: Subject, other: Subject) -> None:
    """Raises ``CheckError`` unless both functions take and return tensors of the same extents.

    Arguments that are integers or f8 in one of them must be so in the other: over other numbers it
    is another function.
    """
    for what, ours, theirs in (
        ("takes", one.input_shapes, other.input_shapes),
        ("returns", one.output_shapes, other.output_shapes),
    ):
        if ours != theirs:
            raise CheckError(
                f"@{one.function.sym_name.data} {what} {_listed(ours)}, but "
                f"@{other.function.sym_name.data}, which it is compared with, {what} "
                f"{_listed(theirs)}; functions of different signatures cannot be compared."
            )

    types = [function.function_type.inputs.data for function in (one.whole, other.whole)]
    for number, pair in enumerate(zip(*types, strict=True)):
        ours, theirs = (element_type_of(type_) for type_ in pair)
        if ours != theirs and any(is_quantizing(storage_dtype(type_)) for type_ in (ours, theirs)):
            raise CheckError(
                f"argument {number} of @{one.function.sym_name.data} has elements of {ours}, but "
                f"of @{other.function.sym_name.data}, which it is compared with, {theirs}; "
                "functions of different numbers cannot be compared."
            )


def _listed(shapes: Sequence[Sequence[int]]) -> str:
    return ", ".join(dims(shape) for shape in shapes) or "nothing"


@dataclass(frozen=True)
class Difference:
    """An input on which two functions differ, and the first element in which they do."""

    test: str
    """Which arithmetic, and what made the inputs."""
    result: int
    element: tuple[int, ...]
    one: str
    """The value of the first function there."""
    other: str
    """The value of the second."""
    arrays: dict[str, Array]
    """The inputs, and the results that differ, by the names of files to keep them in."""

    def __str__(self) -> str:
        place = ", ".join(map(str, self.element))
        return (
            f"{self.test}: the first difference is in element [{place}] of result {self.result}: "
            f"{self.one} against {self.other}"
        )


@dataclass
class Test:
    """What a number of random evaluations found."""

    evaluations: int = 0
    """How many there were of the seeds that were asked for."""
    probes: int = 0
    """How many there were with inputs of all sizes."""
    compared: int = 0
    """Elements that had values which can be compared, over all evaluations."""
    total: int = 0
    defined: list[Array] = field(default_factory=list[Array])
    """For each result, which elements have been compared at all."""
    difference: Difference | None = None
    unseen: list[str] = field(default_factory=list[str])
    """Sides of thresholds that no compared element has been made on."""
    cut_short: str = ""
    """Why there were no more evaluations."""

    def count(self, usable: Sequence[Array]) -> None:
        """Counts which elements of each result an evaluation has compared."""
        self.compared += sum(int(np.count_nonzero(one)) for one in usable)
        self.total += sum(one.size for one in usable)
        before = self.defined or [np.zeros_like(one) for one in usable]
        self.defined = [one | other for one, other in zip(before, usable, strict=True)]

    @property
    def is_defined_somewhere(self) -> bool:
        """Whether some element of each result has been compared."""
        return bool(self.defined) and all(one.any() or not one.size for one in self.defined)

    @property
    def never_compared(self) -> int:
        """How many elements were undefined in all evaluations."""
        return sum(int(np.count_nonzero(~one)) for one in self.defined)


def first_place(wrong: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """The first place, in row-major order, that holds ``True``."""
    return tuple(int(place) for place in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
