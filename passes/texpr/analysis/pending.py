"""Asynchronous instructions of inline PTX that nothing waits for in the parallel loop around them.

On exit of a ``par`` all that its iterations did has happened.  Of instructions that say what they
mean by operators, vector clocks know what waits for them; of others only the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors

_MBARRIER = r"mbarrier\.(try|test)_wait"
_WAITS = {
    r"cp\.async\.bulk\.(?!commit|wait|prefetch)": rf"{_MBARRIER}|cp\.async\.bulk\.wait_group",
    r"cp\.reduce\.async\.bulk\.": r"cp\.async\.bulk\.wait_group",
    r"cp\.async\.(ca|cg)\.": rf"{_MBARRIER}|cp\.async\.wait_(group|all)",
    r"(st|red)\.async\.": _MBARRIER,
    r"wgmma\.mma_async\.": r"wgmma\.wait_group",
    r"tcgen05\.(mma|cp|ld|st)\b": rf"{_MBARRIER}|tcgen05\.wait",
}
"""Asynchronous instructions, and those that wait for them.  Source: PTX ISA."""


def pending_instructions(root: Operation) -> Iterator[te.AsmOp]:
    """Inline PTX that begins what nothing behind it in the same parallel loop waits for."""
    ops = list(root.walk())
    for number, op in enumerate(ops):
        if not isinstance(op, te.AsmOp) or op.meaning is not None:
            continue
        waits = next(
            (wait for begins, wait in _WAITS.items() if re.search(begins, op.text.data)), None
        )
        if waits is None:
            continue
        loop = next((one for one in ancestors(op) if isinstance(one, te.ParOp)), root)
        behind = (one for one in ops[number:] if loop.is_ancestor(one))
        if not any(_waits(one, waits) for one in behind):
            yield op


def _waits(op: Operation, waits: str) -> bool:
    """Whether an operator waits by one of some instructions."""
    match op:
        case te.AsmOp():
            return re.search(waits, op.text.data) is not None
        case te.MbarrierWaitOp():
            return _MBARRIER in waits
        case te.BulkWaitOp():
            return "bulk" in waits
        case te.WarpgroupWaitOp():
            return "wgmma" in waits
        case _:
            return False
