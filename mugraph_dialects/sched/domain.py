"""Which iterations of its loop a block runs, where that depends on the block."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import AffineSetAttr, IntegerAttr, i64
from xdsl.ir import Operation, SSAValue

from mugraph.dialects.lengths import numbers_attribute
from mugraph.dialects.linear_forms import at_lengths, set_of
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.sched.channel import RunsAtIteration
from mugraph.dialects.sched.kernel import KernelOp
from mugraph.dialects.sched.local_tile import LocalTileOp
from mugraph.dialects.sched.mask import MaskOp
from mugraph.dialects.sched.structure import EpilogueOp, enclosing_loop, loops_of, most_iterations
from mugraph.dialects.sched.transfer import CopyOp
from mugraph.dialects.spans import Span, span_of
from mugraph.dialects.tensor_types import shape_of


def fewest_iterations(kernel: KernelOp) -> int:
    """How many iterations a block runs at least, where its number depends on the block.

    Blocks that share the tiles of a loop in turn may have none, unless what follows the loop is of
    its last iteration, or reads what comes once.
    """
    loops = loops_of(kernel)
    alone = all(loop.parent_op() is kernel and loop.peeled is None for loop in loops)
    if not (kernel.is_interleaved and kernel.domain is not None and loops and alone):
        return 1
    steps = (op for op in kernel.body.walk() if isinstance(op, RunsAtIteration | CopyOp))
    fixed = [op for op in steps if op.fixed_iteration is not None]
    later = any(
        isinstance(use.operation.parent_op(), EpilogueOp)
        for op in fixed
        if isinstance(op, CopyOp)
        for use in op.destination.uses
    )
    return int(later or any(map(counts_from_end, fixed)))


def spans_of(kernel: KernelOp, box: Sequence[slice]) -> Iterator[tuple[Span, tuple[slice, ...]]]:
    """Some blocks of a grid in boxes, in each of which all run the same iterations."""
    forms, iterations = kernel.domain_forms(), most_iterations(kernel)
    fewest = fewest_iterations(kernel)
    ranges = [
        [slice(index, index + 1) for index in range(blocks.start, blocks.stop)]
        if any(form.coefficients[axis] for form in forms)
        else [blocks]
        for axis, blocks in enumerate(box)
    ]
    for part in itertools.product(*ranges):
        yield span_of(forms, [blocks.start for blocks in part], iterations, fewest), part


def with_count(kernel: KernelOp, count: int) -> KernelOp:
    """A copy of a kernel for blocks that run so many iterations.

    Its loops run so often, operators before the loop on later iterations are left out, and those
    after it mean iterations counted from the last one.
    """
    iterations = most_iterations(kernel)
    if count == iterations:
        return kernel
    copy = kernel.clone()
    for loop in loops_of(copy):
        loop.range = IntegerAttr(count, i64)
        if not count:
            for result, carried in zip(loop.results, loop.carried, strict=True):
                result.replace_all_uses_with(carried)
            Rewriter.erase_op(loop)
    for op in tuple(copy.body.walk()):
        if not isinstance(op, RunsAtIteration | CopyOp) or op.fixed_iteration is None:
            continue
        meant = op.fixed_iteration
        if counts_from_end(op):
            meant += count - iterations
        if not 0 <= meant < count:
            Rewriter.erase_op(op)
        else:
            op.iteration = IntegerAttr(meant, i64)
    return copy


def with_lengths(kernel: KernelOp, values: Sequence[int]) -> KernelOp:
    """A copy of a kernel for calls in which its lengths have these values; itself without any.

    Its whole grid runs: blocks that would have left write nothing.
    """
    if not values:
        return kernel
    held = [length.argument for length in kernel.held_lengths]
    copy = kernel.clone()
    arguments = copy.body.block.args
    of_argument: dict[SSAValue, int] = {
        arguments[number]: value for number, value in zip(held, values, strict=True)
    }
    forms = at_lengths(copy.domain_forms(), values)
    copy.domain = AffineSetAttr(set_of(forms, len(AXES) + 1)) if forms else None
    cuts = [cut for cut in copy.cuts if cut.argument not in held]
    copy.cut = numbers_attribute([number for cut in cuts for number in cut])
    copy.hold([])
    for op in copy.body.walk():
        if isinstance(op, LocalTileOp):
            op.end_at(of_argument)
        elif isinstance(op, MaskOp) and op.condition is not None:
            rank = len(shape_of(op.source.type))
            op.condition = AffineSetAttr(set_of(at_lengths(op.forms(), values), rank))
    return copy


def counts_from_end(op: Operation) -> bool:
    """Whether the iteration that an operator names is one of the loop's, behind that loop.

    Of what is loaded once there is one iteration, whatever the loop has.
    """
    users = [use.operation for value in op.operands for use in value.uses]
    return isinstance(op.parent_op(), EpilogueOp) and any(
        isinstance(user, RunsAtIteration | CopyOp) and enclosing_loop(user) is not None
        for user in users
    )
