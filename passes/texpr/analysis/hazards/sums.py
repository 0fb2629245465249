"""Sums in registers that products of warp groups add to, behind the program."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.hazards.role import FollowedRole
from mugraph.passes.texpr.analysis.hazards.shadow import Report
from mugraph.passes.texpr.analysis.hazards.touches import named


class Sums:
    """The sums of the products of a kernel: who touches them, and when."""

    def __init__(self, kernel: te.KernelOp, report: Report) -> None:
        self.report = report
        products = (op for op in kernel.walk() if isinstance(op, te.WarpgroupMmaOp))
        self._buffers = {_whole(op.sums) for op in products}

    def require_fence(self, op: te.WarpgroupMmaOp, role: FollowedRole) -> None:
        """A product adds to registers behind a fence after what touched them."""
        if not role.is_fenced:
            self.report(
                HazardKind.MISSING_FENCE,
                (op,),
                f"{named(op)} adds to {source_name(_whole(op.sums))}, which was touched, and no "
                "'warpgroup.fence' stands between",
            )

    def check(self, op: Operation, role: FollowedRole) -> None:
        """Looks whether an operator touches sums of products that are under way."""
        if not self._buffers:
            return
        touched = [one.buffer for one in te.touches_in(op) if one.buffer in self._buffers]
        if not touched:
            return
        role.is_fenced = False
        for event in role.under_way():
            product = event.access.op
            if isinstance(product, te.WarpgroupMmaOp) and _whole(product.sums) in touched:
                self.report(
                    HazardKind.IN_FLIGHT,
                    (op, product),
                    f"{named(op)} uses {source_name(_whole(product.sums))}, to which "
                    f"{named(product)} may still be adding: no 'warpgroup.wait_group' between "
                    "covers it",
                )


def _whole(value: SSAValue) -> SSAValue:
    """The buffer that a section is of."""
    return value.owner.buffer if isinstance(value.owner, te.SectionOp) else value
