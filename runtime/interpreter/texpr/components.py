"""Tensor expressions in other arithmetics than numpy's: with error bounds, or in finite fields.

Numbers of floating point are arrays of components (``ComponentArray``); indices, integers and
conditions on them stay numbers.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerType
from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array, Precision
from mugraph.runtime.interpreter.components import ComponentArray
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import SCALAR_FUNCTIONS
from mugraph.runtime.interpreter.texpr.batch import Rows, Storage
from mugraph.runtime.interpreter.texpr.numbers import function_of
from mugraph.runtime.interpreter.texpr.run import Runner

_MOST_NUMBERS = 4096
"""How many different integers are turned into numbers of another arithmetic."""


class ComponentRunner(Runner):
    """Runs functions in an arithmetic of component arrays, all iterations of a loop together."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        super().__init__(Precision.FLOAT64, None)
        self.arithmetic = arithmetic

    def storage(
        self, type_: te.BufferType, copies: int, shape: tuple[int, ...] | None = None
    ) -> Storage:
        """Buffers without contents, of the type's extents or of those of a call."""
        if isinstance(type_.element_type, IntegerType):
            return super().storage(type_, copies, shape)
        extents = type_.get_shape() if shape is None else shape
        flat = (copies, math.prod(extents))
        elements = self.arithmetic.full(flat, 0.0)
        return Storage(elements, np.zeros(flat, np.bool_), extents)

    def compute(self, op: Operation, operands: list[Array], count: int) -> Array:
        """The result of an operator; raises ``ExecutionError`` for one that is undecided here."""
        if isinstance(op.results[0].type, IntegerType):
            if any(isinstance(operand, ComponentArray) for operand in operands):
                raise ExecutionError(
                    f"'{op.name}' decides by the size of numbers, which is no function of real "
                    "numbers that this arithmetic has"
                )
            return super().compute(op, operands, count)
        match op:
            case arith.ConstantOp():
                attribute = cast(FloatAttr[Any], op.value)
                return self.arithmetic.full((count,), attribute.value.data)
            case arith.SIToFPOp():
                return self._of_integers(operands[0])
            case arith.ExtFOp():
                return operands[0]
            case arith.TruncFOp():
                return self.arithmetic.round(operands[0], op.result.type)
            case arith.SelectOp():
                condition, first, second = operands
                chosen = self.arithmetic.full((count,), 0.0)
                chosen[condition] = first[condition]
                chosen[~condition] = second[~condition]
                return chosen
            case _:
                function = function_of(op)
                if function is None:
                    raise ExecutionError(f"'{op.name}' is no function that this arithmetic has")
                return function(*operands)

    def _of_integers(self, values: Array) -> Array:
        numbers = np.unique(values)
        if len(numbers) > _MOST_NUMBERS:
            raise ExecutionError("too many different integers for this arithmetic")
        found = self.arithmetic.full(values.shape, 0.0)
        for number in numbers:
            places = np.flatnonzero(values == number)
            found[places] = self.arithmetic.full((len(places),), float(number))
        return found

    def reduce(
        self, combination: te.Combination, storage: Storage, rows: Rows, at: Rows, values: Array
    ) -> None:
        """All values for an element at once, as many for each."""
        if not isinstance(values, ComponentArray):
            super().reduce(combination, storage, rows, at, values)
            return
        places = rows * storage.written.shape[1] + at
        order = np.argsort(places, kind="stable")
        elements, counts = np.unique(places, return_counts=True)
        if len(np.unique(counts)) != 1:
            raise ExecutionError(
                "a reduction of differently many numbers an element cannot be followed in this "
                "arithmetic"
            )
        grouped: Any = values[order].reshape(len(elements), int(counts[0]))
        if combination is te.Combination.ADD:
            total = grouped.sum(1)
        elif combination is te.Combination.MAX:
            total = grouped.max(1)
        else:
            total = -(-grouped).max(1)
        where = np.divmod(elements, storage.written.shape[1])
        combine = SCALAR_FUNCTIONS[combination]
        storage.elements[where] = combine(storage.elements[where], total)
