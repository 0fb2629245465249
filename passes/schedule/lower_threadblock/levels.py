"""Analysis: which phase each operator of a threadblock graph belongs to, and its depth there.

Source: Mirage's document "The CUDA Transpiler", "TB Graph Scheduling": an operator's depth is the
longest path from an input; one barrier separates successive depths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.kn import CustomizedOp, Phase, accumulates, phases_of
from mugraph.dialects.tb import CarriedOp, CarryOp, ElementwiseOp, InputOp, epilogue_of
from mugraph.dialects.tensor_types import op_label


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
    updates: list[CarryOp] = []
    for op, phase in phases_of(graph.body.block, graph.forloop_range).items():
        if isinstance(op, InputOp):
            # A tile that nothing reads is not loaded.
            if op.result.first_use is not None:
                levels.inputs.append(op)
            depths[op.result] = 0
            continue
        if isinstance(op, CarryOp):
            updates.append(op)
            continue
        if updates_in_place(op):
            continue
        depth = 1 + max((depths.get(value, 0) for value in op.operands), default=0)
        _place(levels.after if phase is Phase.AFTER else levels.body, depth, op)
        for result in op.results:
            depths[result] = 0 if accumulates(op) else depth
    # All that reads a state reads it before it changes.
    if updates:
        levels.body.append(list(in_order(updates)))
    return levels


def updates_in_place(op: Operation) -> bool:
    """Whether an operator can write the next state over the old one, when all has read that.

    It is element-wise, nothing else uses its result, and it reads no state but the one that it
    writes; so it is left to the ``tb.carry`` that uses it.
    """
    if not isinstance(op, ElementwiseOp) or epilogue_of(op).accumulates:
        return False
    users = [use.operation for use in op.result.uses]
    if len(users) != 1 or not isinstance(users[0], CarryOp):
        return False
    states = {value for value in op.operands if isinstance(value.owner, CarriedOp)}
    return states <= {users[0].state}


def in_order(updates: Sequence[CarryOp]) -> Sequence[CarryOp]:
    """Updates of states, such that a state that becomes another one is read before it changes.

    Raises ``PassFailedException`` where states change places.
    """
    left, found = list(updates), list[CarryOp]()
    while left:
        read = {op.input for op in left}
        # One that only keeps its own state reads nothing that it changes.
        free = [op for op in left if op.state not in read or op.state is op.input]
        if not free:
            raise PassFailedException(
                f"--lower-threadblock: {op_label(left[0])} and others let states change places, "
                "so that none of them can be written first; compute one of them anew, as with "
                "'tb.mul_scalar' by 1"
            )
        # What is read by others that are left is written last.
        found = [*found, free[0]]
        left.remove(free[0])
    return found


def _place(levels: list[list[Operation]], depth: int, op: Operation) -> None:
    while len(levels) < depth:
        levels.append([])
    levels[depth - 1].append(op)


def loads_of_rings(levels: Levels) -> list[list[InputOp]]:
    """The loads that move with the loop, those together that some operator needs together first.

    A load is needed when its first reader has what it waits for: as many operators in a row before
    that one as find other values in each iteration.  What is needed first comes first.
    """
    moving = [op for op in levels.inputs if op.loop_dim >= 0]
    depths: dict[SSAValue, int] = {op.result: 0 for op in moving}
    waits: dict[SSAValue, int] = {}
    together: list[tuple[int, Sequence[SSAValue]]] = []
    for op in (op for level in levels.body for op in level):
        found = [depths[value] for value in op.operands if value in depths]
        if not found:
            continue
        loads = [load.result for load in moving if load.result in op.operands]
        for load in loads:
            waits[load] = min(max(found), waits.get(load, max(found)))
        together.append((max(found), loads))
        depths |= {result: 1 + max(found) for result in op.results}
    rings: dict[SSAValue, set[SSAValue]] = {op.result: {op.result} for op in moving}
    for wait, loads in together:
        needed = [load for load in loads if waits[load] == wait]
        joined = {load for one in needed for load in rings[one]}
        rings |= dict.fromkeys(joined, joined)
    first: dict[int, list[InputOp]] = {}
    for op in moving:
        first.setdefault(id(rings[op.result]), []).append(op)
    return sorted(first.values(), key=lambda loads: waits.get(loads[0].result, 0))
