"""Analysis: which phase each operator of a threadblock graph belongs to, and its depth there.

Source: seed 000 "TB Graph Scheduling": an operator's depth is the longest path from an input; one
barrier separates successive depths.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.tb import AccumulatorOp, InputOp, STensorType, epilogue_of


@dataclass
class Levels:
    """The operators of a threadblock graph by phase and depth.

    ``body[d]`` holds the operators of the loop body of depth d + 1, ``after[d]`` those after the
    loop; inputs, and accumulators as values after the loop, have depth 0.
    """

    inputs: list[InputOp] = field(default_factory=list[InputOp])
    body: list[list[Operation]] = field(default_factory=list[list[Operation]])
    after: list[list[Operation]] = field(default_factory=list[list[Operation]])


def accumulates(op: Operation) -> bool:
    """Whether the operator's result exists only after the loop while its operands change in it."""
    return isinstance(op, AccumulatorOp) or epilogue_of(op).accumulates


def find_levels(graph: CustomizedOp) -> Levels:
    """Sorts the operators of a graph into phases and depths, in data-flow order."""
    levels = Levels()
    depth_in_body: dict[SSAValue, int] = {}
    depth_after: dict[SSAValue, int] = {}
    for op in graph.body.block.ops:
        if isinstance(op, InputOp):
            # A tile that nothing reads is not loaded.
            if op.result.first_use is not None:
                levels.inputs.append(op)
            depth_in_body[op.result] = 0
            continue
        operands = [value for value in op.operands if isinstance(value.type, STensorType)]
        runs_after = any(value in depth_after for value in operands) or not op.results
        depths = depth_after if runs_after else depth_in_body
        # An input kept for use after the loop has depth 0 there too.
        depth = 1 + max((depths.get(value, 0) for value in operands), default=0)
        _place(levels.after if runs_after else levels.body, depth, op)
        for result in op.results:
            if not runs_after and accumulates(op):
                depth_after[result] = 0
            else:
                depths[result] = depth
    return levels


def _place(levels: list[list[Operation]], depth: int, op: Operation) -> None:
    while len(levels) < depth:
        levels.append([])
    levels[depth - 1].append(op)
