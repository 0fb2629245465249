"""Options of passes: what their values may be, in words."""

import pkgutil
from typing import Any, Literal, Optional

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

import mugraph
from mugraph.passes.options import options_in_words, values_in_words
from mugraph.reading import make_context
from mugraph.tools.universe import PASSES


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


TEXT = """
func.func @f(%x: tensor<8x8xf16>) -> tensor<8x8xf16> {
  %y = kn.exp %x : tensor<8x8xf16> -> tensor<8x8xf16>
  func.return %y : tensor<8x8xf16>
}"""


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"loads": "bulk"}, "loads = bulk is unknown; expected one of tma, cp_async"),
        ({"stages": 3}, r"stages = 3 must be a list, as stages = \[3\]"),
        ({"swap_ab": "yes"}, "swap_ab = yes is no truth value; write true or false"),
        ({"forloop": 0}, "forloop = 0 must be at least 1"),
        ({"split_k": 1.5}, "split_k = 1.5 must be an integer"),
    ],
)
def test_a_part_of_a_plan_says_what_it_may_be(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PassFailedException, match=sentence):
        mugraph.compile(TEXT, arch="cpu", plan=mugraph.Plan(**parts))


def test_a_target_that_is_none_is_refused_whatever_the_module_has() -> None:
    kinds: list[type[ModulePass]] = [pkgutil.resolve_name(place) for place in PASSES.values()]
    asked = [kind for kind in kinds if any(name == "arch" for name, _ in options_in_words(kind))]
    assert len(asked) > 1
    for kind in asked:
        with pytest.raises(PassFailedException, match="unknown architecture 'sm_1'"):
            kind(**{"arch": "sm_1"}).apply(make_context(), ModuleOp([]))
