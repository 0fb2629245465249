"""Makes one kernel of two, the second of which finishes what blocks of the first have begun.

The inverse of a split, also of those that saved µGraphs come with: blocks of the first kernel along
one axis store parts of sums, side by side, and the second kernel adds them up and goes on.  The
merged kernel has all iterations in its loop, and no such axis; its for-loop can be divided again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.interfaces import CarriesState
from mugraph.dialects.kn import CustomizedOp, Phase, phases_of
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import mapped_axes
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label
from mugraph.passes.mugraph.online_softmax.parts import (
    consumer_of,
    loads_of,
    loads_through,
)
from mugraph.passes.mugraph.retile.apply_partition import apply_partition
from mugraph.passes.mugraph.retile.dimensions import TileSpace, find_dimensions
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.loops import LoopAnalysis
from mugraph.passes.mugraph.retile.partition import (
    Cut,
    Partition,
    partition_of,
    require_same_function,
)
from mugraph.passes.mugraph.retile.writer import KernelWriter, replace_kernel


class MergePlan(NamedTuple):
    """Which axis of the first kernel becomes part of its loop; -1 where blocks combine nothing."""

    first: CustomizedOp
    second: CustomizedOp
    axis: int

    @property
    def parts(self) -> int:
        """How many blocks have a part each."""
        return self.first.grid_dim[self.axis] if self.axis >= 0 else 1

    def grid(self) -> tuple[int, ...]:
        """The merged kernel's blocks."""
        return tuple(
            1 if axis == self.axis else extent for axis, extent in enumerate(self.first.grid_dim)
        )

    def without_axis(self, map_: Sequence[int]) -> tuple[int, ...]:
        """A map of the first kernel, in the merged one."""
        return tuple(-1 if axis == self.axis else dim for axis, dim in enumerate(map_))


def _fail(first: CustomizedOp, why: str) -> RetileError:
    return RetileError(f"{op_label(first)} cannot be merged with the kernel that uses it: {why}")


def _axis_of_parts(space: TileSpace) -> int:
    """The axis along which blocks have parts of sums; -1 where none is."""
    axes = {
        axis
        for dimension in space.dimensions
        if dimension.summed
        for axis in dimension.axes
        if axis in space.fixed_axes
    }
    if len(axes) > 1:
        raise _fail(
            space.graph, "its blocks store partial sums along more than one axis of the grid"
        )
    for dimension in space.dimensions:
        if axes & set(dimension.axes) and set(dimension.axes) != axes:
            raise _fail(space.graph, f"two axes of the grid cut {dimension.name}")
    return axes.pop() if axes else -1


def plan_merge(first: CustomizedOp) -> MergePlan:
    """How to merge a kernel with its consumer; raises :class:`RetileError` where that cannot be."""
    second = consumer_of(first)
    if second is None:
        raise _fail(
            first, "its results are used by several operators, or by one that is no custom kernel"
        )
    for op in (*first.body.block.ops, *second.body.block.ops):
        if isinstance(op, CarriesState):
            raise _fail(first, f"{op_label(op)} carries a state from each iteration to the next")
    if (load := loads_through(first, second)) is not None:
        raise _fail(
            first,
            f"{op_label(load)} reads rows through an index tensor, which any block may have stored",
        )
    axis = _axis_of_parts(find_dimensions(first))
    if second.decided.demands():
        said = ", ".join(map(second.decided.text_of, second.decided.demands()))
        raise _fail(
            first, f"the plan of the other kernel has {said}; write that into the plan of the first"
        )
    for output in _outputs(first):
        if output.loop_dim >= 0:
            raise _fail(first, f"{op_label(output)} stores a slice in every iteration")
        accumulator = output.stensor.owner
        if axis >= 0 and not (isinstance(accumulator, tb.AccumulatorOp) and accumulator.adds):
            raise _fail(
                first,
                f"{op_label(output)} stores {value_label(output.stensor)}, which is no plain sum, "
                "in parts",
            )
    return MergePlan(first, second, axis)


def _outputs(graph: CustomizedOp) -> list[tb.OutputOp]:
    return [op for op in graph.body.block.ops if isinstance(op, tb.OutputOp)]


def _align(plan: MergePlan) -> None:
    """Repartitions the second kernel as the first: its blocks get the tiles they have made."""
    space = find_dimensions(plan.second)
    cuts = [Cut(looped=cut.looped) for cut in partition_of(space).cuts]
    for load, output in loads_of(plan.first, plan.second):
        for dim, number in enumerate(space.numbers[load.result]):
            axes = tuple(
                axis
                for axis in mapped_axes(output.map_, plan.first.grid_dim, dim)
                if axis != plan.axis
            )
            if not axes:
                continue
            if number is None or cuts[number].axes not in ((), axes):
                raise _fail(
                    plan.first,
                    f"{op_label(load)} loads other tiles than those that the first kernel stores",
                )
            cuts[number] = Cut(axes, cuts[number].looped)
    old = partition_of(space)
    partition = Partition(plan.grid(), old.block, old.forloop, tuple(cuts))
    require_same_function(space, partition)
    apply_partition(space, partition)


