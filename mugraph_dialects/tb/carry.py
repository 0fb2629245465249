"""State that a for-loop carries from each iteration to the next: recurrences.

``tb.carried`` is what the iteration before has left, ``tb.carry`` leaves something for the next
one.  Between them stand any operators of the loop body, so that a recurrence need not be a sum::

    %s = tb.carried : !tb.stensor<64x64xf32>               // 0 in the first iteration
    %kv = tb.matmul %kt, %v : ...
    %d = tb.mul %s, %decay : ...
    %n = tb.add %d, %kv : ...
    %last = tb.carry %n to %s : (!tb.stensor<64x64xf32>, !tb.stensor<64x64xf32>)
        -> !tb.stensor<64x64xf32>
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from xdsl.dialects.builtin import Float32Type, FloatAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import MemoryWriteEffect, NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import FromNumber
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.interfaces import CarriesState, HasLayoutConstraints, TileIndex
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.tb.accumulate import AccumulatorOp, expect_whole
from mugraph.dialects.tb.moves import enclosing_graph
from mugraph.dialects.tb.operators import parallel_indices
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import op_label, shape_of, value_label


@irdl_op_definition
class CarriedOp(IRDLOperation, HasLayoutConstraints, CarriesState):
    """The state that the iteration before has left; in the first one a number everywhere.

    The number is 0, or what the state is ``from``.  One ``tb.carry`` of the same body says what the
    state is in the next iteration.  All that reads this value reads the old state, also behind the
    ``tb.carry``.  Each block has a state of its own; its tiles are whole.

    ``%s = tb.carried : !tb.stensor<64x64xf32>``, ``%p = tb.carried from 1.0 : ...``
    """

    name = "tb.carried"

    result = result_def(STensorType)
    start = opt_prop_def(FloatAttr[Float32Type])
    # Two states that begin alike are two: an equal one must not take the place of another.
    traits = traits_def(NoMemoryEffect())

    assembly_format = "custom<FromNumber>($start) attr-dict `:` type($result)"
    custom_directives = (FromNumber,)

    def __init__(self, result_type: Attribute, start: float = 0.0) -> None:
        super().__init__(
            operands=[],
            result_types=[result_type],
            properties={"start": FloatAttr(start, f32) if start else None},
        )

    @property
    def first(self) -> float:
        """The state's elements in the first iteration."""
        return 0.0 if self.start is None else self.start.value.data

    def updates(self) -> list[CarryOp]:
        """The operators that leave something for the next iteration."""
        users = dict.fromkeys(use.operation for use in self.result.uses)
        return [op for op in users if isinstance(op, CarryOp) and op.state is self.result]

    def verify_(self) -> None:
        """Checks that it stands in a µGraph, and is of floating-point numbers."""
        enclosing_graph(self)
        verify_no_integers(self, [self.result], "tb.cast")

    def verify_update(self) -> None:
        """Checks that one operator says what the next state is; of a whole body."""
        updates = self.updates()
        if len(updates) != 1:
            raise VerifyException(
                f"{op_label(self)}: the state {value_label(self.result)} has {len(updates)} "
                "'tb.carry' that say what it is in the next iteration; write one"
            )


@irdl_op_definition
class CarryOp(AccumulatorOp, CarriesState):
    """Says what a carried state is in the next iteration; after the loop it is the last one.

    In iteration ``it`` with state s_it the operand is s_(it+1); the result is what the last
    iteration leaves.  All three have one type: ``tb.cast`` converts before.

    ``%last = tb.carry %n to %s : (!tb.stensor<64x64xf32>, !tb.stensor<64x64xf32>) ->
    !tb.stensor<64x64xf32>``
    """

    name = "tb.carry"

    # Operands are in the order of the class that defines them, so the first one stands here too.
    input = operand_def(STensorType)
    state = operand_def(STensorType)
    # It counts in the next iteration, though nothing uses the last state.
    traits = traits_def(MemoryWriteEffect())

    assembly_format = (
        "$input `to` $state attr-dict `:` `(` type($input) `,` type($state) `)` `->` type($result)"
    )

    def __init__(self, operand: SSAValue, state: SSAValue) -> None:
        super().__init__(operands=[operand, state], result_types=[state.type])

    @property
    def carried(self) -> CarriedOp:
        """The operator whose value it updates; raises ``VerifyException`` for another value."""
        owner = self.state.owner
        if not isinstance(owner, CarriedOp):
            raise VerifyException(
                f"{op_label(self)} updates {value_label(self.state)}, which is no state; its "
                "second operand must be the result of a 'tb.carried'"
            )
        return owner

    def verify_(self) -> None:
        """Checks that it updates a state, in the state's extents and type."""
        _ = self.carried
        for value in (self.input, self.result):
            if value.type != self.state.type:
                raise OperatorError(
                    f"{value_label(value)} has type {value.type}, but the state "
                    f"{value_label(self.state)} that it updates has {self.state.type}; insert a "
                    "'tb.cast', or choose another state"
                )

    def result_shape(self) -> tuple[int, ...]:
        """The state's extents."""
        return shape_of(self.state.type)

    @property
    def adds(self) -> bool:
        """False: what an iteration leaves is all there is."""
        return False

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """Whole tiles only: the state of elements that do not exist would be read as theirs."""
        expect_whole(self, operands)
        return super().result_bounds(operands)

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Next states and the last lie as those before have lain."""
        for value, dim in product((self.input, self.result), range(len(shape_of(self.state.type)))):
            problem.require_any(
                problem.innermost(self.state, dim).negated(),
                problem.innermost(value, dim),
                reason=(
                    f"the state {value_label(self.state)}, whose innermost dimension is {dim}, "
                    f"stays in its place, and {value_label(value)} is a later one"
                ),
            )

    def tile_indices(self) -> Sequence[TileIndex]:
        """Each element of a state is updated by itself."""
        return parallel_indices(len(shape_of(self.state.type)), 2)
