"""What :mod:`fuzz.properties` finds wrong of a text that does not say what its module is."""

import pytest

from fuzz.operator_cases import products
from fuzz.properties import PropertyError, parse, require_parsed_back

TEXT = str(parse(products()[0]))


def test_a_text_that_says_all_parses_back() -> None:
    module = parse(TEXT)
    assert str(require_parsed_back("input", module, TEXT)) == TEXT


@pytest.mark.parametrize(
    ("words", "others"),
    [("%t0", "%s0"), ("forloop 3", "forloop 1"), ("fordim 2", "fordim 1"), ("f16", "bf16")],
)
def test_a_text_that_says_something_else_is_found(words: str, others: str) -> None:
    module, text = parse(TEXT), TEXT.replace(words, others)
    assert text != TEXT
    with pytest.raises(PropertyError, match="parses as another module"):
        require_parsed_back("input", module, text)
