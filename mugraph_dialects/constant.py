"""DTensors whose contents do not change while kernels run: weights.

An argument of a function may say so, ``%w: tensor<64x64xf16> {mugraph.constant}``: no kernel that
may still run when one of the function's kernels starts writes to it, whoever launched it.  Loads of
such a tensor need not wait for the kernel before (``--programmatic-launch``).
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.arguments import entries_of_arguments
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.tensor_types import op_label, value_label

CONSTANT = "mugraph.constant"
"""The attribute of an argument, without a value."""


def is_constant_argument(function: FuncOp, index: int) -> bool:
    """Whether argument ``index`` is constant; raises ``VerifyException`` where it has a value."""
    attributes = function.arg_attrs
    entry = None if attributes is None else attributes.data[index].data.get(CONSTANT)
    if entry is None:
        return False
    if not isinstance(entry, UnitAttr):
        argument = function.body.block.args[index]
        raise VerifyException(
            f"argument {index} ({value_label(argument)}) of {op_label(function)}: {CONSTANT} has "
            f"no value, not {entry}; leave the attribute out where the contents change"
        )
    return True


def is_constant(value: SSAValue) -> bool:
    """Whether a DTensor at kernel level is a constant argument, or lies in the memory of one."""
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        return isinstance(parent, FuncOp) and is_constant_argument(parent, owner.args.index(value))
    return isinstance(owner, SharesMemory) and is_constant(owner.memory_of(value))


def mark_constant(function: FuncOp, indices: set[int]) -> None:
    """Says that the arguments at these positions are constant."""
    function.arg_attrs = ArrayAttr(
        [
            DictionaryAttr({**entry.data, CONSTANT: UnitAttr()}) if index in indices else entry
            for index, entry in enumerate(entries_of_arguments(function))
        ]
    )
