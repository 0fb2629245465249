"""Operators whose results live in device memory, and where."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.tensor_types import op_label, value_label

NOT_IN_WORKSPACE = -1
"""The offset of a result that lives in an output of the function."""
WORKSPACE_BYTES = "kn.workspace_bytes"
"""The attribute of a function that holds the size of its workspace in bytes."""


class WorkspaceOp(IRDLOperation, HasWorkspace, ABC):
    """An operator at kernel level: ``workspace [0, -1]`` says where its results live."""

    workspace = opt_prop_def(DenseArrayBase.constr(i64))

    def workspace_offsets(self) -> Sequence[int] | None:
        """Byte offsets, one a result, or ``None`` before ``--plan-dtensor-memory``."""
        if self.workspace is None:
            return None
        return cast(Sequence[int], self.workspace.get_values())

    def set_workspace_offsets(self, offsets: Sequence[int]) -> None:
        """Records the plan."""
        self.workspace = DenseArrayBase.from_list(i64, list(offsets))

    def verify_(self) -> None:
        """Checks that operands are computed before, and that there is one offset a result."""
        for operand in self.operands:
            owner = operand.owner
            if not isinstance(owner, Operation) or owner.parent is not self.parent:
                continue
            if not owner.is_before_in_block(self):
                raise VerifyException(
                    f"{op_label(self)} uses {value_label(operand)} before it is computed; "
                    "operators stand in the order of their data flow"
                )
        offsets = self.workspace_offsets()
        if offsets is not None and len(offsets) != len(self.results):
            raise VerifyException(
                f"{op_label(self)}: workspace has {len(offsets)} offsets for "
                f"{len(self.results)} results"
            )
