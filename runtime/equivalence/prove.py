"""Proofs that two functions are the same, by normal forms of their results' elements."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.budget import Budget
from mugraph.runtime.equivalence.derivation import Derivation, derivation
from mugraph.runtime.equivalence.digits import digit_by_digit
from mugraph.runtime.equivalence.errors import BudgetError, NoProofError
from mugraph.runtime.equivalence.pieces import in_pieces, piece_extents
from mugraph.runtime.equivalence.ranges import ranges_of
from mugraph.runtime.equivalence.runs import by_values
from mugraph.runtime.equivalence.symbolic_program import results_of
from mugraph.runtime.equivalence.tensors import Symbolic, SymbolicTensor
from mugraph.runtime.equivalence.terms import POSITIVE, NormalForm, applies


@dataclass(frozen=True)
class Proof:
    """Whether normal forms coincide; if not, why there is no proof."""

    holds: bool
    reason: str = ""
    partial: tuple[str, ...] = ()
    """What may be undefined everywhere, such as ``the root of -1``."""


def prove(one: FuncOp, other: FuncOp, budget: Budget | None = None) -> Proof:
    """Tries to prove that two functions of one signature are the same.

    They are, wherever both are defined, if the elements of all results have equal normal forms.
    Where that is not so, or the budget is spent, nothing has been shown.
    """
    with derivation(budget or Budget()) as made:
        return _prove(one, other, made)


def _prove(one: FuncOp, other: FuncOp, made: Derivation) -> Proof:
    symbolic = Symbolic()
    try:
        pairs = list(zip(results_of(one, symbolic), results_of(other, symbolic), strict=True))
        for number, (left, right) in enumerate(pairs):
            shape = shape_of(one.function_type.outputs.data[number])
            form, expected = normal_forms(symbolic, shape, left, right)
            if form != expected and not _same_in_all_cases(symbolic, form, expected):
                return Proof(False, f"the normal forms of result {number} differ")
    except NoProofError as error:
        return Proof(False, str(error))
    except RecursionError:
        return Proof(False, "functions are nested too deeply")
    return Proof(True, partial=tuple(made.partial))


def _same_in_all_cases(symbolic: Symbolic, one: NormalForm, other: NormalForm) -> bool:
    """Whether forms are equal for each value of the places by which something is chosen."""
    choosing = one.choosing | other.choosing
    for digit in sorted(choosing & symbolic.anywhere):
        one, other = by_values(one, digit), by_values(other, digit)
    by = sorted(choosing - symbolic.anywhere)
    cases = zip(nf.cases_of(one, by), nf.cases_of(other, by), strict=True)
    pairs = [case for forms in cases for _, case in ranges_of(*forms)]
    return all(
        left == right or _same_in_digits(left, right) or _same_in_pieces(left, right)
        for left, right in pairs
    )


def _same_in_digits(one: NormalForm, other: NormalForm) -> bool:
    """Whether forms are equal when places are compared digit by digit."""
    if not applies(POSITIVE, one) or not applies(POSITIVE, other):
        return False
    for radix in (0, *piece_extents(one, other)):
        try:
            if digit_by_digit(one, radix) == digit_by_digit(other, radix):
                return True
        except BudgetError:
            raise
        except NoProofError:
            continue  # of another radix they have fewer terms
    return False


def _same_in_pieces(one: NormalForm, other: NormalForm) -> bool:
    """Whether forms are equal whose sums are taken apart into shorter ones of one extent."""
    for extent in piece_extents(one, other):
        one, other = in_pieces(one, extent), in_pieces(other, extent)
        if one == other:
            return True
    return False


def normal_forms(
    symbolic: Symbolic, shape: tuple[int, ...], *tensors: SymbolicTensor
) -> list[NormalForm]:
    """The normal forms of the same element of several tensors, in the same variables."""
    places = symbolic.places(shape)
    return symbolic.read(*((tensor, places) for tensor in tensors))
