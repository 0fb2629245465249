"""Certificates: what a found kernel must compute, kept on it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects.kn import CERTIFICATE, CustomizedOp
from mugraph.passes.program.fuse_kernels.part import block_of


def certify(
    kernel: CustomizedOp, operators: Sequence[Operation], stored: Sequence[SSAValue]
) -> None:
    """Writes the operators into a kernel that was found for them, as a function of its operands.

    They are text, and no function of the module, so that passes leave them as they are.
    """
    block = block_of(kernel.inputs)
    values: dict[SSAValue, SSAValue] = dict(zip(kernel.inputs, block.args, strict=True))
    block.add_ops([op.clone(values) for op in operators])
    block.add_op(ReturnOp(*(values[value] for value in stored)))
    types = [value.type for value in kernel.inputs], [value.type for value in stored]
    function = FuncOp("certificate", types)
    function.body.detach_block(0)
    function.body.add_block(block)
    kernel.attributes[CERTIFICATE] = StringAttr(str(function))
