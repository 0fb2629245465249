"""What ``--te-map`` chooses for the examples by each objective, and what that costs.

``python -m benchmarks.texpr_mappings`` prints a Markdown table.  Nothing runs on a GPU: sectors and
wavefronts are counted.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest.mock import patch

from xdsl.context import Context
from xdsl.ir import SSAValue

from mugraph.dialects.te import Space
from mugraph.passes.texpr.te_map import TeMapPass, apply_mappings, program
from mugraph.passes.texpr.te_map.bands import Band
from mugraph.passes.texpr.te_map.choice import MappingChoice, choose, traffic_of
from mugraph.passes.texpr.te_map.family import BandMapping
from mugraph.passes.texpr.te_map.objectives import Objective
from mugraph.passes.texpr.te_map.search import Classes
from mugraph.texpr import read_texpr

EXAMPLES = Path(__file__).parents[1] / "examples" / "texpr"
SIZES = {"gemm": {"M": 4096, "N": 4096, "K": 4096}}


def text_of(mapping: BandMapping) -> str:
    """The digits of each index, the slowest first: of t(hread), s(tep) or v(ector)."""
    return " x ".join(
        " ".join(f"{one.role.value[0]}{one.radix}" for one in reversed(digits.parts)) or "1"
        for digits in mapping.digits
    )


def rows_of(path: Path, objective: Objective) -> list[str]:
    """A row of the table for each kernel of an example."""
    module = read_texpr(path.read_text(), path.name, SIZES.get(path.stem, {}))
    rows: list[str] = []

    def looked_at(
        groups: Sequence[Sequence[Band]],
        candidates: Sequence[Classes],
        spaces: Mapping[SSAValue, Space],
    ) -> MappingChoice:
        choice = choose(groups, candidates, spaces)
        traffic = traffic_of(groups, choice, spaces)
        mappings = "; ".join(dict.fromkeys(map(text_of, choice.mappings)))
        counts = (traffic.sectors, traffic.wavefronts, traffic.instructions)
        compared = sum(len(one.found) for one in candidates)
        whole = "all" if all(one.is_whole for one in candidates) else "low digits"
        rows.append(
            f"| {path.stem} | {objective} | {mappings} | "
            f"{' | '.join(f'{count:,.0f}' for count in counts)} | {compared:,} {whole} |"
        )
        return choice

    started = time.process_time()
    choosing = patch.object(apply_mappings, "choose", looked_at)
    with choosing, patch.object(program, "choose", looked_at):
        TeMapPass(objective=objective.value).apply(Context(), module)
    spent = time.process_time() - started
    return [f"{row} {spent:.2f} |" for row in rows]


def main() -> None:
    """Prints the table."""
    print(
        "| example | objective | digits, slowest first | sectors | wavefronts | instructions | "
        "classes | s |\n|---|---|---|---|---|---|---|---|"
    )
    for path in sorted(EXAMPLES.glob("*.te")):
        for objective in Objective:
            print("\n".join(rows_of(path, objective)))


if __name__ == "__main__":
    main()
