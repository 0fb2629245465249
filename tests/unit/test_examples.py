"""Every example, after every pass: it prints, parses back, verifies and computes the same."""

import re
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from schedules import passes_as_written
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from mugraph.dialects.kn import count_of_rows
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.sequence import VerifiedChanges, verifying
from mugraph.reading import make_context, parse_text
from mugraph.runtime.compare import TOLERANCE, compare
from mugraph.runtime.interpreter import run_function

Array = npt.NDArray[Any]
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))
PASSES: tuple[ModulePass, ...] = passes_as_written()
CHANGED = ("attention_split_kv", "paged_attention", "rmsnorm_linear")
SOME_EXAMPLES = [path for path in EXAMPLES if THOROUGH or path.stem in CHANGED]
"""Examples that every pass changes; ``make fuzz`` takes all."""


def parse(text: str) -> ModuleOp:
    module = parse_text(make_context(), text, "the text")
    module.verify()
    return module


def reduced(text: str) -> str:
    """The full-size RMSNorm example with 4 blocks and iterations in place of 96 and 32."""
    for full, small in (
        ("6144", "256"),
        ("4096", "512"),
        ("[96", "[4"),
        ("forloop 32", "forloop 4"),
    ):
        text = text.replace(full, small)
    return text


@cache
def parsed(text: str) -> ModuleOp:
    """The module in a text, for tests that leave it as it is."""
    return parse(text)


@cache
def stages(path: Path) -> list[str]:
    """The text of an example as it is, and after each pass of ``--transpile``."""
    module = parse(reduced(path.read_text(encoding="utf-8")))
    texts = [str(module)]
    changes = VerifiedChanges()
    for step in PASSES:
        step.apply(make_context(), module)
        texts.append(str(module) if changes.verify(module) else texts[-1])
    return texts


@cache
def inputs_of(path: Path) -> list[Array]:
    """Random inputs whose products stay of moderate size."""
    module = parse(stages(path)[0])
    function = next(op for op in module.ops if isinstance(op, FuncOp))
    random = np.random.default_rng(7)
    inputs: list[Array] = []
    for argument in function.args:
        shape = shape_of(argument.type)
        if (rows := count_of_rows(argument)) is not None:
            inputs.append(random.integers(rows, size=shape, dtype=np.int32))
        else:
            inputs.append((random.standard_normal(shape) * 0.5).astype(np.float16))
    return inputs


@cache
def results_of(text: str, path: Path, precision: str) -> list[Array]:
    """What a stage gives; the same text is that of several where passes leave it as it was."""
    return run_function(parsed(text), None, inputs_of(path), precision)


@cache
def printed_again(text: str) -> str:
    """The text of what a text parses as."""
    return str(parsed(text))


@cache
def printed_from_generic(text: str) -> str:
    """The text of what the generic form of a text parses as."""
    generic = StringIO()
    Printer(stream=generic, print_generic_format=True).print_op(parsed(text))
    return str(parse(generic.getvalue()))


def names(stage: int) -> str:
    return PASSES[stage - 1].name if stage else "input"


def test_there_are_examples() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "rmsnorm_linear",
        "rmsnorm_in_loop",
        "gated_mlp",
        "attention_split_kv",
        "lora",
    }


@pytest.mark.parametrize("path", SOME_EXAMPLES, ids=lambda path: path.stem)
def test_the_text_parses_back_to_itself(path: Path) -> None:
    for stage, text in enumerate(stages(path)):
        assert printed_again(text) == text, names(stage)


@pytest.mark.parametrize("path", SOME_EXAMPLES, ids=lambda path: path.stem)
def test_the_generic_form_parses_back(path: Path) -> None:
    for stage, text in enumerate(stages(path)):
        assert printed_from_generic(text) == text, names(stage)


@pytest.mark.parametrize("path", SOME_EXAMPLES, ids=lambda path: path.stem)
def test_the_function_stays_the_same(path: Path) -> None:
    reference = results_of(stages(path)[0], path, "float64")
    for stage, text in enumerate(stages(path)):
        for comparison in compare(results_of(text, path, "float64"), reference):
            assert comparison.holds(1e-12), names(stage)
        for comparison in compare(results_of(text, path, "storage"), reference):
            assert comparison.holds(TOLERANCE), (names(stage), comparison)


@pytest.mark.parametrize("path", SOME_EXAMPLES, ids=lambda path: path.stem)
def test_every_pass_changes_nothing_the_second_time(path: Path) -> None:
    for stage, step in enumerate(PASSES, start=1):
        text = stages(path)[stage]
        module = parsed(text).clone()
        step.apply(make_context(), module)
        assert str(module) == text, step.name


@pytest.mark.parametrize("path", SOME_EXAMPLES, ids=lambda path: path.stem)
def test_transpile_is_its_passes(path: Path) -> None:
    module = parse(stages(path)[0])
    verifying(passes_as_written()).apply(make_context(), module)
    assert str(module) == stages(path)[-1]


def test_the_norm_in_the_loop_is_what_its_comment_says() -> None:
    path = next(path for path in EXAMPLES if path.stem == "rmsnorm_in_loop")
    x, weight, w = (value.astype(np.float64) for value in inputs_of(path))
    heads = x.reshape(16, 8, 128)
    norms = heads / np.sqrt((heads**2).sum(axis=2, keepdims=True)) * weight
    expected = norms.reshape(16, 1024) @ w
    scheduled = parse(stages(path)[-1])
    assert re.search(r"sched\.kernel", str(scheduled))
    [exact] = compare(run_function(scheduled, None, inputs_of(path), "float64"), [expected])
    assert exact.holds(1e-12)
    [rounded] = compare(run_function(scheduled, None, inputs_of(path)), [expected])
    assert rounded.holds(TOLERANCE)


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def rms(x: Array) -> Array:
    return np.sqrt((x**2).mean(axis=-1, keepdims=True))


def attention(q: Array, k: Array, v: Array) -> Array:
    weights = np.exp(q @ k / 8)
    return weights @ v / weights.sum(axis=2, keepdims=True)


def paged_attention(q: Array, k: Array, v: Array, table: Array) -> Array:
    pages = table.astype(int)
    weights = np.exp(np.concatenate([q[:, 0] @ k[numbers] for numbers in pages.T], axis=-1))
    values = np.concatenate([v[numbers] for numbers in pages.T], axis=-2)
    return (weights @ values / weights.sum(axis=-1, keepdims=True))[:, None]


FUNCTIONS = {
    "rmsnorm_linear": lambda x, w: (x / rms(x)) @ w,
    "gated_mlp": lambda x, w1, w2: silu(x @ w1) * (x @ w2),
    "attention_split_kv": attention,
    "lora": lambda x, w, a, b: x @ w + x @ a @ b,
    "paged_attention": paged_attention,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_are_what_their_comments_say(name: str) -> None:
    path = next(path for path in EXAMPLES if path.stem == name)
    expected = FUNCTIONS[name](*(value.astype(np.float64) for value in inputs_of(path)))
    module = parse(stages(path)[0])
    [exact] = compare(run_function(module, None, inputs_of(path), "float64"), [expected])
    assert exact.holds(1e-12)
