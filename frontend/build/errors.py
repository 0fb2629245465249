"""What the builder raises."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xdsl.utils.exceptions import VerifyException

from mugraph.runtime.errors import UserError


class BuildError(UserError, ValueError):
    """An operator that cannot be added to a µGraph; raised by the call that asked for it."""


@contextmanager
def build_errors() -> Generator[None]:
    """Turns what a verifier says into a :class:`BuildError`, raised where the user's call is."""
    try:
        yield
    except (VerifyException, BuildError) as error:
        raise BuildError(str(error)) from None
    except ValueError as error:
        raise BuildError(str(error)) from error
