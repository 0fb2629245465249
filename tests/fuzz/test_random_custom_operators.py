"""Random programs of a block, as custom operators through every pass and interpreter."""

from __future__ import annotations

import random

import numpy as np
import pytest
from schedules import passes_as_written

from fuzz.custom_operators import Tile, graph_of, parse
from fuzz.texpr_blocks import Generator
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function


def operator_text(seed: int) -> tuple[str, int]:
    """A function ``g`` on a row of so many elements: what a block of a random kernel does."""
    generator = Generator(random.Random(seed))
    lines = generator.program().splitlines()
    head, _, *body, _, last = lines
    text = "\n".join([head.replace("fn f", "fn g").replace("[2, ", "[1, "), *body, last])
    return text.replace("[b, ", "[0, ").replace("if b == 0", "if 1 > 0"), generator.size


@pytest.mark.parametrize("seed", range(5))
def test_a_random_program_computes_the_same_at_every_level(seed: int) -> None:
    text, size = operator_text(seed)
    threads = random.Random(seed).choice((32, 64, 96, 128))
    tile = Tile(1, size, "f32")
    module = parse(graph_of("g", [tile], tile, threads=threads), text)
    inputs = [np.random.default_rng(seed).integers(-4, 5, (2, size)).astype(np.float32)]
    (exact,) = run_function(module, None, inputs, "float64")
    verifying(passes_as_written(("sm_80", "sm_90a")[seed % 2])).apply(make_context(), module)
    (scheduled,) = run_function(module, None, inputs, "float64")
    np.testing.assert_allclose(scheduled, exact, rtol=1e-9)
    (expected,) = run_function(module, None, inputs)
    for order in ("reversed", seed):
        (found,) = run_function(module, None, inputs, level="address", order=order)
        # Sums are added up in other orders than numpy's.
        np.testing.assert_allclose(found, expected, rtol=1e-5)
