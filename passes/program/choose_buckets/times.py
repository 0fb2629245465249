"""How long a program takes at many sizes, by the plans of each and of larger ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects.device_cuts import device_cuts
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.named_extents import (
    NamedExtent,
    Names,
    argument_names,
    called_extents,
    extents_in,
)
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.mugraph.plan.choose import space_of, trial_of
from mugraph.passes.mugraph.plan.shape import KernelModel
from mugraph.passes.mugraph.plan.smaller_extents import (
    Called,
    Candidate,
    called_dimensions,
    ended_dimensions,
    smaller,
)
from mugraph.passes.mugraph.plan.smaller_extents import Values as Parts
from mugraph.passes.mugraph.plan.tiles import choose_least_time, time_of_smaller
from mugraph.passes.mugraph.retile.dimensions import TileSpace, find_dimensions
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.partition import partition_of
from mugraph.passes.program.bucket_extents import bucket_at
from mugraph.passes.program.choose_buckets.choice import SizeTimes, Values, holds
from mugraph.passes.program.fuse_kernels import finish
from mugraph.passes.program.fuse_kernels.choice import Found, find_in_buckets
from mugraph.passes.program.name_extents import name_extents
from mugraph.passes.program.named_extents import NamedExtentError, require_names
from mugraph.passes.targets import Target


@dataclass(frozen=True)
class PlannedKernel:
    """A kernel under the plan that an estimate chooses at the extents that it has."""

    space: TileSpace
    candidate: Candidate
    called: Called
    ended: frozenset[int]
    """The dimensions that end at a length."""

    def time(self, parts: Mapping[str, float], target: Target) -> float:
        """Nanoseconds where a call says parts of its extents, by name; infinite if unknown."""
        of_called = {each.name: parts.get(each.name, 1.0) for each in self.called.values()}
        lengths = (parts[name] for name in parts if name not in of_called)
        length = min(lengths, default=1.0) if self.space.graph.held_lengths else 1.0
        shrink = smaller(
            self.space, self.candidate, Parts(length, of_called), self.called, self.ended
        )
        model = KernelModel.of(self.space, self.candidate.partition.looped())
        time = time_of_smaller(target)(model, self.candidate, shrink)
        return math.inf if time is None else time


def time_sizes(function: FuncOp, sizes: Sequence[Values], target: Target) -> SizeTimes:
    """How long the kernels planned for each size take at it and at those that it holds.

    Sizes at which no time of their own kernels is known are left out.  Raises
    :class:`NamedExtentError` where the largest is one of them.
    """
    function = function.clone()
    extents = called_extents(require_names(function).values())
    name_extents(function)
    buckets = [bucket_at(function, _one_of_several(extents, size)) for size in sizes]
    found = find_in_buckets(buckets, target)
    times = {
        size: {
            below: _time_of_others(own, other if own.is_like(other) else own)
            for below, other in zip(sizes, found, strict=True)
            if holds(size, below)
        }
        for size, own in zip(sizes, found, strict=True)
    }
    for (size, row), own in zip(times.items(), found, strict=True):
        finish(own, target)
        kernels = planned_kernels(own.fusion.function, target)
        for below in row:
            parts = {
                extent.name: value / most
                for extent, value, most in zip(extents, below, size, strict=True)
            }
            row[below] += sum(kernel.time(parts, target) for kernel in kernels)
    least = tuple(extent.multiple for extent in extents)
    return SizeTimes(_known(times, op_label(function), max(sizes)), least)


def _known(
    times: Mapping[Values, dict[Values, float]], label: str, largest: Values
) -> dict[Values, dict[Values, float]]:
    """The sizes at which the time of a function's kernels is known under their own plan.

    Under the plan of a larger size it may be infinite: then that is no end for this one.
    """
    known = [size for size in times if math.isfinite(times[size][size])]
    if largest not in known:
        raise NamedExtentError(
            f"{label}: an estimate shall choose buckets, but there is none of a kernel at the "
            "largest extents, which fits no block; write where ranges end in 'buckets'"
        )
    return {
        size: {below: times[size][below] for below in known if below in times[size]}
        for size in known
    }


def _one_of_several(extents: Sequence[NamedExtent], size: Values) -> list[NamedExtent]:
    """What a call says in a bucket that ends at a size, and does not begin at the least one."""
    return [
        replace(extent, largest=value, least=2 * extent.multiple, buckets=(), most_buckets=0)
        for extent, value in zip(extents, size, strict=True)
    ]


def _time_of_others(found: Found, at: Found) -> float:
    """Nanoseconds of what becomes no kernel of tiles, such as products of a library, at a size.

    A library has the extents of a call, whatever bucket that takes.
    """
    groups = (
        group
        for group in found.groups
        if found.fusion.attempted(group).write is None
        and not any(isinstance(op, CustomizedOp) for op in found.fusion.program.members(group))
    )
    return sum(at.fusion.cost(group) for group in groups)


def planned_kernels(function: FuncOp, target: Target) -> list[PlannedKernel]:
    """The kernels of a function at its extents, each with the partition of least time."""
    names: dict[SSAValue, Names] = {
        value: argument_names(function, value.index) for value in function.args
    }
    found: list[PlannedKernel] = []
    for op in function.body.block.ops:
        if not isinstance(op, CustomizedOp):
            names.update(_names_of_results(op, names))
            continue
        with trial_of(op) as trial:
            try:
                space = space_of(trial, op.decided)
                choice = choose_least_time(space, target, op.decided)
            except RetileError:
                space, choice = find_dimensions(op), None
            present = Candidate(partition_of(space), 1)
            candidate = Candidate(choice.partition, choice.split) if choice else present
            called = called_dimensions(space, [names.get(value, ()) for value in op.inputs])
            kernel = PlannedKernel(space, candidate, called, ended_dimensions(space))
            kernel.time({}, target)  # models are found while the kernel is there
            found.append(kernel)
            of: dict[int | None, str] = {number: each.name for number, each in called.items()}
            for output, result in zip(space.outputs(), op.results, strict=True):
                numbers = space.numbers[output.stensor]
                names[result] = tuple(of.get(number, "") for number in numbers)
    return found


def _names_of_results(
    op: Operation, names: Mapping[SSAValue, Names]
) -> Iterator[tuple[SSAValue, Names]]:
    """The names of the dimensions of what an operator of whole tensors computes."""
    for number, result in enumerate(op.results):
        own = [""] * len(extents_in(result.type))
        for cut in device_cuts(op):
            for operand, dim in zip(op.operands, cut.operands, strict=True):
                of_operand, place = names.get(operand, ()), cut.results[number]
                if dim is not None and place is not None and dim < len(of_operand):
                    own[place] = of_operand[dim] or own[place]
        yield result, tuple(own)
