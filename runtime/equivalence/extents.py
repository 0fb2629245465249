"""Functions with named extents as pairs of static functions to compare, one a bucket."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp, TensorType, i32
from xdsl.dialects.func import FuncOp

from mugraph.dialects import kn
from mugraph.dialects.arguments import append_argument
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import (
    BUCKET_OF,
    EXTENTS,
    LENGTHS,
    NamedExtent,
    buckets_of,
    called_extents,
    is_open,
    named_extents,
)
from mugraph.dialects.sharding import device_program
from mugraph.passes.program.bucket_extents import buckets_of_extents
from mugraph.passes.program.expand_mesh import expand_program, keep_results
from mugraph.passes.program.named_extents import static_copy
from mugraph.runtime.equivalence.errors import CheckError
from mugraph.runtime.interpreter.run import find_function

Pair = tuple[str, ModuleOp, ModuleOp]
"""What is compared, in words, and two modules of one static function."""


def static_pairs(one: ModuleOp, other: ModuleOp) -> Iterator[Pair]:
    """Two modules of functions on one device, of static extents.

    Programs of several devices become what they compute together.  Where devices compute otherwise
    what they should agree on, the functions return it as often.
    """
    for at, first, second in _at_extents(one, other):
        (first, of_first), (second, of_second) = _expanded(first), _expanded(second)
        found = [counts for counts in (of_first, of_second) if counts is not None]
        if len({len(counts) for counts in found}) != 1:
            # Of one device each, or functions of other results, which are refused when compared.
            yield at, first, second
            continue
        most = [max(counts) for counts in zip(*found, strict=True)]
        first, second = _with_copies(first, of_first, most), _with_copies(second, of_second, most)
        several = [f"{n} of result {i}" for i, n in enumerate(most) if n > 1]
        said = f" with copies of results, {', '.join(several)}" if several else ""
        yield at + said, first, second


def _expanded(module: ModuleOp) -> tuple[ModuleOp, list[int] | None]:
    """A module of the function of whole tensors that a program of devices is, and its copies."""
    program = device_program(find_function(module, None))
    if program is None:
        return module, None
    whole, counts = expand_program(program)
    others = [op.clone() for op in module.body.block.ops if not isinstance(op, FuncOp)]
    return ModuleOp([*others, whole]), counts


def _with_copies(module: ModuleOp, counts: list[int] | None, most: list[int]) -> ModuleOp:
    """The module with each result as often as is wanted; the last copy again where it has fewer."""
    module = module.clone()
    function = find_function(module, None)
    own = counts or [1] * len(function.function_type.outputs.data)
    if len(own) == len(most):
        firsts = itertools.accumulate(own, initial=0)
        keep_results(
            function,
            [
                first + min(copy, n - 1)
                for first, n, wanted in zip(firsts, own, most, strict=False)
                for copy in range(wanted)
            ],
        )
    return module


def _at_extents(one: ModuleOp, other: ModuleOp) -> Iterator[Pair]:
    """Two modules at the largest values of each bucket; as they are where they have no names.

    The buckets are those that ``--bucket-extents`` has made in one of them, or would make.  Raises
    ``CheckError`` where the names of the two differ.
    """
    functions = [find_function(module, None) for module in (one, other)]
    if not any(EXTENTS in function.attributes for function in functions):
        yield "", one, other
        return
    names = [
        [extent.name for extent in called_extents(named_extents(function).values())]
        for function in functions
    ]
    if names[0] != names[1]:
        raise CheckError(
            f"@{functions[0].sym_name.data} has {_listed(names[0])}, but "
            f"@{functions[1].sym_name.data} has {_listed(names[1])}; functions are compared whose "
            "extents have the same names."
        )
    ranges_of_one = _ranges(one, functions[0])
    ranges_of_other = _ranges(other, functions[1])
    for ranges in ranges_of_one if not is_open(functions[0]) else ranges_of_other:
        sizes = {extent.name: extent.largest for extent in ranges}
        said = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        ending = [extent.name for extent in ranges if not extent.is_fixed]
        first, second = (
            _module_at(module, function, sizes, ending)
            for module, function in zip((one, other), functions, strict=True)
        )
        _give_numbers(first, second)
        yield f" at {said}" if said else "", first, second


def _listed(names: list[str]) -> str:
    return f"the named extents {', '.join(names)}" if names else "no named extent"


def _ranges(module: ModuleOp, function: FuncOp) -> list[tuple[NamedExtent, ...]]:
    """The values of each bucket."""
    if is_open(function):
        return list(buckets_of_extents(function))
    return [tuple(named_extents(each).values()) for each in buckets_of(module, function)]


def _give_numbers(*modules: ModuleOp) -> None:
    """Lets functions take the numbers that calls say as tensors, where one of them needs them."""
    functions = [find_function(module, None) for module in modules]
    made = [[op for op in f.body.block.ops if isinstance(op, kn.ExtentOp)] for f in functions]
    for name in dict.fromkeys(op.extent.data for ops in made for op in ops):
        for function, ops in zip(functions, made, strict=True):
            argument = append_argument(function, TensorType(i32, [1]))
            for op in ops:
                if op.extent.data == name:
                    op.result.replace_all_uses_with(argument)
                    Rewriter.erase_op(op)
            function.update_function_type()


def _module_at(
    module: ModuleOp, function: FuncOp, sizes: Mapping[str, int], ending: Sequence[str]
) -> ModuleOp:
    """A module of one function, without names, that holds for all values up to these sizes."""
    if is_open(function):
        static = static_copy(function, sizes, ending)
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
