"""Whether the counters of a persistent kernel keep its tasks in order, whichever blocks run first.

Counters only grow, and a block takes its tasks in one order.  Therefore whether a task can run does
not depend on which blocks were faster: if all tasks end in one order, they end in any in which all
blocks run.  What a task knows to be done when it goes on is the least that any order guarantees:
who waits until an operator has counted all its tasks knows that it is done, and what that one knew;
who waits for fewer knows nothing, as these may be any of them.  Of two operators that use the same
memory, and one of which writes to it, the later one must know that the earlier one is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.constant import is_constant
from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.kn.workspace import memory_root, places_of, workspace_size
from mugraph.dialects.sched.programs import PersistentProgram, persistent_programs
from mugraph.dialects.tensor_types import op_label, value_label
from mugraph.passes.memory.findings import Finding, HazardKind


@dataclass(frozen=True)
class Conflict:
    """Two operators of which the later one must wait: both use a memory, one of them writes."""

    earlier: int
    later: int
    value: SSAValue
    """What the later one uses of it."""
    kind: HazardKind


class Memory(NamedTuple):
    """Where a tensor lies."""

    root: SSAValue
    """The tensor in whose memory it is."""
    place: range | None
    """The bytes of the workspace; ``None`` outside of it."""
    is_constant: bool

    @staticmethod
    def of(value: SSAValue) -> Memory:
        """The memory of a value at kernel level."""
        root = memory_root(value)
        places = places_of(root.owner) if isinstance(root.owner, HasWorkspace) else {}
        return Memory(root, places.get(root), is_constant(root))

    def shares(self, other: Memory) -> bool:
        """Whether two tensors, one of which is written, may have bytes in common.

        A result of the function may be given the memory of an argument that is not constant.
        """
        if self.place is not None and other.place is not None:
            return max(self.place.start, other.place.start) < min(self.place.stop, other.place.stop)
        if self.root is other.root:
            return True
        if self.place is not None or other.place is not None:
            return False
        is_argument = isinstance(self.root, BlockArgument) or isinstance(other.root, BlockArgument)
        return is_argument and not self.is_constant and not other.is_constant


def conflicts_of(ops: Sequence[Operation]) -> Iterator[Conflict]:
    """Analysis: which of some operators must not run before which others are done."""
    reads = [[(each, Memory.of(each)) for each in op.operands] for op in ops]
    writes = [[(each, Memory.of(each)) for each in op.results] for op in ops]
    for later in range(len(ops)):
        for earlier in range(later):
            written = [memory for _, memory in writes[earlier]]
            read = [memory for _, memory in reads[earlier]]
            for kind, uses, others in (
                (HazardKind.READ_AFTER_WRITE, reads[later], written),
                (HazardKind.WRITE_AFTER_WRITE, writes[later], written),
                (HazardKind.WRITE_AFTER_READ, writes[later], read),
            ):
                for value, memory in uses:
                    if any(memory.shares(other) for other in others):
                        yield Conflict(earlier, later, value, kind)


def find_task_hazards(function: FuncOp) -> Iterator[Finding]:
    """What can go wrong between the tasks of a function's persistent kernels."""
    try:
        programs = persistent_programs(function.walk())
    except VerifyException as error:
        yield Finding(HazardKind.PROTOCOL, (function,), str(error))
        return
    for program in programs:
        yield from _find_deadlocks(program)
        yield from _find_races(program)
        whose = f"the persistent kernel that begins with {op_label(program.ops[0])}"
        yield from find_misplaced_counters(function, program.ops[0], program.counters, whose)


def _find_deadlocks(program: PersistentProgram) -> Iterator[Finding]:
    """Runs the tasks of all blocks as far as they go."""
    ops, blocks = program.ops, program.blocks.blocks
    counts = [op.task_count() for op in ops]
    # By block: the operators of its tasks, in their order.
    orders: list[list[int]] = [[] for _ in range(blocks)]
    for number, task in enumerate(program.tasks):
        for place in range(counts[number]):
            orders[(task.first + place) % blocks].append(number)
    counted = [0] * len(ops)
    places = [0] * blocks
    going = set(range(blocks))
    while going:
        stopped: set[int] = set()
        went_on = False
        for block in sorted(going):
            order = orders[block]
            while places[block] < len(order):
                number = order[places[block]]
                if any(counted[other] < count for other, count in program.tasks[number].awaits):
                    break
                counted[number] += 1
                places[block] += 1
                went_on = True
            if places[block] == len(order):
                stopped.add(block)
        going -= stopped
        if not went_on:
            break
    stuck = sorted({orders[block][places[block]] for block in going})
    for number in stuck[:1]:
        for other, count in program.tasks[number].awaits:
            if counted[other] < count:
                yield Finding(
                    HazardKind.DEADLOCK,
                    (ops[number], ops[other]),
                    f"{op_label(ops[number])} waits for ever until {op_label(ops[other])} has "
                    f"counted {count}; it has {counts[other]} tasks, and counts to "
                    f"{counted[other]}",
                )


def known_done(program: PersistentProgram) -> list[set[int]]:
    """For each operator, those of which its tasks know that they are done where they go on."""
    known: list[set[int]] = []
    for task in program.tasks:
        done: set[int] = set()
        for other, count in task.awaits:
            if count >= program.ops[other].task_count():
                done |= {other, *known[other]}
        known.append(done)
    return known


def _find_races(program: PersistentProgram) -> Iterator[Finding]:
    known = known_done(program)
    for conflict in conflicts_of(program.ops):
        if conflict.earlier in known[conflict.later]:
            continue
        later, earlier = (program.ops[each] for each in (conflict.later, conflict.earlier))
        is_read = conflict.kind is HazardKind.READ_AFTER_WRITE
        does = "reads" if is_read else "writes"
        did = "read" if conflict.kind is HazardKind.WRITE_AFTER_READ else "written"
        tasks = earlier.task_count()
        yield Finding(
            conflict.kind,
            (later, earlier),
            f"{op_label(later)} {does} {value_label(conflict.value)} without waiting for all "
            f"{tasks} tasks of {op_label(earlier)}, which may not have {did} that memory yet",
        )


def find_misplaced_counters(
    function: FuncOp, op: Operation, counters: range, whose: str
) -> Iterator[Finding]:
    """Counters of an operator beyond the workspace, or where a tensor lies; ``whose`` names it."""
    size = workspace_size(op)
    if size is not None and counters.stop > size:
        message = f"the counters of {whose} end at byte {counters.stop} of a workspace of {size}"
        yield Finding(HazardKind.OUT_OF_BOUNDS, (op,), message, address=counters.start)
    for other in function.walk():
        places = places_of(other) if isinstance(other, HasWorkspace) else {}
        for value, place in places.items():
            if max(place.start, counters.start) < min(place.stop, counters.stop):
                message = (
                    f"{op_label(other)} writes {value_label(value)} over the counters of {whose}"
                )
                yield Finding(HazardKind.OVERWRITTEN, (other, op), message, address=counters.start)
