"""The errors of the equivalence checks."""

from __future__ import annotations

from mugraph.errors import UserError


class NoProofError(Exception):
    """Two µGraphs that cannot be proved equal by normal forms; the text says where it stopped."""


class BudgetError(NoProofError):
    """A check that would take longer than it may."""


class CheckError(UserError):
    """Two modules that cannot be compared, such as functions of different signatures."""
