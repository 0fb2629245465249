"""The custom kernel: a threadblock graph, run by every block of a grid."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.indirect import LaunchesKernel, ReadsLengths
from mugraph.dialects.kn.phases import (
    Phase,
    accumulates,
    phases_of,
    used_after_the_loop,
)
from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.launch_extents import (
    HasThreadblockGraph,
    HeldLength,
    HoldsLengths,
    integer_array,
    largest_held,
)
from mugraph.dialects.lengths import verify_held_lengths
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.plan import Plan, PlanAttr, plan_attribute
from mugraph.dialects.tb import CarriedOp, OutputOp
from mugraph.dialects.tb.graph_bounds import bounds_of_graph
from mugraph.dialects.tensor_types import op_label, value_label

CERTIFICATE = "kn.certificate"
"""The attribute of a kernel with the function that it was found for, as text."""


@irdl_op_definition
class CustomizedOp(WorkspaceOp, HoldsLengths, HasThreadblockGraph, LaunchesKernel, ReadsLengths):
    """Runs a threadblock graph in every block of ``grid``, with ``forloop`` iterations.

    The body's arguments are the operands; the i-th ``tb.output`` of the body is the i-th result.
    ``lengths [1, 4096]``: argument 1, of one i32 or i64, holds a number from 0 to 4096, on which
    masks and loads of the body depend as length 0.  The interpreter refuses others; kernels take
    the nearest number.  ``lengths [1, 4096] per [0]``: it holds one for each block along x.
    ``forloop 16 interleaved``: of a dimension that blocks divide, and the loop within each, blocks
    have tiles side by side in every iteration, so that all have some of what a length leaves.
    ``plan`` has what is decided of how it is compiled: ``plan <loads = tma, stages = [4]>``.
    """

    name = "kn.customized"

    inputs = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)
    forloop = prop_def(IntegerAttr.constr(type=i64))
    plan = opt_prop_def(PlanAttr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), Pure())

    assembly_format = (
        "$inputs `grid` $grid `block` $block `forloop` $forloop (`interleaved` $interleaved^)? "
        "(`lengths` $lengths^)? "
        "(`per` $per^)? "
        "(`plan` $plan^)? (`workspace` $workspace^)? $body attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        grid: Sequence[int],
        block: Sequence[int],
        forloop: int,
        body: Region | Block,
        plan: Plan | None = None,
        lengths: Sequence[HeldLength] = (),
    ) -> None:
        super().__init__(
            operands=[inputs],
            result_types=[result_types],
            properties={
                "grid": integer_array(grid),
                "block": integer_array(block),
                "forloop": IntegerAttr(forloop, i64),
                "plan": plan_attribute(plan),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )
        self.hold(lengths)

    @property
    def decided(self) -> Plan:
        """The parts of its plan that are decided."""
        return Plan() if self.plan is None else self.plan.data

    @decided.setter
    def decided(self, plan: Plan) -> None:
        self.plan = plan_attribute(plan)

    @property
    def forloop_range(self) -> int:
        """Iterations of the for-loop; 1 means that there is none."""
        return self.forloop.value.data

    def largest_length(self, operand: int) -> int | None:
        """Of operands that hold lengths of the body."""
        return largest_held(self.held_lengths, operand)

    def argument_of(self, operand: int) -> SSAValue:
        """The body's argument."""
        return self.body.block.args[operand]

    def verify_(self) -> None:
        """Checks launch extents, bindings, and what stands before and after the accumulators."""
        WorkspaceOp.verify_(self)
        self.verify_extents()
        block = self.body.block
        if [argument.type for argument in block.args] != [value.type for value in self.inputs]:
            raise OperatorError("the body's arguments must have the operands' types, one each")
        verify_held_lengths(self, [argument.type for argument in block.args])
        stored = [op for op in block.ops if isinstance(op, OutputOp)]
        if len(stored) != len(self.outputs):
            raise VerifyException(
                f"{op_label(self)} has {len(self.outputs)} results but its body has {len(stored)} "
                "'tb.output'; the i-th of them is the i-th result"
            )
        for index, (output, result) in enumerate(zip(stored, self.outputs, strict=True)):
            if output.dtensor_type != result.type:
                raise OperatorError(
                    f"result {index} has type {result.type} but its 'tb.output' stores "
                    f"{output.dtensor_type}"
                )
        _verify_order(block)
        for op in block.ops:
            if isinstance(op, CarriedOp):
                op.verify_update()
        self.verify_phases()
        bounds_of_graph(block)

    def verify_phases(self) -> None:
        """Checks that values of the loop and values after it do not mix; also on part of a body.

        In a loop of one iteration a value of the body is whole, and may be used after it.
        """
        block = self.body.block
        phases = phases_of(block, self.forloop_range)
        late = {
            result
            for op, phase in phases.items()
            if phase is Phase.AFTER or accumulates(op)
            for result in op.results
        }
        for op, phase in phases.items():
            after = [value for value in op.operands if value in late]
            if accumulates(op) and after:
                raise VerifyException(
                    f"{op_label(op)} accumulates {value_label(after[0])}, which exists only "
                    "after the loop; accumulate values of the loop body"
                )
            if isinstance(op, OutputOp) and after and phase is Phase.LOOP:
                raise VerifyException(
                    f"{op_label(op)} stores {value_label(after[0])} in every iteration, but it "
                    "exists only after the loop; leave out 'fordim', or store a value of the loop "
                    "body"
                )
        if self.forloop_range == 1:
            return
        for value, users in used_after_the_loop(block, self.forloop_range).items():
            for op in users:
                if isinstance(op, OutputOp):
                    raise VerifyException(
                        f"{op_label(op)} stores a value of the loop body, which differs from "
                        "iteration to iteration; accumulate it first, or give the output a "
                        "'fordim' to store each iteration's in its own slice"
                    )
                after = next(operand for operand in op.operands if operand in late)
                raise VerifyException(
                    f"{op_label(op)} mixes {value_label(after)}, which exists after the loop, "
                    f"with {value_label(value)} of the loop body; accumulate the latter first"
                )


def _verify_order(block: Block) -> None:
    """Raises ``VerifyException`` where an operator uses what a later one computes."""
    computed: set[SSAValue] = set(block.args)
    for op in block.ops:
        for value in op.operands:
            if value not in computed:
                raise VerifyException(
                    f"{op_label(op)} uses {value_label(value)} before it is computed; operators "
                    "stand in the order of their data flow"
                )
        computed.update(op.results)


def match_arguments(value: SSAValue) -> None:
    """Gives the arguments of custom kernels that read a value its type."""
    for use in tuple(value.uses):
        if isinstance(use.operation, CustomizedOp):
            argument = use.operation.body.block.args[use.index]
            Rewriter.replace_value_with_new_type(argument, value.type)
