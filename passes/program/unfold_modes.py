"""``--unfold-modes``: nested modes of tensors become dimensions."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException, VerifyException

from mugraph.dialects import kn, tb
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.kn.customized import match_arguments
from mugraph.dialects.kn.reshape import strides_of_reshaped
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_type_of,
    has_nested_modes,
    leaves_in_memory,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
    verify_layout_fits,
    without_layout,
)
from mugraph.dialects.windows import Mode, Windows
from mugraph.passes.each import FunctionPass


def unfold_modes(function: FuncOp) -> None:
    """Rewrites a µGraph so that operators see tensors whose dimensions have one stride each.

    Raises ``PassFailedException`` for a layout that does not fit its tensor.
    """
    block = function.body.block
    for argument in block.args:
        seen_apart = [use for use in argument.uses if not isinstance(use.operation, kn.ViewOp)]
        if has_nested_modes(argument.type) and seen_apart:
            _unfold_argument(function, argument)
    for op in list(block.ops):
        if isinstance(op, kn.ViewOp):
            continue
        for result in list(op.results):
            if has_nested_modes(result.type):
                _unfold_result(function, op, result)


def _unfolded(function: FuncOp, value: SSAValue) -> TensorType[Attribute]:
    """The type of a value with a dimension for each stride."""
    label = f"{value_label(value)} of @{function.sym_name.data}"
    layout = resolved_layout_of(value)
    try:
        verify_layout_fits(label, shape_of(value.type), layout)
    except VerifyException as error:
        raise PassFailedException(f"--unfold-modes: {error}") from error
    shape, strides = leaves_in_memory(base_layout(layout))
    return TensorType(element_type_of(value.type), shape, LayoutAttr(Layout(shape, strides)))


def _unfold_argument(function: FuncOp, argument: SSAValue) -> None:
    """Lets operators see an argument's memory under its leaves, and that in its own extents.

    Where no strides say the latter, they are windows, which kernels can load as they lie.
    """
    flat = _unfolded(function, argument)
    apart = kn.ViewOp(argument, flat)
    own, strides = shape_of(flat), strides_of(resolved_layout_of(apart.result))
    if strides_of_reshaped(own, strides, shape_of(argument.type)) is None:
        seen = kn.WindowsOp(apart.result, _windows_of(resolved_layout_of(argument)))
    else:
        seen = kn.ReshapeOp(apart.result, without_layout(argument.type))
    for op in (apart, seen):
        op.results[0].name_hint = argument.name_hint
    argument.replace_uses_with_if(seen.result, lambda use: use.operation is not apart)
    Rewriter.insert_op([apart, seen], InsertPoint.at_start(function.body.block))
    match_arguments(seen.result)


def _windows_of(layout: AnyLayout) -> Windows:
    """All leaves of a layout as modes, whose dimensions are those of the unfolded tensor."""
    modes: list[tuple[Mode, ...]] = []
    count = 0
    for mode in base_layout(layout):
        extents = mode.flat_shape
        count += len(extents)
        modes.append(tuple(Mode(extent, count - 1 - at, 1) for at, extent in enumerate(extents)))
    return Windows(tuple(modes), (0,) * count)


def _unfold_result(function: FuncOp, op: Operation, result: OpResult) -> None:
    """Lets an operator choose where its result lies; what is returned lies as its type says."""
    nested, flat, returned = result.type, _unfolded(function, result), function.body.block.last_op
    if isinstance(op, kn.CustomizedOp):
        stores = [one for one in op.body.block.ops if isinstance(one, tb.OutputOp)]
        stores[op.results.index(result)].dtensor_type = without_layout(result.type)
    value = Rewriter.replace_value_with_new_type(result, without_layout(result.type))
    match_arguments(value)
    if not isinstance(returned, ReturnOp) or value not in returned.operands:
        return
    apart = kn.ReshapeOp(value, flat)
    laid_out = kn.ViewOp(apart.result, nested)
    for made in (apart, laid_out):
        made.results[0].name_hint = value.name_hint
    Rewriter.insert_op([apart, laid_out], InsertPoint.before(returned))
    value.replace_uses_with_if(laid_out.result, lambda use: use.operation is returned)


class UnfoldModesPass(FunctionPass):
    """Replaces tensors with nested modes by views with one dimension for each stride.

    Later passes know one stride for each dimension. Arguments and results keep their layouts.

    Before::

        func.func @f(%x: tensor<8x16xf16, #cute.layout<((2,4),16):((16,64),1)>>) ...
          %y = kn.exp %x : ...

    After::

        func.func @f(%x: tensor<8x16xf16, #cute.layout<((2,4),16):((16,64),1)>>) ...
          %0 = kn.view %x : ... -> tensor<4x2x16xf16, #cute.layout<(4,2,16):(64,16,1)>>
          %1 = kn.reshape %0 : ... -> tensor<8x16xf16>
          %y = kn.exp %1 : ...
    """

    name = "unfold-modes"

    def run(self, function: FuncOp) -> None:
        """Unfolds in a µGraph."""
        unfold_modes(function)
