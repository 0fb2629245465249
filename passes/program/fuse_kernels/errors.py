"""Why operators do not share a kernel."""

from __future__ import annotations


class NotFusedError(Exception):
    """Operators that cannot share a kernel; the message is a clause that says why."""
