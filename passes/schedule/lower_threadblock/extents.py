"""Where tiles end, and grids, of functions whose extents a call says.

A function with named extents is planned at their largest values (``--bucket-extents``).  Tiles of
its arguments and results end where the call's values say; intermediates have room for all.  Of the
grid those blocks are launched that have elements of the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import kn, sched, tb
from mugraph.dialects.device_cuts import device_cuts
from mugraph.dialects.kn.extent import give_numbers
from mugraph.dialects.launch_extents import GridCut, HeldLength, integer_array
from mugraph.dialects.named_extents import (
    NamedExtent,
    Names,
    argument_names,
    ends_of_argument,
    ends_of_result,
    function_lengths,
    named_extents,
    result_names,
)
from mugraph.dialects.tensor_types import (
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)


@dataclass
class CallExtents:
    """The named extents of a function: the values of a call, and which dimensions they are."""

    values: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])
    """Arguments of the function: what a call says."""
    outer: dict[SSAValue, Names] = field(default_factory=dict[SSAValue, Names])
    """Tensors that the caller gives: they end where the call says."""
    lengths: dict[str, HeldLength] = field(default_factory=dict[str, HeldLength])
    """Names whose values arguments of the function hold."""
    inner: dict[SSAValue, Names] = field(default_factory=dict[SSAValue, Names])
    """Intermediates: no result depends on what lies behind the end of a dimension."""
    parts: dict[tuple[SSAValue, int], int] = field(default_factory=dict[tuple[SSAValue, int], int])
    """Dimensions of them that have several elements for each that the name counts: those of blocks
    that share a loop stand side by side."""

    def names_of(self, value: SSAValue) -> Names:
        """The names of a tensor's dimensions, as far as they are known.

        A view of an intermediate has those of its dimensions that it sees as they are.
        """
        if (known := self.outer.get(value) or self.inner.get(value)) is not None:
            return known
        names = [""] * len(shape_of(value.type))
        if isinstance(value.owner, kn.ViewOp) and any(of := self.names_of(value.owner.input)):
            for dim, seen in _dims_seen(value.owner.input, value).items():
                names[seen] = of[dim]
        return tuple(names)

    def name(self, value: SSAValue, dim: int, name: str) -> None:
        """Notes the name of a dimension of an intermediate."""
        if value not in self.outer:
            names = self.names_of(value)
            self.inner[value] = (*names[:dim], name, *names[dim + 1 :])

    def parts_of(self, value: SSAValue, dim: int) -> int:
        """How many elements a dimension of a tensor has for each that its name counts."""
        if (value, dim) not in self.parts and isinstance(value.owner, kn.ViewOp):
            for of, seen in _dims_seen(value.owner.input, value).items():
                if seen == dim:
                    return self.parts_of(value.owner.input, of)
        return self.parts.get((value, dim), 1)

    def split_by(
        self, op: tb.InputOp | tb.OutputOp, axis: int, value: SSAValue, names: Names
    ) -> tuple[str, int] | None:
        """What an axis splits of a named dimension, if it is the outermost that splits it.

        The name, and of how many of the elements that it counts a block has parts.
        """
        dim = op.map_[axis]
        if dim < 0 or not names[dim]:
            return None
        split = op.slicing().split(dim)
        parts = self.parts_of(value, dim)
        step, rest = divmod(split.factors()[axis], parts)
        is_outermost = all(blocks == 1 for blocks in split.blocks[:axis])
        return (names[dim], step) if is_outermost and step and not rest else None


def call_extents(function: FuncOp) -> CallExtents:
    """The named extents of a function, which gets an argument for each that it has none of yet.

    Raises ``PassFailedException`` where an operator that is no custom kernel has such tensors.
    """
    extents, found = named_extents(function), CallExtents()
    found.lengths = function_lengths(function)
    if not extents and not found.lengths:
        return found
    for index, argument in enumerate(function.args):
        _note(found, argument, argument_names(function, index), extents)
        if any(ends := ends_of_argument(function, index)):
            found.inner[argument] = ends  # there is room for all
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            for index, value in enumerate(op.operands):
                _note(found, value, result_names(function, index), extents)
                _note_ends(found, value, ends_of_result(function, index))
    for op in reversed(tuple(function.body.block.ops)):
        if isinstance(op, kn.ViewOp) and op.result in found.outer:
            # What a kernel writes ends where what is seen of it does.
            found.outer[op.input] = _names_seen(op, op.result, op.input, found.outer[op.result])
    for op in function.body.block.ops:
        if isinstance(op, kn.ViewOp) and op.input in found.outer:
            names = found.outer[op.input]
            found.outer[op.result] = _names_seen(op, op.input, op.result, names)
        elif isinstance(op, kn.CustomizedOp):
            _name_results(op, found)
        elif not isinstance(op, (kn.ViewOp, ReturnOp)):
            if isinstance(op, kn.MatmulOp) and (name := _name_of_rows(op, found)) is not None:
                op.rows = StringAttr(name)
            elif not _counts_rows(op):
                _refuse_outer(op, found)
            _name_along_cuts(op, found)
    found.values |= give_numbers(function, extents)
    for name, length in found.lengths.items():
        found.values[name] = function.args[length.argument]
    function.update_function_type()
    return found


def _note(
    found: CallExtents, value: SSAValue, names: Names, extents: Mapping[str, NamedExtent]
) -> None:
    # A bucket of one value needs no care.
    open_ = tuple(name if name and not extents[name].is_fixed else "" for name in names)
    if any(open_):
        found.outer[value] = open_


def _note_ends(found: CallExtents, value: SSAValue, ends: Names) -> None:
    if any(ends):
        names = found.names_of(value)
        found.outer[value] = tuple(end or name for end, name in zip(ends, names, strict=True))


def _names_seen(op: kn.ViewOp, of: SSAValue, value: SSAValue, names: Names) -> Names:
    """The names of dimensions of a view, or of what it is of, given those of the other.

    They are of dimensions that are as long and as far apart.
    """
    seen, result = _dims_seen(of, value), [""] * len(shape_of(value.type))
    for dim, name in enumerate(names):
        if name and dim not in seen:
            raise PassFailedException(
                f"--lower-threadblock: {op_label(op)} sees '{name}' together with other dimensions "
                f"of {value_label(of)}; keep it a dimension of its own"
            )
        if name:
            result[seen[dim]] = name
    return tuple(result)


def _dims_seen(of: SSAValue, value: SSAValue) -> dict[int, int]:
    """The dimensions of a tensor that are as long and as far apart in another, and which there."""
    own, seen = (
        list(zip(shape_of(v.type), strides_of(resolved_layout_of(v)), strict=True))
        for v in (of, value)
    )
    return {dim: seen.index(pair) for dim, pair in enumerate(own) if pair in seen}


def _name_of_rows(op: kn.MatmulOp, found: CallExtents) -> str | None:
    """The extent that a call says of the rows of a product of two matrices, if of nothing else."""
    lhs, rhs, result = (found.names_of(value) for value in (op.lhs, op.rhs, op.result))
    names = {names[0] for names in (lhs, result) if names[0]}
    if len(result) != 2 or any((lhs[1], *rhs, result[1])) or len(names) != 1:
        return None
    (name,) = names
    return None if name in found.lengths else name


def _counts_rows(op: Operation) -> bool:
    return isinstance(op, kn.CopyOp) and op.rows is not None


def _refuse_outer(op: Operation, found: CallExtents) -> None:
    for value in (*op.operands, *op.results):
        if value in found.outer:
            raise PassFailedException(
                f"--lower-threadblock: {op_label(op)} is no custom kernel, and "
                f"{value_label(value)} has an extent that is known only at a call; run "
                "--fuse-kernels before, or write the extent"
            )


def name_said(graph: kn.CustomizedOp, number: int) -> str | None:
    """The name of a length of a kernel that a call says; ``None`` where only memory holds it.

    Memory has what a call says, too: ``kn.extent`` puts it there for masks.
    """
    holder = graph.inputs[graph.held_lengths[number].argument].owner
    return holder.extent.data if isinstance(holder, kn.ExtentOp) else None


def _name_along_cuts(op: Operation, found: CallExtents) -> None:
    """Notes the names of an operator's results, whose elements along a dimension are of those of
    operands alone; masks that compare places along it fill what lies behind an end."""
    for cut in device_cuts(op):
        pairs = zip(op.operands, cut.operands, strict=False)
        names = {found.names_of(value)[dim] for value, dim in pairs if dim is not None} - {""}
        if cut.combiner is None and len(names) == 1:
            for result, dim in zip(op.results, cut.results, strict=True):
                if dim is not None:
                    found.name(result, dim, *names)


def _name_results(graph: kn.CustomizedOp, found: CallExtents) -> None:
    """Notes the names of a graph's results, of the dimensions that are split as named ones are.

    Where masks put what others read behind the end of an intermediate, it is written whole; so it
    is where device memory holds the extent.
    """
    loads = [op for op in graph.body.block.ops if isinstance(op, tb.InputOp)]
    stores = [op for op in graph.body.block.ops if isinstance(op, tb.OutputOp)]
    for axis, blocks in enumerate(graph.grid_dim):
        cut = [op for op in loads if op.map_[axis] >= 0]
        given = {_split_of_load(op, axis, graph, found) for op in cut} - {None}
        if len(given) != 1 or blocks == 1 or (named := given.pop()) is None:
            continue
        if named[0] not in found.lengths and not _is_masked_along(graph, axis):
            for op in stores:
                _infer(op, axis, named, found)


def cut_axes(graph: kn.CustomizedOp, extents: CallExtents) -> dict[int, tuple[str, int]]:
    """The axes of a grid of which a call needs a part: the name, and a block's elements of it."""
    found: dict[int, tuple[str, int]] = {}
    stores = [op for op in graph.body.block.ops if isinstance(op, tb.OutputOp)]
    for axis, blocks in enumerate(graph.grid_dim):
        stored = {
            extents.split_by(op, axis, op.dtensor, _names_stored(op, extents)) for op in stores
        }
        if blocks > 1 and len(stored) == 1 and (part := stored.pop()) is not None:
            found[axis] = part
    return found


