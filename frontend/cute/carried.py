"""Variables of Python that a recorded loop would carry from iteration to iteration.

A loop of the kernel is recorded once: a variable that its body reads and then binds anew would keep
its first value in all iterations.  Such loops are found in the text of the function.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

_LOOPS = "dynamic_range"
"""What a loop of the kernel runs over, or ``range`` of a module."""


def names_read(statements: Sequence[ast.stmt]) -> set[str]:
    """The variables that statements may read before they bind them."""
    events = _PossibleEvents()
    for statement in statements:
        events.visit(statement)
    return events.read


def definition_of(function: Callable[..., Any]) -> tuple[ast.FunctionDef | None, int]:
    """The definition of a function, if it has a text, and the lines of its file before that.

    Columns are those of the file.
    """
    try:
        lines, first = inspect.getsourcelines(function)
        is_indented = lines[0][0].isspace()
        tree = ast.parse("".join(["if True:\n" * is_indented, *lines]))
    except (OSError, SyntaxError, TypeError):
        return None, 0
    found = (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))
    return next(found, None), first - 1 - is_indented


def carried_variable(function: Callable[..., Any]) -> tuple[str, int] | None:
    """The first variable that is read before it is bound in a loop of the kernel, and its line.

    ``None`` where there is none, or where the function has no text.
    """
    definition, before = definition_of(function)
    for loop in ast.walk(definition) if definition is not None else ():
        if isinstance(loop, ast.For) and _is_recorded(loop.iter):
            events = _Events()
            for statement in loop.body:
                events.visit(statement)
            for name, line in events.carried.items():
                return name, before + line
    return None


def _is_recorded(expression: ast.expr) -> bool:
    if not isinstance(expression, ast.Call):
        return False
    called = expression.func
    if isinstance(called, ast.Attribute):
        return called.attr in (_LOOPS, "range")
    return isinstance(called, ast.Name) and called.id == _LOOPS


class _Events(ast.NodeVisitor):
    """Follows names in the order of evaluation; ``carried`` are read first and bound later."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.bound: set[str] = set()
        self.carried: dict[str, int] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._read(node.target.id)
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def _visit_comprehension(self, node: ast.expr) -> None:
        """What it binds is its own; what it reads it reads of the loop."""
        inner = _Events()
        for part in getattr(node, "generators", []):
            inner.visit(part.iter)
            inner.visit(part.target)
            for condition in part.ifs:
                inner.visit(condition)
        for field in ("elt", "key", "value"):
            if isinstance(part := getattr(node, field, None), ast.expr):
                inner.visit(part)
        for name in inner.read:
            self._read(name)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = _visit_comprehension  # noqa: N815
    visit_DictComp = _visit_comprehension  # noqa: N815

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(node.id)
            return
        if node.id in self.read:
            self.carried.setdefault(node.id, node.lineno)
        self.bound.add(node.id)

    def _read(self, name: str) -> None:
        if name not in self.bound:
            self.read.add(name)


class _PossibleEvents(_Events):
    """The same, where a statement that may be left out binds nothing."""

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        ends: list[set[str]] = []
        for statements in (node.body, node.orelse):
            ends.append(self._bound_by(statements))
        self.bound |= ends[0] & ends[1]

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._bound_by([ast.Assign([node.target], ast.Constant(None)), *node.body])
        self._bound_by(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        self.visit(node.test)
        self._bound_by(node.body)
        self._bound_by(node.orelse)

    def _bound_by(self, statements: Sequence[ast.stmt]) -> set[str]:
        """What is bound behind statements, which are followed and may be left out."""
        before = self.bound.copy()
        for statement in statements:
            self.visit(statement)
        after, self.bound = self.bound, before
        return after
