"""Python's ``if`` in kernels: what a condition on threads, blocks, iterations or elements decides.

A statement ``if`` becomes a loop over :func:`taken`, which runs its body once, never, or, where the
kernel decides, once under the condition.  What holds when the kernel is recorded is decided then.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, TypeVar, cast

from mugraph.cute.carried import definition_of, names_read
from mugraph.cute.control import when
from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Predicate
from mugraph.cute.numbers import Number
from mugraph.dialects.cute.machines import current_machine

_MODULE, _CONDITION, _PRINT = "mugraph_branches", "mugraph_condition", "mugraph_print"
"""Names that the functions made here have besides their own."""

Function = TypeVar("Function", bound=Callable[..., Any])


def _is_of_kernel(condition: Any) -> bool:
    """Whether the kernel decides it."""
    return isinstance(condition, Predicate | Number)


def joined(*conditions: Callable[[], Any]) -> Any:
    """``and``: of conditions that the kernel decides all together, of others what Python gives."""
    found: Any = True
    for one in conditions:
        condition = one()
        if not _is_of_kernel(condition):
            if not condition:
                return condition
            found = found if _is_of_kernel(found) else condition
        else:
            if isinstance(found, Predicate | Number) and type(found) is not type(condition):
                raise KernelError(
                    "'and' or 'or' joins a condition on indices and one on elements, which a "
                    "kernel cannot decide at once; write one 'if' in the other"
                )
            found = found & condition if _is_of_kernel(found) else condition
    return found


def opposite(condition: Any) -> Any:
    """``not``."""
    return ~condition if _is_of_kernel(condition) else not condition


def taken(
    condition: Any, is_else: bool, bound: Sequence[str], changed: Sequence[str] = ()
) -> Iterator[None]:
    """Once where a branch is taken, in the condition that the kernel decides, if it does.

    An ``else`` of several conditions is taken once for each of them that may be the first to fail.

    ``bound`` are the variables that the branches bind and others read, ``changed`` those that this
    branch reads before it binds them.  Raises KernelError where the kernel decides, and some of
    ``bound``, or of ``changed`` in an ``else`` that is taken several times.
    """
    if not _is_of_kernel(condition):
        if bool(condition) is not is_else:
            yield
        return
    if bound:
        raise KernelError(
            f"'{bound[0]}' is bound in an 'if' that threads, blocks or iterations decide, and read "
            "behind it or in its 'else'; keep it in a tensor, or choose by 'cute.where'"
        )
    conditions = [condition]
    if is_else:
        is_predicate = isinstance(condition, Predicate)
        conditions = condition.opposites() if is_predicate else [opposite(condition)]
    if len(conditions) > 1 and changed:
        raise KernelError(
            f"'{changed[0]}' is read and bound anew where not all of several conditions hold, "
            "which is recorded once for each of them; bind another variable"
        )
    for one in conditions:
        with when(one):
            yield


def with_branches(function: Function) -> Function:
    """The function, whose ``if`` may ask for what the kernel decides.

    Those that ``break``, ``continue``, ``return`` or ``yield`` leaves are Python's own, and so are
    those of a function that a decorator has replaced: its text is not what would run.
    """
    if hasattr(function, "__wrapped__"):
        return function
    definition, before = definition_of(function)
    if definition is None:
        return function
    prints = _with_print(function, definition)
    if not prints and not any(isinstance(one, ast.If) for one in ast.walk(definition)):
        return function
    definition.decorator_list = []
    definition.body = _rewritten(definition.body, [])
    return _compiled(function, definition, before)


def _with_print(function: Callable[..., Any], definition: ast.FunctionDef) -> bool:
    """Lets Python's ``print`` in a function be :func:`printed`; whether there is any."""
    code = function.__code__
    if "print" in (*function.__globals__, *code.co_varnames, *code.co_freevars):
        return False
    found = [one for one in ast.walk(definition) if isinstance(one, ast.Name) and one.id == "print"]
    for one in found:
        one.id = _PRINT
    return bool(found)


