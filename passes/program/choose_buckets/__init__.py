"""``--choose-buckets``: where the ranges of values end that get kernels of their own."""

from __future__ import annotations

from dataclasses import replace

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

from mugraph.dialects.named_extents import (
    BUCKETS,
    called_extents,
    is_open,
    named_extents,
    set_named_extents,
)
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.each import TargetPass
from mugraph.passes.program.bucket_extents import MOST_BUCKETS
from mugraph.passes.program.choose_buckets.choice import Values, choose_ends
from mugraph.passes.program.choose_buckets.sizes import sizes_of
from mugraph.passes.program.choose_buckets.times import time_sizes
from mugraph.passes.program.named_extents import NamedExtentError, require_names


def most_buckets(function: FuncOp) -> int:
    """How many buckets an estimate may choose for a function; 0 where it shall choose none.

    Raises :class:`NamedExtentError` for more than a function may have, and where the ends of one
    extent are written and those of another are not.
    """
    if BUCKETS in function.attributes:
        return 0  # chosen or written for all extents together
    called = called_extents(require_names(function).values())
    most = max((extent.most_buckets for extent in called), default=0)
    written = [extent.name for extent in called if extent.buckets]
    if most and written:
        raise NamedExtentError(
            f"{op_label(function)}: an estimate shall choose buckets, but those of '{written[0]}' "
            "are written; write the buckets of all extents, or of none"
        )
    if most > MOST_BUCKETS:
        raise NamedExtentError(
            f"{op_label(function)} may have {MOST_BUCKETS} buckets, not {most}; give a smaller "
            "number"
        )
    return most


def write_ends(function: FuncOp, ends: list[Values]) -> None:
    """Writes where the buckets of a function end along the extents that a call says."""
    extents = named_extents(function)
    called = called_extents(extents.values())
    for at, extent in enumerate(called):
        own = sorted({end[at] for end in ends} - {extent.largest})
        # A call says a bound of what memory holds, whether one is chosen or not.
        bound = extent.held is not None and not own
        extents[extent.name] = replace(extent, buckets=tuple(own), most_buckets=int(bound))
    set_named_extents(function, extents)
    if len(called) > 1:
        numbers = [ArrayAttr([IntegerAttr(each, i64) for each in end]) for end in ends]
        function.attributes[BUCKETS] = ArrayAttr(numbers)


class ChooseBucketsPass(TargetPass):
    """Chooses where the buckets of named extents end, by an estimate.

    ``most_buckets`` of an extent is the largest number of buckets. The program is planned for
    ``arch`` at sizes of all magnitudes. A size loses time if it runs the kernels of a larger size
    instead of its own. The ends are those with the least sum of squares of these losses, and as few
    as do about as well. With several extents, a bucket has one end for each, and a call takes the
    first bucket that holds all its values (``mugraph.buckets``).

    Before::

        func.func @f(%x: tensor<?x2048xf16> {mugraph.extent = ["m", ""]}, ...
            attributes {mugraph.extents = {m = {largest = 8192, most_buckets = 4}}} { ... }

    After::

        func.func @f(%x: tensor<?x2048xf16> {mugraph.extent = ["m", ""]}, ...
            attributes {mugraph.extents = {m = {largest = 8192, buckets = [96, 256, 320]}}} { ... }
    """

    name = "choose-buckets"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Chooses in every function that asks for it."""
        target = self.target
        for function in op.body.block.ops:
            if not isinstance(function, FuncOp) or not is_open(function):
                continue
            most = most_buckets(function)
            if most > 0:
                called = called_extents(require_names(function).values())
                table = time_sizes(function, sizes_of(called), target)
                write_ends(function, choose_ends(table, most))


__all__ = ["ChooseBucketsPass"]
