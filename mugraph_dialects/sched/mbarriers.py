"""Operators that keep mbarriers in shared memory, from one byte of it on."""

from __future__ import annotations

from abc import abstractmethod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.irdl import IRDLOperation, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import number_if_given
from mugraph.dialects.sched.kernel import KernelOp, enclosing_kernel
from mugraph.dialects.tensor_types import op_label

BARRIER_BYTES = 8
"""The size of an mbarrier."""


class KeepsMbarriers(IRDLOperation, Abstract):
    """An operator with mbarriers of its own, from byte ``offset`` of the block's memory on.

    They live for the whole kernel.  A ``sched.barrier`` of the whole block stands between the
    operator and the roles: before it one thread sets the mbarriers up.  ``offset`` is absent until
    ``--plan-stensor-memory``.
    """

    offset = opt_prop_def(IntegerAttr.constr(type=i64))

    @abstractmethod
    def barrier_count(self) -> int:
        """How many mbarriers there are."""

    byte_offset = number_if_given("offset")
    """Where the mbarriers start, once planned."""

    def barrier_bytes(self) -> int:
        """The size of the mbarriers."""
        return BARRIER_BYTES * self.barrier_count()

    def verify_in_body(self) -> KernelOp:
        """Checks that the operator stands in the body of a kernel, and returns that."""
        kernel = enclosing_kernel(self)
        if self.parent_op() is not kernel:
            raise VerifyException(f"{op_label(self)} must stand in the body of the kernel")
        return kernel

    def verify_offset(self) -> None:
        """Checks the mbarriers' place."""
        offset, smem = self.byte_offset, enclosing_kernel(self).smem_bytes
        if offset is None:
            return
        if offset < 0 or offset % BARRIER_BYTES:
            raise VerifyException(
                f"{op_label(self)}: offset {offset} must be a multiple of {BARRIER_BYTES} bytes"
            )
        end = offset + self.barrier_bytes()
        if smem is not None and end > smem:
            raise VerifyException(
                f"{op_label(self)} ends at byte {end}, beyond the kernel's smem {smem}"
            )