@singledispatch
def total_of(op: Operation, total: SSAValue) -> list[Operation] | None:
    """What an operator over all parts of a sum makes of the sum itself; ``None`` if unknown.

    The parts stand side by side along the last dimension of its operand.  No operators where the
    result is the sum.  An operator that adds parts up registers a function of its own.
    """
    return None


def _reduced(total: SSAValue, type_: tb.STensorType) -> list[Operation]:
    last = len(shape_of(total.type)) - 1
    extent, wanted = shape_of(total.type)[last], type_.get_shape()[last]
    if extent == wanted:
        return []
    if wanted == 1:
        return [tb.ReductionOp(total, last, type_)]
    return [tb.ReductionToDimxStridedOp(total, last, type_)]


@total_of.register
def _(op: tb.ForloopAccumOp, total: SSAValue) -> list[Operation] | None:
    if op.kind.data is tb.AccumulatorKind.NONE:
        return []
    is_sum = op.kind.data is tb.AccumulatorKind.SUM
    return _reduced(total, op.result.type) if is_sum else None


@total_of.register
def _(op: tb.ForloopAccumSumToDimxStridedOp, total: SSAValue) -> list[Operation] | None:
    fits = shape_of(total.type)[-1] % op.dimx == 0
    return _reduced(total, op.result.type) if fits else None


@total_of.register
def _(op: tb.ReductionOp, total: SSAValue) -> list[Operation] | None:
    is_last = op.reduced_dim == len(shape_of(total.type)) - 1
    return _reduced(total, op.result.type) if is_last else None


def _one_iteration_a_part(plan: MergePlan, load: tb.InputOp, output: tb.OutputOp) -> bool:
    """Whether each iteration of the second kernel loads the part of one block."""
    dim = output.map_[plan.axis]
    axes = mapped_axes(output.map_, plan.first.grid_dim, dim)
    same_tile = shape_of(load.result.type) == shape_of(output.stensor.type)
    return load.loop_dim == dim and axes[-1] == plan.axis and same_tile


def _all_parts_side_by_side(plan: MergePlan, load: tb.InputOp, output: tb.OutputOp) -> bool:
    """Whether the parts of all blocks are the last dimension of what the second kernel loads."""
    shape = shape_of(output.stensor.type)
    last = len(shape) - 1
    axes = mapped_axes(output.map_, plan.first.grid_dim, last)
    iterations = plan.second.forloop_range if load.loop_dim == last else 1
    if load.loop_dim not in (-1, last) or axes != [plan.axis]:
        return False
    loaded = shape_of(load.result.type)
    return loaded[:last] == shape[:last] and loaded[last] * iterations == shape[last] * plan.parts


