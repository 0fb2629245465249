"""What :mod:`fuzz.properties` finds wrong of a text that does not say what its module is."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from fuzz import properties
from fuzz.emulated import Broken
from fuzz.operator_cases import products
from fuzz.properties import Compiled, PropertyError, make_case, parse, require_parsed_back

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


def test_a_text_is_parsed_back_where_a_line_has_a_new_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[str] = []

    def parse_back(stage: str, module: ModuleOp, text: str) -> ModuleOp:
        parsed.append(text)
        return require_parsed_back(stage, module, text)

    monkeypatch.setattr(properties, "PARSED_BACK", set[str]())
    monkeypatch.setattr(properties, "THOROUGH", False)
    monkeypatch.setattr(properties, "require_parsed_back", parse_back)
    line = (
        "func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {{\n  {}\n  func.return %y : {}\n}}"
    )
    exp = line.format("%y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>", "tensor<4x8xf16>")
    smaller, wider = exp.replace("4x8", "2x6").replace("%x", "%a"), exp.replace("f16", "f32")
    other = exp.replace("kn.exp", "kn.sqrt")
    for text in (exp, smaller, exp, wider, other, other):
        printed = str(parse(text))
        properties.require_new_forms_parse_back("input", parse(text), printed)
    assert parsed == [str(parse(text)) for text in (exp, wider, other)]
    wrong = str(parse(exp)).replace("kn.exp", "kn.log")
    with pytest.raises(PropertyError):
        properties.require_new_forms_parse_back("input", parse(exp), wrong)


@pytest.mark.parametrize("failure", [None, PropertyError("the kernel", "ends with 5")])
def test_what_was_broken_on_purpose_must_fail_as_expected(failure: PropertyError | None) -> None:
    module = parse(TEXT)
    compiled = Compiled(make_case(module), module, "")
    assert (Broken(compiled).error(failure) is None) == (failure is not None)
    error = Broken(compiled, "may still read").error(failure)
    assert error is not None and str(failure) in str(error)
