"""The errors that a user of the runtime or of the tools can mend."""

from __future__ import annotations


class UserError(Exception):
    """An error whose text is a sentence to the user: what is wrong, and what to do about it."""
