"""The parser of `.te` text: recursive descent over its tokens."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import isinf
from typing import NoReturn

from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span

from mugraph.dialects import te
from mugraph.texpr import syntax
from mugraph.texpr.lexer import Kind, Token, tokens_of

_STATEMENTS = ("par", "seq", "fully", "if", "new", "reg", "let", "anchor", "red", "atomic", "asm")
KEYWORDS = frozenset((*_STATEMENTS, "size", "fn", "and", "in", "out", "inout", "max", "min"))
"""Words that are no names of buffers or variables; ``max`` and ``min`` are also functions."""

_ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_BINARY = (("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*", "/", "%"))
"""Binary operators by how tightly they bind, the loosest first."""
_SUM = _BINARY.index(("+", "-"))
"""The level of sums, which are what indices and extents are."""
_CLOSEST_SPACE = "register"


@lru_cache(maxsize=4)
def parse_text(text: str, name: str) -> syntax.File:
    """The syntax tree of a text; ``name`` is the file's, for messages.

    A text that is read at many sizes is parsed once: trees do not change.  Raises ``ParseError``
    with the place of the first error.
    """
    return _Parser(tokens_of(text, name)).file()


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._position = 0

    # Tokens.

    @property
    def _next(self) -> Token:
        return self._tokens[self._position]

    def _fail(self, message: str, span: Span[str] | None = None) -> NoReturn:
        raise ParseError(span or self._next.span, message)

    def _take(self) -> Token:
        token = self._next
        self._position += token.kind is not Kind.END
        return token

    def _is(self, *texts: str) -> bool:
        return self._next.kind in (Kind.NAME, Kind.SYMBOL) and self._next.text in texts

    def _accept(self, text: str) -> bool:
        if self._is(text):
            self._take()
            return True
        return False

    def _expect(self, text: str, why: str = "") -> Token:
        if not self._is(text):
            self._fail(f"expected '{text}'{f' {why}' if why else ''}, got {self._next}")
        return self._take()

    def _name(self, what: str) -> Token:
        if self._next.kind is not Kind.NAME or self._next.text in KEYWORDS:
            self._fail(f"expected the name of {what}, got {self._next}")
        return self._take()

    def _since(self, start: Token) -> Span[str]:
        end = self._tokens[self._position - 1].span.end
        return Span(start.span.start, end, start.span.input)

    def _begins(self, token: Token) -> bool:
        """Whether an expression begins with a token."""
        return token.kind in (Kind.NAME, Kind.INTEGER) or token.text == "("

    # Declarations.

    def file(self) -> syntax.File:
        file = syntax.File()
        while self._next.kind is not Kind.END:
            if self._is("size"):
                file.sizes += self._sizes()
            elif self._is("fn"):
                file.functions.append(self._function())
            else:
                file.body.append(self._statement())
            self._accept(";")
        return file

    def _sizes(self) -> list[syntax.Size]:
        self._take()
        sizes: list[syntax.Size] = []
        while True:
            name = self._name("a size")
            is_of_call = bool(self._accept("<="))
            value = self._sum() if is_of_call or self._accept("=") else None
            choices = [] if value is None or is_of_call else self._choices(value)
            multiple: syntax.Expression | None = None
            if is_of_call and self._accept("#"):
                if self._next.text != "multiple":
                    self._fail("a size that a call says has no pragma but #multiple(n)")
                self._take()
                self._expect("(")
                multiple = self._sum()
                self._expect(")")
            span = self._since(name)
            sizes.append(syntax.Size(span, name.text, value, is_of_call, multiple, (*choices,)))
            if not self._accept(","):
                return sizes

    def _choices(self, first: syntax.Expression) -> list[int]:
        """The values of an open size behind the first, ``64 | 128``, and it; else none."""
        choices: list[int] = []
        while self._accept("|"):
            choices = choices or [self._whole_number(first)]
            choices.append(self._whole_number(self._sum()))
        return choices

    def _whole_number(self, value: syntax.Expression) -> int:
        match value:
            case syntax.Number(value=int(number)) if number > 0:
                return number
            case _:
                self._fail(
                    "a size may be one of several whole numbers above 0, 64 | 128", value.span
                )

    def _function(self) -> syntax.Function:
        start = self._take()
        name = self._name("a function")
        span = self._since(start)
        self._expect("(", "before the parameters")
        parameters: list[syntax.Parameter] = []
        while not self._accept(")"):
            if parameters:
                self._expect(",", "or ')' after a parameter")
            parameters.append(self._parameter())
        result: syntax.Parameter | None = None
        if self._accept(":"):
            first = self._next
            if first.text in te.ELEMENT_TYPES:
                result = syntax.Parameter(first.span, "result", self._type(), None)
            else:
                result = self._parameter()
        return syntax.Function(span, name.text, tuple(parameters), result, self._block())

    def _parameter(self) -> syntax.Parameter:
        start = self._next
        space = _CLOSEST_SPACE if self._accept("reg") else None
        name = self._name("a parameter")
        self._expect(":", "and the type of the parameter")
        type_ = self._type()
        return syntax.Parameter(self._since(start), name.text, type_, space)

    def _type(self) -> syntax.Type:
        start = self._next
        if start.text not in te.ELEMENT_TYPES:
            self._fail(f"expected an element type ({', '.join(te.ELEMENT_TYPES)}), got {start}")
        self._take()
        extents: tuple[syntax.Expression, ...] | None = None
        if self._accept("["):
            extents = self._list("]", self._sum)
            if not extents:
                self._fail("a buffer has at least one extent")
        return syntax.Type(self._since(start), start.text, extents)

    def _list(
        self, end: str, item: Callable[[], syntax.Expression]
    ) -> tuple[syntax.Expression, ...]:
        items: list[syntax.Expression] = []
        while not self._accept(end):
            if items:
                self._expect(",", f"or '{end}'")
            items.append(item())
        return tuple(items)

    # Statements.

    def _block(self) -> tuple[syntax.Statement, ...]:
        start = self._expect("{")
        statements: list[syntax.Statement] = []
        while not self._accept("}"):
            if self._next.kind is Kind.END:
                self._fail("this '{' has no '}'", start.span)
            statements.append(self._statement())
            self._accept(";")
        return tuple(statements)

    def _statement(self) -> syntax.Statement:
        start = self._next
        match start.text if start.kind is Kind.NAME else "":
            case "par" | "seq" | "fully":
                return self._loop()
            case "if":
                return self._if()
            case "new" | "reg":
                return self._new()
            case "let":
                self._take()
                name = self._name("a value").text
                self._expect("=")
                value = self._update() if self._is("atomic") else self._expression()
                return syntax.Let(self._since(start), name, value)
            case "anchor":
                self._take()
                value = self._expression()
                return syntax.Anchor(self._since(start), value)
            case "red" | "atomic":
                return self._update()
            case "asm":
                return self._asm()
            case _:
                return self._assignment_or_call()

    def _loop(self) -> syntax.Loop:
        start = self._next
        fully = self._accept("fully")
        if fully and not self._is("par"):
            self._fail(f"expected 'par' after 'fully', got {self._next}")
        parallel = self._take().text == "par"
        extent = self._sum()
        bars = self._accept("|")
        variable = self._name("the loop's variable").text
        if bars:
            self._expect("|", "after the loop's variable")
        span = self._since(start)
        level: str | None = None
        alignment: syntax.Expression | None = None
        prefetch: syntax.Expression | None = None
        while self._accept("#"):
            pragma = self._next
            if pragma.text == "align":
                self._take()
                self._expect("(")
                alignment = self._sum()
                self._expect(")")
            elif pragma.text == "prefetch":
                self._take()
                self._expect("(")
                prefetch = self._sum()
                self._expect(")")
                if parallel:
                    self._fail(
                        "#prefetch(n) is of a 'seq' loop: loads of later iterations begin n ahead",
                        pragma.span,
                    )
                continue
            elif pragma.text in list(te.Level) and level is not None:
                self._fail(f"the loop is at level #{level} already", pragma.span)
            elif pragma.text in list(te.Level):
                level = self._take().text
            else:
                self._fail(
                    f"there is no pragma #{pragma.text}; a parallel loop has #align(n), "
                    + ", ".join(f"#{level}" for level in te.Level)
                    + ", and a 'seq' loop #prefetch(n)"
                )
            if not parallel:
                self._fail(
                    "a 'seq' loop has no pragma but #prefetch(n): its iterations are not dealt out",
                    pragma.span,
                )
        return syntax.Loop(
            span, parallel, fully, extent, variable, level, alignment, prefetch, self._block()
        )

    def _if(self) -> syntax.If:
        start = self._take()
        conditions = [self._expression()]
        while self._accept("and"):
            conditions.append(self._expression())
        found = syntax.If(self._since(start), tuple(conditions), self._block())
        if self._is("else"):
            self._fail("there is no 'else'; write another 'if' with the opposite condition")
        return found

    def _new(self) -> syntax.New | syntax.NewMbarriers:
        start = self._take()
        space: str | None = _CLOSEST_SPACE if start.text == "reg" else None
        name = self._name("a buffer").text
        type_: syntax.Type | None = None
        value: syntax.Expression | tuple[syntax.Expression, ...] | None = None
        if self._accept(":") or self._next.text in te.ELEMENT_TYPES:
            if self._accept("mbarrier"):
                return self._mbarriers(start, name)
            type_ = self._type()
        elif start.text == "new" and not self._is("="):
            extents = (self._sum(),)
            type_ = syntax.Type(self._since(start), "f32", extents)
        if self._accept("="):
            listed = self._accept("[")
            value = self._list("]", self._expression) if listed else self._expression()
        if type_ is None and value is None:
            self._fail(f"'{name}' needs a type, such as '{start.text} {name}: f32[16]'")
        while self._accept("#"):
            known = {
                "global": "global",
                "cluster": "cluster",
                "shared": "shared",
                "reg": "register",
            }
            if self._next.text not in known:
                self._fail(
                    f"there is no pragma #{self._next.text} of a buffer; there are "
                    + ", ".join(f"#{name}" for name in known)
                )
            space = str(te.Space(known[self._take().text]))
        return syntax.New(self._since(start), name, type_, space, value)

    def _mbarriers(self, start: Token, name: str) -> syntax.NewMbarriers:
        self._expect("[", "and how many mbarriers there are")
        count = self._sum()
        self._expect("]")
        for text in ("#", "arrivals", "("):
            self._expect(text, "of '#arrivals(n)': how many arrivals end a phase")
        arrivals = self._sum()
        self._expect(")")
        return syntax.NewMbarriers(self._since(start), name, count, arrivals)

    def _assignment_operator(self, *more: str) -> str:
        if self._is("max", "min"):
            token = self._take()
            self._expect("=", f"after '{token.text}'")
            return f"{token.text}="
        if not self._is(*_ASSIGNMENTS):
            self._fail(f"expected '=', '+=' or the like, got {self._next}")
        return self._take().text

    def _update(self) -> syntax.Update:
        start = self._take()
        target = self._place()
        if isinstance(target, syntax.Section):
            self._fail("an update is of one element", target.span)
        position = self._next.span
        operator = self._assignment_operator()
        if operator not in ("+=", "max=", "min="):
            self._fail(f"{start} takes '+=', 'max=' or 'min=', not '{operator}'", position)
        value = self._expression()
        return syntax.Update(self._since(start), start.text == "atomic", target, operator, value)

    def _assignment_or_call(self) -> syntax.Statement:
        start = self._next
        if start.kind is not Kind.NAME or start.text in KEYWORDS:
            self._fail(f"expected a statement, got {start}")
        following = self._tokens[self._position + 1]
        if following.kind is Kind.SYMBOL and following.text == "(":
            call = self._atom()
            if not isinstance(call, syntax.Apply):
                self._fail("expected a call", start.span)
            return syntax.Call(self._since(start), call)
        target = self._place()
        operator = self._assignment_operator()
        value = self._expression()
        return syntax.Assign(self._since(start), target, operator, value)

    def _place(self) -> syntax.Name | syntax.Element | syntax.Section:
        start = self._name("a buffer")
        place = self._after_name(start)
        if isinstance(place, syntax.Apply):
            self._fail("a call cannot be assigned to", place.span)
        return place

    def _asm(self) -> syntax.Asm:
        start = self._take()
        self._expect("(")
        text = self._next
        if text.kind is not Kind.STRING:
            self._fail(f"expected the text of an instruction in quotes, got {text}")
        self._take()
        operands: list[tuple[str, syntax.Expression]] = []
        while not self._accept(")"):
            self._expect(",", "or ')'")
            direction = self._take().text if self._is("in", "out", "inout") else "in"
            operands.append((direction, self._expression()))
        meaning: tuple[syntax.Statement, ...] | None = None
        if self._accept("means"):
            meaning = self._block() if self._is("{") else (self._statement(),)
        return syntax.Asm(self._since(start), text.text[1:-1], tuple(operands), meaning)

    # Expressions.

    def _expression(self) -> syntax.Expression:
        start = self._next
        left = self._binary()
        if self._is(*_COMPARISONS):
            operator = self._take().text
            right = self._binary()
            return syntax.Binary(self._since(start), operator, left, right)
        return left

    def _binary(self, level: int = 0) -> syntax.Expression:
        """What the operators of a level, and of those that bind tighter, are applied to."""
        if level == len(_BINARY):
            return self._unary()
        start = self._next
        left = self._binary(level + 1)
        while self._is(*_BINARY[level]):
            operator = self._take().text
            right = self._binary(level + 1)
            left = syntax.Binary(self._since(start), operator, left, right)
        return left

    def _sum(self) -> syntax.Expression:
        return self._binary(_SUM)

    def _unary(self) -> syntax.Expression:
        start = self._next
        if self._accept("-"):
            operand = self._unary()
            return syntax.Unary(self._since(start), operand)
        return self._atom()

    def _atom(self) -> syntax.Expression:
        start = self._take()
        match start.kind:
            case Kind.INTEGER:
                return syntax.Number(start.span, int(start.text))
            case Kind.FLOAT:
                value = float(start.text)
                if isinf(value):
                    self._fail("no type has so large a number; infinity is 'inf'", start.span)
                return syntax.Number(start.span, value)
            case Kind.NAME if start.text not in KEYWORDS or start.text in ("max", "min"):
                return self._after_name(start)
            case Kind.SYMBOL if start.text == "(":
                inner = self._expression()
                self._expect(")")
                return inner
            case _:
                self._fail(f"expected an expression, got {start}", start.span)

    def _after_name(
        self, name: Token
    ) -> syntax.Name | syntax.Element | syntax.Section | syntax.Apply:
        if self._accept("("):
            arguments = self._list(")", self._expression)
            return syntax.Apply(self._since(name), name.text, arguments)
        if not self._accept("["):
            return syntax.Name(name.span, name.text)
        starts: list[syntax.Expression] = []
        extents: list[syntax.Expression] = []
        distinct = self._is("distinct") and self._begins(self._tokens[self._position + 1])
        if distinct:
            self._take()
        while not self._accept("]"):
            if starts:
                self._expect(",", "or ']'")
            starts.append(self._binary())
            if self._accept(":"):
                extents.append(self._sum())
        span = self._since(name)
        if not starts:
            self._fail(f"'{name.text}' needs an index", span)
        if not extents:
            return syntax.Element(span, name.text, tuple(starts), distinct)
        if distinct:
            self._fail("'distinct' is of the index of one element", span)
        if len(extents) != len(starts):
            self._fail("a section has a start and an extent, 'i : 16', in each dimension", span)
        return syntax.Section(span, name.text, tuple(starts), tuple(extents))
