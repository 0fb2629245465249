"""Random layers on random devices: ``python -m fuzz.overlapping -n 500 --seed 1``.

Each is a chain of products, sums over devices, gathers and element-wise operators.  With its
products in parts, and with loads from other devices, it must be proved to be the same function, its
flags must keep devices in order, and it must compute the same in an order of arrival that is drawn,
with memory that is late.  With ``--mutants`` flags are left out, raised twice or elsewhere: what
then may compute something else must be reported.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import numpy as np

from fuzz.late import Late, check_mutants, late, wrong
from fuzz.partitioned import proof_of
from mugraph.dialects.sharding import part_of
from mugraph.passes.program.overlap import Way
from mugraph.passes.program.partition.orders import check_order
from mugraph.reading import make_context, parse_text

MUTANTS = 12
"""Of a program that are drawn."""
ELEMENTS = ("f32", "f16")
ELEMENTWISE = ("silu", "relu", "tanh")


def draw_layers(seed: int, number: int) -> str:
    """The program of each device: rows are whole on all of them, or each has a part.

    Of a mesh with two axes groups are along the second one.  Two of four programs are of f16, which
    cuBLAS adds to a matrix.
    """
    element = ELEMENTS[number // 2 % 2]
    random = np.random.default_rng([seed, number])
    mesh = ([2], [3], [4], [2, 2])[int(random.integers(4))]
    devices, axis = mesh[-1], len(mesh) - 1
    part, columns = (int(random.choice([4, 8])) for _ in range(2))
    rows, is_whole = devices * part, bool(random.random() < 0.5)
    arguments, lines = list[str](), list[str]()
    value, extent = "%x", rows if is_whole else part
    cut = "[[]]" if is_whole else f"[[{axis}]]"
    arguments.append(
        f"%x: tensor<{extent}x{columns}x{element}> {{mugraph.sharding = #kn.sharding<{cut}>}}"
    )

    def add(op: str, given: str, operands: str, shape: tuple[int, int]) -> str:
        name = f"%v{len(lines)}"
        type_ = f"tensor<{shape[0]}x{shape[1]}x{element}>"
        lines.append(f"{name} = kn.{op} {given} : {operands} -> {type_}")
        return name

    for step in range(int(random.integers(2, 6))):
        rows_here = rows if is_whole else part
        own = f"tensor<{rows_here}x{columns}x{element}>"
        choice = random.random()
        if choice < 0.25:
            value = add(str(random.choice(ELEMENTWISE)), value, own, (rows_here, columns))
            continue
        if not is_whole and choice < 0.7:
            value, is_whole = (
                add("all_gather", f"{value} axes [{axis}] dim 0", own, (rows, columns)),
                True,
            )
            continue
        wide = int(random.choice([4, 8]))
        is_sum = is_whole and random.random() < 0.7
        weight = f"tensor<{columns}x{wide}x{element}>"
        lies = f"[[{axis}]]" if is_sum else "[[]]"
        arguments.append(f"%w{step}: {weight} {{mugraph.sharding = #kn.sharding<{lies}>}}")
        value = add("matmul", f"{value}, %w{step}", f"({own}, {weight})", (rows_here, wide))
        columns = wide
        if is_sum:
            given = f"tensor<{rows}x{columns}x{element}>"
            if random.random() < 0.5:
                value = add("all_reduce", f"{value} axes [{axis}]", given, (rows, columns))
            else:
                value = add(
                    "reduce_scatter", f"{value} axes [{axis}] dim 0", given, (part, columns)
                )
                is_whole = False
    type_ = f"tensor<{rows if is_whole else part}x{columns}x{element}>"
    lies = "[[]]" if is_whole else f"[[{axis}]]"
    body = "\n  ".join(lines)
    return f"""
func.func @f({", ".join(arguments)})
    -> ({type_} {{mugraph.sharding = #kn.sharding<{lies}>}})
    attributes {{mugraph.mesh = {mesh}, mugraph.per_device}} {{
  {body}
  func.return {value} : {type_}
}}
"""


WAYS = (Way.PUSHED, None, Way.ADDED)


def check_layers(text: str, seed: int) -> tuple[Late, str]:
    """A program with products in parts, and how it was shown to be the same; or what is wrong.

    Sums are exchanged in one of all ways, parts are of one or two members, by the seed.
    Raises ``AssertionError``.
    """
    before = parse_text(make_context(), text, "layers")
    way, members = WAYS[seed % len(WAYS)], 1 + seed // len(WAYS) % 2
    one = late(before.clone(), overlap=True, way=way, members=members)
    faults = check_order(one.steps, one.returned, one.program.mesh)
    assert not faults, faults[0]
    difference = wrong(one, one.events, seed)
    assert difference is None, difference
    return one, proof_of(one.module, before)


def main() -> int:
    """Checks random programs; whether none failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.overlapping", description=__doc__)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutants", action="store_true", help="also of flags")
    options = parser.parse_args()
    shown, failed, start = Counter[str](), 0, time.process_time()
    for number in range(options.n):
        text = draw_layers(options.seed, number)
        try:
            one, proof = check_layers(text, number)
            shown[proof] += 1
            shown["in parts"] += any(part_of(op) is not None for op in one.module.walk())
            if options.mutants:
                check_mutants(one, MUTANTS, seeds=1)
        except Exception as error:
            failed += 1
            print(f"program {number}: {type(error).__name__}: {error}", flush=True)
    print(f"{options.n} programs, {failed} failed, {time.process_time() - start:.0f} s")
    for reason, count in shown.most_common():
        print(f"{count:6} {reason}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
