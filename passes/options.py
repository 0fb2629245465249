"""Options of passes whose values have names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, Literal, TypeVar, get_args, get_origin

from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import type_repr

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


_WORDS_OF_TYPES = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a word",
}


def values_in_words(type_: Any) -> str:
    """What values of an option's type are: the words allowed, or of what kind."""
    if get_origin(type_) is Literal:
        words = [str(word) for word in get_args(type_)]
        return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    if get_origin(type_) is tuple:
        item = next(each for each in get_args(type_) if each is not Ellipsis)
        return f"{values_in_words(item)}, perhaps several with commas between them"
    kinds = [each for each in get_args(type_) if each is not type(None)]
    if kinds:
        return " or ".join(dict.fromkeys(map(values_in_words, kinds)))
    return _WORDS_OF_TYPES.get(type_, type_repr(type_))
