"""Calls of functions whose extents a call says, as calls of functions with static extents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from mugraph.dialects.named_extents import (
    ExtentError,
    Names,
    argument_names,
    buckets_of,
    extents_in,
    is_open,
    named_extents,
    result_names,
    sized,
    sizes_of_call,
)
from mugraph.passes.program.named_extents import names_of_returned, static_copy
from mugraph.runtime.interpreter.arithmetic import Array, is_whole
from mugraph.runtime.interpreter.errors import ExecutionError


@dataclass(frozen=True)
class Call:
    """A static function, its arguments, and which part of its results is meant."""

    function: FuncOp
    inputs: Sequence[Array]
    extents: Sequence[tuple[int, ...]] = ()
    """Of each result as many elements are meant along each dimension; all of them without it."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is computed: a named extent is 0."""
        return any(math.prod(shape) == 0 for shape in self.extents)

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
        return Call(function, inputs)
    count = sum(not isinstance(argument.type, IndexType) for argument in function.args)
    if len(inputs) != count:
        return Call(function, inputs)
    names = [argument_names(function, index) for index in range(count)]
    shapes = [np.shape(array) for array in inputs]
    try:
        sizes = sizes_of_call(tuple(extents.values()), names, shapes)
    except ExtentError as error:
        raise ExecutionError(f"function @{function.sym_name.data}: {error}") from error
    if is_open(function):
        returned = _shapes(function, names_of_returned(function), sizes)
        # An extent is at least 1; of 0 elements nothing is computed.
        static = static_copy(
            function, {n: size or extents[n].multiple for n, size in sizes.items()}
        )
        return Call(static, inputs, returned)
    returned = _shapes(
        function,
        [result_names(function, i) for i in range(len(function.function_type.outputs.data))],
        sizes,
    )
    bucket = next(
        bucket
        for bucket in buckets_of(module, function)
        if all(sizes[name] <= extent.largest for name, extent in named_extents(bucket).items())
    )
    arguments: list[Array] = []
    for index, argument in enumerate(bucket.args):
        if isinstance(argument.type, IndexType):
            arguments.append(np.array(sizes[argument_names(bucket, index)[0]]))
        else:
            arguments.append(_with_room(np.asarray(inputs[index]), extents_in(argument.type)))
    return Call(bucket, arguments, returned)


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
