"""``--te-promote``: every buffer gets a memory: registers, shared memory or device memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors, enclosing
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te.mbarriers import MBARRIER_BYTES
from mugraph.dialects.te.points import grid_of, touched_numbers
from mugraph.dialects.tensor_types import element_bytes_of, source_name, value_label
from mugraph.passes.each import TargetPass
from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.passes.memory.packing.allocate import Request
from mugraph.passes.memory.packing.pack import pack
from mugraph.passes.targets import Target
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.te_map.exchanged import MOST_REGISTERS
from mugraph.passes.texpr.te_map.reductions import OF_EACH_THREAD
from mugraph.passes.texpr.te_map.steps import compacted
from mugraph.passes.texpr.te_map.types import make_private, retype

IntArray = npt.NDArray[np.int64]

SHARED_ALIGNMENT = 128
SWIZZLE_ALIGNMENT = 1024
"""Where buffers of boxes begin: where the pattern of the widest swizzle does."""
WORKSPACE_ALIGNMENT = 256
_MOST_POINTS = 1 << 22


@dataclass(frozen=True)
class Registers:
    """How the elements of a buffer are held by the threads of a block."""

    count: int
    """The registers of each thread."""
    indices: tuple[AffineExpr, ...]
    """The register of each use's first element, in the variables of ``operands``."""
    operands: tuple[list[SSAValue], ...]


def registers_of(new: te.NewOp, holder: te.ThreadsOp) -> Registers | None:
    """How threads can hold a buffer of a block, each what it alone touches; ``None`` if not.

    Found by enumeration of all threads and all iterations of the loops that the indices have.
    Each thread's elements are numbered in row-major order, and the numbers of each use must be
    affine in the variables of its loops.  Raises ``PassFailedException`` for an access out of
    bounds.
    """
    uses = list(te.touches_of(new.result))
    if any(isinstance(op, te.AccessOp) and op.is_indirect for op, _ in uses):
        return None
    thread = holder.variable
    elements = new.result.type.elements
    touched: list[tuple[dict[SSAValue, IntArray], IntArray]] = []
    operands: list[list[SSAValue]] = []
    for op, touch in uses:
        variables = variables_of(touch.indices)
        operands.append([one for one in variables if one is not thread])
        if any(_is_outside(one, holder) for one in operands[-1]):
            return None
        found = _points(op, variables, holder)
        if found is None:
            return None
        numbers = touched_numbers(touch, *found)
        if numbers.min() < 0 or numbers.max() >= elements:
            raise PassFailedException(
                f"--te-promote: {value_label(new.result)} is accessed beyond its {elements} "
                "elements; --te-check says where"
            )
        touched.append((found[0], numbers))
    owner = np.full(elements, -1, np.int64)
    for points, numbers in touched:
        owner[numbers.reshape(-1)] = np.repeat(points[thread], numbers.shape[1])
    for points, numbers in touched:
        if (owner[numbers] != points[thread][:, None]).any():
            return None
    rank = np.zeros(elements, np.int64)
    order = np.lexsort((np.arange(elements), owner))
    starts = np.r_[0, np.flatnonzero(np.diff(owner[order])) + 1]
    lengths = np.diff(np.r_[starts, elements])
    rank[order] = np.arange(elements) - np.repeat(starts, lengths)
    indices: list[AffineExpr] = []
    for (points, numbers), loops in zip(touched, operands, strict=True):
        index = _affine(rank[numbers], points, loops)
        if index is None:
            return None
        indices.append(index)
    held = owner >= 0
    count = int(rank[held].max()) + 1 if held.any() else 1
    return Registers(count, tuple(indices), tuple(operands))


def _is_outside(variable: SSAValue, holder: te.ThreadsOp) -> bool:
    owner = variable.owner
    loop = owner.parent_op() if not isinstance(owner, Operation) else owner
    return loop is None or not holder.is_ancestor(loop) or loop is holder


def _points(
    op: Operation, variables: Sequence[SSAValue], holder: te.ThreadsOp
) -> tuple[dict[SSAValue, IntArray], int] | None:
    """All values of the thread number and of an operator's variables, where its conditions hold."""
    loops = [one for one in te.enclosing_loops(op) if one is holder or one.variable in variables]
    if math.prod(loop.iterations for loop in loops) > _MOST_POINTS:
        return None
    known = {loop.variable for loop in loops}
    # A condition on other variables may hold for any point.
    conditions = [
        one
        for one in ancestors(op)
        if isinstance(one, te.IfOp) and set(variables_of(list(one.indices))) <= known
    ]
    return grid_of(loops, conditions)


def _affine(
    ranks: IntArray, points: Mapping[SSAValue, IntArray], loops: Sequence[SSAValue]
) -> AffineExpr | None:
    """The register of the first element as an affine expression of loops; ``None`` if not one.

    The elements of a box must be in consecutive registers.
    """
    first = ranks[:, 0]
    if not len(first):
        return AffineExpr.constant(0)
    consecutive: IntArray = first[:, np.newaxis] + np.arange(ranks.shape[1], dtype=np.int64)
    if not np.array_equal(ranks, consecutive):
        return None
    columns = [points[loop] for loop in loops]
    system = np.stack([np.ones_like(first), *columns], axis=1)
    solved = np.linalg.lstsq(system.astype(np.float64), first.astype(np.float64), rcond=None)[0]
    factors = np.rint(solved).astype(np.int64)
    if not np.array_equal(system @ factors, first):
        return None
    expression = AffineExpr.constant(0)
    for position, factor in enumerate(factors[1:]):
        if factor:
            expression += AffineExpr.dimension(position) * int(factor)
    return expression + int(factors[0])


