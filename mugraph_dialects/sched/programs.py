"""Operators of a function that are one persistent kernel: its tasks are their blocks.

``kn.task = {first = 128, awaits = array<i64: 0, 32, 2, 16>}`` on an operator: its blocks are tasks
of a persistent kernel, which has those of all operators that stand one after the other, views
aside, with a counter for each.  Block 128 of the persistent kernel has the first one, the next
block the next, all around; each takes its tasks in the order of the operators.  Where a task waits
for kernels (``sched.grid_wait``; at its start where it does not), it waits until operator 0 of the
persistent kernel has counted 32, and operator 2 has counted 16; at its end it counts 1.

The first of them also has ``kn.program = {blocks = 264, resident = 2, counters = 4096}``: so many
blocks run, all of them at once, so many on a multiprocessor, and the counters lie there in the
workspace, 4 bytes an operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    i64,
)
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn.overlap import PART_THREADS, CanJoin
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.sched.kernel import KernelOp
from mugraph.dialects.sched.launch import COUNTER_BYTES, LaunchOp
from mugraph.dialects.tensor_types import op_label

TASK, PROGRAM = "kn.task", "kn.program"


class Task(NamedTuple):
    """What an operator says of its tasks."""

    first: int
    """The block of the persistent kernel that has the first one."""
    awaits: Sequence[tuple[int, int]]
    """The operators that it waits for, by number, and how much each must have counted."""

    @staticmethod
    def of(op: Operation) -> Task | None:
        """The tasks of an operator; ``None`` where it is launched."""
        said = op.attributes.get(TASK)
        if said is None:
            return None
        (first,) = _numbers(op, said, "first")
        awaits = said.data.get("awaits") if isinstance(said, DictionaryAttr) else None
        is_list = isinstance(awaits, DenseArrayBase)
        numbers = extents_of(cast("DenseArrayBase[IntegerType]", awaits)) if is_list else ()
        if not is_list or len(numbers) % 2:
            raise VerifyException(f"{op_label(op)}: {TASK} must have 'awaits', pairs of numbers")
        return Task(first, list(zip(numbers[::2], numbers[1::2], strict=True)))

    def set(self, op: Operation) -> None:
        """Says it of an operator."""
        awaits = [number for pair in self.awaits for number in pair]
        op.attributes[TASK] = DictionaryAttr(
            {
                "first": IntegerAttr(self.first, i64),
                "awaits": integer_array(awaits),
            }
        )


def _numbers(op: Operation, said: object, *names: str) -> list[int]:
    found: list[int] = []
    for name in names:
        number = said.data.get(name) if isinstance(said, DictionaryAttr) else None
        if not isinstance(number, IntegerAttr):
            raise VerifyException(f"{op_label(op)}: {TASK} or {PROGRAM} has no number {name!r}")
        found.append(number.value.data)
    return found


class Blocks(NamedTuple):
    """The blocks of a persistent kernel, and where its counters are."""

    blocks: int
    resident: int
    """How many share a multiprocessor."""
    counters: int
    """Bytes into the workspace."""

    def set(self, op: Operation) -> None:
        """Says it of the first operator."""
        numbers = {name: IntegerAttr(number, i64) for name, number in self._asdict().items()}
        op.attributes[PROGRAM] = DictionaryAttr(numbers)


@dataclass(frozen=True)
class PersistentProgram:
    """A persistent kernel, by its operators in order."""

    ops: tuple[CanJoin, ...]
    tasks: tuple[Task, ...]
    """Of each operator."""
    blocks: Blocks

    @staticmethod
    def of(ops: Sequence[CanJoin]) -> PersistentProgram:
        """The persistent kernel of some operators; ``VerifyException`` if what they say is not."""
        if PROGRAM not in ops[0].attributes:
            raise VerifyException(
                f"{op_label(ops[0])} has tasks, and none in front of it says {PROGRAM}"
            )
        blocks = Blocks(*_numbers(ops[0], ops[0].attributes[PROGRAM], *Blocks._fields))
        tasks = tuple(task for op in ops if (task := Task.of(op)) is not None)
        for number, (op, task) in enumerate(zip(ops, tasks, strict=True)):
            if not 0 <= task.first < blocks.blocks:
                raise VerifyException(
                    f"{op_label(op)}: block {task.first} is none of the {blocks.blocks} of its "
                    "persistent kernel"
                )
            for awaited, _ in task.awaits:
                if not 0 <= awaited < number:
                    raise VerifyException(
                        f"{op_label(op)} is operator {number} of its persistent kernel, and waits "
                        f"for operator {awaited}; expected one in front of it"
                    )
        return PersistentProgram(tuple(ops), tasks, blocks)

    @property
    def counters(self) -> range:
        """The bytes of the workspace that its counters take."""
        start = self.blocks.counters
        return range(start, start + COUNTER_BYTES * len(self.ops))

    @property
    def kernels(self) -> list[KernelOp]:
        """The scheduled kernels whose blocks are its tasks, each once."""
        launches = (op for op in self.ops if isinstance(op, LaunchOp))
        return list(dict.fromkeys(launch.resolve() for launch in launches))

    @property
    def threads(self) -> int:
        """The threads of a block: as many as the largest task needs."""
        return threads_of(self.ops)

    @property
    def smem_bytes(self) -> int:
        """Dynamic shared memory of a block: as much as the largest task needs."""
        return max((kernel.smem_bytes or 0 for kernel in self.kernels), default=0)


def is_task(op: Operation) -> bool:
    """Whether the blocks of an operator are tasks of a persistent kernel."""
    return TASK in op.attributes


def threads_of(ops: Iterable[CanJoin]) -> int:
    """The threads of a block that runs tasks of all of some operators."""
    return max(op.resolve().threads if isinstance(op, LaunchOp) else PART_THREADS for op in ops)


def persistent_programs(ops: Iterable[Operation]) -> list[PersistentProgram]:
    """The persistent kernels of a function, whose operators come in order."""
    programs: list[list[CanJoin]] = []
    goes_on = False
    for op in ops:
        if isinstance(op, CanJoin) and is_task(op):
            if PROGRAM in op.attributes or not goes_on:
                programs.append([])
            programs[-1].append(op)
            goes_on = True
        elif not isinstance(op, SharesMemory):
            goes_on = False
    return [PersistentProgram.of(found) for found in programs]
