"""The analysis: what layouts a function's tensors may have, and what they would cost.

Source: Mirage's document "The CUDA Transpiler", "Layout Resolution".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException, VerifyException

from mugraph.dialects.alignment import verify_alignments
from mugraph.dialects.cute import ComposedLayout, Layout, is_injective
from mugraph.dialects.interfaces import HasLayoutConstraints, SharesMemory
from mugraph.dialects.kn import CustomizedOp, ViewOp
from mugraph.dialects.layout_problem import LayoutProblem, Literal
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    has_nested_modes,
    innermost_dimension,
    layout_of,
    op_label,
    padded_strides,
    row_major_strides,
    shape_of,
    strides_of,
    value_label,
    verify_layout_fits,
)

ALIGNMENT_BYTES = 16
"""What rows are padded to: the widest access of one thread."""


def has_layouts(type_: Attribute) -> bool:
    """Whether values of this type are DTensors or STensors, which layouts are resolved for."""
    return isinstance(type_, (TensorType, STensorType))


def is_mugraph(function: FuncOp) -> bool:
    """Whether a function computes with operators that know of layouts."""
    return any(isinstance(op, (CustomizedOp, HasLayoutConstraints)) for op in function.walk())


def tensors_of(function: FuncOp) -> Iterator[SSAValue]:
    """Every DTensor and STensor of a function, block arguments before the block's operators.

    An operator's results come before the values of its regions.  Tensors with nested modes of
    which operators see views alone (``--unfold-modes``) are left out: those views stand for them.
    """
    return (value for value in tensors_in(function.body.block) if not _is_unfolded(value))


def _is_unfolded(value: SSAValue) -> bool:
    if not has_nested_modes(value.type):
        return False
    users = [use.operation for use in value.uses if not isinstance(use.operation, ReturnOp)]
    return isinstance(value.owner, ViewOp) or all(isinstance(user, ViewOp) for user in users)


def tensors_in(block: Block) -> Iterator[SSAValue]:
    """Every DTensor and STensor of a block and of what is inside of its operators."""
    yield from (argument for argument in block.args if has_layouts(argument.type))
    for op in block.ops:
        yield from (result for result in op.results if has_layouts(result.type))
        for region in op.regions:
            for inner in region.blocks:
                yield from tensors_in(inner)


def build_layout_problem(function: FuncOp) -> LayoutProblem:
    """The layout problem of one function, without what its accesses to memory cost.

    Layouts that stand in the types stay; inputs without one are row-major and contiguous.  Raises
    ``PassFailedException`` for tensors that cannot have a layout, or whose layout does not fit,
    and for operators that touch tensors but say nothing of layouts.
    """
    if len(function.body.blocks) != 1:
        raise PassFailedException(
            f"--resolve-layout: @{function.sym_name.data} has {len(function.body.blocks)} blocks; "
            "a µGraph is straight-line: one block"
        )
    problem = LayoutProblem()
    _bind_block_arguments(problem, function)
    declared: set[int] = set()
    for value in tensors_of(function):
        number = problem.number_of(value)
        if number not in declared:
            declared.add(number)
            _declare_tensor(problem, function, value)
    try:
        verify_alignments(function)
    except VerifyException as error:
        raise PassFailedException(f"--resolve-layout: {error}") from error
    for op in function.walk():
        if isinstance(op, HasLayoutConstraints):
            op.add_layout_constraints(problem)
        elif not isinstance(op, (FuncOp, ReturnOp, CustomizedOp)):
            _reject_foreign_tensors(function, op)
    return problem


def _bind_block_arguments(problem: LayoutProblem, function: FuncOp) -> None:
    """An operand of ``kn.customized`` and the block argument that it binds are one tensor."""
    # Numbers follow the order of the text: those of the operands first.
    for value in tensors_of(function):
        owner = value.owner
        if isinstance(owner, Block) and isinstance(graph := owner.parent_op(), CustomizedOp):
            position = owner.args.index(value)
            problem.identify(value, graph.inputs[position])
        else:
            problem.number_of(value)


def _declare_tensor(problem: LayoutProblem, function: FuncOp, value: SSAValue) -> None:
    """What holds for every tensor, whoever uses it."""
    type_, label = value.type, f"{value_label(value)} of @{function.sym_name.data}"
    shape = _static_shape(label, type_)
    rank = len(shape)
    innermost = [problem.innermost(value, dim) for dim in range(rank)]
    problem.require_one(innermost)

    fixed = _fixed_strides(label, function, value)
    if fixed is not None:
        problem.fix_strides(value, fixed)
        real = real_innermost(shape, fixed)
        candidates = [real]
        problem.require_any(
            innermost[real],
            reason=f"{label} has the strides {_tuple_text(fixed)}, given or contiguous",
        )
    else:
        candidates = innermost_candidates_of(shape)
        for dim in range(rank):
            if dim not in candidates:
                problem.require_any(
                    innermost[dim].negated(),
                    reason=f"dimension {dim} of {label} has extent 1 and is never innermost",
                )


def strides_for(value: SSAValue, innermost: int, *, is_tight: bool = False) -> tuple[int, ...]:
    """The strides, in elements, that ``value`` gets when ``innermost`` is chosen."""
    element_bytes = element_bytes_of(value.type)
    alignment_bytes = element_bytes if is_tight else ALIGNMENT_BYTES
    return padded_strides(shape_of(value.type), innermost, element_bytes, alignment_bytes)[0]


def layout_candidates(
    problem: LayoutProblem, value: SSAValue
) -> list[tuple[tuple[Literal, ...], tuple[int, ...]]]:
    """The strides that ``value`` may get, each with the literals that choose it.

    Shared tensors whose rows would be padded may also be tight.
    """
    shape = shape_of(value.type)
    fixed = problem.strides_fixed_for(value)
    if fixed is not None:
        return [((problem.innermost(value, real_innermost(shape, fixed)),), fixed)]
    candidates: list[tuple[tuple[Literal, ...], tuple[int, ...]]] = []
    dims_ = innermost_candidates_of(shape)
    padded = {dim: strides_for(value, dim) for dim in dims_}
    tight = {dim: strides_for(value, dim, is_tight=True) for dim in dims_}
    may_be_tight = isinstance(value.type, STensorType) and padded != tight
    for dim in dims_:
        innermost = problem.innermost(value, dim)
        if may_be_tight:
            is_tight = problem.tight(value)
            candidates.append(((innermost, is_tight.negated()), padded[dim]))
            candidates.append(((innermost, is_tight), tight[dim]))
        else:
            candidates.append(((innermost,), padded[dim]))
    return candidates


def innermost_candidates_of(shape: Sequence[int]) -> list[int]:
    """The dimensions that may be innermost: those of extent over 1, or the last where none is.

    Where an extent is 1, the layout with that dimension innermost differs in nothing from another.
    """
    wide = [dim for dim, extent in enumerate(shape) if extent > 1]
    return wide or [len(shape) - 1]


def real_innermost(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The dimension of stride 1 or, where there is none, of the least stride.

    Dimensions of extent 1 do not count unless all are.
    """
    innermost = innermost_dimension(shape, strides)
    if innermost is not None:
        return innermost
    return min(innermost_candidates_of(shape), key=lambda dim: strides[dim])


