"""What a launch between others and further parts of a sum take, by programs timed in two forms.

    python -m benchmarks.programs.pairs benchmarks/results/fused_pairs_h200.json

Each program was timed with a fusion and without it.  The numbers are those with which the form of
less estimated time is the faster one most often, weighed by what the other one loses.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mugraph.passes.mugraph.plan.division import PART_NS
from mugraph.passes.program.fuse_kernels.times import HIDDEN_NS


class Form(NamedTuple):
    """A program's kernels, as nanoseconds by estimate and parts of sums, and its microseconds.

    Sums below a running maximum count as of one part.
    """

    kernels: tuple[tuple[float, int], ...]
    microseconds: float

    def estimated(self, hidden: float, part: float) -> float:
        """Nanoseconds of the program, without those of :data:`PART_NS` in the kernels' own."""
        return sum(time - hidden + part * (parts - 1) for time, parts in self.kernels)


def measured(path: Path) -> list[tuple[Form, Form]]:
    """The pairs of a record."""
    records: list[dict[str, Any]] = json.loads(path.read_text())["pairs"]
    return [(_form(record["fused"]), _form(record["apart"])) for record in records]


def _form(record: dict[str, Any]) -> Form:
    return Form(tuple((time, parts) for time, parts in record["kernels"]), record["microseconds"])


def loss(pairs: Sequence[tuple[Form, Form]], hidden: float, part: float) -> float:
    """How much longer than the faster forms those take that would be chosen, in the mean."""
    chosen = (min(pair, key=lambda form: form.estimated(hidden, part)) for pair in pairs)
    fastest = (min(form.microseconds for form in pair) for pair in pairs)
    logs = [math.log(a.microseconds / b) for a, b in zip(chosen, fastest, strict=True)]
    return math.exp(sum(logs) / len(logs)) - 1


def best(pairs: Sequence[tuple[Form, Form]]) -> list[tuple[int, int]]:
    """The pairs (``HIDDEN_NS``, ``PART_NS``) of a grid that lose least, all of them."""
    losses = {
        numbers: loss(pairs, *numbers)
        for numbers in itertools.product(range(0, 601, 50), range(0, 121, 10))
    }
    least = min(losses.values())
    return [numbers for numbers, lost in losses.items() if lost == least]


def main() -> None:
    """Prints the numbers that lose least, and what those lose that plan and fusion take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path, help="a JSON file of programs in two forms")
    pairs = measured(parser.parse_args().record)
    for hidden, part in best(pairs):
        print(f"HIDDEN_NS {hidden}, PART_NS {part}: {loss(pairs, hidden, part):.1%}")
    print(f"{len(pairs)} pairs; as it is: {loss(pairs, HIDDEN_NS, PART_NS):.1%}")


if __name__ == "__main__":
    main()
