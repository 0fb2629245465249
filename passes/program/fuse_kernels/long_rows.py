"""Reductions of long rows in parts, of which blocks have one each: a row is read once for all sums.

A row's largest element is that of its parts' largest ones.  A sum of exponentials below it is the
sum of what each part adds up below its own, times exp(the part's - the row's).  Squared distances
from a number are those from the mean of a part, and its length times the squared distance of that
mean.  So what a row needs is computed of one reading, by as many blocks as it has parts, and
what is left to do with it by another kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce

from mugraph.dialects import kn
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.kn.composite import Expansion
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import element_type_of, shape_of

LONG_ROW = 16384
"""Elements of a row that is divided, at least: shorter ones a block's threads hold."""
LONGEST_PART, SHORTEST_PART = 12288, 1024
"""Elements of a part."""
LONGEST_HELD = 30000
"""The same where there is no such part, or none of whole vectors: more than threads of a block hold
well.  An RMS norm of 396 x 54,608 took 34.1 us on an H200 in parts of 27,304, and 64.2 in parts of
6,826, which start at multiples of 4 bytes."""
VECTOR = 8
"""Elements that a thread loads at once, of which parts should have a whole number."""
FEWEST_PARTS = 264
"""Of all rows together, if they are long enough: two blocks for each multiprocessor or so."""

FUNCTIONS = ("exp", "square")
"""Whose sums over a row have other terms than those of its parts."""


def count_of_parts(rows: int, extent: int) -> int | None:
    """Into how many equal parts each of some rows is divided; ``None`` where there is no number."""
    counts = [
        count
        for count in range(2, extent // SHORTEST_PART + 1)
        if extent % count == 0 and extent // count <= LONGEST_HELD
    ]
    enough = [count for count in counts if rows * count >= FEWEST_PARTS]
    fitting = [count for count in counts if extent // count <= LONGEST_PART]

    def of_whole_vectors(among: list[int]) -> list[int]:
        return [count for count in among if extent // count % VECTOR == 0]

    # Longer parts that start at whole vectors are better than others that start anywhere.
    best = of_whole_vectors(fitting) or of_whole_vectors(enough) or fitting or counts[:1]
    return next((count for count in best if count in enough), best[-1] if best else None)


@dataclass
class DividedRows:
    """Writes the reductions of a function's long rows in parts."""

    count_of: Callable[[int, int], int | None] = count_of_parts
    """Into how many parts rows are divided, by their number and length."""
    parts: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Tensors seen as [..., parts, elements of a part]."""
    largest: dict[SSAValue, tuple[SSAValue, SSAValue]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, SSAValue]]
    )
    """Of the largest elements of rows, of what, and those of its parts."""

    def rewrite(self, op: kn.ReductionOp) -> bool:
        """Writes one reduction in parts; whether its rows are long, and can be divided."""
        *leading, extent = shape_of(op.input.type)
        last = op.reduced_dim == len(leading) and shape_of(op.result.type)[-1] == 1
        if not last or extent < LONG_ROW or is_integer(element_type_of(op.input.type)):
            return False
        count = self.count_of(math.prod(leading), extent)
        if count is None:
            return False
        steps = Expansion()
        if op.combination is Combiner.MAX:
            whole = self._largest(op, count, steps)
        else:
            whole = self._sum(op.input, count, steps)
        element = element_type_of(op.result.type)
        if element_type_of(whole.type) != element:
            whole = steps.add(kn.CastOp(whole, TensorType(element, shape_of(whole.type))))
        result = steps.add(kn.ReshapeOp(whole, op.result.type))
        if op.combination is Combiner.MAX:
            self.largest[result] = self.largest.pop(op.result)
        Rewriter.replace_op(op, steps.operations, [result])
        return True

    def _divided(self, value: SSAValue, count: int, steps: Expansion) -> SSAValue:
        if value not in self.parts:
            *leading, extent = shape_of(value.type)
            type_ = TensorType(element_type_of(value.type), (*leading, count, extent // count))
            self.parts[value] = steps.add(kn.ReshapeOp(value, type_))
        return self.parts[value]

    def _largest(self, op: kn.ReductionOp, count: int, steps: Expansion) -> SSAValue:
        divided = self._divided(op.input, count, steps)
        last = len(shape_of(divided.type)) - 1
        own = steps.reduce(divided, [last], Combiner.MAX)
        self.largest[op.result] = op.input, own
        return steps.reduce(own, [last - 1], Combiner.MAX)

    def _sum(self, value: SSAValue, count: int, steps: Expansion) -> SSAValue:
        last = len(shape_of(value.type))
        function = _function_of(value, *FUNCTIONS)
        difference = None if function is None else _function_of(function.operands[0], "sub")
        if function is not None and difference is not None:
            scores, number = difference.operands
            of, own = self.largest.get(number, (None, None))
            if function.FUNCTION == "exp" and of is scores and own is not None:
                below = steps.apply("sub", self._divided(scores, count, steps), own)
                sums = steps.reduce(steps.apply("exp", below), [last])
                row = steps.reduce(own, [last - 1], Combiner.MAX)
                weights = steps.apply("exp", steps.apply("sub", own, row))
                return steps.reduce(steps.apply("mul", sums, weights), [last - 1])
            if function.FUNCTION == "square" and shape_of(number.type)[-1] == 1:
                divided = self._divided(scores, count, steps)
                mean = steps.mean(divided, [last])
                apart = steps.apply("square", steps.apply("sub", divided, mean))
                shift = steps.apply("square", steps.apply("sub", mean, _of_part(number, steps)))
                length = float(shape_of(divided.type)[-1])
                shift = steps.apply("mul_scalar", shift, constants=(length,))
                sums = steps.apply("add", steps.reduce(apart, [last]), shift)
                return steps.reduce(sums, [last - 1])
        sums = steps.reduce(self._divided(value, count, steps), [last])
        return steps.reduce(sums, [last - 1])


def _function_of(value: SSAValue, *functions: str) -> kn.ElementwiseOp | None:
    """The operator that computes a tensor by one of some functions."""
    op = value.owner
    return op if isinstance(op, kn.ElementwiseOp) and op.FUNCTION in functions else None


def _of_part(value: SSAValue, steps: Expansion) -> SSAValue:
    """Numbers of rows, as [..., 1, 1]."""
    type_ = TensorType(element_type_of(value.type), (*shape_of(value.type), 1))
    return steps.add(kn.ReshapeOp(value, type_))


def divide_rows(
    function: FuncOp, count_of: Callable[[int, int], int | None] = count_of_parts
) -> bool:
    """Writes all reductions of long rows of a function in parts; whether there were any."""
    divided = DividedRows(count_of)
    found = [op for op in function.body.block.ops if isinstance(op, kn.ReductionOp)]
    changed = sum(divided.rewrite(op) for op in found) > 0
    cse(function.body)
    region_dce(function.body)
    return changed
