"""Options of passes whose values have names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

from xdsl.utils.exceptions import PassFailedException

Choice = TypeVar("Choice", bound=Enum)


def require_positive(numbers: Sequence[int], option: str) -> None:
    """Raises ``PassFailedException`` at a number below 1; ``option`` begins the message."""
    for number in numbers:
        if number < 1:
            raise PassFailedException(f"{option} of {number} cannot be; write 1 or more")


def require_natural(number: int, option: str) -> None:
    """Raises ``PassFailedException`` at a number below 0, of an option for which 0 is no number."""
    if number < 0:
        raise PassFailedException(f"{option} of {number} cannot be; write 1 or more, or leave it")


def member_named(kind: type[Choice], name: str, unknown: str) -> Choice:
    """The choice of that name.

    Raises ``PassFailedException`` listing the choices there are; ``unknown`` begins the message:
    ``--overlap-launches: unknown start``.
    """
    known = {member.value: member for member in kind}
    if name not in known:
        raise PassFailedException(f"{unknown} '{name}'; expected one of {', '.join(known)}")
    return known[name]
