"""The kernel while it is recorded: where operators go, and the variables that there are.

What threads do stands in steps, and barriers, loops and uniform conditions between steps, as
``te.threads`` has it.  A step begins with the first operator that needs one and ends where control
comes that all threads share.
"""

from __future__ import annotations

import linecache
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import prod

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from mugraph.cute.errors import KernelError, place_of_frame, user_frame
from mugraph.cute.indices import Index, Numeric, Predicate, Variable, affine_map
from mugraph.cute.sizes import cuts_of, grid_at_most
from mugraph.dialects import te
from mugraph.dialects.launch_extents import GridCut
from mugraph.dialects.locations import file_location
from mugraph.dialects.te.mapped import OF_EACH_THREAD, UNROLL
from mugraph.dialects.te.mbarriers import MBARRIER_BYTES
from mugraph.dialects.te.points import evaluate
from mugraph.dialects.tensor_types import element_bytes_of

SHARED_ALIGNMENT = 128
_TITLE = 60


def conditions_of(predicate: Predicate) -> tuple[list[SSAValue], AffineMapAttr, list[bool]]:
    """The indices and expressions of a predicate, and which of these are equal to 0."""
    variables, map_ = affine_map([index for index, _ in predicate.conditions])
    return variables, AffineMapAttr(map_), [same for _, same in predicate.conditions]


