"""Numbers that only a call says: what a graph may compute of them while it is built."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Number, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn, Self

from mugraph.build.errors import BuildError
from mugraph.dialects.tensor_types import STAND_INS

# It is an integer to type checkers, as it stands where extents do.  It is none when it runs: a
# float divided by an integer, or times one, would not ask it.
_Integer = int if TYPE_CHECKING else object

Product = tuple[int, ...]
"""Extents that are multiplied, by the primes that stand in for them, in order; none of a constant.
"""


class Values(NamedTuple):
    """The values that an extent may have: the multiples of a number in a range."""

    least: int
    most: int
    multiple: int = 1


class NamedNumber(_Integer):
    """The value of a named extent, or what sums and products make of several: a polynomial.

    While a graph is built a number stands in for it, so nothing may depend on which one it is.  A
    comparison answers what holds of all values that the extents may have; what would depend on the
    call raises :class:`BuildError`.
    """

    terms: Mapping[Product, int]
    """The coefficients, none of which is 0."""
    known: Mapping[int, Values]
    """The values of the extents, by the primes that stand in for them."""
    computed: ClassVar[type[NamedNumber]]
    """What sums and products of such numbers are."""

    def __new__(cls, terms: Mapping[Product, int], known: Mapping[int, Values]) -> Self:
        """The number with these terms."""
        number = super().__new__(cls)
        number.terms = {product: count for product, count in terms.items() if count}
        number.known = known
        return number

    @property
    def stand_in(self) -> int:
        """The number that stands in for it."""
        return sum(count * math.prod(product) for product, count in self.terms.items())

    @property
    def is_extent(self) -> bool:
        """Whether it is one extent, and not computed."""
        return [*self.terms.items()] == [((self.stand_in,), 1)]

    @property
    def in_type(self) -> int:
        """What stands in for it among the extents of a tensor.

        Raises :class:`BuildError` for sums: any number may stand in for them, such as 4096 for
        ``m - n``, or that of another extent.
        """
        if len(self.terms) > 1:
            raise BuildError(
                f"an extent would be '{self.text}', which is computed of what only a call says: "
                "not yet; keep each named extent a dimension of its own, and whole"
            )
        return self.stand_in

    @property
    def text(self) -> str:
        """What it is in terms of extents: ``m`` or ``2 * m``."""
        found = ""
        for product, count in sorted(self.terms.items(), key=lambda term: not term[0]):
            names = [STAND_INS[prime] for prime in product]
            factors = [f"{abs(count)}"] if abs(count) != 1 or not names else []
            sign = (" - " if count < 0 else " + ") if found else "-" if count < 0 else ""
            found += sign + " * ".join([*factors, *names])
        return found

    def __repr__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.stand_in)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamedNumber | Number):
            return NotImplemented
        if isinstance(other, Real) and not isinstance(other, Integral):
            if not float(other).is_integer():
                return False
            other = int(float(other))
        difference = self - other
        if not isinstance(difference, NamedNumber):
            return difference == 0
        return not difference.is_never_0() and self.refuse()

    def __bool__(self) -> bool:
        return self != 0

    def __lt__(self, other: Any) -> bool:
        return self._holds(operator.lt, other)

    def __le__(self, other: Any) -> bool:
        return self._holds(operator.le, other)

    def __gt__(self, other: Any) -> bool:
        return self._holds(operator.gt, other)

    def __ge__(self, other: Any) -> bool:
        return self._holds(operator.ge, other)

    def __add__(self, other: Any) -> Any:
        terms = dict(self.terms)
        for product, count in self._terms_of(other).items():
            terms[product] = terms.get(product, 0) + count
        return self._number(terms, self._known_with(other))

    def __sub__(self, other: Any) -> Any:
        negated = {product: -count for product, count in self._terms_of(other).items()}
        return self + self._number(negated, self._known_with(other))

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        terms: dict[Product, int] = {}
        for product, count in self.terms.items():
            for factor, times in self._terms_of(other).items():
                both = tuple(sorted((*product, *factor)))
                terms[both] = terms.get(both, 0) + count * times
        return self._number(terms, self._known_with(other))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __floordiv__(self, other: Any) -> Any:
        """Defined where a number or a product of extents divides each term, at each call."""
        divisors = self._terms_of(other)
        if len(divisors) != 1:
            return self.refuse()
        ((divisor, by),) = divisors.items()
        terms: dict[Product, int] = {}
        for product, count in self.terms.items():
            rest = _without(product, divisor)
            if rest is None or count % by:
                return self.refuse()
            terms[rest] = count // by
        return self._number(terms, self.known)

    def __mod__(self, other: Any) -> Any:
        """Defined where all values leave the same rest."""
        if isinstance(other, Integral) and other and not self._step(self.terms) % int(other):
            return self.terms.get((), 0) % int(other)
        return self - (self // other) * other

    def _number(self, terms: Mapping[Product, int], known: Mapping[int, Values]) -> Any:
        """What is computed: a whole number where it does not depend on a call."""
        number = self.computed(terms, known)
        return number if any(number.terms) else number.terms.get((), 0)

    def _terms_of(self, other: Any) -> Mapping[Product, int]:
        """The terms of another number; raises for what is no whole one."""
        if isinstance(other, NamedNumber):
            return other.terms
        return {(): int(other)} if isinstance(other, Integral) else self.refuse()

    def _known_with(self, other: Any) -> Mapping[int, Values]:
        return {**self.known, **other.known} if isinstance(other, NamedNumber) else self.known

    def _range(self) -> tuple[int, int]:
        """Numbers that no value is below, and above."""
        least = most = 0
        for product, count in self.terms.items():
            ends = [
                count * math.prod(end(self.known[prime]) for prime in product)
                for end in (_least, _most)
            ]
            least, most = least + min(ends), most + max(ends)
        return least, most

    def _step(self, products: Iterable[Product]) -> int:
        """What the terms with extents are multiples of, together."""
        steps = (
            self.terms[product] * math.prod(self.known[prime].multiple for prime in product)
            for product in products
            if product
        )
        return math.gcd(*steps)

    def is_never_0(self) -> bool:
        """Whether it is known to be another number than 0, whatever a call says."""
        least, most = self._range()
        return not least <= 0 <= most or bool(self.terms.get((), 0) % self._step(self.terms))

    def _holds(self, comparison: Callable[[Any, Any], bool], other: Any) -> bool:
        """What holds of every value."""
        if isinstance(other, NamedNumber):
            difference = self - other
            return (
                difference._holds(comparison, 0)
                if isinstance(difference, NamedNumber)
                else comparison(difference, 0)
            )
        if not isinstance(other, Real):
            return self.refuse()
        one, another = (bool(comparison(end, other)) for end in self._range())
        return one if one == another else self.refuse()

    def refuse(self, *_: Any) -> NoReturn:
        """What would depend on the number that stands in."""
        raise BuildError(
            f"'{self.text}' is known only at a call: while a graph is built it may be an extent of "
            "a tensor, added to and multiplied by whole numbers, and compared with numbers that "
            "all its values are above or below, but not divided, or used as a number; compute with "
            "a tensor that the call gives"
        )

    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = refuse
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __float__ = __int__ = __index__ = refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __invert__ = refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = refuse
    __abs__ = __round__ = __trunc__ = __floor__ = __ceil__ = refuse
    bit_length = bit_count = refuse

    def __pos__(self) -> Self:
        return self

    def __format__(self, spec: str) -> str:
        try:
            return format(self.text, spec)
        except ValueError:
            return self.refuse()  # what digits would look like


NamedNumber.computed = NamedNumber


def _least(values: Values) -> int:
    return values.least


def _most(values: Values) -> int:
    return values.most


def stand_in(number: int) -> int:
    """A number, or what stands in for it while a graph is built."""
    return number.stand_in if isinstance(number, NamedNumber) else int(number)


SMALL = 2**20
"""By what factors extents are multiplied, at most; primes that stand in are larger."""


def _without(product: Product, divisor: Product) -> Product | None:
    """A product without some of its factors; ``None`` where it lacks one."""
    rest = [*product]
    for prime in divisor:
        if prime not in rest:
            return None
        rest.remove(prime)
    return tuple(rest)
