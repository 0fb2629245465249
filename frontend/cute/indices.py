"""Indices of a kernel while it is recorded: quasi-affine expressions in threads, blocks and loops.

An :class:`Index` is a constant and a sum of multiples of *atoms*: variables, quotients by floor and
remainders.  It knows its bounds, so that what holds for all values is decided at once:
``thread % 128`` of 128 threads is ``thread``, and ``k < 8`` is ``True`` where k counts to 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any, TypeAlias

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from mugraph.cute.errors import DECIDED_BY_PYTHON, KernelError


@dataclass(frozen=True)
class Variable:
    """The number of a thread, a block or an iteration, or a size: 0 to ``extent`` - 1."""

    value: SSAValue
    extent: int
    name: str
    multiple: int = 1
    """What its values are multiples of."""

    @property
    def is_size(self) -> bool:
        """Whether a call says it."""
        return False


@dataclass(frozen=True, eq=False)
class Part:
    """A quotient by floor, or a remainder, of an index."""

    index: Index
    divisor: int
    is_remainder: bool

    def _key(self) -> tuple[object, ...]:
        return self.index.key(), self.divisor, self.is_remainder

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


Atom: TypeAlias = Variable | Part
Numeric: TypeAlias = "Index | int"


def _bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Variable):
        return 0, atom.extent - 1
    if atom.is_remainder:
        return 0, atom.divisor - 1
    low, high = atom.index.bounds
    return low // atom.divisor, high // atom.divisor


@dataclass(frozen=True, eq=False)
class Index:
    """``constant`` plus, for each atom, a multiple of it."""

    constant: int
    terms: tuple[tuple[Atom, int], ...]

    __array_ufunc__ = None

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value, by those of the atoms."""
        low = high = self.constant
        for atom, factor in self.terms:
            least, most = (bound * factor for bound in _bounds(atom))
            low, high = low + min(least, most), high + max(least, most)
        return low, high

    @property
    def largest(self) -> int:
        """The greatest value that it can have."""
        return self.bounds[1]

    @property
    def multiple(self) -> int:
        """A number that divides all values; 0 for the index 0."""
        found = abs(self.constant)
        for atom, factor in self.terms:
            within = atom.multiple if isinstance(atom, Variable) else 1
            if isinstance(atom, Part) and atom.is_remainder:
                within = gcd(atom.index.multiple, atom.divisor)
            found = gcd(found, factor * within)
        return found

    def variables(self) -> set[SSAValue]:
        """What it depends on."""
        found: set[SSAValue] = set()
        for atom, _ in self.terms:
            found |= {atom.value} if isinstance(atom, Variable) else atom.index.variables()
        return found

    def uses(self, variable: SSAValue) -> bool:
        """Whether it depends on a variable."""
        return variable in self.variables()

    @property
    def is_of_call(self) -> bool:
        """Whether it depends on nothing but sizes that a call says."""
        return all(
            atom.is_size if isinstance(atom, Variable) else atom.index.is_of_call
            for atom, _ in self.terms
        )

    def key(self) -> tuple[int, frozenset[tuple[Atom, int]]]:
        """What is equal for equal expressions; ``==`` is a condition of the kernel."""
        return self.constant, frozenset(self.terms)

    def __hash__(self) -> int:
        return hash(self.key())

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int | Index):
            return NotImplemented
        right = as_index(other)
        total: dict[Atom, int] = dict(self.terms)
        for atom, factor in right.terms:
            total[atom] = total.get(atom, 0) + factor
        return _simplest(self.constant + right.constant, total)

    __radd__ = __add__

    def __neg__(self) -> Numeric:
        return self * -1

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if not isinstance(other, int | Index) else self + -other

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented if not isinstance(other, int) else -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Index):
            raise KernelError(
                f"the index {self} is multiplied with the index {other}; one of two factors must "
                "be a number that is known when the kernel is recorded"
            )
        if not isinstance(other, int):
            return NotImplemented
        return _simplest(self.constant * other, {atom: by * other for atom, by in self.terms})

    __rmul__ = __mul__

    def _divided(self, divisor: Any, *, is_remainder: bool) -> Numeric:
        """Quotient or remainder: multiples of the divisor come out of either."""
        if not isinstance(divisor, int) or divisor < 1:
            raise KernelError(
                f"the index {self} is divided by {divisor}; divide by a positive number that is "
                "known when the kernel is recorded"
            )
        whole, constant = divmod(self.constant, divisor)
        quotient = {atom: by // divisor for atom, by in self.terms if by % divisor == 0}
        left = {atom: by for atom, by in self.terms if by % divisor}
        if is_remainder:
            left = {atom: by for atom, by in left.items() if _multiple_of(atom, by) % divisor}
        rest = as_index(_simplest(constant, left))
        out: Numeric = 0 if is_remainder else _simplest(whole, quotient)
        low, high = rest.bounds
        if low // divisor == high // divisor:
            steps = low // divisor
            return out + (rest - steps * divisor if is_remainder else steps)
        return out + _part(rest, divisor, is_remainder=is_remainder)

    def __floordiv__(self, divisor: Any) -> Numeric:
        return self._divided(divisor, is_remainder=False)

    def __mod__(self, divisor: Any) -> Numeric:
        return self._divided(divisor, is_remainder=True)

    def __divmod__(self, divisor: Any) -> tuple[Numeric, Numeric]:
        return self // divisor, self % divisor

    def __lt__(self, other: Any) -> Predicate | bool:
        return at_least(other - self - 1)

    def __le__(self, other: Any) -> Predicate | bool:
        return at_least(other - self)

    def __gt__(self, other: Any) -> Predicate | bool:
        return at_least(self - other - 1)

    def __ge__(self, other: Any) -> Predicate | bool:
        return at_least(self - other)

    def __eq__(self, other: object) -> Any:
        return equals_zero(self - other) if isinstance(other, int | Index) else NotImplemented

    def __ne__(self, other: object) -> Any:
        raise KernelError(
            f"'!=' of the index {self} is no condition of a kernel; write '<' or '>', or exchange "
            "the branches of '=='"
        )

    def __and__(self, other: Any) -> Any:
        raise KernelError(
            f"the index {self} has no bits: a swizzled layout lies over a tensor that was not "
            "allocated with this swizzle"
        )

    def __bool__(self) -> bool:
        raise KernelError(
            f"Python asks whether the index {self} is 0, which differs from thread to thread or "
            "iteration; compare it in an 'if'"
        )

    def __index__(self) -> int:
        raise KernelError(
            f"the index {self} is no number when the kernel is recorded; loop over it with "
            "'dynamic_range', or index tensors of the kernel with it"
        )

    __int__ = __index__

    def __str__(self) -> str:
        parts = [f"{_atom_text(atom)}{'' if by == 1 else f' * {by}'}" for atom, by in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts)

    __repr__ = __str__


def _multiple_of(atom: Atom, factor: int) -> int:
    return factor * atom.multiple if isinstance(atom, Variable) else factor


def _atom_text(atom: Atom) -> str:
    if isinstance(atom, Variable):
        return atom.name
    text = str(atom.index)
    if len(atom.index.terms) + bool(atom.index.constant) > 1:
        text = f"({text})"
    return f"{text} {'%' if atom.is_remainder else '//'} {atom.divisor}"


def as_index(value: Numeric) -> Index:
    """A number as an index."""
    return value if isinstance(value, Index) else Index(value, ())


def _simplest(constant: int, terms: Mapping[Atom, int]) -> Numeric:
    """The index, or the number that it is."""
    kept = {atom: factor for atom, factor in terms.items() if factor}
    for atom, factor in kept.items():
        if not isinstance(atom, Part) or not atom.is_remainder:
            continue
        quotient = Part(atom.index, atom.divisor, is_remainder=False)
        if kept.get(quotient) == factor * atom.divisor:  # x // d * d + x % d
            rest = {one: by for one, by in kept.items() if one not in (atom, quotient)}
            return atom.index * factor + _simplest(constant, rest)
    return Index(constant, tuple(kept.items())) if kept else constant


def _part(index: Index, divisor: int, *, is_remainder: bool) -> Index:
    """An atom of an index that is no constant; divisions of quotients become one."""
    if len(index.terms) == 1 and not index.constant and index.terms[0][1] == 1:
        (atom, _), *_rest = index.terms
        if isinstance(atom, Part) and atom.is_remainder is is_remainder:
            if not is_remainder:
                return _part(atom.index, atom.divisor * divisor, is_remainder=False)
            if atom.divisor % divisor == 0:
                return _part(atom.index, divisor, is_remainder=True)
    return Index(0, ((Part(index, divisor, is_remainder), 1),))


@dataclass(frozen=True)
class Predicate:
    """Conditions that all hold: indices that are at least 0, or equal to 0."""

    conditions: tuple[tuple[Index, bool], ...]

    __array_ufunc__ = None

    def __and__(self, other: Predicate | bool) -> Predicate | bool:
        if isinstance(other, bool):
            return self if other else False
        return Predicate(self.conditions + other.conditions)

    __rand__ = __and__

    def opposites(self) -> list[Predicate | bool]:
        """Conditions of which one holds where these do not all."""
        found: list[Predicate | bool] = []
        before: Predicate | bool = True
        for index, same in self.conditions:
            others = [at_least(-index - 1), *([at_least(index - 1)] if same else [])]
            found += [before & other for other in others if other is not False]
            before = before & Predicate(((index, same),))
        return found

    def __invert__(self) -> Predicate | bool:
        """The opposite.  Raises KernelError where that is one of several conditions."""
        found = self.opposites()
        if len(found) > 1:
            raise KernelError(
                f"the opposite of '{self}' is one of several conditions, and those of a kernel "
                "hold together; write 'if' and 'else', or each of them"
            )
        return found[0] if found else False

    def uses(self, variable: SSAValue) -> bool:
        """Whether a condition depends on a variable."""
        return any(index.uses(variable) for index, _ in self.conditions)

    def __bool__(self) -> bool:
        if all(index.is_of_call for index, _ in self.conditions):
            raise KernelError(
                f"{DECIDED_BY_PYTHON}, asks for {self}, which a call decides; "
                "say more of the extent, sym_int(..., divisibility=8), or use 'with "
                "when(...)' in the kernel"
            )
        raise KernelError(
            f"{DECIDED_BY_PYTHON}, asks for the condition {self}, which differs from thread to "
            "thread or iteration; use a whole 'if', and '&' between conditions elsewhere"
        )

    def __str__(self) -> str:
        return " and ".join(
            f"{index} {'==' if same else '>='} 0" for index, same in self.conditions
        )


def at_least(index: Numeric) -> Predicate | bool:
    """Whether an index is at least 0: decided where its bounds say so."""
    found = as_index(index)
    low, high = found.bounds
    if low >= 0 or high < 0:
        return low >= 0
    return Predicate(((found, False),))


def equals_zero(index: Numeric) -> Predicate | bool:
    """Whether an index is 0: decided where its bounds say so."""
    found = as_index(index)
    low, high = found.bounds
    if low > 0 or high < 0:
        return False
    if low == high:
        return True
    return Predicate(((found, True),))


def affine_map(indices: Sequence[Numeric]) -> tuple[list[SSAValue], AffineMap]:
    """Indices as a map, and the variables that are its dimensions."""
    variables: list[SSAValue] = []

    def of_atom(atom: Atom) -> AffineExpr:
        if isinstance(atom, Variable):
            if atom.value not in variables:
                variables.append(atom.value)
            return AffineExpr.dimension(variables.index(atom.value))
        inner = of_index(atom.index)
        return inner % atom.divisor if atom.is_remainder else inner // atom.divisor

    def of_index(index: Index) -> AffineExpr:
        total: AffineExpr | None = None
        for atom, factor in index.terms:
            term = of_atom(atom) if factor == 1 else of_atom(atom) * factor
            total = term if total is None else total + term
        if total is None:
            return AffineExpr.constant(index.constant)
        return total + index.constant if index.constant else total

    results = [of_index(as_index(index)) for index in indices]
    return variables, AffineMap(len(variables), 0, tuple(results))
