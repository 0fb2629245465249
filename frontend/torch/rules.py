"""Tables of rules by the names of ATen operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Rule = TypeVar("Rule", bound=Callable[..., Any])


class Rules(dict[str, Rule]):
    """Rules by operator, such as ``aten.cat.default``."""

    def of(self, *names: str) -> Callable[[Rule], Rule]:
        """Registers a function for operators, which are named without ``aten``."""

        def register(rule: Rule) -> Rule:
            self.update({f"aten.{name}": rule for name in names})
            return rule

        return register
