"""Why operators do not share a kernel."""

from __future__ import annotations


class NotFusedError(Exception):
    """Operators that cannot share a kernel; the message is a clause that says why."""


class NoKernelError(Exception):
    """A search that takes several operators as one, of which no kernel computes all."""
