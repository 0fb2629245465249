"""``--te-check-handover``: what programs say that threads hand over is proved."""

from __future__ import annotations

from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.passes.each import TexprKernelPass
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.analysis.roles import takes_turns


class TeCheckHandOverPass(TexprKernelPass):
    """Rejects kernels whose threads synchronise wrongly by mbarriers and other instructions.

    Where iterations of a ``fully`` parallel loop wait and arrive at mbarriers, or copies and
    products run behind the program, ``--te-check`` takes shared memory to be ordered by them.  Here
    that is proved by vector clocks, as by ``--check-hazards``: a missing wait or arrival, a wrong
    phase, a missing fence, what nobody waits for, and threads that wait for ever are errors.  Other
    kernels have the barriers of ``--te-sync``.  The module stays as it is.
    Pre-condition: ``--te-promote``.
    """

    name = "te-check-handover"

    def run(self, kernel: te.KernelOp) -> None:
        """Checks a kernel that hands over."""
        if not takes_turns(kernel.threads):
            return
        wrong = [
            one.message
            for one in find_texpr_hazards(kernel)
            if one.kind is not HazardKind.NOT_CHECKED
        ]
        if wrong:
            name = f"kernel '{kernel.symbol.data}'"
            raise PassFailedException(
                "\n  ".join([f"--{self.name}: {name}: {wrong[0]}", *wrong[1:4]])
            )
