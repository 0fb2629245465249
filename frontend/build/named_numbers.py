"""Numbers that only a call says: what a graph may compute of them while it is built."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NoReturn, Self

from mugraph.build.errors import BuildError
from mugraph.dialects.tensor_types import STAND_INS

# It is an integer to type checkers, as it stands where extents do.  It is none when it runs: a
# float divided by an integer, or times one, would not ask it.
_Integer = int if TYPE_CHECKING else object


class NamedNumber(_Integer):
    """The value of a named extent, or what sums and products by whole numbers make of it.

    While a graph is built a number stands in for it, so nothing may depend on which one it is:
    what would raises :class:`BuildError`.
    """

    text: str
    """What it is in terms of extents: ``m`` or ``2 * m``."""
    stand_in: int

    def __new__(cls, value: int, text: str = "") -> Self:
        """The number that stands in for what ``text`` says."""
        number = super().__new__(cls)
        number.stand_in, number.text = value, text or f"{value}"
        return number

    def __repr__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.stand_in)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Real) and not _is_size(self.stand_in):
            return self.refuse()
        return self.stand_in == other

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
        return _made(self, "+", other)

    def __radd__(self, other: Any) -> Any:
        return _made(other, "+", self)

    def __sub__(self, other: Any) -> Any:
        return _made(self, "-", other)

    def __rsub__(self, other: Any) -> Any:
        return _made(other, "-", self)

    def __mul__(self, other: Any) -> Any:
        return _made(self, "*", other)

    def __rmul__(self, other: Any) -> Any:
        return _made(other, "*", self)

    def __neg__(self) -> Any:
        return NamedNumber(-self.stand_in, f"-{_text(self, '-')}")

    def __floordiv__(self, other: Any) -> Any:
        """Defined by 1, and by a factor that is named, too: what is left does not depend on it."""
        if not isinstance(other, NamedNumber):
            return self if other == 1 else self.refuse()
        if self.stand_in % other.stand_in:
            return self.refuse()
        quotient = self.stand_in // other.stand_in
        return NamedNumber(quotient, STAND_INS[quotient]) if quotient in STAND_INS else quotient

    def __mod__(self, other: Any) -> Any:
        return self - (self // other) * other

    def _holds(self, comparison: Callable[[Any, Any], bool], other: Any) -> bool:
        """What holds of every value; as an extent of a shape it is neither 0 nor 1."""
        if isinstance(other, NamedNumber) and self.stand_in == other.stand_in:
            return comparison(0, 0)
        if isinstance(other, Real) and other <= 1 and _is_size(self.stand_in):
            return bool(comparison(self.stand_in, other))
        return self.refuse()

    def refuse(self, *_: Any) -> NoReturn:
        """What would depend on the number that stands in."""
        raise BuildError(
            f"'{self.text}' is known only at a call: while a graph is built it may be an extent of "
            "a tensor, added to and multiplied by whole numbers, but not divided, compared or used "
            "as a number; compute with a tensor that the call gives"
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


def stand_in(number: int) -> int:
    """A number, or what stands in for it while a graph is built."""
    return number.stand_in if isinstance(number, NamedNumber) else int(number)


SMALL = 2**20
"""By what factors extents are multiplied, at most; primes that stand in are larger."""


def _is_size(number: int) -> bool:
    """Whether a number stands in for a product of extents and a whole number, as of elements.

    Of sums and differences nobody knows more than a call says.
    """
    factor = number
    for prime in STAND_INS:
        while factor and factor % prime == 0:
            factor //= prime
    return 0 < factor < SMALL and factor < number


_SIGNS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def _made(left: Any, sign: str, right: Any) -> Any:
    """What is computed of two numbers, of which one is named: a whole number, or a named one."""
    for number in (left, right):
        if not isinstance(number, Integral | NamedNumber):
            (right if number is left else left).refuse()
    value: int = _SIGNS[sign](stand_in(left), stand_in(right))
    if value == 0 and sign != "+":
        return 0  # whatever the numbers are
    same = next((each for each in (left, right) if value == stand_in(each)), None)
    return (
        NamedNumber(value, f"{_text(left, sign)} {sign} {_text(right, sign)}")
        if same is None
        else same
    )


def _text(number: Any, sign: str) -> str:
    """A number as a summand or a factor of a text."""
    text = number.text if isinstance(number, NamedNumber) else f"{number}"
    return f"({text})" if sign != "+" and " " in text else text