class Recording:
    """The operators of one kernel, and where the next one goes."""

    def __init__(
        self,
        name: str,
        grid: tuple[Numeric, Numeric, Numeric],
        block: tuple[int, int, int],
        sizes: Sequence[SSAValue] = (),
        buffers: int = 0,
    ) -> None:
        """``sizes`` are those that a call says, which the function has behind its ``buffers``."""
        self.grid = grid
        self.block_dim = block
        body = Block(arg_types=[IndexType()])
        self.threads = te.ThreadsOp(prod(self.block_dim), body)
        outer = Block([self.threads], arg_types=[IndexType()])
        whole = grid_at_most(grid)
        self.kernel = te.KernelOp(name, prod(whole), outer)
        self.thread = self._variable(self.threads.variable, prod(self.block_dim), "thread")
        self.block = self._variable(self.kernel.variable, prod(whole), "block")
        self._blocks: list[Block] = [body]
        cuts = cuts_of(grid, sizes, buffers)
        if cuts:
            self.kernel.cut_by(whole, cuts)
            self._leave_out_blocks(cuts, sizes, buffers)
        """From the threads' own block to the innermost one that operators go to."""
        self._step: int | None = None
        """How many blocks are outside of the current step; ``None`` between steps."""
        self._last_registers: te.NewOp | None = None
        self.shared_bytes = 0
        self.may_leave_buffers = False
        """Whether bounds alone do not say that all accesses stay in their buffers."""
        self.is_left_out = False
        """Whether what is recorded now runs nowhere."""
        self.left_early: int | None = None
        """The extent of a loop that did not come to its end."""

    def _leave_out_blocks(
        self, cuts: Sequence[GridCut], sizes: Sequence[SSAValue], buffers: int
    ) -> None:
        """All stands under the condition that a block is launched."""
        found = [self.kernel.cut_condition(cut, place) for place, cut in enumerate(cuts, 1)]
        operands = [self.kernel.variable, *(sizes[cut.argument - buffers] for cut in cuts)]
        inner = Block()
        map_ = AffineMapAttr(AffineMap(len(operands), 0, tuple(found)))
        self._blocks[-1].add_op(te.IfOp(operands, map_, [False] * len(found), inner))
        self._blocks.append(inner)

    def _variable(self, value: SSAValue, extent: int, name: str) -> Numeric:
        value.name_hint = name
        return Index(0, ((Variable(value, extent, name), 1),)) if extent > 1 else 0

    @staticmethod
    def _located(op: Operation) -> Operation:
        """The operator, with the place in the user's program that records it."""
        frame = user_frame()
        if frame is not None:
            op.location = file_location(*place_of_frame(frame))
        return op

    # Where operators go.

    def add(self, op: Operation) -> SSAValue:
        """Adds an operator of each thread, in the current step; gives its result, if it has one."""
        if self._step is None:
            self._open_step()
        op.operands = [self._reachable(one) for one in op.operands]
        self._blocks[-1].add_op(self._located(op))
        return op.results[0] if op.results else self.threads.variable

    def _open_step(self) -> None:
        frame = user_frame()
        text = "" if frame is None else linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        text = text.strip()
        title = text if len(text) <= _TITLE else f"{text[: _TITLE - 3]}..."
        inner = Block()
        self._blocks[-1].add_op(self._located(te.StepOp(title or self.kernel.symbol.data, inner)))
        self._step = len(self._blocks)
        self._blocks.append(inner)

    def _close_step(self) -> None:
        if self._step is not None:
            assert len(self._blocks) == self._step + 1
            self._blocks.pop()
            self._step = None

    @property
    def _is_of_each(self) -> bool:
        """Whether a loop or condition of each thread is around."""
        return self._step is not None and len(self._blocks) > self._step + 1

    def between(self, op: Operation) -> None:
        """Adds an operator of all threads together, between steps."""
        if self._is_of_each:
            raise KernelError(
                f"'{op.name}' is for all threads of the block, and stands under a condition on the "
                "thread, or in a loop under one; move it out"
            )
        self._close_step()
        self._blocks[-1].add_op(self._located(op))

    @contextmanager
    def _inside(self, op: Operation, body: Block, *, in_step: bool) -> Generator[None]:
        """Lets operators go to the body of a loop or condition, in a step or between steps."""
        if in_step:
            self.add(op)
        else:
            self._close_step()
            self._blocks[-1].add_op(self._located(op))
        depth, step = len(self._blocks), self._step
        self._blocks.append(body)
        try:
            yield
        finally:
            if not in_step:
                self._close_step()
            del self._blocks[depth:]
            self._step = step

    @contextmanager
    def loop(self, extent: int, name: str, *, unroll: bool = False) -> Generator[Numeric]:
        """A loop of all threads together, or of each thread; its variable.

        The latter where a condition on the thread is around, and where it is written out.
        """
        body = Block(arg_types=[IndexType()])
        op = te.SeqOp(extent, body)
        if unroll:
            op.attributes[UNROLL] = UnitAttr()
        with self._inside(op, body, in_step=unroll or self._is_of_each):
            yield self._variable(op.variable, extent, name)

    @contextmanager
    def condition(self, predicate: Predicate, *, in_step: bool = False) -> Generator[None]:
        """What runs where conditions hold; of all threads together where they are alike for all.

        ``in_step`` is of what each thread does in the current step.
        """
        body = Block()
        op = te.IfOp(*conditions_of(predicate), body)
        in_step = in_step or self._is_of_each or predicate.uses(self.threads.variable)
        with self._inside(op, body, in_step=in_step):
            yield

    def threads_that_come(self) -> npt.NDArray[np.bool_]:
        """The threads of a block for which conditions on the thread alone hold."""
        thread = self.threads.variable
        points = {thread: np.arange(prod(self.block_dim))}
        come = np.ones(prod(self.block_dim), np.bool_)
        around = [block.parent_op() for block in self._blocks]
        for op in [one for one in around if isinstance(one, te.IfOp)]:
            operands = list(op.indices)
            for expression, is_same in op.conditions():
                if {operands[place] for place in expression.used_dims()} == {thread}:
                    found = evaluate(expression, operands, points)
                    come &= found == 0 if is_same else found >= 0
        return come

    @contextmanager
    def truth(self, condition: SSAValue) -> Generator[None]:
        """What each thread does where a number of its own says so, in the current step.

        Raises KernelError for what other threads or copies depend on.
        """
        body = Block()
        op = te.WhenOp(condition, body)
        with self._inside(op, body, in_step=True):
            yield
        for inner in op.body.walk():
            if not op.is_of_one_thread(inner):
                raise KernelError(
                    f"'{inner.name}' stands under a condition on elements; other threads or copies "
                    "depend on it, so that it cannot be left out"
                )

    def where(self, holds: Predicate | bool) -> AbstractContextManager[None]:
        """What runs where a condition holds, which may be known."""
        if isinstance(holds, Predicate):
            return self.condition(holds)
        return nullcontext() if holds else self.left_out()

    @contextmanager
    def left_out(self) -> Generator[None]:
        """What runs nowhere: it is recorded, and dropped, wherever it reaches."""
        blocks, step, is_left_out = self._blocks, self._step, self.is_left_out
        self._blocks, self.is_left_out = [*blocks, Block()], True
        try:
            yield
        finally:
            self._blocks, self._step, self.is_left_out = blocks, step, is_left_out

    @property
    def nest(self) -> list[Block]:
        """The loops and conditions that operators stand in now, without their step."""
        ends = self._step is not None and len(self._blocks) == self._step + 1
        return self._blocks[: self._step] if ends else self._blocks[:]

    # Numbers that live longer than the step that made them.

    def _reachable(self, value: SSAValue) -> SSAValue:
        """The value; a number of a step that has ended is read again from registers."""
        owner = value.owner
        home = owner if isinstance(owner, Block) else owner.parent_block()
        if isinstance(value.type, te.BufferType | te.MbarriersType) or home in self._blocks:
            return value
        if isinstance(owner, Block):
            if owner is self.kernel.body.block or owner.parent is None:
                return value  # the block's number, or a size
            raise KernelError(
                f"the variable '{value.name_hint}' of a loop is used behind the loop, where it has "
                "no value"
            )
        kept = self.registers(1, value.type, "kept")
        zero = AffineMapAttr(affine_map([0])[1])
        store = te.BindOp(value, kept, [], zero)
        store.location = owner.location
        Rewriter.insert_op(store, InsertPoint.after(owner))
        return self.add(te.ViewOp(kept, [], zero))

    # Buffers.

    def registers(self, count: int, element: Attribute, name: str = "fragment") -> SSAValue:
        """New registers of each thread."""
        op = self._new(te.BufferType.of((count,), element, None, te.Space.REGISTER), name)
        op.attributes[OF_EACH_THREAD] = UnitAttr()
        place = InsertPoint.at_start(self.threads.body.block)
        if self._last_registers is not None:
            place = InsertPoint.after(self._last_registers)
        Rewriter.insert_op(op, place)
        self._last_registers = op
        return op.result

    def _new(self, type_: te.BufferType, name: str) -> te.NewOp:
        op = te.NewOp(type_)
        self._located(op)
        op.result.name_hint = name
        return op

    def shared(self, type_: te.BufferType, name: str, alignment: int) -> SSAValue:
        """A new buffer in shared memory, behind those that there are."""
        op = self._new(type_, name)
        Rewriter.insert_op(op, InsertPoint.before(self.threads))
        offset = self._place(type_.elements * element_bytes_of(type_), alignment)
        op.place_at(offset)
        return op.result

    def mbarriers(self, count: int, name: str) -> SSAValue:
        """New mbarriers of the block, behind the buffers that there are."""
        op = te.NewMbarriersOp(count)
        self._located(op)
        op.result.name_hint = name
        Rewriter.insert_op(op, InsertPoint.before(self.threads))
        op.place_at(self._place(op.bytes, MBARRIER_BYTES))
        return op.result

    def _place(self, size: int, alignment: int) -> int:
        """Where the next so many bytes of shared memory begin."""
        offset = -(-self.shared_bytes // alignment) * alignment
        self.shared_bytes = offset + size
        return offset

    def finish(self) -> te.KernelOp:
        """Ends the kernel.  Raises KernelError where a loop was left."""
        if self.left_early is not None:
            raise KernelError(
                f"kernel '{self.kernel.symbol.data}': a loop over {self.left_early} iterations is "
                "left by 'break' or 'return'; let it run to its end, and leave out what iterations "
                "shall not do by 'with when(...)'"
            )
        self._close_step()
        self.kernel.smem = IntegerAttr(self.shared_bytes, i64)
        return self.kernel
