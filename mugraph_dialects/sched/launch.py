"""Launches of kernels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure, SymbolTable
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.constant import CONSTANT, is_constant
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.indirect import LaunchesKernel, ReadsLengths
from mugraph.dialects.kn.overlap import CanJoin
from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.launch_extents import (
    largest_held,
)
from mugraph.dialects.sched.kernel import KernelOp
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    op_label,
    shape_of,
    value_label,
)


@irdl_op_definition
class LaunchOp(WorkspaceOp, LaunchesKernel, ReadsLengths, CanJoin):
    """Launches a kernel of the module on DTensors, as a value at kernel level.

    Of several that share a launch the first one says how many blocks share a multiprocessor.

    One with ``cluster n`` runs behind the launch in front of it, whose blocks run it, too: n of
    them are a cluster, of which the first runs one of its blocks once all have run theirs.  Of c
    clusters cluster i has blocks i, i + c, i + 2 c... of the kernel in front, and block i of the
    one behind.  What goes from one to the other lies in the shared memory of the first block.
    """

    name = "sched.launch"

    kernel = prop_def(SymbolRefAttr)
    arguments = var_operand_def(TensorType | IndexType)
    resident = opt_prop_def(IntegerAttr.constr(i64))
    cluster = opt_prop_def(IntegerAttr.constr(i64))
    outputs = var_result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$kernel $arguments (`resident` $resident^)? (`cluster` $cluster^)? "
        "(`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self, kernel: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[arguments],
            result_types=[result_types],
            properties={"kernel": SymbolRefAttr(kernel)},
        )

    def verify_(self) -> None:
        """Checks arguments and results against the kernel's parameters."""
        super().verify_()
        self.verify_joined()
        kernel = self.resolve()
        self._verify_behind(kernel)
        values = (*self.arguments, *self.outputs)
        parameters = kernel.body.block.args
        if len(self.arguments) != kernel.input_count or len(values) != len(parameters):
            raise VerifyException(
                f"{op_label(self)} passes {len(self.arguments)} inputs and takes "
                f"{len(self.outputs)} results; {op_label(kernel)} has {kernel.input_count} inputs "
                f"and {len(parameters) - kernel.input_count} outputs"
            )
        for value, parameter in zip(values, parameters, strict=True):
            if value.type == parameter.type:
                continue  # an index
            if IndexType() in (value.type, parameter.type) or (
                shape_of(value.type) != shape_of(parameter.type)
                or element_type_of(value.type) != element_type_of(parameter.type)
                or layout_of(value.type) not in (None, layout_of(parameter.type))
            ):
                raise OperatorError(
                    f"{value_label(value)} has type {value.type}, but parameter {parameter.index} "
                    f"of {op_label(kernel)} is {parameter.type}"
                )
        for index in kernel.constant_inputs:
            argument = self.arguments[index]
            if not is_constant(argument):
                raise OperatorError(
                    f"{value_label(argument)} may change, but {op_label(kernel)} loads its input "
                    f"{index} as one that is constant; mark the function's argument with {CONSTANT}"
                )

    def _verify_behind(self, kernel: KernelOp) -> None:
        if self.cluster is None:
            return
        front, blocks = self.prev_op, self.cluster.value.data
        if not self.is_joined or not isinstance(front, LaunchOp) or front.is_joined:
            raise VerifyException(
                f"{op_label(self)} runs behind the launch in front of it, so that it shares that "
                "one, which is of one kernel"
            )
        if kernel.placed_rows or front.joins() is None or front.joins() != self.joins():
            raise VerifyException(
                f"{op_label(self)} cannot run behind {op_label(front)}: neither may have roles, "
                "and it may store no rows of tables, which others read"
            )
        clusters = self.task_count()
        if blocks < 2 or front.task_count() != blocks * clusters:
            raise VerifyException(
                f"{op_label(self)}: clusters of {blocks} blocks, of which one runs each of its "
                f"{clusters} blocks, are not the {front.task_count()} blocks in front of it"
            )
        if kernel.threads > front.resolve().threads:
            raise VerifyException(
                f"{op_label(self)} has {kernel.threads} threads a block, and runs behind one of "
                f"{front.resolve().threads}"
            )

    @property
    def cluster_size(self) -> int:
        """How many blocks a cluster has; 1 where it does not run behind another kernel."""
        return 1 if self.cluster is None else self.cluster.value.data

    @property
    def runs_behind(self) -> bool:
        """Whether its blocks are run by those of the launch in front of it."""
        return self.cluster is not None

    def joins(self) -> Hashable | None:
        """Kernels whose blocks and threads are numbered from 0 on, and have no roles."""
        kernel = self.resolve()
        if kernel.cuts or kernel.held_lengths or not kernel.is_plain():
            return None
        return (kernel.waits_for_grids(),)

    def task_count(self) -> int:
        """The blocks of the kernel's grid."""
        return math.prod(self.resolve().grid_dim)

    def largest_length(self, operand: int) -> int | None:
        """Of operands that hold lengths of the kernel."""
        return largest_held(self.resolve().held_lengths, operand)

    def argument_of(self, operand: int) -> SSAValue:
        """The kernel's argument."""
        return self.resolve().body.block.args[operand]

    def resolve(self) -> KernelOp:
        """The kernel launched; raises ``VerifyException`` where the module has none."""
        kernel = SymbolTable.lookup_symbol(self, self.kernel)
        if not isinstance(kernel, KernelOp):
            raise VerifyException(
                f"{op_label(self)}: the module has no 'sched.kernel' named "
                f"@{self.kernel.string_value()}"
            )
        return kernel
