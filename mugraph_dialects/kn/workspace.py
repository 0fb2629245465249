"""Operators whose results live in device memory, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.irdl import IRDLOperation, opt_prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import OperatorError
from mugraph.dialects.interfaces import HasWorkspace, SharesMemory
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.tensor_types import (
    base_layout,
    element_bytes_of,
    layout_of,
    leaves_in_memory,
    op_label,
    physical_elements,
    resolved_layout_of,
    shape_of,
    value_label,
)

NOT_IN_WORKSPACE = -1
"""The offset of a result that lives in an output of the function."""
WORKSPACE_BYTES = "kn.workspace_bytes"
"""The attribute of a function that holds the size of its workspace in bytes."""
ADDRESS_ALIGNMENT = 16
"""Bytes at whose multiples kernels take their tensors."""


def tensor_bytes(value: SSAValue) -> int:
    """The bytes that a DTensor spans, its padding included.

    Raises ``VerifyException`` where it has no layout yet.
    """
    return physical_elements(resolved_layout_of(value)) * element_bytes_of(value.type)


def places_of(op: HasWorkspace) -> dict[SSAValue, range]:
    """The bytes of the workspace that each result takes which has a layout and lies there."""
    offsets = op.workspace_offsets() or ()
    return {
        result: range(offset, offset + tensor_bytes(result))
        for result, offset in zip(op.results, offsets, strict=False)
        if offset != NOT_IN_WORKSPACE and layout_of(result.type) is not None
    }


def memory_root(value: SSAValue) -> SSAValue:
    """The tensor in whose memory a value lies: itself, unless it is a view."""
    while isinstance(value.owner, SharesMemory):
        value = value.owner.memory_of(value)
    return value


def bytes_into_root(value: SSAValue) -> int:
    """The bytes from the start of the tensor in whose memory a value lies to that of the value."""
    skipped = 0
    while isinstance(value.owner, SharesMemory):
        skipped += value.owner.bytes_before(value)
        value = value.owner.memory_of(value)
    return skipped


def returned_root(value: SSAValue) -> SSAValue | None:
    """The tensor that lies in an output of the function in which ``value`` is returned.

    Itself, or what it is a view of where it views all of that.  ``None`` where no kernel writes it:
    an argument, and a part of a tensor.
    """
    root = memory_root(value)
    if isinstance(root, BlockArgument):
        return None
    if root is value:
        return root
    layouts = [layout for each in (value, root) if (layout := layout_of(each.type)) is not None]
    if len(layouts) < 2 or math.prod(shape_of(value.type)) != math.prod(shape_of(root.type)):
        return None
    leaves = [leaves_in_memory(base_layout(layout)) for layout in layouts]
    dense = all(layout.size() == layout.cosize() for layout in layouts)
    return root if dense or leaves[0] == leaves[1] else None


def workspace_size(op: Operation) -> int | None:
    """The bytes of the workspace of the function around an operator, once planned."""
    function = op.parent_op()
    attribute = function.attributes.get(WORKSPACE_BYTES) if isinstance(function, FuncOp) else None
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


class WorkspaceOp(IRDLOperation, HasWorkspace):
    """An operator at kernel level: ``workspace [0, -1]`` says where its results live."""

    workspace = opt_prop_def(DenseArrayBase.constr(i64))

    def workspace_offsets(self) -> Sequence[int] | None:
        """Byte offsets, one a result, or ``None`` before ``--plan-dtensor-memory``."""
        if self.workspace is None:
            return None
        return cast(Sequence[int], self.workspace.get_values())

    def set_workspace_offsets(self, offsets: Sequence[int]) -> None:
        """Records the plan."""
        self.workspace = integer_array(offsets)

    def verify_(self) -> None:
        """Checks that operands are computed before, and where results live."""
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
            raise OperatorError(
                f"workspace has {len(offsets)} offsets for {len(self.results)} results"
            )
        for result, offset in zip(self.results, offsets or (), strict=False):
            self._verify_offset(result, offset)

    def _verify_offset(self, result: SSAValue, offset: int) -> None:
        if offset == NOT_IN_WORKSPACE:
            return
        if offset < 0 or offset % ADDRESS_ALIGNMENT:
            raise OperatorError(
                f"workspace offset {offset} of {value_label(result)} must be a multiple of "
                f"{ADDRESS_ALIGNMENT} bytes, or {NOT_IN_WORKSPACE} for an output"
            )
        if any(isinstance(use.operation, ReturnOp) for use in result.uses):
            raise OperatorError(
                f"{value_label(result)} is returned and lives in an output of the function; its "
                f"workspace offset must be {NOT_IN_WORKSPACE}, not {offset}"
            )
        place, size = places_of(self).get(result), workspace_size(self)
        if place is not None and size is not None and place.stop > size:
            raise OperatorError(
                f"{value_label(result)} ends at byte {place.stop} of the workspace, of which the "
                f"function has {size}"
            )
