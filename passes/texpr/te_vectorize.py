"""``--te-vectorize``: neighbours in memory are read and written at once, through registers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.cute import ComposedLayout
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.dialects.te.mapped import UNROLL
from mugraph.dialects.te.sizes import ends_of, factors_of_strides
from mugraph.dialects.tensor_types import element_bytes_of, layout_of, row_major_strides
from mugraph.passes.each import TexprKernelPass
from mugraph.passes.texpr.analysis.contents import made_of
from mugraph.passes.texpr.analysis.evaluate import (
    Along,
    holds_alike,
    starts_vector,
    variables_of,
)
from mugraph.passes.texpr.analysis.numbers import is_number

MOST_UNROLLED = 512
"""The instructions of inline PTX that a loop in a step may become when it is written out."""
_ITSELF = AffineMapAttr(AffineMap.identity(1))


def find_neighbours(loop: te.SeqOp, width: int) -> list[Sequence[te.ViewOp | te.BindOp]]:
    """What a loop of a step can access at once, ``width`` of its iterations together.

    Each group accesses one element in the body, which moves on by one as the loop runs.  All
    accesses to a buffer that is read and written must be to the same element; a body with effects
    of other kinds is left as it is.  Elements that are only written, by several operators,
    are written in the order of these: the last of them comes first here.
    """
    inner = [op for op in loop.body.walk()]
    if any(isinstance(op, (te.AnchorOp, te.AsmOp)) for op in inner):
        return []
    # Behind an atomic operation others may see what was written before it.
    has_atomics = any(isinstance(op, te.AtomicOp) for op in inner)
    groups: dict[SSAValue, list[te.AccessOp]] = {}
    for op in inner:
        if isinstance(op, te.AccessOp) and op.buffer_type.memory_space is not te.Space.REGISTER:
            groups.setdefault(op.buffer, []).append(op)
    found: list[Sequence[te.ViewOp | te.BindOp]] = []
    for accesses in groups.values():
        if has_atomics and any(op.kind != "read" for op in accesses):
            continue
        elements: dict[tuple[object, ...], list[te.AccessOp]] = {}
        for op in accesses:
            elements.setdefault((op.map, *op.indices), []).append(op)
        if len(elements) > 1 and any(op.kind != "read" for op in accesses):
            # Neighbours begin at multiples of their number: any two are the same or disjoint.
            if not all(
                isinstance(op, te.BindOp)
                and op.parent_block() is loop.body.block
                and _are_neighbours(op, loop, width)
                for op in accesses
            ):
                continue
            found += [[op] for op in reversed(accesses) if isinstance(op, te.BindOp)]
            continue
        for same in elements.values():
            direct = [
                op
                for op in same
                if isinstance(op, (te.ViewOp, te.BindOp)) and op.parent_block() is loop.body.block
            ]
            if len(direct) == len(same) and _are_neighbours(direct[0], loop, width):
                found.append(direct)
    return found


def strip_of(loop: te.SeqOp) -> int:
    """How many iterations of a loop access most neighbours at once; 1 where none do."""
    count = loop.iterations
    widths = [one for one in (count, 16, 8, 4, 2) if 1 < one <= count and count % one == 0]
    return next((one for one in widths if find_neighbours(loop, one)), 1)


def cut_in_strips(loop: te.SeqOp, width: int) -> te.SeqOp:
    """The loop over so many iterations of a loop, in one that takes the place of that."""
    body, outer = Block(arg_types=[IndexType()]), Block(arg_types=[IndexType()])
    name = loop.variable.name_hint or "k"
    outer.args[0].name_hint, body.args[0].name_hint = f"{name}_first", f"{name}_next"
    first, next_ = AffineExpr.dimension(0), AffineExpr.dimension(1)
    map_ = AffineMap(2, 0, (first * width + next_,))
    index = te.ApplyOp([outer.args[0], body.args[0]], AffineMapAttr(map_))
    index.result.name_hint = loop.variable.name_hint
    body.add_op(index)
    for op in [*loop.body.block.ops]:
        op.detach()
        body.add_op(op)
    loop.variable.replace_all_uses_with(index.result)
    strip = te.SeqOp(width, body)
    outer.add_op(strip)
    Rewriter.replace_op(loop, te.SeqOp(loop.iterations // width, outer), [])
    return strip


def access_neighbours_at_once(loop: te.SeqOp) -> None:
    """Makes one access of those to neighbours, in strips where the loop has more iterations."""
    width = strip_of(loop)
    if 1 < width < loop.iterations:
        loop = cut_in_strips(loop, width)
    for accesses in find_neighbours(loop, width):
        _access_at_once(loop, accesses)


def _are_neighbours(op: te.HasTouches, loop: te.SeqOp, width: int) -> bool:
    """Whether all that an operator touches moves on by one element as the loop runs.

    From one that ``width`` begin at.
    """
    if isinstance(op, te.AccessOp) and op.is_indirect:
        contents = (one for one in op.indices if isinstance(one.owner, te.IndexOfOp))
        if any(loop.is_ancestor(inner) for one in contents for inner in made_of(one)):
            return False
        return _moves_by_one(op.exact_touch(), loop, width)
    return all(_moves_by_one(touch, loop, width) for touch in op.touches())


def _moves_by_one(touch: te.Touch, loop: te.SeqOp, width: int) -> bool:
    type_ = touch.type
    if width * element_bytes_of(type_) not in (4, 8, VECTOR_BYTES) or width == 1:
        return False
    shape, strides = type_.get_shape(), type_.strides()
    if ends_of(touch.buffer):
        strides = factors_of_strides(touch.buffer)
    by_number = len(touch.expressions) != len(shape)
    if by_number and tuple(strides) != tuple(row_major_strides(shape)):
        return False
    if not by_number and shape[-1] < width:  # vectors lie along the last dimension
        return False
    layout = layout_of(type_)
    if isinstance(layout, ComposedLayout) and width > 1 << layout.swizzle.base:
        return False
    leaves = {loop.variable: Along(1, 0)}
    return starts_vector(touch.expressions, touch.indices, shape, leaves, width, strides)


def hoist_condition(loop: te.SeqOp) -> te.SeqOp:
    """The loop under the condition that its body stands under, if that is alike for neighbours.

    What says which iteration runs stays in a loop of its own; else the loop stays as it is.
    """
    stated = [op for op in loop.body.block.ops if isinstance(op, (te.ApplyOp, te.IterationOp))]
    (*rest,) = [op for op in loop.body.block.ops if op not in stated]
    if len(rest) != 1 or not isinstance(condition := rest[0], te.IfOp):
        return loop
    if not holds_alike(condition, {loop.variable: Along(1, 0)}, loop.iterations):
        return loop
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = loop.variable.name_hint
    mapper: dict[SSAValue, SSAValue] = {loop.variable: body.args[0]}
    for op in stated:
        if isinstance(op, te.ApplyOp):
            body.add_op(op.clone(mapper))
    for op in [*condition.body.block.ops]:
        op.detach()
        body.add_op(op)
        for inner in op.walk():
            inner.operands = [mapper.get(one, one) for one in inner.operands]
    operands, map_ = _at_first(condition.map.data, list(condition.indices), loop)
    equal = [of_equality for _, of_equality in condition.conditions()]
    inside = te.SeqOp(loop.iterations, body)
    Rewriter.insert_op(te.IfOp(operands, map_, equal, Block([inside])), InsertPoint.after(loop))
    Rewriter.erase_op(condition)
    return inside


def read_contents_before(loop: te.SeqOp) -> None:
    """Moves what indices of contents are made of in front of a loop that does not change them."""
    written = {touch.buffer for touch in te.touches_in(loop) if touch.writes}
    if any(isinstance(op, (te.AnchorOp, te.AsmOp)) for op in loop.walk()):
        return
    for access in [op for op in loop.body.block.ops if isinstance(op, te.AccessOp)]:
        for index in access.indices:
            if not isinstance(index.owner, te.IndexOfOp):
                continue
            inside = [op for op in dict.fromkeys(made_of(index)) if loop.is_ancestor(op)]
            if all(_is_the_same_in_all(op, loop, written) for op in inside):
                for op in reversed(inside):
                    op.detach()
                    Rewriter.insert_op(op, InsertPoint.before(loop))


def _is_the_same_in_all(op: Operation, loop: te.SeqOp, written: set[SSAValue]) -> bool:
    """Whether an operator gives the same number in all iterations of a loop, which come to it."""
    if op.parent_block() is not loop.body.block or loop.variable in op.operands:
        return False
    if isinstance(op, te.ViewOp):
        return op.buffer not in written
    return isinstance(op, (te.IndexOfOp, te.IndexValueOp, te.ApplyOp)) or is_number(op)


def is_copy_of_neighbours(loop: te.SeqOp) -> bool:
    """Whether a loop does nothing but begin asynchronous copies of neighbours to neighbours."""
    copies = [op for op in loop.body.block.ops if not isinstance(op, (te.ApplyOp, te.IterationOp))]
    return bool(copies) and all(
        isinstance(op, te.CopyAsyncOp)
        and op.elements == 1
        and _are_neighbours(op, loop, loop.iterations)
        for op in copies
    )


def copy_at_once(loop: te.SeqOp) -> None:
    """Makes one asynchronous copy of those of a loop."""
    for op in [op for op in loop.body.block.ops if isinstance(op, te.CopyAsyncOp)]:
        source = _at_first(op.source_map.data, list(op.source_indices), loop)
        target = _at_first(op.target_map.data, list(op.target_indices), loop)
        wide = te.CopyAsyncOp(op.source, *source, op.target, *target, loop.iterations)
        Rewriter.insert_op(wide, InsertPoint.before(loop))
        Rewriter.erase_op(op)
    if not any(isinstance(op, te.IterationOp) for op in loop.body.block.ops):
        Rewriter.erase_op(loop)


def _access_at_once(loop: te.SeqOp, accesses: Sequence[te.ViewOp | te.BindOp]) -> None:
    """Reads the neighbours before the loop, if it reads them first, and writes them after it."""
    first = accesses[0]
    type_ = te.BufferType.of(
        (loop.iterations,), first.buffer_type.element_type, None, te.Space.REGISTER
    )
    registers = te.NewOp(type_)
    registers.result.name_hint = f"{first.buffer.name_hint or 'v'}_vector"
    Rewriter.insert_op(registers, InsertPoint.before(loop))
    operands, map_ = _at_first(first.index_map, list(first.indices), loop)
    before, after = InsertPoint.before(loop), InsertPoint.after(loop)
    if isinstance(first, te.ViewOp):
        Rewriter.insert_op(te.LoadOp(registers.result, first.buffer, operands, map_), before)
    if any(isinstance(op, te.BindOp) for op in accesses):
        Rewriter.insert_op(te.StoreOp(registers.result, first.buffer, operands, map_), after)
    for op in accesses:
        if isinstance(op, te.ViewOp):
            view = te.ViewOp(registers.result, [loop.variable], _ITSELF)
            Rewriter.replace_op(op, view)
        else:
            Rewriter.replace_op(
                op, te.BindOp(op.value, registers.result, [loop.variable], _ITSELF), []
            )


def _at_first(
    map_: AffineMap, operands: list[SSAValue], loop: te.SeqOp
) -> tuple[list[SSAValue], AffineMapAttr]:
    """The index of the first neighbour: the loop's variable is 0 in it."""
    variables: list[SSAValue] = []

    def of(value: SSAValue) -> AffineExpr:
        owner = value.owner
        if value is loop.variable:
            return AffineExpr.constant(0)
        if isinstance(owner, te.ApplyOp) and loop.is_ancestor(owner):
            inner = [of(one) for one in owner.indices]
            return owner.expression.replace_dims_and_symbols(inner, [])
        if value not in variables:
            variables.append(value)
        return AffineExpr.dimension(variables.index(value))

    replaced = [of(one) for one in operands]
    results = tuple(one.replace_dims_and_symbols(replaced, []) for one in map_.results)
    return variables, AffineMapAttr(AffineMap(len(variables), 0, results))


