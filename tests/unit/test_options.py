"""Options of passes: what their values may be, in words."""

from typing import Any, Literal, Optional

import pytest

import mugraph
from mugraph.errors import UserError
from mugraph.passes.options import values_in_words


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (bool, "true or false"),
        (int | None, "an integer"),
        (Optional[Literal["none", "early", "late"]], "none, early or late"),  # noqa: UP045
        (tuple[int, ...] | None, "an integer, perhaps several with commas between them"),
        (Literal["fast", "none"] | tuple[str, ...], "fast or none or a word, perhaps several"),
    ],
)
def test_values_of_a_type(type_: Any, words: str) -> None:
    assert values_in_words(type_).startswith(words)


def test_an_option_of_a_compilation_says_what_it_may_be() -> None:
    text = """
func.func @f(%x: tensor<8x8xf16>) -> tensor<8x8xf16> {
  %y = kn.exp %x : tensor<8x8xf16> -> tensor<8x8xf16>
  func.return %y : tensor<8x8xf16>
}"""
    expected = "the option 'solver' is 'q'; expected dynamic-programming or z3."
    with pytest.raises(UserError, match=expected):
        mugraph.compile(text, arch="cpu", solver="q")
