"""The errors that a user of the runtime or of the tools can mend."""

from __future__ import annotations


class UserError(Exception):
    """An error whose text is a sentence to the user: what is wrong, and what to do about it."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its class where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
