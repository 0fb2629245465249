"""Strides that are not integers: scaled basis vectors.

A layout needs of its strides only an inner product with integers.  With the strides
``(1@0, 1@1)`` the layout ``(4,8):(1@0,1@1)`` maps the coordinate ``(i,j)`` to the *coordinate*
``(i,j)``: it is CuTe's identity layout, from which ``make_identity_tensor`` and TMA's coordinate
tensors are made.  All the algebra's left operands may have such strides.
"""

from __future__ import annotations

from typing import Any

from mugraph.dialects.cute.int_tuple import IntTuple, Nested


class ScaledBasis:
    """An integer times a basis vector; ``ScaledBasis(3, (1, 0))`` is 3·E(1,0).

    ``modes`` names the basis vector's position from the outermost tuple inwards.
    Printed as CuTe prints it, innermost mode first: ``3@0@1``.
    """

    __slots__ = ("modes", "value")

    value: int
    modes: tuple[int, ...]
    __array_ufunc__ = None
    """An array of numbers times a basis vector is one basis vector, not an array of them."""

    def __init__(self, value: int, modes: tuple[int, ...]):
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "modes", modes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ScaledBasis is immutable; {name} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"ScaledBasis is immutable; {name} cannot be deleted.")

    def __mul__(self, factor: int) -> ScaledBasis:
        return ScaledBasis(self.value * factor, self.modes)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScaledBasis):
            return self.value == other.value and (self.modes == other.modes or self.value == 0)
        return self.value == 0 and other == 0

    def __hash__(self) -> int:
        return hash((self.value, self.modes)) if self.value else hash(0)

    def __reduce__(self) -> tuple[type[ScaledBasis], tuple[int, tuple[int, ...]]]:
        return (ScaledBasis, (self.value, self.modes))

    def __str__(self) -> str:
        return str(self.value) + "".join(f"@{mode}" for mode in reversed(self.modes))

    def __repr__(self) -> str:
        return f"ScaledBasis({self.value}, {self.modes})"

    def as_coordinate(self) -> IntTuple:
        """The coordinate this is: ``ScaledBasis(3, (1,)).as_coordinate() == (0, 3)``."""
        result: IntTuple = self.value
        for mode in reversed(self.modes):
            result = (0,) * mode + (result,)
        return result


def E(*modes: int) -> ScaledBasis:  # noqa: N802 - the field's name
    """The basis vector of a mode: ``E(0)``, ``E(1)``, or inside a mode, ``E(1, 0)``."""
    return ScaledBasis(1, modes)


def make_basis_like(shape: IntTuple, prefix: tuple[int, ...] = ()) -> Nested[Any]:
    """For each leaf of ``shape`` the basis vector of its place: the identity layout's strides."""
    if isinstance(shape, tuple):
        return tuple(make_basis_like(item, (*prefix, mode)) for mode, item in enumerate(shape))
    return ScaledBasis(1, prefix) if prefix else 1


def add_coordinates(a: IntTuple, b: IntTuple) -> IntTuple:
    """The sum by mode, a missing mode counting as 0.

    An integer is added to a tuple's first mode only if it is 0: otherwise the two do not live in
    the same space, and TypeError is raised.
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(a) < len(b):
            a, b = b, a
        return tuple(add_coordinates(x, y) for x, y in zip(a, b, strict=False)) + a[len(b) :]
    if isinstance(a, tuple):
        if b == 0:
            return a
    elif isinstance(b, tuple):
        if a == 0:
            return b
    else:
        return a + b
    raise TypeError(f"Cannot add the coordinates {a} and {b}.")