def printed(*values: Any, **options: Any) -> None:
    """``print`` of a kernel; of one that is recorded several times, what it says the last time."""
    said = getattr(current_machine(), "said", None)
    if said is None:
        print(*values, **options)
    else:
        said.append(functools.partial(print, *map(str, values), **options))


def _compiled(function: Function, definition: ast.FunctionDef, before: int) -> Function:
    """The function with another definition, which has so many lines of its file before it."""
    code = function.__code__
    around = ast.parse(f"def around({', '.join((*code.co_freevars, _MODULE, _PRINT))}): pass")
    (outer,) = (one for one in around.body if isinstance(one, ast.FunctionDef))
    ast.increment_lineno(definition, before)
    outer.body = [definition]
    whole = compile(ast.fix_missing_locations(around), code.co_filename, "exec", dont_inherit=True)
    found = whole
    for name in ("around", definition.name):
        found = next(
            one for one in found.co_consts if isinstance(one, CodeType) and one.co_name == name
        )
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells |= {_MODULE: CellType(sys.modules[__name__]), _PRINT: CellType(printed)}
    closure = tuple(cells[name] for name in found.co_freevars)
    made = FunctionType(
        found, function.__globals__, function.__name__, function.__defaults__, closure
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return cast("Function", functools.update_wrapper(made, function))


def _rewritten(statements: list[ast.stmt], after: list[ast.stmt]) -> list[ast.stmt]:
    """Statements without ``if``; ``after`` are those that run behind them."""
    found: list[ast.stmt] = []
    for place, one in enumerate(statements):
        behind = statements[place + 1 :] + after
        if isinstance(one, ast.For | ast.While):
            again = [one, *behind]
            one.body = _rewritten(one.body, again)
            one.orelse = _rewritten(one.orelse, behind)
        elif isinstance(one, ast.With):
            one.body = _rewritten(one.body, behind)
        elif isinstance(one, ast.FunctionDef):
            one.body = _rewritten(one.body, [])
        elif isinstance(one, ast.If):
            found += _branches(one, behind)
            continue
        found.append(one)
    return found


def _branches(one: ast.If, behind: list[ast.stmt]) -> list[ast.stmt]:
    if _is_left([*one.body, *one.orelse]):
        return [_of_python(one, behind)]
    if (swapped := _opposite_of(one.test)) is not None:
        # What a kernel can ask is '==', and conditions that hold together.
        body = one.orelse or [ast.copy_location(ast.Pass(), one)]
        return _branches(ast.copy_location(ast.If(swapped, body, one.body), one), behind)
    if isinstance(one.test, ast.BoolOp) and isinstance(one.test.op, ast.And) and not one.orelse:
        # One in the other, so that the second one is asked where the first one holds.
        test, *others = one.test.values
        rest = others[0] if len(others) == 1 else ast.BoolOp(ast.And(), others)
        inner = ast.copy_location(ast.If(ast.copy_location(rest, others[0]), one.body, []), one)
        return _branches(ast.copy_location(ast.If(test, [inner], []), one), behind)
    joins = [part for part in ast.walk(one.test) if _joins(part)]
    if any(isinstance(part, ast.NamedExpr) for join in joins for part in ast.walk(join)):
        return [_of_python(one, behind)]  # what is joined is in functions, which would bind it
    bound = [_names_bound(part) for part in (one.body, one.orelse)]
    again = names_read(one.orelse)
    read = sorted((bound[0] | bound[1]) & names_read(behind) | bound[0] & again)
    changed = sorted(bound[1] & again)
    # Each has a name of its own: a branch may have others in it.
    condition = f"{_CONDITION}_{one.test.lineno}_{one.test.col_offset}"
    test = _Conditions().visit(one.test)
    made: list[ast.stmt] = [ast.Assign([ast.Name(condition, ast.Store())], test)]
    for is_else, body in ((False, one.body), (True, one.orelse)):
        if body:
            given: list[ast.expr] = [ast.Constant(is_else), _texts(read)]
            given += [_texts(changed)] if is_else else []
            decides = _call("taken", ast.Name(condition, ast.Load()), *given)
            inner = _rewritten(body, behind)
            made.append(ast.For(ast.Name(f"{condition}_", ast.Store()), decides, inner, []))
    for each in made:
        for node in (each, *_headers(each)):
            ast.copy_location(node, one.test)
    return made


def _joins(test: ast.AST) -> bool:
    """Whether an expression is of several conditions."""
    return isinstance(test, ast.BoolOp) or (isinstance(test, ast.Compare) and len(test.ops) > 1)


def _of_python(one: ast.If, behind: list[ast.stmt]) -> ast.If:
    one.body, one.orelse = (_rewritten(part, behind) for part in (one.body, one.orelse))
    return one


def _names_bound(statements: Sequence[ast.stmt]) -> set[str]:
    names = (name for part in statements for name in ast.walk(part) if isinstance(name, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _texts(names: Sequence[str]) -> ast.Tuple:
    return ast.Tuple([*map(ast.Constant, names)], ast.Load())


def _opposite_of(test: ast.expr) -> ast.expr | None:
    """The opposite of 'or' and of '!='."""
    match test:
        case ast.BoolOp(op=ast.Or(), values=values):
            others = [ast.copy_location(ast.UnaryOp(ast.Not(), one), one) for one in values]
            return ast.copy_location(ast.BoolOp(ast.And(), [*others]), test)
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]):
            return ast.copy_location(ast.Compare(left, [ast.Eq()], [right]), test)
        case _:
            return None


def _call(function: str, *arguments: ast.expr) -> ast.Call:
    """A call of a function of this module."""
    called = ast.Attribute(ast.Name(_MODULE, ast.Load()), function, ast.Load())
    return ast.Call(called, [*arguments], [])


class _Conditions(ast.NodeTransformer):
    """``and``, ``not`` and comparisons of several, as calls that take conditions of the kernel."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Or):
            return node
        none = ast.arguments([], [], None, [], [], None, [])
        return _at(node, _call("joined", *(ast.Lambda(none, one) for one in node.values)))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        is_not = isinstance(node.op, ast.Not)
        return _at(node, _call("opposite", node.operand)) if is_not else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if not _joins(node):
            return node
        sides = node.left, *node.comparators
        parts = zip(sides, node.ops, node.comparators, strict=False)
        pairs: list[ast.expr] = [ast.Compare(left, [op], [right]) for left, op, right in parts]
        both = ast.BoolOp(ast.And(), [_at(node, one) for one in pairs])
        return self.visit_BoolOp(ast.copy_location(both, node))


def _at(place: ast.AST, made: ast.expr) -> ast.expr:
    """A new expression where another one was written."""
    return ast.fix_missing_locations(ast.copy_location(made, place))


def _headers(made: ast.stmt) -> Iterator[ast.AST]:
    """What a new statement has besides what the user wrote."""
    if isinstance(made, ast.For):
        yield from ast.walk(made.iter)
        yield made.target
    elif isinstance(made, ast.Assign):
        yield made.targets[0]


def _is_left(statements: Sequence[ast.AST], in_loop: bool = False) -> bool:
    """Whether statements may leave what is around them."""
    for one in statements:
        if isinstance(one, ast.Return | ast.Yield | ast.YieldFrom):
            return True
        if isinstance(one, ast.Break | ast.Continue) and not in_loop:
            return True
        if isinstance(one, ast.FunctionDef | ast.Lambda):
            continue
        inside = in_loop or isinstance(one, ast.For | ast.While)
        if _is_left([*ast.iter_child_nodes(one)], inside):
            return True
    return False
