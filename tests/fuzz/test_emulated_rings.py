"""Rings of any number of stages and iterations, in blocks of one work tile and of several.

The emulator fails where all threads wait for others, and tiles that come from a wrong stage make
wrong products: stages that are counted wrong are found either way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from schedules import passes_as_written
from thorough import inputs
from xdsl.utils.exceptions import PassFailedException

from fuzz.emulated import MUGRAPHS
from fuzz.properties import Compiled, make_case, parse
from mugraph.codegen.cuda import print_module
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context

USUAL = inputs(8, 600)
BLOCKS = 5
ROWS, COLUMNS = 64, 16


@dataclass(frozen=True)
class Drawn:
    """A kernel: how deep the tiles of each product are, and the stages of its ring."""

    depths: tuple[int, ...]
    stages: tuple[int, ...]
    iterations: int
    launched: int = 0
    """How many persistent blocks take the work tiles; 0 for a block each."""
    consumers: int = 0
    """How many roles take turns at work tiles; 0 where none do."""

    def text(self) -> str:
        """A product of two tensors, or two such products, the first cut off at 0, and added."""
        given: dict[str, str] = {}
        steps: list[str] = []
        y, tile = f"tensor<{ROWS}x{COLUMNS * BLOCKS}xf16>", f"!tb.stensor<{ROWS}x{COLUMNS}xf16>"
        for n, depth in enumerate(self.depths):
            x, w = (
                f"{ROWS}x{depth * self.iterations}",
                f"{depth * self.iterations}x{COLUMNS * BLOCKS}",
            )
            given |= {f"x{n}": f"tensor<{x}xf16>", f"w{n}": f"tensor<{w}xf16>"}
            left = f"!tb.stensor<{ROWS}x{depth}xf16>"
            right = f"!tb.stensor<{depth}x{COLUMNS}xf16>"
            steps += [
                f"%s{n} = tb.input %dx{n} imap [-1, -1, -1] fordim 1 : {given[f'x{n}']} -> {left}",
                f"%t{n} = tb.input %dw{n} imap [1, -1, -1] fordim 0 : {given[f'w{n}']} -> {right}",
                f"%m{n} = tb.matmul %s{n}, %t{n} : ({left}, {right}) -> {tile}",
                f"%a{n} = tb.forloop_accum none %m{n} : {tile} -> {tile}",
            ]
        result = "%a0"
        if len(self.depths) > 1:
            steps.append(f"%r = tb.relu %a0 : {tile} -> {tile}")
            steps.append(f"%p = tb.add %r, %a1 : ({tile}, {tile}) -> {tile}")
            result = "%p"
        arguments = ", ".join(f"%{name}: {type_}" for name, type_ in given.items())
        of_body = ", ".join(f"%d{name}: {type_}" for name, type_ in given.items())
        operands, types = ", ".join(f"%{name}" for name in given), ", ".join(given.values())
        body = "\n    ".join([*steps, f"tb.output {result} omap [1, -1, -1] : {tile} -> {y}"])
        return f"""
func.func @fuzzed({arguments}) -> {y} {{
  %o = kn.customized {operands} grid [{BLOCKS}, 1, 1] block [128, 1, 1] forloop {self.iterations} {{
  ^bb0({of_body}):
    {body}
  }} : ({types}) -> {y}
  func.return %o : {y}
}}
"""

    def compiled(self) -> Compiled:
        """The kernel as it is drawn; raises ``PassFailedException`` where it has no room."""
        module = parse(self.text())
        plan: dict[str, Any] = {"stages": self.stages, "loads": "tma", "blocks": self.launched}
        if self.consumers:
            plan["ping_pong"] = self.consumers
        plan["persistent"] = bool(self.launched)
        case = make_case(module)
        verifying(passes_as_written("sm_90a", **plan)).apply(make_context(), module)
        return Compiled(case, module, print_module(module))


REGRESSIONS = (
    # The producer's loop fills the second ring alone: the first has room for all iterations.
    Drawn((64, 160), (3, 2), 3, launched=2),
    Drawn((64, 160), (3, 2), 3, launched=1, consumers=2),
    # No ring is left to the loop.
    Drawn((64, 32), (3, 3), 3, launched=2),
    # A loop that runs once.
    Drawn((64,), (1,), 1, launched=2),
)


def draw(random: np.random.Generator) -> Drawn:
    """A kernel whose loop is shorter than its first ring, as long, or longer."""
    depths = ((64,), (32, 64), (64, 96), (32, 32))[random.integers(4)]
    stages = tuple(int(random.integers(2, 8)) for _ in depths)
    longest = stages[0]
    choices = (1, longest - 1, longest, longest + 1, 2 * longest, 3 * longest + 1)
    iterations = max(int(random.choice(choices)), 1)
    stages = tuple(min(each, iterations) for each in stages)
    launched = int(random.choice((0, 1, 2, 3)))
    consumers = int(random.choice((0, 2, 3))) if launched else 0
    return Drawn(depths, stages, iterations, launched, consumers)


def drawn(seed: int, count: int) -> Iterator[Compiled]:
    """So many kernels that there is room for."""
    random = np.random.default_rng(seed)
    while count:
        try:
            compiled = draw(random).compiled()
        except PassFailedException:
            continue
        count -= 1
        yield compiled


@pytest.mark.usefixtures("needs_emulator")
def test_each_iteration_is_multiplied_from_its_stage() -> None:
    for kernel in REGRESSIONS:
        compiled = kernel.compiled()
        assert bool(kernel.launched) == ("place += " in compiled.cuda)
        MUGRAPHS.add(compiled)
    MUGRAPHS.add(*drawn(7, USUAL))
