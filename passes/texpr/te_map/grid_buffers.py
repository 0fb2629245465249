"""Buffers beside loops over the whole grid: of all blocks in device memory, or a part in each."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.texpr.analysis.evaluate import expanded
from mugraph.passes.texpr.te_map.steps import compacted
from mugraph.passes.texpr.te_map.types import retype

_ON_CHIP = (te.Space.SHARED, te.Space.REGISTER)


def buffers_of_grid(kernel: te.KernelOp) -> list[te.NewOp]:
    """The buffers that a program of the whole grid alone touches, made beside its loops."""
    return list(_buffers(kernel))


def _buffers(kernel: te.KernelOp) -> Iterator[te.NewOp]:
    function = kernel.parent_op()
    assert isinstance(function, FuncOp)
    for op in function.body.block.ops:
        if isinstance(op, te.NewOp):
            users = [use.operation for use in op.result.uses]
            if users and all(map(kernel.is_ancestor, users)):
                yield op
    for op in kernel.walk():
        if isinstance(op, te.NewOp) and enclosing(op, te.ParOp) is None:
            yield op


def place_buffer(new: te.NewOp, kernel: te.KernelOp) -> None:
    """Makes a buffer one of each block where blocks touch nothing but their parts of it.

    Its first dimension is the block then, and is left out.  Else it is in device memory.  The
    loops have been dealt to blocks.

    Raises:
        PassFailedException: A buffer in shared memory or in registers has no such parts.
    """
    type_ = new.result.type
    if type_.memory_space is not te.Space.GLOBAL and _has_parts(new, kernel):
        _keep_part(new, kernel)
    elif type_.memory_space in _ON_CHIP:
        raise PassFailedException(
            f"--te-map: {source_name(new.result)} is made beside loops over the whole grid and not "
            f"in device memory, so that each of the {kernel.iterations} blocks has a part: it is "
            "touched only as v[b, ...], where b is the block"
        )
    elif new.parent_op() is not kernel.parent_op():
        new.detach()
        Rewriter.insert_op(new, InsertPoint.before(kernel))
        retype(new.result, type_.with_space(te.Space.GLOBAL))


def _has_parts(new: te.NewOp, kernel: te.KernelOp) -> bool:
    """Whether a block touches only elements whose first index is its number."""
    shape = new.result.type.get_shape()
    return shape[0] == kernel.iterations and all(
        isinstance(op, te.AccessOp)
        and not op.is_indirect
        and len(op.map.data.results) == len(shape)
        and _is_block(op, kernel.variable)
        for op, _ in te.touches_of(new.result)
    )


def _is_block(op: te.AccessOp, block: SSAValue) -> bool:
    (first, *_), variables = expanded(op.map.data.results, list(op.indices))
    return isinstance(first, AffineDimExpr) and variables[first.position] is block


def _keep_part(new: te.NewOp, kernel: te.KernelOp) -> None:
    """Leaves out the first dimension, and lets all blocks have the buffer."""
    old = new.result.type
    part = te.BufferType.of(old.get_shape()[1:] or (1,), old.element_type, None, old.memory_space)
    changed = Rewriter.replace_value_with_new_type(new.result, part)
    for use in list(changed.uses):
        op = use.operation
        assert isinstance(op, te.AccessOp)
        results = op.map.data.results[1:] or (AffineExpr.constant(0),)
        map_, operands = compacted(results, list(op.indices))
        op.move(changed, operands, map_)
    if not kernel.is_ancestor(new):
        new.detach()
        Rewriter.insert_op(new, InsertPoint.at_start(kernel.threads.body.block))