def _names_stored(op: tb.OutputOp, extents: CallExtents) -> Names:
    """The names of the dimensions that an output cuts; numbers of rows have none."""
    names = extents.names_of(op.dtensor)
    numbers = len(op.numbers_shape)
    return names if op.through is None else (*[""] * numbers, *names[1:])


def _is_masked_along(graph: kn.CustomizedOp, axis: int) -> bool:
    """Whether masks put something behind a length of what an axis splits, or loads do."""
    return any(
        (isinstance(op, tb.MaskOp) and _depends_on_length(op, op.map_[axis]))
        or (isinstance(op, tb.InputOp) and op.map_[axis] in op.ends)
        for op in graph.body.block.ops
    )


def _depends_on_length(op: tb.MaskOp, dim: int) -> bool:
    """Whether a condition compares places along a dimension with a length."""
    rank = len(shape_of(op.result.type))
    return dim >= 0 and any(
        form.coefficients[dim] and any(form.coefficients[rank:]) for form in op.forms()
    )


def cuts_of_ends(graph: kn.CustomizedOp) -> list[tuple[int, int, int]]:
    """The axes whose blocks from a length on store what nobody reads.

    Each with the number of the length, and a block's elements.
    """
    stores = [op for op in graph.body.block.ops if isinstance(op, tb.OutputOp)]
    found: list[tuple[int, int, int]] = []
    for axis, blocks in enumerate(graph.grid_dim):
        ended = {_end_along(op, axis) for op in stores}
        if blocks > 1 and len(ended) == 1 and (end := ended.pop()) is not None:
            found.append((axis, *end))
    return found


