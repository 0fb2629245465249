"""Analysis: which phase each operator of a threadblock graph belongs to, and its depth there.

Source: seed 000 "TB Graph Scheduling": an operator's depth is the longest path from an input; one
barrier separates successive depths.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.kn import CustomizedOp, Phase, accumulates, phases_of
from mugraph.dialects.tb import InputOp


@dataclass
class Levels:
    """The operators of a threadblock graph by phase and depth.

    ``body[d]`` holds the operators of the loop body of depth d + 1, ``after[d]`` those after the
    loop; inputs, and accumulators as values after the loop, have depth 0.
    """

    inputs: list[InputOp] = field(default_factory=list[InputOp])
    body: list[list[Operation]] = field(default_factory=list[list[Operation]])
    after: list[list[Operation]] = field(default_factory=list[list[Operation]])


def find_levels(graph: CustomizedOp) -> Levels:
    """Sorts the operators of a graph into phases and depths, in data-flow order."""
    levels = Levels()
    depths: dict[SSAValue, int] = {}
    for op, phase in phases_of(graph.body.block).items():
        if isinstance(op, InputOp):
            # A tile that nothing reads is not loaded.
            if op.result.first_use is not None:
                levels.inputs.append(op)
            depths[op.result] = 0
            continue
        depth = 1 + max((depths.get(value, 0) for value in op.operands), default=0)
        _place(levels.after if phase is Phase.AFTER else levels.body, depth, op)
        for result in op.results:
            depths[result] = 0 if accumulates(op) else depth
    return levels


def _place(levels: list[list[Operation]], depth: int, op: Operation) -> None:
    while len(levels) < depth:
        levels.append([])
    levels[depth - 1].append(op)
