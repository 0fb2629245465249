"""``--te-lower``: all steps from a tensor expression to what ``-t cuda`` prints."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mugraph.dialects import te
from mugraph.passes.sequence import SequencePass
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.passes.texpr.requirements import require_target
from mugraph.passes.texpr.te_check_handover import TeCheckHandOverPass
from mugraph.passes.texpr.te_cut_grid import TeCutGridPass
from mugraph.passes.texpr.te_map import TeMapPass
from mugraph.passes.texpr.te_prefetch import TePrefetchPass
from mugraph.passes.texpr.te_promote import TePromotePass
from mugraph.passes.texpr.te_sync import TeSyncPass
from mugraph.passes.texpr.te_vectorize import TeVectorizePass


def steps_to_kernels(function: FuncOp, arch: str = DEFAULT_TARGET) -> tuple[ModulePass, ...]:
    """What makes kernels of a tensor expression; nothing where it has been mapped already.

    Raises ``UserError`` where it has, and asks for instructions or memory that the GPU lacks.
    """
    if any(isinstance(op, te.KernelOp) for op in function.walk()):
        require_target(function, arch)
        return ()
    return (TeLowerPass(arch),)


@dataclass(frozen=True)
class TeLowerPass(SequencePass):
    """Runs all steps in order, verifying the IR after each.

    They are ``--te-map``, ``--te-prefetch``, ``--te-promote``, ``--te-vectorize``, ``--te-sync``,
    ``--te-cut-grid`` and ``--te-check-handover``.

    ``arch`` is the GPU; ``threads`` is the size of a block, 0 to choose it;
    ``fragments`` is that of ``--te-prefetch``.
    """

    name = "te-lower"

    arch: str = DEFAULT_TARGET
    threads: int = 0
    fragments: bool = True

    def passes(self) -> tuple[ModulePass, ...]:
        """The steps."""
        return (
            TeMapPass(self.arch, self.threads),
            TePrefetchPass(self.fragments),
            TePromotePass(self.arch),
            TeVectorizePass(),
            TeSyncPass(),
            TeCutGridPass(),
            TeCheckHandOverPass(),
        )
