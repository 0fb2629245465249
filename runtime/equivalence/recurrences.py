"""Symbolic execution of a threadblock graph whose loop carries a state: iteration by iteration.

What a state is after some iterations is no sum over them, so that each iteration is executed by
itself, with its number.  What it stores in its slice of a result is chosen by the slice.
"""

from __future__ import annotations

from typing import Protocol

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.element_types import rounds_for_good
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.interfaces import CarriesState
from mugraph.dialects.kn import Phase
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of
from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.functions import number
from mugraph.runtime.equivalence.indices import Affine
from mugraph.runtime.equivalence.tensors import Symbolic, SymbolicTensor
from mugraph.runtime.equivalence.terms import NormalForm


class Execution(Protocol):
    """Symbolic execution of one graph; ``iteration`` is the number of the iteration."""

    symbolic: Symbolic
    graph: kn.CustomizedOp
    iteration: Affine
    values: dict[SSAValue, SymbolicTensor]

    def execute(self, op: Operation) -> None:
        """Executes one operator in the iteration."""
        ...


def carries_state(graph: kn.CustomizedOp) -> bool:
    """Whether a state goes from one iteration of a graph's loop to the next."""
    return any(isinstance(op, CarriesState) for op in graph.body.block.ops)


def execute_by_iterations(execution: Execution) -> None:
    """Executes all operators of a graph, those of the loop in each iteration.

    Raises ``NoProofError`` at an operator that combines iterations in another way than by a sum.
    """
    graph, values, every = execution.graph, execution.values, execution.iteration
    phases = kn.phases_of(graph.body.block, graph.forloop_range)
    stored: dict[Operation, list[SymbolicTensor]] = {}
    totals: dict[SSAValue, SymbolicTensor] = {}
    for op, phase in phases.items():
        if phase is Phase.BEFORE:
            execution.execute(op)
        elif isinstance(op, tb.CarriedOp):
            places = execution.symbolic.places(shape_of(op.result.type))
            values[op.result] = execution.symbolic.tensor(places, number(op.first))
    loop = [op for op, phase in phases.items() if phase is Phase.LOOP]
    for iteration in range(graph.forloop_range):
        execution.iteration = Affine((), iteration)
        left: dict[SSAValue, SymbolicTensor] = {}
        for op in loop:
            if isinstance(op, tb.CarriedOp):
                continue
            if isinstance(op, tb.CarryOp):
                left[op.state] = totals[op.result] = values[op.input]
            elif isinstance(op, tb.OutputOp):
                stored.setdefault(op, []).append(values[op.stensor])
            elif kn.accumulates(op):
                _add(execution, op, totals)
            elif isinstance(op, tb.ReductionMaxOp):
                raise NoProofError(f"{op_label(op)} stands in a loop that carries a state")
            else:
                execution.execute(op)
        values |= left
    values |= totals
    execution.iteration = every
    for op, phase in phases.items():
        if phase is Phase.AFTER and not isinstance(op, tb.OutputOp):
            execution.execute(op)
    for op in phases:
        if isinstance(op, tb.OutputOp):
            if op.loop_dim >= 0:
                values[op.stensor] = _chosen(execution, op, stored[op])
            execution.execute(op)


def _add(execution: Execution, op: Operation, totals: dict[SSAValue, SymbolicTensor]) -> None:
    """Adds what an iteration gives to the sum of those before."""
    (result,) = op.results
    given = [element_type_of(value.type) for value in op.operands]
    if (isinstance(op, tb.AccumulatorOp) and not op.adds) or rounds_for_good(
        element_type_of(result.type), given
    ):
        raise NoProofError(f"{op_label(op)} adds up no plain sum in a loop that carries a state")
    execution.execute(op)
    value = execution.values[result]
    if result in totals:
        shape = shape_of(result.type)
        value = execution.symbolic.elementwise(shape, ScalarFunction("add"), totals[result], value)
    totals[result] = value


def _chosen(execution: Execution, op: tb.OutputOp, tiles: list[SymbolicTensor]) -> SymbolicTensor:
    """The tile of the iteration, of those of all iterations."""
    every = execution.iteration

    def choose(*forms: NormalForm) -> NormalForm:
        total = NormalForm()
        for iteration, form in enumerate(forms):
            total = nf.add(total, nf.multiply(nf.choice(every, iteration), form))
        return total

    if len(tiles) == 1:
        return tiles[0]
    return execution.symbolic.combined(shape_of(op.stensor.type), choose, *tiles)