def _static_shape(label: str, type_: Attribute) -> tuple[int, ...]:
    unknown = (
        f"--resolve-layout: {label} has type {type_}; every extent must be known and at least 1"
    )
    try:
        shape = shape_of(type_)
    except VerifyException as error:
        raise PassFailedException(unknown) from error
    if not shape:
        raise PassFailedException(
            f"--resolve-layout: {label} has rank 0; give it one dimension of extent 1"
        )
    if any(extent < 1 for extent in shape):
        raise PassFailedException(unknown)
    try:
        element_bytes_of(type_)
    except VerifyException as error:
        raise PassFailedException(f"--resolve-layout: {label}: {error}") from error
    return shape


def _fixed_strides(label: str, function: FuncOp, value: SSAValue) -> tuple[int, ...] | None:
    """The strides that the type gives, or those of an input; ``None`` where they are free."""
    type_ = value.type
    shape = shape_of(type_)
    layout = layout_of(type_)
    if layout is None:
        if isinstance(type_, TensorType):
            encoding = cast(TensorType[Attribute], type_).encoding
            if not isinstance(encoding, NoneAttr):
                raise PassFailedException(
                    f"--resolve-layout: {label} has the encoding {encoding}; expected none, or a "
                    "#cute.layout"
                )
        return row_major_strides(shape) if value.owner is function.body.block else None
    try:
        verify_layout_fits(label, shape, layout)
    except VerifyException as error:
        raise PassFailedException(f"--resolve-layout: {error}") from error
    try:
        strides = strides_of(layout)
    except VerifyException as error:
        raise PassFailedException(f"--resolve-layout: {label}: {error}") from error
    if isinstance(type_, TensorType) and isinstance(layout, ComposedLayout):
        raise PassFailedException(
            f"--resolve-layout: {label} has the swizzled layout {layout}; only tensors in shared "
            "memory can be swizzled"
        )
    if any(stride < 0 for stride in strides):
        raise PassFailedException(
            f"--resolve-layout: {label} has the layout {layout}; strides must not be negative"
        )
    broadcast = [dim for dim, extent in enumerate(shape) if extent > 1 and strides[dim] == 0]
    is_view = isinstance(value.owner, SharesMemory)
    if isinstance(type_, TensorType) and broadcast and not is_view:
        raise PassFailedException(
            f"--resolve-layout: {label} has the layout {layout} with stride 0 along dimension "
            f"{broadcast[0]} of extent {shape[broadcast[0]]}; give that dimension extent 1, which "
            "operators broadcast"
        )
    is_written = isinstance(type_, TensorType) and not (is_view or isinstance(value.owner, Block))
    if is_written and not is_injective(Layout(shape, strides)):
        raise PassFailedException(
            f"--resolve-layout: {label} has the layout {layout}, under which elements share an "
            "address; a tensor that is computed needs one for each"
        )
    return strides


def _reject_foreign_tensors(function: FuncOp, op: Operation) -> None:
    for value in (*op.operands, *op.results):
        if has_layouts(value.type):
            raise PassFailedException(
                f"--resolve-layout: {op_label(op)} in @{function.sym_name.data} touches "
                f"{value_label(value)} ({dims(shape_of(value.type))}) but says nothing of layouts; "
                "implement HasLayoutConstraints for it, or move it to a function of its own"
            )


def _tuple_text(numbers: Sequence[int]) -> str:
    return "(" + ",".join(map(str, numbers)) + ")"
