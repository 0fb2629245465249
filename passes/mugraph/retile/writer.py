"""A threadblock graph that is being written, of parts of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.launch_extents import HeldLength
from mugraph.dialects.lengths import numbers_attribute
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.tensor_types import op_label
from mugraph.dialects.windows import Windows
from mugraph.passes.mugraph.retile.errors import RetileError


def tensor_of(graph: CustomizedOp, op: tb.InputOp) -> SSAValue:
    """The tensor outside a graph that an input loads a tile of."""
    return _outside(graph, op.dtensor)


def _outside(graph: CustomizedOp, argument: SSAValue) -> SSAValue:
    """The operand of a graph that an argument of its body is."""
    arguments: list[SSAValue] = list(graph.body.block.args)
    return graph.inputs[arguments.index(argument)]


def replace_kernel(
    old: CustomizedOp, kernels: Sequence[CustomizedOp], results: Sequence[SSAValue], why: str
) -> None:
    """Puts kernels in the place of one, and ``results`` of them in the place of its results.

    Raises :class:`RetileError` where one does not verify: ``why``, and what is wrong.
    """
    for kernel in kernels:
        Rewriter.insert_op(kernel, InsertPoint.before(old))
        try:
            kernel.verify()
        except VerifyException as error:
            raise RetileError(f"{why}: {error}") from error
    for result, new in zip(old.results, results, strict=True):
        new.name_hint = result.name_hint
        result.replace_all_uses_with(new)
    Rewriter.erase_op(old)


@dataclass
class KernelWriter:
    """A graph's operators so far; ``values`` says what values of other graphs have become."""

    inputs: list[SSAValue] = field(default_factory=list[SSAValue])
    block: Block = field(default_factory=Block)
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    stored: list[Attribute] = field(default_factory=list[Attribute])
    lengths: list[HeldLength] = field(default_factory=list[HeldLength])
    axes: dict[int, int] = field(default_factory=dict[int, int])
    """What axes of another graph have become, where its blocks have lengths of their own."""

    def argument(self, dtensor: SSAValue, hint: str | None) -> SSAValue:
        """The body's argument for a tensor."""
        if dtensor in self.inputs:
            return self.block.args[self.inputs.index(dtensor)]
        self.inputs.append(dtensor)
        argument = self.block.insert_arg(dtensor.type, len(self.block.args))
        argument.name_hint = hint
        return argument

    def length(
        self, tensor: SSAValue, largest: int, hint: str | None = None, axis: int = -1
    ) -> int:
        """The number of a length that a tensor holds, one for each block along an axis perhaps."""
        argument = self.argument(tensor, hint)
        assert isinstance(argument, BlockArgument)  # of the body
        length = HeldLength(argument.index, largest, axis)
        if length not in self.lengths:
            self.lengths.append(length)
        return self.lengths.index(length)

    def length_of(self, graph: CustomizedOp, number: int) -> int:
        """The number that a length of another graph has."""
        held = graph.held_lengths[number]
        hint = graph.body.block.args[held.argument].name_hint
        axis = held.axis
        if axis >= 0:
            if axis not in self.axes:
                raise RetileError(
                    f"{op_label(graph)} has a length for each block along {AXES[axis]}, and what "
                    "depends on that cannot move"
                )
            axis = self.axes[axis]
        return self.length(graph.inputs[held.argument], held.largest, hint, axis)

    def add(self, op: Operation) -> Operation:
        """Appends an operator."""
        self.block.add_op(op)
        if isinstance(op, tb.OutputOp):
            self.stored.append(op.dtensor_type)
        return op

    def copy(self, op: Operation) -> Operation:
        """Appends a copy of an operator of another graph."""
        if isinstance(op, tb.MaskOp) and op.condition is not None:
            raise RetileError(f"{op_label(op)} masks places of one kernel, and cannot move")
        new, graph = op.clone(self.values), op.parent_op()
        if isinstance(new, tb.OutputOp) and isinstance(graph, CustomizedOp):
            new.end_at({dim: self.length_of(graph, number) for dim, number in new.ends.items()})
            if (through := new.through) is not None:
                numbers = self.argument(_outside(graph, through), through.name_hint)
                new.operands = [new.stensor, numbers]
        return self.add(new)

    def copy_mask(self, op: tb.MaskOp, map_: Sequence[int], loop_dim: int) -> None:
        """Appends a copy of a mask, with other maps."""
        new = op.clone(self.values)
        graph = op.parent_op()
        assert isinstance(graph, CustomizedOp)  # as it stands in one
        new.at = numbers_attribute([self.length_of(graph, each) for each in op.length_numbers])
        new.lie(map_, loop_dim)
        self.add(new)

    def tile(
        self,
        argument: SSAValue,
        map_: Sequence[int],
        loop_dim: int,
        type_: Attribute,
        hint: str | None,
        through: SSAValue | None = None,
        ends: Mapping[int, int] | None = None,
        windows: Windows | None = None,
    ) -> SSAValue:
        """A tile of one of the body's arguments, which is loaded once."""
        ends = ends or {}
        wanted = (tuple(map_), loop_dim, type_, through, ends, windows)
        for op in self.block.ops:
            if isinstance(op, tb.InputOp) and op.dtensor is argument:
                known = (op.map_, op.loop_dim, op.result.type, op.through, op.ends, op.windows)
                if known == wanted:
                    return op.result
        new = tb.InputOp(argument, map_, loop_dim, type_, through, ends, windows)
        new.result.name_hint = hint
        return self.add(new).results[0]

    def load(self, graph: CustomizedOp, op: tb.InputOp, map_: Sequence[int], loop_dim: int) -> None:
        """Loads the tile that an input of another graph loads, with other maps."""
        argument = self.argument(tensor_of(graph, op), op.dtensor.name_hint)
        through = op.through
        if through is not None:
            through = self.argument(_outside(graph, through), through.name_hint)
        ends = {dim: self.length_of(graph, number) for dim, number in op.ends.items()}
        self.values[op.result] = self.tile(
            *(argument, map_, loop_dim, op.result.type, op.result.name_hint, through, ends),
            windows=op.windows,
        )

    def finished(self, grid: Sequence[int], block: Sequence[int], forloop: int) -> CustomizedOp:
        """The kernel."""
        return CustomizedOp(
            *(self.inputs, self.stored, grid, block, forloop, self.block), lengths=self.lengths
        )
