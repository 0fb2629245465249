"""What the builder raises."""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from numbers import Real
from operator import index
from typing import SupportsIndex

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.element_types import is_known_element_type
from mugraph.dialects.tensor_types import STAND_INS
from mugraph.errors import UserError


class BuildError(UserError, ValueError):
    """An operator that cannot be added to a µGraph; raised by the call that asked for it."""


def require_integers(what: str, numbers: Sequence[SupportsIndex]) -> tuple[int, ...]:
    """The numbers as integers, or what stands in; raises :class:`BuildError` where one is none."""
    try:
        return tuple(index(getattr(number, "in_type", number)) for number in numbers)
    except BuildError as error:
        raise BuildError(f"{what}: {error}") from None
    except TypeError:
        raise BuildError(f"{what}: {numbers!r}; expected integers") from None


LARGEST_CONSTANT = (2 - 2**-23) * 2.0**127
"""The largest number of fp32."""


def require_constant(what: str, number: object) -> float:
    """A number as an fp32 constant may be; raises :class:`BuildError` for anything else."""
    if not isinstance(number, Real):
        raise BuildError(f"{what}: {number!r} is no number")
    try:
        constant = float(number)
    except OverflowError:
        constant = math.nextafter(math.inf, 0)
    if LARGEST_CONSTANT < abs(constant) < math.inf:
        raise BuildError(
            f"{what}: a constant is larger than fp32's largest number, {LARGEST_CONSTANT:.3g}"
        )
    return constant


def require_element_type(what: str, dtype: Attribute) -> None:
    """Raises :class:`BuildError` unless tensors may have elements of the type."""
    if not is_known_element_type(dtype):
        raise BuildError(
            f"{what}: {dtype!r} is no element type of mugraph.build, such as mugraph.build.float16"
        )


def in_names(text: str) -> str:
    """A message with the names of extents in the place of what stands in for them.

    A number of elements that is a multiple of extents is a product: ``8*m``.
    """
    return re.sub(r"\d+", _of_names, text)


def _of_names(found: re.Match[str]) -> str:
    rest, names = int(found[0]), list[str]()
    for number, name in tuple(STAND_INS.items()):
        while rest and rest % number == 0:
            rest //= number
            names.append(name)
    return "*".join([str(rest)] * (rest > 1) + names) if names else found[0]


@contextmanager
def build_errors(operator: str = "") -> Generator[None]:
    """Turns what a verifier says into a :class:`BuildError`, raised where the user's call is.

    ``operator`` is named where extents do not go together before there is an operator that says so.
    """
    try:
        yield
    except (VerifyException, BuildError) as error:
        raise BuildError(in_names(str(error))) from None
    except ValueError as error:
        said = f"{operator}: {error}" if operator else str(error)
        raise BuildError(in_names(said)) from error
