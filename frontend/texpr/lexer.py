"""Tokens of `.te` text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Span


class Kind(StrEnum):
    """What a token is."""

    NAME = "name"
    INTEGER = "integer"
    FLOAT = "number"
    STRING = "string"
    SYMBOL = "symbol"
    END = "end of the file"


@dataclass(frozen=True)
class Token:
    """A piece of the text: its kind, its characters, and where they are."""

    kind: Kind
    text: str
    span: Span[str]

    def __str__(self) -> str:
        return str(self.kind) if self.kind is Kind.END else f"'{self.text}'"


_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\n]*)"
    r"|(?P<float>\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.\d+(?:[eE][-+]?\d+)?)"
    r"|(?P<integer>\d+)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)?)"
    r'|(?P<string>"[^"\n]*")'
    r"|(?P<symbol>->|<<|>>|<=|>=|==|!=|\+=|-=|\*=|/=|[-+*/%<>=(){}\[\]|,:;#&^])"
)


def tokens_of(text: str, name: str) -> list[Token]:
    """The tokens of a text, without spaces and comments, an ``END`` behind them.

    Raises ``ParseError`` at a character that begins none.
    """
    source = Input(text, name)
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            what = "a text in quotes does not end" if text[position] == '"' else "no token"
            raise ParseError(
                Span(position, position + 1, source),
                f"{what} begins with {text[position]!r}" if what == "no token" else what,
            )
        group = match.lastgroup or ""
        if group != "space":
            kind = Kind[group.upper()]
            tokens.append(Token(kind, match.group(), Span(match.start(), match.end(), source)))
        position = match.end()
    tokens.append(Token(Kind.END, "", Span(len(text), len(text), source)))
    return tokens
