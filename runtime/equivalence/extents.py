"""Functions with named extents as pairs of static functions to compare, one a bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.dialects.named_extents import (
    BUCKET_OF,
    EXTENTS,
    LENGTHS,
    buckets_of,
    is_open,
    named_extents,
    said_extents,
)
from mugraph.passes.program.bucket_extents import buckets_of_extents
from mugraph.passes.program.named_extents import require_names, static_copy
from mugraph.runtime.equivalence.errors import CheckError
from mugraph.runtime.interpreter.run import find_function

Pair = tuple[str, ModuleOp, ModuleOp]
"""What is compared, in words, and two modules of one static function."""


def static_pairs(one: ModuleOp, other: ModuleOp) -> Iterator[Pair]:
    """Two modules at the largest values of each bucket; as they are where they have no names.

    The buckets are those that ``--bucket-extents`` has made in one of them, or would make.  Raises
    ``CheckError`` where the names of the two differ.
    """
    functions = [find_function(module, None) for module in (one, other)]
    if not any(EXTENTS in function.attributes for function in functions):
        yield "", one, other
        return
    names = [
        [extent.name for extent in said_extents(named_extents(function).values())]
        for function in functions
    ]
    if names[0] != names[1]:
        raise CheckError(
            f"@{functions[0].sym_name.data} has the named extents {names[0]}, but "
            f"@{functions[1].sym_name.data}, which it is compared with, {names[1]}."
        )
    sizes_of_one = _sizes(one, functions[0])
    sizes_of_other = _sizes(other, functions[1])
    for sizes in sizes_of_one if not is_open(functions[0]) else sizes_of_other:
        said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        first, second = (
            _module_at(module, function, sizes)
            for module, function in zip((one, other), functions, strict=True)
        )
        yield f" at {said}" if said else "", first, second


def _sizes(module: ModuleOp, function: FuncOp) -> list[dict[str, int]]:
    """The largest values of each bucket."""
    if is_open(function):
        found = buckets_of_extents(said_extents(require_names(function).values()))
    else:
        found = (tuple(named_extents(each).values()) for each in buckets_of(module, function))
    return [{extent.name: extent.largest for extent in ranges} for ranges in found]


def _module_at(module: ModuleOp, function: FuncOp, sizes: Mapping[str, int]) -> ModuleOp:
    """A module of one function, without names."""
    if is_open(function):
        static = static_copy(function, sizes)
    else:
        static = next(
            (
                bucket.clone()
                for bucket in buckets_of(module, function)
                if all(e.largest == sizes[n] for n, e in named_extents(bucket).items())
            ),
            None,
        )
    if static is None:
        raise CheckError(f"@{function.sym_name.data} has no bucket that ends at {dict(sizes)}.")
    for attribute in (EXTENTS, BUCKET_OF, LENGTHS):
        static.attributes.pop(attribute, None)
    others = (op.clone() for op in module.body.block.ops if not isinstance(op, FuncOp))
    return ModuleOp([*others, static])
