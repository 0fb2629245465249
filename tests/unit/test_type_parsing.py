"""Types are parsed once a text: what is kept is the type, and errors are where they were."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import Float16Type, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from mugraph.dialects.tensor_types import kept_with_attribute, shape_of
from mugraph.reading import make_context, parse_text

TILE = "!sched.shared<2x8xf16, S<1,0,1> o (2,8):(8,1)>"
TENSOR = "tensor<2x8xf16, #cute.layout<(2,8):(-1,4)>>"


def parsed(text: str) -> ModuleOp:
    return parse_text(make_context(), text, "test.mlir")


def arguments(text: str) -> tuple[Attribute, ...]:
    """The types of the arguments of a function with these."""
    (function,) = parsed(f"func.func private @f({text})").body.ops
    assert isinstance(function, FuncOp)
    return tuple(function.function_type.inputs)


@pytest.mark.parametrize("text", [TILE, TENSOR, "!tb.stensor<4xf16>"])
def test_one_text_is_one_type(text: str) -> None:
    first, second = arguments(f"{text}, {text}")
    assert first is second
    assert first == Parser(make_context(), text).parse_type()


def test_texts_that_differ_are_other_types() -> None:
    first, second, third = arguments("tensor<2x8xf16>, tensor<8x2xf16>, tensor<2x8xf16>")
    assert first == third != second


@pytest.mark.parametrize("text", ["tensor<2x8 // of > and\n xf16>", "tuple<() -> f16>"])
def test_brackets_in_comments_and_arrows_close_nothing(text: str) -> None:
    first, second = arguments(f"{text}, {text}")
    assert first == second == Parser(make_context(), text).parse_type()


def test_a_type_ends_where_its_text_does() -> None:
    (function,) = arguments("(tensor<2xf16>) -> tensor<2xf16>")
    assert function == FunctionType.from_lists(
        [TensorType(Float16Type(), [2])], [TensorType(Float16Type(), [2])]
    )


def test_aliases_are_what_they_stand_for() -> None:
    text = f"!tile = {TENSOR}\nfunc.func private @f(!tile, tuple<!tile>, tuple<!tile>, {TENSOR})"
    (function,) = parsed(text).body.ops
    assert isinstance(function, FuncOp)
    alias, within, again, direct = function.function_type.inputs
    assert alias == direct
    assert within is again


def test_a_wrong_type_is_wrong_at_each_place() -> None:
    text = f"func.func private @f({TILE})\nfunc.func private @g({TILE}, {TILE[:-1]})"
    with pytest.raises(ParseError) as error:
        parsed(text)
    assert error.value.span.start > text.index("@g")


def test_a_question_is_answered_once_an_attribute() -> None:
    asked: list[Attribute] = []

    @kept_with_attribute
    def rank(type_: Attribute) -> int:
        asked.append(type_)
        return len(shape_of(type_))

    one, other = TensorType(Float16Type(), [2, 8]), TensorType(Float16Type(), [4])
    before = hash(one), str(one)
    assert [rank(one), rank(other), rank(one)] == [2, 1, 2]
    assert asked == [one, other]
    assert (hash(one), str(one)) == before and one == TensorType(Float16Type(), [2, 8])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%y = kn.matmull %x, %x", "there is no operator 'kn.matmull'; is kn.matmul"),
        ("%y = km.exp %x", "there is no operator 'km.exp'"),
        ("func.return %z : tensor<2xf16>", "%z is used, but nothing defines it"),
        ("%y = kn.exp %x : tensor<2xf17>", "expected an element type, such as f16"),
        ("%y = kn.exp %x : !tb.stensr<2xf16>", "attribute 'tb.stensr'; is tb.stensor meant?"),
        ("%y = kn.exp %x : !tb.stensor<2xf64>", "!tb.stensor: element type f64"),
    ],
)
def test_what_is_misspelt_is_named_where_it_stands(body: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parsed(f"\nfunc.func @f(%x: tensor<2xf16>) {{\n{body}\n}}")
    assert str(caught.value).startswith("test.mlir:3:") and message in str(caught.value)
