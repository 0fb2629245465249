"""The attributes around layouts: in their own right, and inside other types."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import layouts, swizzled_layouts
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, TensorType, f16
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from mugraph.dialects.cute import Layout, make_identity_layout, parse_layout
from mugraph.dialects.cute.attributes import (
    LayoutAttr,
    TiledMmaAttr,
    parse_layout_parameter,
    print_layout_parameter,
)
from mugraph.dialects.cute.dialect import CuteDialect


def parser_of(text: str) -> Parser:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(CuteDialect)
    return Parser(context, text)


@given(
    st.one_of(layouts(("compact", "padded", "broadcast", "wild", "negative")), swizzled_layouts())
)
def test_layout_attributes_round_trip(layout: Any) -> None:
    attribute = LayoutAttr(layout)
    assert str(attribute) == f"#cute.layout<{layout}>"
    assert parser_of(str(attribute)).parse_attribute() == attribute
    text = f"tensor<4x8xf16, {attribute}>"
    assert parser_of(text).parse_attribute() == TensorType(f16, [4, 8], attribute)


@given(st.one_of(layouts(), swizzled_layouts()))
def test_layouts_inside_other_parameters(layout: Any) -> None:
    output = StringIO()
    print_layout_parameter(Printer(output), layout)
    parser = parser_of(f"{output.getvalue()} , rest")
    assert parse_layout_parameter(parser) == layout
    parser.parse_punctuation(",")
    parser.parse_keyword("rest")


@pytest.mark.parametrize(
    ("text", "words", "column"),
    [
        ("#cute.layout<(16,4096):(4096)>", "not nested like", 14),
        ("#cute.layout<(16,0):(4096,1)>", "at least 1, not 0", 18),
        ("#cute.layout<(16,4096:(4096,1)>", "Expected ')'", 22),
        ("#cute.layout<(16,4)>", "Expected ':'", 20),
        ("#cute.layout<S<3,3,1> o 8:1>", "at least the number of bits", 15),
        ("#cute.layout<S<1,0,1> o -4 o 8:1>", "must not be negative", 14),
        ("#cute.tiled_mma<SM80_16x8, (1,1,1)>", "There is no MMA atom", 17),
        ("#cute.tiled_mma<SM61_DP4A, (1,0,1)>", "along N must be at least 1", 31),
    ],
)
def test_errors_have_their_place(text: str, words: str, column: int) -> None:
    with pytest.raises(ParseError) as error:
        parser_of(text).parse_attribute()
    assert words in str(error.value) and f":1:{column}" in str(error.value), str(error.value)


def test_verification_in_python() -> None:
    with pytest.raises(VerifyException, match="integer strides"):
        LayoutAttr(make_identity_layout((4, 8)))  # type: ignore[arg-type]
    with pytest.raises(VerifyException, match="no MMA atom"):
        TiledMmaAttr("SM80_16x8")
    with pytest.raises(VerifyException, match="three integers"):
        TiledMmaAttr("SM61_DP4A", (1, 0, 1))


def test_tiled_mma_attribute() -> None:
    attribute = TiledMmaAttr("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1))
    assert attribute.atom == "SM80_16x8x16_F32F16F16F32_TN" and attribute.thr_layout == (2, 2, 1)
    assert [attribute.tiled_mma.tile_extent(axis) for axis in range(3)] == [32, 16, 16]
    assert parser_of(str(attribute)).parse_attribute() == attribute
    assert attribute.tiled_mma.layout_tv("A") == parse_layout(
        "((4,8,2,2),((2,2,2),(1,1))):((64,1,16,0),((32,8,256),(0,0)))"
    )


def test_data_is_the_layout() -> None:
    assert LayoutAttr(Layout((4, 8), (8, 1))).data(1, 2) == 10
