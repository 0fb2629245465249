"""Leaves out of a program what changes no bit of its results: casts, constants, views of views."""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import kn
from mugraph.dialects.element_types import HALF_TYPES, is_integer
from mugraph.dialects.kn.compute import UNARY_OPERATORS
from mugraph.dialects.kn.workspace import returned_root
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import EXTENTS, LENGTHS
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of


def _widened(value: SSAValue) -> SSAValue | None:
    """The 16-bit tensor of which a tensor of f32 is a cast."""
    op = value.owner
    if isinstance(op, kn.CastOp) and element_type_of(value.type) == f32:
        return op.input if element_type_of(op.input.type) in HALF_TYPES else None
    return None


def _fits(op: Operation) -> bool:
    try:
        op.verify()
    except VerifyException:
        return False
    return True


class ReadHalf(RewritePattern):
    """What computes in f32 anyway takes a 16-bit tensor without a cast."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: kn.ElementwiseOp | kn.ReductionOp, rewriter: PatternRewriter, /
    ) -> None:
        """Rewrites where the operator has such a type beside its others."""
        if isinstance(op, kn.CastOp):
            return
        narrow = {value: _widened(value) for value in op.operands}
        found = {value: source for value, source in narrow.items() if source is not None}
        if not found:
            return
        new = op.clone(found)
        if _fits(new):
            rewriter.replace(op, new)
        else:
            new.erase()


class RoundAtOnce(RewritePattern):
    """A result of f32 that is only cast to 16 bits is computed in these."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.CastOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites; also drops a cast there and back."""
        source = op.input.owner
        type_ = element_type_of(op.result.type)
        if type_ not in HALF_TYPES or element_type_of(op.input.type) != f32:
            return
        narrow = _widened(op.input)
        if narrow is not None and narrow.type == op.result.type:
            rewriter.replace(op, [], [narrow])
        elif (
            isinstance(source, kn.ElementwiseOp)
            and not isinstance(source, kn.CastOp)
            and op.input.has_one_use()
        ):
            new = source.clone()
            Rewriter.replace_value_with_new_type(new.result, op.result.type)
            if _fits(new):
                rewriter.replace(op, new)
            else:
                new.erase()


def _is_returned(value: SSAValue) -> bool:
    return any(isinstance(use.operation, ReturnOp) for use in value.uses)


def _is_result_of_its_own(op: kn.ElementwiseOp) -> bool:
    """Whether a function returns it, and no kernel would write its operand as a result instead."""
    (operand,) = op.operands
    is_written = isinstance(operand.owner, Operation) and not isinstance(
        operand.owner, kn.RegroupOp | kn.ViewOp
    )
    return _is_returned(op.result) and (not is_written or _is_returned(operand))


class DropOne(RewritePattern):
    """A tensor times 1 is that tensor."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.ElementwiseOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites, to a cast where types differ."""
        if op.FUNCTION != "mul_scalar" or op.function.constants != (1.0,):
            return
        (operand,) = op.operands
        if _is_result_of_its_own(op):
            return
        if operand.type == op.result.type:
            rewriter.replace(op, [], [operand])
        elif element_type_of(operand.type) != element_type_of(op.result.type):
            rewriter.replace(op, kn.CastOp(operand, op.result.type))


class JoinReshapes(RewritePattern):
    """A reshape of a reshape is one, and one to the same extents is none."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: kn.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        """Rewrites where no layout is written."""
        source = op.input.owner
        if op.input.type == op.result.type:
            rewriter.replace(op, [], [op.input])
        elif isinstance(source, kn.ReshapeOp) and layout_of(op.input.type) is None:
            same = shape_of(source.input.type) == shape_of(op.result.type)
            if same and source.input.type == op.result.type:
                rewriter.replace(op, [], [source.input])
            else:
                rewriter.replace(op, kn.ReshapeOp(source.input, op.result.type))


def write_results_again(function: FuncOp) -> None:
    """Lets an operator write each result of a bucket that equals one before.

    Operators may have become one since the program was written.  A copy would not end where device
    memory says.  Each is 1 times the result before, since two alike would become one.
    """
    end = function.body.block.last_op
    is_bucket = EXTENTS in function.attributes or LENGTHS in function.attributes
    if not is_bucket or not isinstance(end, ReturnOp):
        return
    latest: dict[SSAValue, SSAValue] = {}
    for index, value in enumerate(end.operands):
        root = returned_root(value)
        if root is None or is_integer(element_type_of(value.type)):
            continue
        if root in latest:
            source = latest[root] if latest[root].type == value.type else value
            own = UNARY_OPERATORS["mul_scalar"](source, value.type, (1.0,))
            own.result.name_hint = value.name_hint
            Rewriter.insert_op(own, InsertPoint.before(end))
            end.operands[index] = value = own.result
        latest[root] = value


def simplify_program(function: FuncOp) -> None:
    """Rewrites until nothing is left to leave out; what nothing uses then goes, too."""
    patterns = GreedyRewritePatternApplier(
        [ReadHalf(), RoundAtOnce(), DropOne(), JoinReshapes()], dce_enabled=True
    )
    PatternRewriteWalker(patterns).rewrite_region(function.body)
