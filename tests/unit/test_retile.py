"""Repartitioned µGraphs are proved equal to what they were, and come through all passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.passes.retile import RetilePass
from mugraph.runtime.equivalence import Answer, Checker, Subject
from mugraph.tools.modules import make_context

EXAMPLES = Path(__file__).parents[2] / "examples"


def parse(text: str) -> ModuleOp:
    """The verified module of a text."""
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def example(name: str) -> ModuleOp:
    """One of the example µGraphs."""
    return parse((EXAMPLES / f"{name}.mlir").read_text(encoding="utf-8"))


def retiled(module: ModuleOp, **options: object) -> ModuleOp:
    """A repartitioned copy, which parses from its own text."""
    copy = module.clone()
    RetilePass(**options).apply(Context(), copy)  # type: ignore[arg-type]
    copy.verify()
    return parse(str(copy))


RETILINGS: dict[str, list[dict[str, object]]] = {
    "rmsnorm_linear": [
        {"grid": (192,), "forloop": 16},
        {"grid": (96, 4), "along": (-1, 0)},
        {"split": 4},
        {"grid": (48,), "split": 2, "parts": "f16"},
        {"grid": (24, 2), "along": (-1, 0), "forloop": 64, "split": 8, "block": (256,)},
    ],
    "gated_mlp": [
        {"grid": (128,), "forloop": 32},
        {"grid": (2, 64), "along": (0, 1)},
        {"forloop": 1},
        {"split": 2},
    ],
    "lora": [
        {"grid": (128,)},
        {"grid": (256,), "forloop": 4},
        {"grid": (64,), "forloop": 2, "split": 2},
    ],
    "attention_split_kv": [
        {"kernel": 0, "grid": (1, 4, 2), "along": (-1, -1, 1)},
        {"kernel": 0, "forloop": 8},
        {"kernel": 0, "forloop": 8, "split": 4},
    ],
}


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name, retilings in RETILINGS.items() for options in retilings],
    ids=str,
)
def test_what_is_computed_is_proved_to_stay(name: str, options: dict[str, object]) -> None:
    module = example(name)
    after = retiled(module, **options)
    assert str(after) != str(module)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)
