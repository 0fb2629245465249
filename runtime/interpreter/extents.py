"""Calls of functions whose extents a call says, as calls of functions with static extents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from mugraph.dialects import kn
from mugraph.dialects.functions import given_names, got_names
from mugraph.dialects.kn.extent import give_numbers
from mugraph.dialects.named_extents import (
    ExtentError,
    Names,
    argument_names,
    buckets_of,
    ends_of_result,
    extents_in,
    function_lengths,
    held_extents,
    is_open,
    named_extents,
    sized,
    sizes_of_call,
)
from mugraph.passes.program.named_extents import names_of_returned, static_copy
from mugraph.runtime.interpreter.arithmetic import Array, is_whole
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.lengths import length_in


@dataclass(frozen=True)
class Call:
    """A static function, its arguments, and which part of its results is meant."""

    function: FuncOp
    inputs: Sequence[Array]
    extents: Sequence[tuple[int, ...]] = ()
    """Of each result as many elements are meant along each dimension; all of them without it."""
    is_empty: bool = False
    """Whether nothing is computed: an extent that a call says is 0."""

    def meant(self, results: Sequence[Array]) -> list[Array]:
        """What is meant of the function's results."""
        if not self.extents:
            return list(results)
        parts = (tuple(map(slice, shape)) for shape in self.extents)
        return [result[part] for result, part in zip(results, parts, strict=True)]


def static_call(module: ModuleOp, function: FuncOp, inputs: Sequence[Array]) -> Call:
    """A call of a function as one of a static function.

    Of one with open extents that is its copy at the inputs' extents; of one that
    ``--bucket-extents`` made, the first bucket that holds them, where tensors have room for more.
    Raises ``ExecutionError`` where the inputs do not fit.
    """
    extents = named_extents(function)
    if not extents:
        return Call(function, inputs, _ended(function, inputs))
    names = given_names(function)
    if len(inputs) != len(names):
        return Call(function, inputs)
    shapes = [np.shape(array) for array in inputs]
    named_results = names_of_returned(function) if is_open(function) else got_names(function)
    try:
        sizes = sizes_of_call(tuple(extents.values()), names, shapes, named_results)
    except ExtentError as error:
        raise ExecutionError(f"function @{function.sym_name.data}: {error}") from error
    held = held_extents(extents.values())
    is_empty = any(not size for name, size in sizes.items() if name not in held)
    if is_open(function):
        lengths = {
            name: length_in(
                function, np.asarray(inputs[extent.held or 0]), sizes.pop(name, extent.largest)
            )
            for name, extent in held.items()
        }
        returned = _shapes(function, named_results, {**sizes, **lengths})
        # An extent is at least 1; of 0 elements nothing is computed.
        static_sizes = {n: size or extents[n].multiple for n, size in sizes.items()}
        if 0 not in lengths.values():
            static_sizes |= lengths
            inputs = [_first(*pair, lengths) for pair in zip(inputs, names, strict=True)]
        else:
            rooms = static_sizes | {name: extent.largest for name, extent in held.items()}
            types = (argument.type for argument in function.args)
            pairs = zip(inputs, names, types, strict=True)
            inputs = [_with_room(array, sized(n, extents_in(t), rooms)) for array, n, t in pairs]
        copy = static_copy(function, static_sizes)
        read = {op.extent.data for op in copy.body.block.ops if isinstance(op, kn.ExtentOp)}
        give_numbers(copy, read)
        copy.update_function_type()
        numbers = [
            np.array(static_sizes[name])
            for argument in copy.args[len(inputs) :]
            for name in argument_names(copy, argument.index)
        ]
        return Call(copy, [*inputs, *numbers], returned, is_empty)
    returned = _shapes(function, named_results, sizes)
    bucket = next(
        bucket
        for bucket in buckets_of(module, function)
        if all(sizes[name] <= extent.largest for name, extent in named_extents(bucket).items())
    )
    if any(isinstance(op, kn.ExtentOp) and op.number is None for op in bucket.body.block.ops):
        bucket = bucket.clone()  # it has no argument for the number yet
        give_numbers(bucket, sizes)
        bucket.update_function_type()
    arguments: list[Array] = []
    for index, argument in enumerate(bucket.args):
        if isinstance(argument.type, IndexType):
            arguments.append(np.array(sizes[argument_names(bucket, index)[0]]))
        else:
            arguments.append(_with_room(np.asarray(inputs[index]), extents_in(argument.type)))
    ended = _ended(bucket, inputs) or returned
    pairs = (zip(*shapes, strict=True) for shapes in zip(returned, ended, strict=True))
    returned = [tuple(min(pair) for pair in own) for own in pairs]
    return Call(bucket, arguments, returned, is_empty)


def _first(array: Array, names: Names, lengths: Mapping[str, int]) -> Array:
    """The part of an input that is before the ends of its dimensions."""
    ends = (slice(lengths[name]) if name in lengths else slice(None) for name in names)
    return np.asarray(array)[tuple(ends)]


def _ended(function: FuncOp, inputs: Sequence[Array]) -> list[tuple[int, ...]]:
    """The extents of results that end at lengths, given the inputs; none where there are none."""
    held = function_lengths(function)
    if not held:
        return []
    lengths = {
        name: length_in(function, np.asarray(inputs[length.argument]), length.largest)
        for name, length in held.items()
    }
    types: Sequence[Attribute] = function.function_type.outputs.data
    return [
        sized(ends_of_result(function, index), extents_in(type_), lengths)
        for index, type_ in enumerate(types)
    ]


def _shapes(
    function: FuncOp, names: Sequence[Names], sizes: Mapping[str, int]
) -> list[tuple[int, ...]]:
    types: Sequence[Attribute] = function.function_type.outputs.data
    return [sized(own, extents_in(t), sizes) for own, t in zip(names, types, strict=True)]


def _with_room(array: Array, shape: Sequence[int]) -> Array:
    """An array as the beginning of a larger one, the rest of which is NaN, or 1 of integers."""
    if array.ndim != len(shape) or any(a > b for a, b in zip(array.shape, shape, strict=True)):
        return array  # its extents are refused where it is taken
    whole = np.full(tuple(shape), 1 if is_whole(array.dtype) else np.nan, array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    return whole
