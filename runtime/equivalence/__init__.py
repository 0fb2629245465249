"""Are two µGraphs the same function: proofs by normal forms, and random evaluation."""

from mugraph.runtime.equivalence.check import Answer, Checker, Evidence, Verdict
from mugraph.runtime.equivalence.errors import CheckError
from mugraph.runtime.equivalence.subject import Subject

__all__ = ["Answer", "CheckError", "Checker", "Evidence", "Subject", "Verdict"]
