"""Numbers that only a call says: what a graph may compute of them while it is built."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from mugraph.build.errors import BuildError
from mugraph.dialects.tensor_types import STAND_INS


class NamedNumber(int):
    """The value of a named extent, or what sums and products by numbers make of it.

    While a graph is built a number stands in for it, so nothing may depend on which one it is:
    what would raises :class:`BuildError`.
    """

    text: str
    """What it is in terms of extents: ``m`` or ``2 * m``."""

    def __new__(cls, value: int, text: str = "") -> Self:
        """The number that stands in for what ``text`` says."""
        number = super().__new__(cls, value)
        number.text = text or f"{int(value)}"
        return number

    def __add__(self, other: Any) -> Any:
        return self._made(int.__add__(self, other), self.text, "+", other)

    def __radd__(self, other: Any) -> Any:
        return self._made(int.__radd__(self, other), other, "+", self.text)

    def __sub__(self, other: Any) -> Any:
        return self._made(int.__sub__(self, other), self.text, "-", other)

    def __rsub__(self, other: Any) -> Any:
        return self._made(int.__rsub__(self, other), other, "-", self.text)

    def __mul__(self, other: Any) -> Any:
        return self._made(int.__mul__(self, other), self.text, "*", other)

    def __rmul__(self, other: Any) -> Any:
        return self._made(int.__rmul__(self, other), other, "*", self.text)

    def __neg__(self) -> Any:
        return NamedNumber(int.__neg__(self), f"-{self.text}")

    def _made(self, value: Any, left: Any, sign: str, right: Any) -> Any:
        if value is NotImplemented:
            return self.refuse(right) if isinstance(right, float) else value
        if (sign, value) == ("*", int(self)):
            return self
        if (sign, value) == ("-", 0):
            return 0  # whatever the number is
        texts = (
            each.text if isinstance(each, NamedNumber) else f"{each}" for each in (left, right)
        )
        first, second = (f"({each})" if sign == "*" and " " in each else each for each in texts)
        return NamedNumber(value, f"{first} {sign} {second}")

    def refuse(self, *_: Any) -> NoReturn:
        """What would depend on the number that stands in."""
        raise BuildError(
            f"'{self.text}' is known only at a call: while a graph is built it may be an extent of "
            "a tensor, added to and multiplied by whole numbers, but not divided, compared or used "
            "as a number; compute with a tensor that the call gives"
        )

    def __floordiv__(self, other: Any) -> Any:
        """Defined by a factor that is named, too: what is left does not depend on it."""
        if not isinstance(other, NamedNumber) or int(self) % int(other):
            return self.refuse()
        quotient = int(self) // int(other)
        return NamedNumber(quotient, STAND_INS[quotient]) if quotient in STAND_INS else quotient

    def __mod__(self, other: Any) -> Any:
        return self - (self // other) * other

    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = refuse
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = __float__ = refuse
