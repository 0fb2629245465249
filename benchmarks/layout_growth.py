"""How the time of ``--resolve-layout`` grows with the number of operators.

    python -m benchmarks.layout_growth [--sizes 10 30 100 300 1000] [--reach 8] [--shapes 4]

Builds random threadblock graphs: each operator (a product, a sum, a function, a reduction) takes
its operands from the ``--reach`` values before it; ``0`` means from all of them.  Tiles have one of
``--shapes`` extents.  Prints a line a size and cost model: seconds of the whole pass, how much of
it the costs and the solver take, and whether the solution is proved optimal.
"""

from __future__ import annotations

import argparse
import random
import time

from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from mugraph.passes.mugraph.resolve_layout import CostModelName, layout_problem_of
from mugraph.passes.mugraph.resolve_layout.solve import solve
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

SIDES = (64, 32, 16, 48, 24, 80, 96, 40)


def random_graph(operators: int, reach: int, shapes: int, seed: int) -> str:
    """A µGraph as text; square tiles of one side each, so that any two of a side multiply."""
    draw = random.Random(seed)
    lines: list[str] = []
    arguments: list[str] = []
    values: dict[int, list[str]] = {}
    for side in SIDES[:shapes]:
        device, tile = f"tensor<{side}x{side}xf16>", f"!tb.stensor<{side}x{side}xf16>"
        values[side] = [f"%s{side}a", f"%s{side}b"]
        for letter in "ab":
            name = f"x{side}{letter}"
            arguments.append(f"%{name}: {device}")
            lines.append(
                f"    %s{side}{letter} = tb.input %d{name} imap [-1, -1, -1] : {device} -> {tile}"
            )
    for number in range(operators):
        side = draw.choice(SIDES[:shapes])
        tile = f"!tb.stensor<{side}x{side}xf16>"
        recent = values[side][-reach:] if reach else values[side]
        one, other = draw.choice(recent), draw.choice(recent)
        kind = draw.choice(("matmul", "add", "mul", "exp", "square"))
        if kind in ("exp", "square"):
            lines.append(f"    %v{number} = tb.{kind} {one} : {tile} -> {tile}")
        else:
            lines.append(f"    %v{number} = tb.{kind} {one}, {other} : ({tile}, {tile}) -> {tile}")
        values[side].append(f"%v{number}")
    side = SIDES[0]
    device, tile = f"tensor<{side}x{side}xf16>", f"!tb.stensor<{side}x{side}xf16>"
    lines.append(f"    %sum = tb.forloop_accum none {values[side][-1]} : {tile} -> {tile}")
    lines.append(f"    tb.output %sum omap [-1, -1, -1] : {tile} -> {device}")
    names = ", ".join(argument.split(":")[0] for argument in arguments)
    types = ", ".join(argument.split(": ")[1] for argument in arguments)
    bound = ", ".join(argument.replace("%", "%d", 1) for argument in arguments)
    body = "\n".join(lines)
    return f"""func.func @f({", ".join(arguments)}) -> {device} {{
  %o = kn.customized {names} grid [1, 1, 1] block [128, 1, 1] forloop 1 {{
  ^bb0({bound}):
{body}
  }} : ({types}) -> {device}
  func.return %o : {device}
}}"""


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--reach", type=int, default=8)
    parser.add_argument("--shapes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| operators | cost model | s | of it costs | solver | bound |")
    print("|---:|---|---:|---:|---:|---|")
    models: tuple[CostModelName, ...] = ("exact", "mirage")
    for size in options.sizes:
        text = random_graph(size, options.reach, options.shapes, options.seed)
        for model in models:
            module = Parser(make_context(), text).parse_module()
            function = next(op for op in module.walk() if isinstance(op, FuncOp))
            started = time.process_time()
            problem = layout_problem_of(function, model, target_named("sm_90a"))
            posed = time.process_time()
            solution = solve(problem)
            solved = time.process_time()
            gap = (solution.cost - solution.bound) / max(1, solution.cost)
            verdict = "optimal" if solution.is_optimal else f"within {100 * gap:.1f} %"
            print(
                f"| {size} | {model} | {solved - started:.2f} | {posed - started:.2f} "
                f"| {solved - posed:.2f} | {verdict} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
