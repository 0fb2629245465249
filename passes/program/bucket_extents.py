"""``--bucket-extents``: static functions, one for each range of values of named extents."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import kn
from mugraph.dialects.cute import Layout
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.kn import lay_out, lay_out_row_major
from mugraph.dialects.kn.compute import UNARY_OPERATORS
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import (
    BUCKET_OF,
    BUCKETS,
    ENDS,
    EXTENT,
    EXTENTS,
    LENGTHS,
    NamedExtent,
    Names,
    argument_names,
    bucket_ends,
    called_extents,
    extents_in,
    held_extents,
    is_open,
    result_names,
    set_named_extents,
    with_names,
)
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    op_label,
    row_major_strides,
    value_label,
)
from mugraph.passes.program.name_extents import name_extents
from mugraph.passes.program.named_extents import NamedExtentError, require_names, static_copy

MOST_BUCKETS = 6
"""Static functions of one with named extents, at most."""


def buckets_of_extents(function: FuncOp) -> Iterator[tuple[NamedExtent, ...]]:
    """What a call says in each bucket of a function with open extents, small ones first.

    A bucket begins behind those before it that hold as much along the other extents.
    """
    extents = called_extents(require_names(function).values())
    try:
        ends = bucket_ends(function)
    except VerifyException as error:
        raise NamedExtentError(str(error)) from error
    for number, end in enumerate(ends):
        yield tuple(
            replace(
                extent,
                largest=end[at],
                least=_held_before(ends[:number], end, at) + extent.multiple,
                buckets=(),
                most_buckets=0,
            )
            for at, extent in enumerate(extents)
        )


def _held_before(ends: Sequence[Sequence[int]], end: Sequence[int], at: int) -> int:
    """Up to which value of an extent buckets hold all that one holds along the others."""
    held = [0]
    for other in ends:
        pairs = enumerate(zip(other, end, strict=True))
        if all(place == at or one >= own for place, (one, own) in pairs):
            held.append(other[at])
    return max(held)


def bucket_extents(function: FuncOp) -> list[FuncOp]:
    """The buckets of a function with open extents, small ones first."""
    buckets = list(buckets_of_extents(function))
    if len(buckets) > MOST_BUCKETS:
        raise NamedExtentError(
            f"{op_label(function)} would have {len(buckets)} buckets, the largest values among "
            f"them; there may be {MOST_BUCKETS}: write fewer in 'buckets'"
        )
    name_extents(function)
    return [bucket_at(function, ranges) for ranges in buckets]


def _require_chosen(function: FuncOp) -> None:
    """Raises :class:`NamedExtentError` where an estimate was to choose buckets, and has not."""
    for extent in called_extents(require_names(function).values()):
        if BUCKETS not in function.attributes and extent.most_buckets > 1:
            raise NamedExtentError(
                f"{op_label(function)}: an estimate shall choose where at most "
                f"{extent.most_buckets} ranges of '{extent.name}' end, which it does while it "
                "chooses kernels: run --choose-buckets before --bucket-extents (mugraph.compile "
                "does, unless fuse=False), or write the ends, as in buckets = [16, 64]"
            )


def bucket_at(function: FuncOp, ranges: Sequence[NamedExtent]) -> FuncOp:
    """The static function at the largest values of these ranges; ``--name-extents`` ran before."""
    ending = [extent.name for extent in ranges if not extent.is_fixed]
    copy = static_copy(function, {extent.name: extent.largest for extent in ranges}, ending)
    whole = require_names(function)
    held = held_extents({**whole, **{extent.name: extent for extent in ranges}}.values())
    masked = {op.extent.data for op in copy.body.block.ops if isinstance(op, kn.ExtentOp)}
    write_own_results(copy, held, {*held, *masked})
    for op in copy.body.block.ops:
        op.attributes.pop(EXTENT, None)
    # All buckets share one interface, so that nothing of it is left to choose.
    for argument in copy.args:
        if layout_of(argument.type) is None:
            names, shape = argument_names(copy, argument.index), extents_in(argument.type)
            rooms = [
                whole[name].largest if name in held else extent
                for name, extent in zip(names, shape, strict=True)
            ]
            lay_out(argument, Layout(shape, row_major_strides(rooms)))
    end = copy.body.block.last_op
    assert isinstance(end, ReturnOp)
    for value in end.operands:
        lay_out_row_major(value)
    copy.update_function_type()
    write_lengths(copy, held)
    if ranges:
        set_named_extents(copy, {extent.name: extent for extent in ranges})
    else:
        del copy.attributes[EXTENTS]
    if len(bucket_ends(function)) == 1:
        copy.attributes.pop(BUCKETS, None)
    if any(extent.largest != whole[extent.name].largest for extent in ranges):
        name = function.sym_name.data
        copy.attributes[BUCKET_OF] = StringAttr(name)
        parts = [f"{extent.name}{extent.largest}" for extent in ranges]
        copy.sym_name = StringAttr("_".join([name, *parts]))
    return copy


def write_own_results(function: FuncOp, held: Container[str], masked: Container[str]) -> None:
    """Lets an operator write each result that is an argument, a view or returned twice.

    So too one that others use, if it ends where there are masks: they may need what these have
    put behind the end, which is not written.  The operator shares kernels as others do, and leaves
    out what lies behind an end, as a copy does not.

    Raises :class:`NamedExtentError` for integers of an extent that device memory holds, which no
    kernel of tiles computes.
    """
    end = function.body.block.last_op
    assert isinstance(end, ReturnOp)
    returned = list(end.operands)
    for index, value in enumerate(returned):
        is_view = not isinstance(value.owner, Operation) or isinstance(value.owner, kn.RegroupOp)
        is_ended = any(name in masked for name in result_names(function, index))
        is_moved = is_view or value in returned[:index] or (is_ended and not value.has_one_use())
        if not is_moved:
            continue
        if is_integer(element_type_of(value.type)):
            if any(name in held for name in result_names(function, index)):
                raise NamedExtentError(
                    f"result {index} of {op_label(function)}, {value_label(value)}, would be "
                    "copied, which integers of an extent in device memory are not yet; return what "
                    "an operator computes once, or cast it"
                )
            continue  # no kernel of tiles computes them: their rows are copied
        own = UNARY_OPERATORS["mul_scalar"](value, value.type, (1.0,))
        own.result.name_hint = value.name_hint
        Rewriter.insert_op(own, InsertPoint.before(end))
        end.operands[index] = own.result


def write_lengths(function: FuncOp, held: Mapping[str, NamedExtent]) -> None:
    """Says of a static function which lengths its results end at, and leaves their names out."""
    if not held:
        return
    of_arguments = [argument_names(function, index) for index in range(len(function.args))]
    of_results = [
        result_names(function, index) for index in range(len(function.function_type.outputs.data))
    ]
    function.arg_attrs = _split_names(function.arg_attrs, of_arguments, held)
    function.res_attrs = _split_names(function.res_attrs, of_results, held)
    lengths = {name: [extent.held or 0, extent.largest] for name, extent in held.items()}
    function.attributes[LENGTHS] = DictionaryAttr(
        {name: integer_array(numbers) for name, numbers in lengths.items()}
    )


def _split_names(
    attributes: ArrayAttr[DictionaryAttr] | None, names: Sequence[Names], held: Container[str]
) -> ArrayAttr[DictionaryAttr]:
    """The attributes of arguments or results with names of what a call says, and of ends."""
    said = [tuple("" if name in held else name for name in own) for own in names]
    ends = [tuple(name if name in held else "" for name in own) for own in names]
    return with_names(with_names(attributes, said), ends, ENDS)


@dataclass(frozen=True)
class BucketExtentsPass(ModulePass):
    """Makes a static function for each bucket of a function with named extents.

    A bucket is the program at the largest values of its range; ``buckets`` of a name say where
    ranges end, and the largest value ends the last one; ``--choose-buckets`` writes them.  Each is
    fused, planned and scheduled for itself; its kernels end where the extents of the call do.
    Arguments and results are row-major, as all buckets share them.  At most six.

    If device memory holds the value of an extent, tensors have room for its largest value. Masks
    keep elements past the value out of sums and maxima, and kernels read the value
    (``mugraph.dialects.lengths``). If the call gives an upper bound, it takes one of the
    ``buckets``, whose tensors end earlier and have the strides of the largest value.

    Before::

        func.func @f(%x: tensor<?x64xf16> {mugraph.extent = ["m", ""]}) -> tensor<?x64xf16>
            attributes {mugraph.extents = {m = {largest = 512, buckets = [16]}}} { ... }

    After::

        func.func @f_m16(%x: tensor<16x64xf16, ...> {mugraph.extent = ["m", ""]}) -> ...
            attributes {mugraph.bucket_of = "f", mugraph.extents = {m = {largest = 16, ...}}} ...
        func.func @f(%x: tensor<512x64xf16, ...> {mugraph.extent = ["m", ""]}) -> ...
            attributes {mugraph.extents = {m = {largest = 512, least = 17}}} ...
    """

    name = "bucket-extents"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Replaces every function with open extents by its buckets."""
        for function in tuple(op.body.block.ops):
            if isinstance(function, FuncOp) and is_open(function):
                _require_chosen(function)
                for bucket in bucket_extents(function):
                    op.body.block.insert_op_before(bucket, function)
                function.detach()
                function.erase()
