"""IR text with a token or two changed: it means something, or one message says what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from random import Random

import pytest
from schedules import passes_as_written
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mugraph.codegen.cuda import CudaTarget
from mugraph.passes.sequence import verifying
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.reading import make_context, parse_text, read_module
from mugraph.tools.diagnostics import describe_error

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKEN = re.compile(r"[A-Za-z_][\w.]*|\d+|[^\sA-Za-z_\d]|\s+")
NUMBERS = ("0", "1", "2", "3", "16", "17", "-1", "99999", "1000000000000")
MUTANTS = 60


def mutated(text: str, random: Random) -> str:
    """The text with one token or two removed, exchanged or replaced."""
    tokens = TOKEN.findall(text)
    places = [place for place, token in enumerate(tokens) if not token.isspace()]
    for _ in range(random.choice((1, 1, 2))):
        place, other = random.choice(places), random.choice(places)
        if tokens[place].isdigit():
            tokens[place] = random.choice(NUMBERS)
        else:
            tokens[place] = random.choice(("", tokens[other]))
    return "".join(tokens)


def scheduled(name: str, arch: str) -> str:
    context = make_context()
    module = read_module(str(EXAMPLES / name), context)
    verifying(passes_as_written(arch)).apply(context, module)
    return str(module)


def tensor_expression(*, lower: bool) -> str:
    context = make_context()
    module = read_module(str(EXAMPLES / "texpr/softmax.te"), context, ["M=8,N=64"])
    if lower:
        TeLowerPass().apply(context, module)
    return str(module)


def print_cuda(context: Context, module: ModuleOp) -> None:
    CudaTarget().emit(context, module, StringIO())


def lower_and_print(context: Context, module: ModuleOp) -> None:
    TeLowerPass().apply(context, module)
    module.verify()
    print_cuda(context, module)


CASES: dict[str, tuple[Callable[[], str], Callable[[Context, ModuleOp], None]]] = {
    "roles": (lambda: scheduled("rmsnorm_linear.mlir", "sm_90a"), print_cuda),
    "threads": (lambda: scheduled("lora.mlir", "sm_80"), print_cuda),
    "loops": (lambda: tensor_expression(lower=False), lower_and_print),
    "mapped": (lambda: tensor_expression(lower=True), print_cuda),
}


@pytest.mark.parametrize("name", CASES)
def test_no_text_is_an_internal_error(name: str) -> None:
    make, use = CASES[name]
    text, random = make(), Random(name)
    rejected = 0
    for _ in range(MUTANTS):
        mutant = mutated(text, random)
        context = make_context()
        try:
            module = parse_text(context, mutant, "mutant")
            module.verify()
            use(context, module)
        except Exception as error:
            message = describe_error(error)
            assert not message.startswith("internal error"), f"{message}\n{mutant}"
            rejected += 1
    # Otherwise nothing was changed.
    assert rejected > MUTANTS // 2
