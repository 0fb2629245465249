"""``--te-check-mapping``: does every mapping run each iteration exactly once?"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.passes.texpr.analysis.bijections import mapping_errors


def prove_mappings(root: Operation, pass_name: str) -> None:
    """Raises ``PassFailedException`` with a witness for every mapping that is no bijection."""
    lines = [
        f"kernel '{kernel.symbol.data}': {error.message}"
        for kernel in root.walk()
        if isinstance(kernel, te.KernelOp)
        for error in mapping_errors(kernel)
    ]
    if lines:
        raise PassFailedException("\n  ".join([f"--{pass_name}: {lines[0]}", *lines[1:]]))


@dataclass(frozen=True)
class TeCheckMappingPass(ModulePass):
    """Proves again what each ``te.iteration`` states, and fails with a witness where it is wrong.

    isl decides, for all blocks and all iterations of the loops around a step, that the threads and
    the loops of the step come to each iteration of the box, to none twice, and to none outside;
    that those of a fully parallel loop are on consecutive threads, from a multiple of its
    alignment; and the same of the blocks of a kernel.  A witness is the iteration and the threads.
    Every step must have one ``te.iteration``.  The module stays as it is.
    """

    name = "te-check-mapping"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Runs the pass."""
        prove_mappings(op, self.name)