def remove_unused_indices(root: Operation) -> None:
    """Erases ``te.apply`` that nothing uses."""
    for op in reversed([one for one in root.walk() if isinstance(one, te.ApplyOp)]):
        if not op.result.first_use:
            Rewriter.erase_op(op)


def mark_unrolled(root: Operation) -> None:
    """Marks the loops whose variables say which register: registers have no addresses."""
    for op in root.walk():
        if not isinstance(op, (te.AccessOp, te.SectionOp)):
            continue
        buffer = op.buffer.type
        assert isinstance(buffer, te.BufferType)
        if buffer.memory_space is not te.Space.REGISTER:
            continue
        for variable in variables_of(list(op.indices)):
            loop = None if isinstance(variable.owner, Operation) else variable.owner.parent_op()
            if isinstance(loop, te.SeqOp):
                loop.attributes[UNROLL] = UnitAttr()
    for loop in [op for op in root.walk(reverse=True) if isinstance(op, te.SeqOp)]:
        if enclosing(loop, te.StepOp) and 0 < _instructions(loop) <= MOST_UNROLLED:
            loop.attributes[UNROLL] = UnitAttr()


def _instructions(op: Operation) -> int:
    """The instructions of inline PTX that a thread comes to, if it comes everywhere."""
    if isinstance(op, te.AsmOp):
        return 1
    inner = sum(_instructions(one) for region in op.regions for one in region.block.ops)
    return inner * (op.iterations if isinstance(op, te.SeqOp) else 1)