def put_in_registers(new: te.NewOp, found: Registers) -> None:
    """Makes a buffer of a block the registers of each thread."""
    uses = list(te.touches_of(new.result))
    element = new.result.type.element_type
    type_ = te.BufferType.of((found.count,), element, None, te.Space.REGISTER)
    changed = Rewriter.replace_value_with_new_type(new.result, type_)
    for (op, touch), index, variables in zip(uses, found.indices, found.operands, strict=True):
        map_, operands = compacted([index], variables)
        if isinstance(op, te.AccessOp):
            op.move(changed, operands, map_)
            continue
        section = te.SectionOp(changed, operands, AffineMapAttr(map_), (math.prod(touch.box),))
        Rewriter.insert_op(section, InsertPoint.before(op))
        old = changed if touch.section is None else touch.operand
        op.operands = [section.result if one is old else one for one in op.operands]
    for old in dict.fromkeys(touch.section for _, touch in uses):
        if old is not None and not old.result.first_use:
            Rewriter.erase_op(old)


def is_same_in_all_threads(new: te.NewOp, holder: te.ThreadsOp) -> bool:
    """Whether all threads can hold a buffer of a block: outside steps alone it is written."""
    return all(
        isinstance(op, te.AccessOp)
        and op.kind in ("read", "write")
        and (op.kind == "read" or enclosing(op, te.StepOp) is None)
        and not _varies(touch.indices, holder)
        for op, touch in te.touches_of(new.result)
    )


def _varies(operands: Sequence[SSAValue], holder: te.ThreadsOp) -> bool:
    return holder.variable in variables_of(operands)


