"""What users write for passes: numbers, and parts of plans."""

from __future__ import annotations

import sys

from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.sched import KernelOp
from mugraph.dialects.tensor_types import op_label


def refuse(kernel: CustomizedOp | KernelOp, part: str, pass_name: str, why: str, fits: str) -> None:
    """What a pass does where a kernel cannot have a part of its plan.

    Raises ``PassFailedException`` where the plan requires it: ``why`` it cannot be, and ``fits``,
    what to write instead.  Prints a note where the plan only prefers it.
    """
    plan = kernel.decided
    said = f"{op_label(kernel)} cannot have {plan.text_of(part)}: {why}"
    if plan.requires(part):
        raise PassFailedException(f"--{pass_name}: {said}; {fits}")
    print(f"--{pass_name}: note: {said}", file=sys.stderr)


def require_natural(number: int, option: str) -> None:
    """Raises ``PassFailedException`` at a number below 0, of an option for which 0 is no number."""
    if number < 0:
        raise PassFailedException(f"{option} of {number} cannot be; write 1 or more, or leave it")
