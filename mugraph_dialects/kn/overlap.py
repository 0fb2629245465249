"""Pre-defined kernels that run beside others: before these have ended, or in one launch."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Hashable, Iterable

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.tensor_types import op_label, shape_of, value_label

OVERLAPS = "kn.overlaps"
"""The attribute of such an operator once ``--programmatic-launch`` has decided so."""
JOINED = "kn.joined"
"""The attribute of an operator that ``--join-launches`` has put into the launch before it."""
LARGEST_CARVEOUT = "kn.largest_carveout"
"""The attribute of a function whose kernels, if they start early, have the largest carve-out.

Multiprocessors then use as much of their memory as shared memory as they can.  ``--spread-blocks``
writes it.
"""

PART_THREADS = 256
"""``kPartThreads`` of ``runtime/include/mugraph/kn/parts.h``."""


class CanOverlap(Operation, Abstract):
    """A kernel of the runtime that itself waits for the kernels before it in its stream.

    Its launch then need not.  cuBLAS's kernels do not say.
    """

    @property
    def overlaps(self) -> bool:
        """Whether the kernel may start before the one in front of it has ended."""
        return OVERLAPS in self.attributes

    def set_overlaps(self) -> None:
        """Lets it."""
        self.attributes[OVERLAPS] = UnitAttr()


class CanJoin(Operation, Abstract):
    """A kernel whose blocks may be launched together with those of others.

    Operators with :data:`JOINED` share the launch of the operator in front of them.  Nothing of one
    launch waits for another part of it, so that none reads what another one writes, but for
    kernels that combine in clusters, or in last blocks (``sched.launch``).
    """

    @abstractmethod
    def joins(self) -> Hashable | None:
        """What kernels of one launch have in common; ``None`` where it needs one of its own."""

    @abstractmethod
    def task_count(self) -> int:
        """How many blocks it has, which may be tasks of a persistent kernel."""

    @property
    def is_joined(self) -> bool:
        """Whether the operator shares the launch of the one in front of it."""
        return JOINED in self.attributes

    def set_joined(self) -> None:
        """Lets it."""
        self.attributes[JOINED] = UnitAttr()

    def in_front(self) -> Operation | None:
        """The operator in front of it, but for views."""
        before = self.prev_op
        while isinstance(before, SharesMemory):
            before = before.prev_op
        return before

    def leave_launch(self) -> None:
        """Gives the operator a launch of its own; those behind it in its launch share another."""
        self.attributes.pop(JOINED, None)
        behind = self.next_op
        if isinstance(behind, CanJoin):
            behind.attributes.pop(JOINED, None)

    def verify_joined(self, producer: Operation | None = None) -> None:
        """Checks that what stands in front can share a launch, and computes no operand.

        Only a ``producer`` may.
        """
        other: CanJoin = self
        while other.is_joined:
            before = other.prev_op
            kind = before.joins() if isinstance(before, CanJoin) else None
            if not isinstance(before, CanJoin) or kind is None or kind != other.joins():
                what = "nothing" if before is None else op_label(before)
                raise VerifyException(
                    f"{op_label(other)} shares the launch of the operator in front of it, but "
                    f"{what} stands there, which cannot share one with it"
                )
            for operand in self.operands:
                if operand.owner is before is not producer:
                    raise VerifyException(
                        f"{op_label(self)} reads {value_label(operand)}, which the launch that it "
                        "is a part of computes; give it a launch of its own"
                    )
            other = before


class RuntimePart(CanOverlap, CanJoin):
    """A kernel of the runtime of which ``kn/parts.h`` can launch several as one."""

    def joins(self) -> Hashable:
        """Any others of the kind."""
        return RuntimePart

    def moved_elements(self) -> int:
        """How many elements its threads move or compute."""
        return math.prod(shape_of(self.results[0].type))

    def task_count(self) -> int:
        """Those where each thread has one element: with vectors some of them do nothing."""
        return max(1, -(-self.moved_elements() // PART_THREADS))


def launches_of(ops: Iterable[Operation]) -> list[list[Operation]]:
    """The operators of a program, which come in order, those that share a launch together.

    Views stand alone, also those between operators that share a launch.
    """
    launches: list[list[Operation]] = []
    last: list[Operation] = []
    for op in ops:
        if isinstance(op, CanJoin) and op.is_joined:
            last.append(op)
            continue
        launches.append([op])
        if not isinstance(op, SharesMemory):
            last = launches[-1]
    return launches
