"""``--remarks``: what each kernel lost against the best form of its target, and what would mend it.

The remarks are read off the finished schedule, by the functions that say to the passes what cannot
be: a remark can therefore not be out of date, and no pass has to keep one up.
"""

from __future__ import annotations

import sys

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.each import TargetPass
from mugraph.passes.schedule.analysis.remarks import Kind, Obstacle, Remark
from mugraph.passes.schedule.remarks.accesses import access_remarks
from mugraph.passes.schedule.remarks.kernels import block_remarks, fusion_remarks
from mugraph.passes.schedule.remarks.loads import load_remarks, stage_remarks
from mugraph.passes.schedule.remarks.products import epilogue_remarks, product_remarks
from mugraph.passes.schedule.remarks.registers import register_remarks, step_remarks
from mugraph.passes.schedule.remarks.scheduled import scheduled_kernels
from mugraph.passes.targets import Target

_OF_A_KERNEL = (
    load_remarks,
    stage_remarks,
    product_remarks,
    epilogue_remarks,
    register_remarks,
    step_remarks,
    access_remarks,
    block_remarks,
)


def remarks_of(module: ModuleOp, target: Target) -> list[Remark]:
    """The remarks on every scheduled kernel of a module, kernel by kernel."""
    kernels = scheduled_kernels(module, target)
    found = [remark for kernel in kernels for find in _OF_A_KERNEL for remark in find(kernel)]
    # The pieces of one product have one remark.
    return list(dict.fromkeys([*found, *fusion_remarks(module, kernels)]))


class RemarksPass(TargetPass):
    """Prints, to standard error, where each kernel falls short of the best form of its target.

    A line is one thing lost: the operand, why, and what would mend it.  Kinds are ``tma`` (loads
    that are no bulk copies), ``stages`` (shared memory has no room for as many as should be),
    ``wgmma`` (products by single warps), ``serial-epilogue``, ``registers`` (values that pass
    through shared memory), ``bank-conflicts``, ``vectors`` (accesses to device memory of less than
    16 bytes), ``few-blocks`` and ``fusion`` (operators, and kernels, that could be one).
    Nothing is printed for a kernel that lost nothing.  Changes nothing.

    ``arch`` is the one that the schedule was made for.  Pre-condition: ``--lower-threadblock``;
    best behind ``--plan-stensor-memory``, so behind ``--transpile``.

    Example line::

        remark: kernel @k: %x is loaded by cp.async and not by TMA, since the tensor's stride along
        dimension 0 is 250 bytes, not a multiple of 16; pad its dimension 1 to 128 [tma]
    """

    name = "remarks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Prints the remarks on every kernel of the module."""
        target = self.target
        for graph in op.walk():
            if isinstance(graph, CustomizedOp):
                raise PassFailedException(
                    f"--{self.name}: {op_label(graph)} has no schedule yet; run --transpile first"
                )
        for remark in remarks_of(op, target):
            print(remark, file=sys.stderr)


__all__ = ["Kind", "Obstacle", "Remark", "RemarksPass", "remarks_of"]
