"""Random µGraphs whose loads are a role of their own: silent, and right in every order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from schedules import IN_REGISTERS, passes_as_written
from thorough import inputs

from fuzz.properties import make_case, parse, require_close, require_same_text
from fuzz.search import WELL_FORMED, draw_case
from mugraph.dialects.sched import BulkWaitOp, KernelOp, roles_of
from mugraph.passes.schedule.analysis.hazards import find_hazards, progress_of, read_program
from mugraph.passes.schedule.analysis.hazards.simulate import Simulation
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context
from mugraph.runtime.interpreter import execute_by_address, run_function
from mugraph.runtime.interpreter.address_level import Landing

SEED = 11
RUNS: Sequence[tuple[str | int, Landing]] = [
    ("together", Landing.LATEST),
    ("forward", Landing.EARLIEST),
    ("reversed", Landing.LATEST),
    (0, Landing.LATEST),
    (1, Landing.EARLIEST),
]


def check_channels(text: str, *, bulk_stores: bool = False) -> int:
    """Takes a µGraph through the channel schedule and checks it; returns its kernels with roles.

    ``bulk_stores``: results go through shared memory, and leave it by bulk copies.
    """
    module = parse(text)
    case = make_case(module)
    verifying(
        passes_as_written(
            "sm_90a",
            loads="tma",
            check_hazards=False,
            stores="tma" if bulk_stores else None,
            without=IN_REGISTERS if bulk_stores else (),
            preferred=("loads",),
        )
    ).apply(make_context(), module)
    assert not bulk_stores or any(isinstance(op, BulkWaitOp) for op in module.walk())
    kernels = [op for op in module.walk() if isinstance(op, KernelOp) and roles_of(op)]
    if not kernels:
        return 0
    module = require_same_text("--transpile", module)
    for kernel in kernels:
        program = read_program(kernel)
        assert find_hazards(kernel) == []
        progress = progress_of(program)
        assert progress is not None and len(progress.channels) == len(program.channels) > 0
        every = Simulation(program, every_iteration=True, synchronisation_only=True)
        assert every.run() == [] and progress.steps == every.protocol.counts.total()
    results = run_function(module, None, case.inputs)
    require_close("logical values", results, case.expected, case.errors)
    for order, landing in RUNS:
        results = execute_by_address(
            module, None, case.inputs, order=order, landing=landing
        ).outputs
        require_close(f"addresses, {order}, {landing}", results, case.expected, case.errors)
    return len(kernels)


def draw_loop(random: np.random.Generator) -> str:
    """A loop of tiles that bulk copies can bring: a product, what is made of its operands."""

    def one_of(*choices: int) -> int:
        return int(random.choice(choices))

    grid, loop, threads = one_of(1, 2, 3), one_of(1, 2, 3, 4, 7, 12), one_of(32, 64, 128, 256)
    rows, depth, columns = one_of(16, 32, 64), one_of(16, 32, 64, 128), one_of(16, 32, 64, 128)
    x, w = f"{rows}x{depth * loop}xf16", f"{depth * loop}x{columns * grid}xf16"
    o = f"{rows}x{columns * grid}xf16"
    sx, sw, so = f"{rows}x{depth}xf16", f"{depth}x{columns}xf16", f"{rows}x{columns}xf16"
    stensor = {name: f"!tb.stensor<{text}>" for name, text in (("x", sx), ("w", sw), ("o", so))}
    column = f"!tb.stensor<{rows}x1xf16>"
    lines = [
        f"%sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<{x}> -> {stensor['x']}",
        f"%sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<{w}> -> {stensor['w']}",
        f"%sb = tb.input %db imap [1, -1, -1] : tensor<{o}> -> {stensor['o']}",
    ]
    left = "%sx"
    if random.random() < 0.4:
        function = str(random.choice(["tb.silu", "tb.square", "tb.relu"]))
        lines.append(f"%left = {function} %sx : {stensor['x']} -> {stensor['x']}")
        left = "%left"
    lines += [
        f"%m = tb.matmul {left}, %sw : ({stensor['x']}, {stensor['w']}) -> {stensor['o']}",
        f"%am = tb.forloop_accum none %m : {stensor['o']} -> {stensor['o']}",
    ]
    result = "%am"
    if random.random() < 0.5:
        lines += [
            f"%ar = tb.forloop_accum rms %sx : {stensor['x']} -> {column}",
            f"%d = tb.div {result}, %ar : ({stensor['o']}, {column}) -> {stensor['o']}",
        ]
        result = "%d"
    if random.random() < 0.5:
        pair = f"({stensor['o']}, {stensor['o']}) -> {stensor['o']}"
        lines.append(f"%sum = tb.add {result}, %sb : {pair}")
        result = "%sum"
    lines.append(f"tb.output {result} omap [1, -1, -1] : {stensor['o']} -> tensor<{o}>")
    body = "\n".join(lines)
    return f"""
func.func @fuzzed(%positive: tensor<{x}>, %signed: tensor<{w}>, %signed_1: tensor<{o}>)
    -> tensor<{o}> {{
  %r = kn.customized %positive, %signed, %signed_1 grid [{grid}, 1, 1] block [{threads}, 1, 1]
      forloop {loop} {{
  ^bb0(%dx: tensor<{x}>, %dw: tensor<{w}>, %db: tensor<{o}>):
    {body}
  }} : (tensor<{x}>, tensor<{w}>, tensor<{o}>) -> tensor<{o}>
  func.return %r : tensor<{o}>
}}
"""


@pytest.mark.parametrize("seed", range(inputs(2, 8)))
def test_loops_of_tiles(seed: int) -> None:
    assert check_channels(draw_loop(np.random.default_rng(seed))) == 1


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(8, 14))
def test_loops_of_tiles_with_bulk_stores(seed: int) -> None:
    assert check_channels(draw_loop(np.random.default_rng(seed)), bulk_stores=True) == 1


@pytest.mark.parametrize("number", range(8))
def test_drawn_mugraph(number: int) -> None:
    drawn = draw_case(WELL_FORMED, SEED, number)
    if drawn is not None:
        check_channels(drawn.text)
