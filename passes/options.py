"""What users write for passes: numbers, and parts of plans."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Literal, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import type_repr

from mugraph.dialects import sched
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.tensor_types import op_label


def refuse(
    kernel: CustomizedOp | sched.KernelOp, part: str, pass_name: str, why: str, fits: str
) -> None:
    """What a pass does where a kernel cannot have a part of its plan.

    Raises ``PassFailedException`` where the plan requires it: ``why`` it cannot be, and ``fits``,
    what to write instead.  Prints a note where the plan only prefers it.
    """
    plan = kernel.decided
    said = f"{op_label(kernel)} cannot have {plan.text_of(part)}: {why}"
    if plan.requires(part):
        raise PassFailedException(f"--{pass_name}: {said}; {fits}")
    print(f"--{pass_name}: note: {said}", file=sys.stderr)


def require_natural(number: int, option: str) -> None:
    """Raises ``PassFailedException`` at a number below 0, of an option for which 0 is no number."""
    if number < 0:
        raise PassFailedException(f"{option} is {number}; expected 1 or more, or leave it out")


def options_in_words(kind: type[ModulePass]) -> list[tuple[str, str]]:
    """The options of a pass as users write them, and the values that each takes."""
    types = get_type_hints(kind)
    found: list[tuple[str, str]] = []
    for field in dataclasses.fields(kind):
        default = field.default
        shown = str(default).lower() if isinstance(default, bool) else default
        said = "" if default in (dataclasses.MISSING, None, "") else f" (default {shown})"
        found.append((field.name.replace("_", "-"), values_in_words(types[field.name]) + said))
    return found


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