def _end_along(op: tb.OutputOp, axis: int) -> tuple[int, int] | None:
    """The length at which what an axis splits ends, and a block's elements; ``None`` for none."""
    dim = op.map_[axis]
    if dim not in op.ends:
        return None
    split = op.slicing().split(dim)
    is_alone = all(split.blocks[other] == 1 for other in range(len(split.blocks)) if other != axis)
    return (op.ends[dim], split.factors()[axis]) if is_alone else None


def _split_of_load(
    op: tb.InputOp, axis: int, graph: kn.CustomizedOp, extents: CallExtents
) -> tuple[str, int] | None:
    """What an axis splits of the dimensions that an input cuts tiles from."""
    source = _operand(graph, op.dtensor)
    names = extents.names_of(source)
    if op.through is not None:
        if source not in extents.outer:
            names = ("", *names[1:])  # there is room for all
        names = _names_of_rows(op, extents.names_of(_operand(graph, op.through)), names)
    return extents.split_by(op, axis, source, names)


def _names_of_rows(op: Operation, numbers: Names, source: Names) -> Names:
    """The names of the dimensions of what is gathered; an operator reads it through numbers."""
    if source[0]:
        raise PassFailedException(
            f"--lower-threadblock: {op_label(op)} moves rows of {value_label(op.operands[0])} "
            f"through numbers, and '{source[0]}', which says how many rows there are, is known "
            "only at a call; write the largest number of rows in its type"
        )
    return (*numbers, *source[1:])


def _operand(graph: kn.CustomizedOp, argument: SSAValue) -> SSAValue:
    """The operand of a graph that an argument of its body is."""
    assert isinstance(argument, BlockArgument)  # as graphs are isolated
    return graph.inputs[argument.index]


