"""Copies for kernels that compute whole tensors, where a call says how many rows there are.

Tiles of custom kernels end where the rows of a call do.  Other kernels compute what is behind them,
too: of arguments they read copies with room for all rows, and what they touch of results is copied
as far as a call has it.  What lies behind the rows of a copy is anything.  Custom kernels read
copies of numbers that name rows: as many as a tile has, whatever a call says.
"""

from __future__ import annotations

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import kn, tb
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import Names, argument_names, named_extents, result_names
from mugraph.dialects.tensor_types import shape_of

VIEWS = (kn.RegroupOp, kn.ViewOp)
"""Operators whose results lie in the memory of their operands."""


class RowCopies:
    """The copies of a function's arguments, each made once."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        extents = named_extents(function)
        self.said = {name for name, extent in extents.items() if not extent.is_fixed}
        self.known: dict[SSAValue, SSAValue] = {}

    def whole(self, value: SSAValue) -> SSAValue:
        """A tensor that may be read behind the rows of a call, perhaps the same."""
        if value not in self.known:
            self.known[value] = self._made(value)
        return self.known[value]

    def _made(self, value: SSAValue) -> SSAValue:
        block = self.function.body.block
        if isinstance(value, BlockArgument):
            names = argument_names(self.function, value.index)
            if (name := self.said_among(names)) is None:
                return value
            copy = kn.CopyOp(value, value.type, name)
            Rewriter.insert_op(copy, InsertPoint.at_start(block))
        elif isinstance(value.owner, VIEWS):
            view = value.owner
            if (source := self.whole(view.operands[0])) is view.operands[0]:
                return value
            copy = view.clone({view.operands[0]: source})
            Rewriter.insert_op(copy, InsertPoint.after(view))
        else:
            return value
        copy.results[0].name_hint = value.name_hint
        return copy.results[0]

    def said_among(self, names: Names) -> str | None:
        """The extent among those of a tensor's dimensions that a call says."""
        return next((name for name in names if name in self.said), None)

    def ends_by_itself(self, op: Operation | None) -> bool:
        """Whether an operator may read and write rows as far as a call has them.

        Custom kernels may, and products of a matrix whose rows are counted by another one.
        """
        if isinstance(op, kn.MatmulOp):
            return len(shape_of(op.result.type)) == 2 and self.whole(op.rhs) is op.rhs
        return isinstance(op, kn.CustomizedOp)


def _root(value: SSAValue) -> SSAValue:
    """What a tensor is a view of, or itself."""
    while isinstance(value.owner, VIEWS):
        value = value.owner.operands[0]
    return value


def _numbers_read_together(kernel: kn.CustomizedOp) -> set[int]:
    """The operands of a custom kernel that name several rows of a tile along a first dimension.

    A call says only extents of those.  Blocks of one number are not launched behind them.
    """
    loads = [op for op in kernel.body.block.ops if isinstance(op, tb.InputOp)]
    found: set[int] = set()
    for op in loads:
        extents = zip(op.numbers_shape, shape_of(op.result.type), strict=False)
        first = next((tile for extent, tile in extents if extent > 1), 1)
        if isinstance(op.through, BlockArgument) and first > 1:
            found.add(op.through.index)
    return found


def copy_rows(function: FuncOp) -> None:
    """Puts copies around the kernels of a function that do not end where a call says."""
    copies = RowCopies(function)
    *operators, end = function.body.block.ops
    if not copies.said or not isinstance(end, ReturnOp):
        return
    computing = [op for op in operators if not isinstance(op, VIEWS)]
    whole = [op for op in computing if not copies.ends_by_itself(op)]
    touched = {_root(value) for op in whole for value in (*op.operands, *op.results)}
    for op in whole:
        op.operands = [copies.whole(value) for value in op.operands]
    for op in computing:
        for operand in _numbers_read_together(op) if isinstance(op, kn.CustomizedOp) else ():
            op.operands[operand] = copies.whole(op.operands[operand])
    for index, value in enumerate(end.operands):
        name = copies.said_among(result_names(function, index))
        if name is not None and _root(value) in touched:
            copy = kn.CopyOp(value, value.type, name)
            copy.result.name_hint = value.name_hint
            Rewriter.insert_op(copy, InsertPoint.before(end))
            end.operands[index] = copy.result