def promote_kernel(kernel: te.KernelOp, target: Target) -> None:
    """Places the buffers of a kernel's blocks."""
    holder = kernel.threads
    shared: list[te.NewOp] = []
    for new in [op for op in holder.walk() if isinstance(op, te.NewOp)]:
        type_ = new.result.type
        space = type_.memory_space
        name = source_name(new.result)
        if OF_EACH_THREAD in new.attributes:
            continue
        if space in (te.Space.SHARED, te.Space.CLUSTER):
            shared.append(new)
            continue
        if space is te.Space.GLOBAL:
            _into_workspace(kernel, new)
            continue
        if enclosing(new, te.StepOp) is not None:
            retype(new.result, type_.with_space(te.Space.REGISTER))
            continue
        if is_same_in_all_threads(new, holder) and (
            space is te.Space.REGISTER or _words(type_) <= MOST_REGISTERS
        ):
            retype(new.result, type_.with_space(te.Space.REGISTER))
            continue
        found = registers_of(new, holder)
        element = te.BufferType.of((found.count if found else 1,), type_.element_type)
        if found and (space is te.Space.REGISTER or _words(element) <= MOST_REGISTERS):
            put_in_registers(new, found)
        elif space is te.Space.REGISTER:
            raise PassFailedException(
                f"--te-promote: {name} is in #reg and shared by iterations of a parallel loop, but "
                "the threads that they are dealt to touch the same elements, or elements in no "
                "order that registers could be numbered in; leave out #reg"
            )
        elif _size(type_) <= target.shared_memory_per_block // 2:
            retype(new.result, type_.with_space(te.Space.SHARED))
            shared.append(new)
        else:
            _into_workspace(kernel, new)
    for reduction in [op for op in holder.walk() if isinstance(op, te.AllReduceOp)]:
        if holder.iterations > WARP and reduction.threads is te.Scope.BLOCK:
            warps = -(-holder.iterations // WARP)
            scratch = te.NewOp(
                te.BufferType.of((warps,), reduction.value.type, None, te.Space.SHARED)
            )
            scratch.result.name_hint = "scratch"
            Rewriter.insert_op(scratch, InsertPoint.before(reduction))
            reduction.operands = [reduction.value, scratch.result]
            shared.append(scratch)
    _place_shared(kernel, shared, target)


def _size(type_: te.BufferType) -> int:
    return type_.elements_of_block * element_bytes_of(type_)


def _words(type_: te.BufferType) -> int:
    return -(-_size(type_) // 4)


def _pack(news: Sequence[te.NewOp], root: Operation, alignment: int) -> int:
    """Gives buffers offsets, by their lifetimes in an operator; returns the bytes they take."""
    requests = [Request(_size(new.result.type), _lifetime(new, root)) for new in news]
    plan = pack(requests, alignment).plan
    for new, offset in zip(news, plan.offsets, strict=True):
        new.place_at(offset)
    return plan.peak


def _place_shared(kernel: te.KernelOp, shared: Sequence[te.NewOp], target: Target) -> None:
    """Offsets for shared buffers, by the statements of the block between first and last use."""
    with_boxes = any(isinstance(op, te.BulkCopyOp) for op in kernel.walk())
    alignment = SWIZZLE_ALIGNMENT if with_boxes else SHARED_ALIGNMENT
    peak, limit = _pack(shared, kernel, alignment), target.shared_memory_per_block
    for op in [one for one in kernel.body.block.ops if isinstance(one, te.NewMbarriersOp)]:
        first = -(-peak // MBARRIER_BYTES) * MBARRIER_BYTES
        op.place_at(first)
        peak = first + op.bytes
    if peak > limit:
        raise PassFailedException(
            f"--te-promote: a block of kernel '{kernel.symbol.data}' needs {peak} bytes of "
            f"shared memory; {target.arch} has {limit}: use smaller tiles"
        )
    threads, blocks = kernel.threads.iterations, kernel.iterations
    room = target.resident_blocks(blocks, threads, peak, 1) * target.multiprocessors
    if kernel.is_cooperative and blocks > room:
        raise PassFailedException(
            f"--te-promote: the {blocks} blocks of kernel '{kernel.symbol.data}' run at once, each "
            f"of {threads} threads and {peak} bytes of shared memory; {target.name} has room for "
            f"{room}: let each have more of the work"
        )
    for new in shared:
        new.detach()
        Rewriter.insert_op(new, InsertPoint.before(kernel.threads))
    kernel.smem = IntegerAttr(peak, i64)


def _lifetime(new: te.NewOp, root: Operation) -> Lifetime:
    """The operators in another, numbered in order, between which a buffer is alive.

    A buffer made outside a loop and used in it lives through the whole loop.  What reductions pass
    numbers through is nobody else's: the next one may begin while threads still read it.  Nor is
    what other blocks of a cluster reach.
    """
    places = {op: index for index, op in enumerate(root.walk())}
    last = {op: max(places[inner] for inner in op.walk()) for op in places if op.regions}
    home = new.parent_block()
    assert home is not None
    is_reached = new.result.type.memory_space is te.Space.CLUSTER
    if is_reached or any(isinstance(use.operation, te.AllReduceOp) for use in new.result.uses):
        return Lifetime(0, len(places))
    touched: list[int] = []
    for user, _ in te.touches_of(new.result):
        op = home.find_ancestor_op_in_block(user)
        assert op is not None
        touched += [places[op], last.get(op, places[op])]
    return Lifetime(min(touched, default=places[new]), max(touched, default=places[new]))


def _into_workspace(kernel: te.KernelOp, new: te.NewOp) -> None:
    """Makes a buffer of a block one of the function, with a part for each block."""
    if any(isinstance(use.operation, (te.SectionOp, te.AsmOp)) for use in new.result.uses):
        name = source_name(new.result)
        raise PassFailedException(
            f"--te-promote: {name} does not fit into shared memory, and instructions take its "
            "address; put it into #shared, in smaller tiles"
        )
    new.detach()
    Rewriter.insert_op(new, InsertPoint.before(kernel))
    changed = make_private(new.result, (kernel.iterations,), [kernel.variable])
    retype(changed, new.result.type.with_space(te.Space.GLOBAL))


def place_workspace(function: FuncOp) -> None:
    """Offsets for buffers in device memory, by the kernels between first and last use."""
    news = [op for op in function.body.block.ops if isinstance(op, te.NewOp)]
    for new in news:
        retype(new.result, new.result.type.with_space(te.Space.GLOBAL))
    peak = _pack(news, function, WORKSPACE_ALIGNMENT)
    function.attributes[WORKSPACE_BYTES] = IntegerAttr(peak, i64)


class TePromotePass(TargetPass):
    """Puts every ``te.new`` of mapped functions into registers, shared memory or device memory.

    What is made within a step is in registers.  A buffer of a block whose place is open goes into
    registers where all threads hold the same in it, or where each element is touched by one thread
    alone, which is found by enumeration; its accesses then have the number of a register for index.
    Else it goes into shared memory, or if it takes more than half of that into device memory, with
    a part for each block.  Shared buffers move out of ``te.threads``; ``te.offset`` is where they
    begin, by the allocator of ``--plan-stensor-memory``: buffers that are not alive at the same
    time share bytes.  Pre-condition: ``--te-map``.

    Before, in ``te.threads %thread = 256``, and after::

        %v = te.new : !te.buffer<512xf32>
        te.step "par 512 j" {
          te.seq %s = 2 {
            %j = te.apply %thread + %s * 256
            te.bind %0, %v[%j] : !te.buffer<512xf32>

        %v = te.new : !te.buffer<2xf32, register>
        te.step "par 512 j" {
          te.seq %s = 2 {
            te.bind %0, %v[%s] : !te.buffer<2xf32, register>
    """

    name = "te-promote"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Places the buffers of every mapped function."""
        target = self.target
        for function in op.ops:
            if isinstance(function, FuncOp) and te.is_texpr(function):
                for kernel in [one for one in function.walk() if isinstance(one, te.KernelOp)]:
                    promote_kernel(kernel, target)
                place_workspace(function)