class TeVectorizePass(TexprKernelPass):
    """Makes one access of those of a loop to neighbours in memory, and marks loops to unroll.

    A condition on sizes that a call says, which holds for all iterations of a loop or for none,
    comes to stand around it.
    A loop of a step, whose accesses to a buffer in device or shared memory move on by one element
    from a multiple of their number, reads the elements at once into registers before it and writes
    them at once after it; up to 16 bytes.  Of more iterations than that, as many as make a vector
    are a loop of their own, in one over such strips.  A loop of asynchronous copies becomes one.
    Loops whose variable is in the index of registers get ``te.unroll``, and those of not too many
    instructions of inline PTX.  Pre-condition: ``--te-promote``.

    Indices that are contents, the same in all iterations, are read in front of the loop.

    Before::

        te.seq %n = 4 {
          %i = te.apply %thread * 4 + %n
          %0 = te.view %a[%i] : !te.buffer<4096xf32>

    After::

        %r = te.new : !te.buffer<4xf32, register>
        te.load %r : !te.buffer<4xf32, register>, %a[%thread * 4] : !te.buffer<4096xf32>
        te.seq %n = 4 {
          %0 = te.view %r[%n] : !te.buffer<4xf32, register>
    """

    name = "te-vectorize"

    def run(self, kernel: te.KernelOp) -> None:
        """Rewrites a kernel."""
        for loop in [one for one in kernel.walk() if isinstance(one, te.SeqOp)]:
            if enclosing(loop, te.StepOp) is None:
                continue
            if is_copy_of_neighbours(loop):
                copy_at_once(loop)
                continue
            loop = hoist_condition(loop)
            read_contents_before(loop)
            access_neighbours_at_once(loop)
        remove_unused_indices(kernel)
        mark_unrolled(kernel)