class _Merger:
    """Writes the merged kernel."""

    def __init__(self, plan: MergePlan) -> None:
        self.plan = plan
        self.kernel = KernelWriter()
        self.summed: set[SSAValue] = set()
        """Sums of the parts that one iteration of the second kernel loads."""
        self.loads: dict[SSAValue, tb.OutputOp] = {
            load.result: output for load, output in loads_of(plan.first, plan.second)
        }

    def write(self) -> CustomizedOp:
        plan = self.plan
        self.write_first()
        for op, phase in phases_of(plan.second.body.block, plan.second.forloop_range).items():
            if isinstance(op, tb.InputOp):
                if op.result not in self.loads:
                    self.add_input(plan.second, op, op.map_, phase)
            elif isinstance(op, tb.OutputOp):
                self.kernel.copy(op)
            else:
                self.add_operator(op, phase)
        iterations = plan.first.forloop_range * plan.parts
        return self.kernel.finished(plan.grid(), plan.first.block_dim, iterations)

    def write_first(self) -> None:
        """The first kernel, without its stores."""
        plan = self.plan
        space = find_dimensions(plan.first)
        for op in plan.first.body.block.ops:
            if isinstance(op, tb.InputOp):
                dims = [
                    dim
                    for dim, dimension in enumerate(space.of(op.result))
                    if dimension is not None and plan.axis in dimension.axes
                ]
                loop_dim = dims[0] if dims else op.loop_dim
                self.kernel.load(plan.first, op, plan.without_axis(op.map_), loop_dim)
            elif not isinstance(op, tb.OutputOp):
                self.kernel.copy(op)

    def add_input(
        self, graph: CustomizedOp, op: tb.InputOp, map_: Sequence[int], phase: Phase
    ) -> None:
        """Another tensor that the second kernel loads a tile of."""
        if op.loop_dim >= 0 and graph.forloop_range > 1:
            raise _fail(
                self.plan.first, f"{op_label(op)} loads a tensor slice by slice in the second loop"
            )
        self.kernel.load(graph, op, map_, -1)

    def add_operator(self, op: Operation, phase: Phase) -> None:
        """An operator of the second kernel, after the loop of the merged one."""
        loaded = [value for value in op.operands if value in self.loads]
        if self.sums_parts_along(op):
            self.kernel.values[op.results[0]] = self.total(op.operands[0])
            self.summed.add(op.results[0])
        elif loaded and self.plan.axis >= 0:
            self.add_combination(op, loaded[0])
        elif isinstance(op, tb.AccumulatorOp) and op.operands[0] in self.summed:
            self.use_total(op, self.kernel.values[op.operands[0]])
        elif phase is Phase.LOOP and self.plan.second.forloop_range > 1:
            raise _fail(self.plan.first, f"{op_label(op)} computes in the second loop")
        else:
            for value in loaded:
                self.kernel.values[value] = self.total(value)
            if isinstance(op, tb.AccumulatorOp):
                self.use_total(op, self.kernel.values[op.operands[0]])
            else:
                self.kernel.copy(op)

    def sums_parts_along(self, op: Operation) -> bool:
        """Whether an operator sums the parts that an iteration loads along their dimension."""
        if not isinstance(op, tb.ReductionOp) or tb.epilogue_of(op) or self.plan.axis < 0:
            return False
        load = op.input.owner
        if op.input not in self.loads or not isinstance(load, tb.InputOp):
            return False
        output = self.loads[op.input]
        dim = op.reduced_dim
        is_single = shape_of(output.stensor.type)[dim] == 1
        return is_single and dim == output.map_[self.plan.axis] and self.covers(load, output, dim)

    def covers(self, load: tb.InputOp, output: tb.OutputOp, dim: int) -> bool:
        """Whether all iterations together load the parts of all blocks of a block's own tile."""
        iterations = self.plan.second.forloop_range if load.loop_dim == dim else 1
        stored, loaded = shape_of(output.stensor.type), shape_of(load.result.type)
        others = [d for d in range(len(stored)) if d != dim]
        is_same_tile = all(stored[d] == loaded[d] for d in others)
        axes = mapped_axes(output.map_, self.plan.first.grid_dim, dim)
        is_innermost = axes[-1] == self.plan.axis
        is_looped = load.loop_dim in (-1, dim)
        all_parts = loaded[dim] * iterations == self.plan.parts
        return is_same_tile and is_innermost and is_looped and all_parts

    def total(self, loaded: SSAValue) -> SSAValue:
        """The value of the merged kernel for a tile that the second kernel loads."""
        return self.kernel.values[self.loads[loaded].stensor]

    def add_combination(self, op: Operation, loaded: SSAValue) -> None:
        """An operator that adds up the parts of all blocks."""
        load = loaded.owner
        assert isinstance(load, tb.InputOp)
        output = self.loads[loaded]
        accumulates = isinstance(op, tb.AccumulatorOp)
        fits = accumulates or self.plan.second.forloop_range == 1
        by_iterations = accumulates and _one_iteration_a_part(self.plan, load, output)
        if not fits or not (by_iterations or _all_parts_side_by_side(self.plan, load, output)):
            raise _fail(
                self.plan.first, f"{op_label(op)} does not add up the partial sums of all blocks"
            )
        if (
            not by_iterations
            and isinstance(op, tb.ForloopAccumOp)
            and (op.kind.data is tb.AccumulatorKind.NONE)
        ):
            raise _fail(
                self.plan.first, f"{op_label(op)} keeps the partial sums of several blocks apart"
            )
        self.use_total(op, self.total(loaded))

    def use_total(self, op: Operation, total: SSAValue) -> None:
        """Replaces an operator over parts by what it makes of their sum."""
        steps = None if tb.epilogue_of(op) else total_of(op, total)
        if steps is None:
            raise _fail(self.plan.first, f"{op_label(op)} does not add up partial sums")
        for step in steps:
            self.kernel.add(step)
        value = steps[-1].results[0] if steps else total
        if element_type_of(value.type) != element_type_of(op.results[0].type):
            value = self.kernel.add(tb.CastOp(value, op.results[0].type)).results[0]
        if steps or value is not total:
            value.name_hint = op.results[0].name_hint
        self.kernel.values[op.results[0]] = value


def merge(first: CustomizedOp) -> CustomizedOp:
    """Replaces a kernel and its consumer by one kernel.

    Raises :class:`RetileError` where the second does not just combine what blocks have begun.
    """
    plan = plan_merge(first)
    _align(plan)
    merged = _Merger(plan).write()
    replace_kernel(plan.second, [merged], merged.results, str(_fail(first, "they do not fit")))
    Rewriter.erase_op(first)
    space = find_dimensions(merged)
    if plan.axis >= 0:
        looped = (n for n, dimension in enumerate(space.dimensions) if dimension.looped)
        LoopAnalysis(space, frozenset(looped))
    return merged


def is_merged(graph: CustomizedOp) -> bool:
    """Whether the plan of a kernel that makes an input says that the two become one."""
    makers = (value.owner for value in graph.inputs)
    return any(isinstance(maker, CustomizedOp) and maker.decided.merge for maker in makers)
