"""Pointers to mbarriers: what ``allocate_array`` of 64-bit integers gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.ir import SSAValue

from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Numeric, as_index
from mugraph.dialects import te


@dataclass(frozen=True)
class MbarrierPointer:
    """One of some mbarriers of the block; ``pointer + k % 4`` is another one."""

    barriers: SSAValue
    number: Numeric = 0

    def __add__(self, step: Any) -> MbarrierPointer:
        return MbarrierPointer(self.barriers, self.number + step)

    def checked(self) -> MbarrierPointer:
        """Itself.  Raises KernelError where it may be none of the mbarriers that there are."""
        count = cast(te.MbarriersType, self.barriers.type).count
        low, high = as_index(self.number).bounds
        if low < 0 or high >= count:
            raise KernelError(
                f"mbarrier {self.number} of '{self.barriers.name_hint}', which has {count}: take a "
                "remainder, such as 'full + k % stages'"
            )
        return self
