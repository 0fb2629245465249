"""The operators around an operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from xdsl.ir import Operation

Kind = TypeVar("Kind", bound=Operation)


def ancestors(op: Operation) -> Iterator[Operation]:
    """The operators around one, the innermost first."""
    parent = op.parent_op()
    while parent is not None:
        yield parent
        parent = parent.parent_op()


def enclosing(op: Operation, kind: type[Kind]) -> Kind | None:
    """The innermost operator of a class around one; ``None`` where there is none."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, kind):
        parent = parent.parent_op()
    return parent
