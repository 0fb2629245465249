"""Loops that carry a state, by induction: what a state is before any iteration.

One iteration is executed, with a symbol for each element of the state.  Where it leaves
``decay * symbol + added``, with a positive decay, and neither depends on the state, the state
before iteration i is by induction

    first * (all decays before i) + sum over j < i of added_j * (the decays behind j before i)

So no iteration is executed by itself, and nothing depends on how many there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from xdsl.ir import Operation

from mugraph.dialects import tb
from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.functions import is_settled, number, positive_logarithm
from mugraph.runtime.equivalence.indices import Affine
from mugraph.runtime.equivalence.recurrences import Execution
from mugraph.runtime.equivalence.scans import sums_so_far
from mugraph.runtime.equivalence.tensors import Symbolic, SymbolicTensor
from mugraph.runtime.equivalence.terms import Element, Factor, NormalForm, Term, nested_in

_FIRST_SYMBOL = -2
"""The tensor whose elements are those of the first state; others have the numbers below it."""


def execute_in_closed_form(execution: Execution) -> bool:
    """Executes a graph whose loop carries states that have a closed form; else does nothing.

    Returns whether it did.
    """
    ops = list(execution.graph.body.block.ops)
    symbolic, iterations = execution.symbolic, execution.graph.forloop_range
    if iterations < 2:
        return False
    carries = [op for op in ops if isinstance(op, tb.CarryOp)]
    symbols: dict[tb.CarryOp, int] = {}
    for place, carry in enumerate(carries):
        symbols[carry] = _FIRST_SYMBOL - place
        indices = symbolic.places(shape_of(carry.state.type))
        body = nf.element(symbols[carry], indices)
        execution.values[carry.state] = symbolic.tensor(indices, body)
    states: dict[tb.CarryOp, _State] = {}
    while len(states) < len(carries):
        # What is carried may depend on a state that has been found before.
        unknown = [carry for carry in carries if carry not in states]
        for op in _leading_to(ops, unknown):
            execution.execute(op)
        found = {carry: _state(execution, carry, symbols) for carry in unknown}
        known = {carry: state for carry, state in found.items() if state is not None}
        if not known:
            return False
        states |= known
        for carry, state in known.items():
            del symbols[carry]
            before = execution.iteration + Affine((), -1)
            execution.values[carry.state] = state.after(before)
    left = {carry.input: state for carry, state in states.items()}
    for op in ops:
        if isinstance(op, tb.CarryOp):
            execution.values[op.result] = states[op].after(Affine((), iterations - 1))
        elif not isinstance(op, tb.CarriedOp):
            execution.execute(op)
            for value in left.keys() & {*op.results}:
                # What an iteration leaves, by induction, too: it may be stored.
                execution.values[value] = left[value].after(execution.iteration)
    return True


def _leading_to(ops: Sequence[Operation], carries: Sequence[tb.CarryOp]) -> list[Operation]:
    """The operators that what is carried is computed by, in order."""
    needed = {carry.input for carry in carries}
    found: list[Operation] = []
    for op in reversed(ops):
        if not isinstance(op, tb.CarriedOp) and needed.intersection(op.results):
            needed.update(op.operands)
            found.append(op)
    return found[::-1]


@dataclass(frozen=True)
class _State:
    """A state of which each iteration leaves a decayed part, to which it adds something."""

    execution: Execution
    first: float
    places: Sequence[Affine]
    step: _Step

    def after(self, last: Affine) -> SymbolicTensor:
        """What the iterations up to the last one leave of it."""
        symbolic, extent = self.execution.symbolic, self.execution.graph.forloop_range
        at, logarithm = partial(_in_iteration, self.execution), self.step.logarithm
        so_far = partial(sums_so_far, symbolic, extent, last)
        known = None if logarithm is None else partial(at, logarithm)
        body = so_far(partial(at, self.step.added), known)
        left = nf.constant(1) if known is None else nf.exponential(so_far(known))
        body = nf.add(body, nf.multiply(number(self.first), left))
        return symbolic.tensor(self.places, body)


def _state(
    execution: Execution, carry: tb.CarryOp, symbols: Mapping[tb.CarryOp, int]
) -> _State | None:
    """A state that has a closed form; ``None`` of another one."""
    symbolic = execution.symbolic
    places = symbolic.places(shape_of(carry.state.type))
    left, symbol = symbolic.read(
        (execution.values[carry.input], places), (execution.values[carry.state], places)
    )
    step = _step(left, symbol, symbols.values())
    return None if step is None else _State(execution, _first(carry), places, step)


def _first(carry: tb.CarryOp) -> float:
    """What the elements of a state are in the first iteration."""
    carried = carry.state.owner
    assert isinstance(carried, tb.CarriedOp)
    return carried.first


def _in_iteration(execution: Execution, form: NormalForm, iteration: Affine) -> NormalForm:
    """What a form of the loop is in an iteration."""
    symbolic: Symbolic = execution.symbolic
    digits = symbolic.scope.digits_of_index(execution.iteration)
    parts = symbolic.scope.take_apart(iteration, [digit.extent for digit in digits])
    return nf.substitute(symbolic.settled(form), dict(zip(digits, parts, strict=True)))


@dataclass(frozen=True)
class _Step:
    """What an iteration leaves of a state: the state times a decay, and what is added."""

    logarithm: NormalForm | None
    """Of the decay; ``None`` where it is 1."""
    added: NormalForm


def _step(left: NormalForm, symbol: NormalForm, unknown: Collection[int]) -> _Step | None:
    """The step by which a state becomes ``left``; ``None`` where it is another function of it."""
    if not is_settled(left):
        return None
    ((element, _),) = symbol.terms[0].factors
    decay, added = NormalForm(), NormalForm()
    for term in left.terms:
        others = tuple(each for each in term.factors if each != (element, Fraction(1)))
        if any(_reads(factor, unknown) for factor, _ in others):
            return None
        kept = NormalForm((Term(term.coefficient, term.bound, others),))
        if len(others) == len(term.factors):
            added = nf.add(added, kept)
        else:
            decay = nf.add(decay, kept)
    if decay == nf.constant(1):
        return _Step(None, added)
    logarithm = positive_logarithm(decay)
    return None if logarithm is None else _Step(logarithm, added)


def _reads(factor: Factor, tensors: Collection[int]) -> bool:
    """Whether elements of some tensors occur in a factor, however deep."""
    if isinstance(factor, Element):
        return factor.tensor in tensors
    terms = itertools.chain.from_iterable(nested.terms for nested in nested_in(factor))
    return any(_reads(each, tensors) for term in terms for each, _ in term.factors)