def _infer(op: tb.OutputOp, axis: int, part: tuple[str, int], extents: CallExtents) -> None:
    """Notes the name of a dimension of an intermediate that is split as a named one is."""
    dim, (name, step) = op.map_[axis], part
    if op.dtensor in extents.outer or dim < 0 or op.through is not None:
        return
    parts, rest = divmod(op.slicing().split(dim).factors()[axis], step)
    if rest or not parts:
        return
    extents.name(op.dtensor, dim, name)
    extents.parts[op.dtensor, dim] = parts


def hold_lengths(graph: kn.CustomizedOp, extents: CallExtents) -> None:
    """Gives a graph the lengths that its results end at, or that cut its grid."""
    cuts = cut_axes(graph, extents)
    wanted = {name for name, _ in cuts.values()}
    wanted |= {name for result in graph.results for name in extents.outer.get(result, ())}
    block = graph.body.block
    for name, length in extents.lengths.items():
        holder = extents.values[name]
        if name not in wanted:
            continue
        if holder not in graph.inputs:
            graph.operands = [*graph.inputs, holder]
            block.insert_arg(holder.type, len(block.args)).name_hint = holder.name_hint
        held = HeldLength(list(graph.inputs).index(holder), length.largest)
        if held not in graph.held_lengths:
            graph.hold([*graph.held_lengths, held])


def end_kernel(
    kernel: sched.KernelOp, graph: kn.CustomizedOp, extents: CallExtents
) -> list[SSAValue]:
    """Lets tiles, and the grid, of a kernel end where a call says.

    What a call says the kernel gets as a number, also where the graph reads it in memory.  Returns
    the operands of a launch.
    """
    cuts = cut_axes(graph, extents)
    tensors = zip(kernel.body.block.args, (*graph.inputs, *graph.results), strict=True)
    outer: dict[SSAValue, Names] = {
        argument: extents.outer.get(value, ()) for argument, value in tensors
    }
    said: dict[SSAValue, str] = {
        kernel.body.block.args[length.argument]: name
        for number, length in enumerate(graph.held_lengths)
        if (name := name_said(graph, number)) is not None
    }
    used = {name for names in outer.values() for name in names if name} | {*said.values()}
    used |= {name for name, _ in cuts.values()}
    arguments = dict(zip(graph.inputs, kernel.body.block.args, strict=False))
    numbers = {
        name: arguments[value] if name in extents.lengths else _insert_number(kernel, name)
        for name, value in extents.values.items()
        if name in used
    }
    for op in kernel.body.block.ops:
        if isinstance(op, sched.LocalTileOp):
            held = {dim: numbers[said[end]] for dim, end in op.end_of.items() if end in said}
            names = enumerate(_names_of_tile(op, outer))
            named = {dim: numbers[name] for dim, name in names if name}
            op.end_along({**op.end_of, **held, **named})
    for op in kernel.body.walk():
        if isinstance(op, sched.CopyOp):
            op.leave_out()
    holders = [kernel.body.block.args[length.argument] for length in kernel.held_lengths]
    unused = [
        argument for argument in kernel.body.block.args if argument in said and not argument.uses
    ]
    operands = [value for value in graph.inputs if arguments[value] not in unused]
    for argument in unused:
        kernel.body.block.erase_arg(argument)
        kernel.inputs = IntegerAttr(kernel.input_count - 1, i64)
    kernel.hold(
        [
            length._replace(argument=(numbers[said[each]] if each in said else each).index)
            for each, length in zip(holders, kernel.held_lengths, strict=True)
        ]
    )
    parts = [GridCut(axis, numbers[name].index, step) for axis, (name, step) in cuts.items()]
    parts += [
        GridCut(axis, kernel.held_lengths[number].argument, step)
        for axis, number, step in cuts_of_ends(graph)
        if axis not in cuts
    ]
    if parts:
        kernel.cut = integer_array(_flat(parts))
    values = [extents.values[name] for name in numbers if name not in extents.lengths]
    return [*operands, *values]


def _names_of_tile(op: sched.LocalTileOp, outer: Mapping[SSAValue, Names]) -> Names:
    source = outer[op.source]
    if op.through is None or not (source or outer[op.through]):
        return source
    tensors = (op.through, op.source)
    known = [outer[tensor] or ("",) * len(shape_of(tensor.type)) for tensor in tensors]
    return _names_of_rows(op, *known)


def _flat(parts: Iterable[GridCut]) -> list[int]:
    return [number for part in parts for number in part]


def _insert_number(kernel: sched.KernelOp, name: str) -> BlockArgument:
    """A number that a kernel takes behind its other inputs."""
    argument = kernel.body.block.insert_arg(IndexType(), kernel.input_count)
    argument.name_hint = name
    kernel.inputs = IntegerAttr(kernel.input_count + 1, i64)
    return argument
