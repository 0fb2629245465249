"""The lexer of IR text finds the tokens that xDSL's lexer finds, and the same errors."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from thorough import inputs
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

from mugraph.reading.lexer import QuickLexer

EXAMPLE = Path(__file__).parents[2] / "examples" / "rmsnorm_linear.mlir"
CHARACTERS = 'abx0159.-+#!%^@{}()[]<>:,=/*?|_$" \n\té²\\;&'


def tokens(lexer: type[MLIRLexer], text: str) -> list[object]:
    """Kinds and places of all tokens, up to the end or an error."""
    lexing = lexer(Input(text, "text"))
    found: list[object] = []
    kind = None
    try:
        while kind is not MLIRTokenKind.EOF:
            token = lexing.lex()
            kind = token.kind
            found.append((kind, token.span.start, token.span.end, type(token.span)))
    except ParseError as error:
        found.append((error.msg, error.span.start, error.span.end))
    return found


@pytest.mark.parametrize(
    "text",
    [
        EXAMPLE.read_text(encoding="utf-8"),
        "0x1f 0x 00x1 10x4 1.5 1. 12e3 -7 0 // end",
        "{-# #-} #map %0 %a-b !tb.tile<2x3> ^bb0 @f ->-> ... {",
        '"text" @"name" // "no text',
    ],
)
def test_tokens_are_those_of_xdsl(text: str) -> None:
    assert tokens(QuickLexer, text) == tokens(MLIRLexer, text)


def test_tokens_of_drawn_texts_are_those_of_xdsl() -> None:
    draw = random.Random(0)
    for _ in range(inputs(2000, 100_000)):
        text = "".join(draw.choices(CHARACTERS, k=7))
        assert tokens(QuickLexer, text) == tokens(MLIRLexer, text), text
