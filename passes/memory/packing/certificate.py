"""What a memory plan says of itself in the IR."""

from __future__ import annotations

from xdsl.dialects.builtin import BoolAttr, DictionaryAttr, IntegerAttr, StringAttr, i64

from mugraph.passes.memory.packing.pack import CertifiedPlan

SHARED_MEMORY_CERTIFICATE = "sched.memory_certificate"
"""The attribute of a kernel with the certificate of its plan."""
WORKSPACE_CERTIFICATE = "kn.workspace_certificate"
"""The attribute of a function with the certificate of its workspace's plan."""


def certificate_attribute(found: CertifiedPlan) -> DictionaryAttr:
    """``{bound, method, optimal, peak}``: bytes, what found the plan, whether the bound is met."""
    return DictionaryAttr(
        {
            "bound": IntegerAttr(found.bound, i64),
            "method": StringAttr(found.method),
            "optimal": BoolAttr.from_bool(found.is_optimal),
            "peak": IntegerAttr(found.plan.peak, i64),
        }
    )
