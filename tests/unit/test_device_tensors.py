"""Signatures that no kernel can work with are refused in a sentence."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from mugraph.passes.mugraph.insert_copies import is_library_matrix
from mugraph.passes.mugraph.resolve_layout import ResolveLayoutPass
from mugraph.reading import make_context


def refusal(argument: str, result: str) -> str:
    """What --resolve-layout says of a function with this argument and this result."""
    plain = argument.partition(" {")[0]
    returned = result.partition(" {")[0]
    text = (
        f"func.func @f(%x: {argument}) -> ({result}) {{ %y = kn.exp %x : {plain} -> {returned} "
        f"func.return %y : {returned} }}"
    )
    context = make_context()
    module = Parser(context, text).parse_module()
    module.verify()
    with pytest.raises(PassFailedException) as error:
        ResolveLayoutPass().apply(context, module)
    return str(error.value)


PLAIN = "tensor<4x8xf16>"


@pytest.mark.parametrize(
    ("argument", "result", "expected"),
    [
        (
            "tensor<4x8xf16, #cute.layout<(4,8):(8,-1)>>",
            PLAIN,
            "%x of @f has the layout (4,8):(8,-1); strides must not be negative",
        ),
        (
            "tensor<4x8xf16, #cute.layout<(4,8):(0,1)>>",
            PLAIN,
            "%x of @f has the layout (4,8):(0,1) with stride 0 along dimension 0 of extent 4; give "
            "that dimension extent 1, which operators broadcast",
        ),
        (
            PLAIN,
            "tensor<4x8xf16, #cute.layout<(4,8):(4,1)>>",
            "%y of @f has the layout (4,8):(4,1), under which elements share an address; a tensor "
            "that is computed needs one for each",
        ),
        (
            "tensor<4x8xf16> {mugraph.alignment = 6 : i64}",
            PLAIN,
            "argument 0 (%x) of 'func.func' @f: mugraph.alignment is 6 bytes; expected a power of "
            "two of at least 2, the size of an element",
        ),
        (
            PLAIN,
            "tensor<4x8xf16> {mugraph.alignment = 1 : i64}",
            "result 0 of 'func.func' @f: mugraph.alignment is 1 bytes; expected a power of two of "
            "at least 2, the size of an element",
        ),
    ],
)
def test_refused(argument: str, result: str, expected: str) -> None:
    assert refusal(argument, result) == f"--resolve-layout: {expected}"


@pytest.mark.parametrize(
    ("shape", "strides", "fits"),
    [
        ((4, 8), (8, 1), True),
        ((4, 8), (1, 4), True),
        ((4, 8), (11, 1), True),
        ((3, 4, 8), (1, 24, 3), False),
        ((4, 8), (16, 2), False),
        ((4, 8), (7, 1), False),
        ((1, 8), (1, 5), True),
        ((4, 1), (9, 3), True),
        ((1, 1), (0, 0), True),
        ((4, 8), (2**31, 1), False),
        ((1, 8), (2**40, 1), True),
    ],
)
def test_what_the_library_takes(
    shape: tuple[int, ...], strides: tuple[int, ...], fits: bool
) -> None:
    assert is_library_matrix(shape, strides) is fits
