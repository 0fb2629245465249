"""Which dimensions of a program have names, and the program at given values of them.

A copy of the program is made in which each name is a prime that is larger than all other extents
together.  Operators verify their own extents, so that of the names that an open dimension could
have one is left; and no extent has such a prime as a factor but those that come from the name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException, VerifyException

from mugraph.dialects import kn
from mugraph.dialects.device_cuts import device_cuts
from mugraph.dialects.interfaces import HasTileIndices, IndexKind
from mugraph.dialects.lengths import length_fault, numbers_attribute
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import (
    EXTENT,
    EXTENTS,
    NamedExtent,
    Names,
    argument_names,
    extents_in,
    held_extents,
    is_dynamic,
    is_open,
    named_extents,
    sized,
)
from mugraph.dialects.tensor_types import layout_of, op_label, value_label
from mugraph.passes.program.decompose_program import decompose_program
from mugraph.passes.program.mask_behind_ends import identity_of, mask_behind_ends


class NamedExtentError(PassFailedException):
    """A program whose named extents cannot be; the message is a sentence."""


def at_sizes(type_: Attribute, names: Names, sizes: Mapping[str, int]) -> Attribute:
    """The type of a tensor whose named dimensions have these extents."""
    if not is_dynamic(type_):
        return type_
    tensor = cast(TensorType[Attribute], type_)
    return TensorType(tensor.element_type, sized(names, tensor.get_shape(), sizes), tensor.encoding)


def require_names(function: FuncOp) -> dict[str, NamedExtent]:
    """The names of a function with open extents; raises where an argument does not fit them."""
    try:
        known = named_extents(function)
        of_arguments = [argument_names(function, i) for i in range(len(function.args))]
    except VerifyException as error:
        raise NamedExtentError(str(error)) from error
    for extent in held_extents(known.values()).values():
        _require_holder(function, extent)
    for argument, names in zip(function.args, of_arguments, strict=True):
        label = value_label(argument)
        named = f" ({label})" if label.startswith("%") else ""
        what = f"argument {argument.index}{named} of {op_label(function)}"
        if is_dynamic(argument.type) and layout_of(argument.type) is not None:
            raise NamedExtentError(
                f"{what} has a named extent and a layout; leave the layout out: it is row-major"
            )
        extents = extents_in(argument.type)
        for dim, (extent, name) in enumerate(zip(extents, names, strict=True)):
            if extent < 0 and name not in known:
                fault = f"the name '{name}', which has no entry in {EXTENTS}" if name else "no name"
                raise NamedExtentError(
                    f"dimension {dim} of {what} is '?' and has {fault}; write its name in "
                    f"{EXTENT}, and {EXTENTS} = {{NAME = {{largest = NUMBER}}}} on the function"
                )
            if extent >= 0 and name:
                raise NamedExtentError(
                    f"dimension {dim} of {what} is called '{name}' and has the extent {extent}; "
                    "write '?' in its type"
                )
            if name and known[name].held is None and math.prod(extents[:dim]) != 1:
                raise NamedExtentError(
                    f"dimension {dim} of {what} is called '{name}', but dimensions before it have "
                    "more than one element: its strides would change with the extent; put the "
                    "named dimension first"
                )
    return known


def _require_holder(function: FuncOp, extent: NamedExtent) -> None:
    """Raises unless an argument holds the value of an extent."""
    number, what = extent.held, f"{EXTENTS} of {op_label(function)}: '{extent.name}'"
    assert number is not None  # as asked by callers
    if number >= len(function.args):
        raise NamedExtentError(
            f"{what} is held by argument {number}, and there are {len(function.args)} arguments"
        )
    type_ = function.args[number].type
    fault = "has a named extent itself" if is_dynamic(type_) else length_fault(type_)
    if fault is not None:
        argument = f"argument {number} ({value_label(function.args[number])})"
        raise NamedExtentError(f"{what} is held by {argument}, which {fault}")


def primes_above(number: int) -> Iterator[int]:
    """The primes that are larger than a number, in order."""
    for candidate in itertools.count(number + 1):
        if all(candidate % factor for factor in range(2, math.isqrt(candidate) + 1)):
            yield candidate


def probes_of(function: FuncOp, names: Sequence[str]) -> dict[str, int]:
    """A prime for each name, none of which other extents of the function can make up."""
    types: list[Attribute] = [argument.type for argument in function.args]
    types += [type_ for op in function.walk() for type_ in op.result_types]
    shapes = {extents_in(type_) for type_ in types}
    total = sum(extent for shape in shapes for extent in shape if extent > 0)
    return dict(zip(names, primes_above(total), strict=False))


def at_probes(function: FuncOp) -> tuple[FuncOp, dict[str, int]]:
    """A static copy in which each name is a prime, and these primes.

    Raises :class:`NamedExtentError` where tensors disagree about a name.
    """
    probes = probes_of(function, [*require_names(function)])
    copy = function.clone()
    for index, argument in enumerate(copy.args):
        type_ = at_sizes(argument.type, argument_names(function, index), probes)
        Rewriter.replace_value_with_new_type(argument, type_)
    for op in copy.body.block.ops:
        if isinstance(op, ReturnOp):
            copy.function_type = FunctionType.from_lists(
                [argument.type for argument in copy.args], [value.type for value in op.operands]
            )
        else:
            _close(op, probes)
    return copy, probes


def _close(op: Operation, probes: Mapping[str, int]) -> None:
    """Gives the results of an operator the only extents with which it verifies."""
    types = op.result_types
    opened = [
        (number, dim)
        for number, type_ in enumerate(types)
        for dim, extent in enumerate(extents_in(type_))
        if extent < 0
    ]
    fitting: dict[tuple[str, ...], Sequence[Attribute]] = {}
    errors: list[str] = []
    for names in itertools.product(probes, repeat=len(opened)):
        chosen = dict(zip(opened, names, strict=True))
        for number, type_ in enumerate(types):
            own = tuple(chosen.get((number, dim), "") for dim in range(len(extents_in(type_))))
            Rewriter.replace_value_with_new_type(op.results[number], at_sizes(type_, own, probes))
        try:
            op.verify_()
            fitting[names] = op.result_types
        except VerifyException as error:
            errors.append(str(error))
    if not fitting:
        raise NamedExtentError(_in_names(errors[0], probes))
    if len(fitting) > 1:
        number, dim = opened[0]
        raise NamedExtentError(
            f"{op_label(op)}: dimension {dim} of {value_label(op.results[number])} could be "
            f"{' or '.join(dict.fromkeys(names[0] for names in fitting))}; operands must show it"
        )
    (kept,) = fitting.values()
    for result, type_ in zip(op.results, kept, strict=True):
        Rewriter.replace_value_with_new_type(result, type_)


def _in_names(text: str, probes: Mapping[str, int]) -> str:
    for name, probe in probes.items():
        text = text.replace(str(probe), name)
    return text


def names_in(type_: Attribute, probes: Mapping[str, int]) -> Names:
    """Which names the dimensions of a type at the probes have."""
    of_probe = {probe: name for name, probe in probes.items()}
    return tuple(of_probe.get(extent, "") for extent in extents_in(type_))


def require_parallel(copy: FuncOp, probes: Mapping[str, int], rows: Container[str] = ()) -> None:
    """Raises where an operator of a copy at the probes combines elements along a named dimension.

    What masks keep out behind an end may be combined, but nothing along dimensions whose names are
    ``rows``: no operator may see where an element stands among these.  The copy's composite
    operators are taken apart on the way.
    """
    for op in tuple(copy.body.block.ops):
        if isinstance(op, kn.SoftmaxOp):
            name = names_in(op.input.type, probes)[op.reduced_dim]
            if name and name not in rows:
                # What lies behind the end is masked in front of it, and 0 behind it.
                Rewriter.replace_op(op, kn.CastOp(op.input, op.result.type))
    # Only these are masked: what a mean is made of would count elements behind the end.
    written = set(copy.body.block.ops)
    decompose_program(copy, kernels=True, views=False)
    for op in copy.body.block.ops:
        for value in (*op.operands, *op.results):
            _require_alone(op, value, probes)
        if isinstance(op, (ReturnOp, kn.RegroupOp)):
            continue
        if not isinstance(op, HasTileIndices):
            _require_cuts(op, probes)
        for index in op.tile_indices() if isinstance(op, HasTileIndices) else ():
            for value, dim in zip(op.operands, index.operands, strict=True):
                name = "" if dim is None else names_in(value.type, probes)[dim]
                is_masked = op in written and identity_of(op) is not None and name not in rows
                if isinstance(op, kn.MaskOp) and name in rows:
                    is_parallel = dim is None or not op.depends_on(dim)
                else:
                    is_parallel = index.kind is IndexKind.PARALLEL
                if name and not is_parallel and not is_masked:
                    raise NamedExtentError(
                        f"{op_label(op)} combines elements along dimension {dim} of "
                        f"{value_label(value)}, whose extent '{name}' is known only at a call: not "
                        "yet, but in sums, maxima, products and softmaxes (no mean, norm, "
                        "log_sum_exp or scan); write its extent in its type"
                    )


def _require_cuts(op: Operation, probes: Mapping[str, int]) -> None:
    """Raises unless an operator computes each place along named dimensions by itself.

    Then it does not matter what stands behind the end, and is computed of it.
    """
    values = [*op.operands, *op.results]
    names = [names_in(value.type, probes) for value in values]
    cuts = [(*cut.operands, *cut.results) for cut in device_cuts(op)]
    apart = [
        cut
        for cut in cuts
        if len({own[dim] for own, dim in zip(names, cut, strict=True) if dim is not None}) == 1
    ]
    for number, (value, own) in enumerate(zip(values, names, strict=True)):
        for dim, name in enumerate(own):
            if name and not any(cut[number] == dim for cut in apart):
                raise NamedExtentError(
                    f"{op_label(op)} does not take {value_label(value)}, whose extent '{name}' "
                    f"along dimension {dim} is known only at a call: not yet; write its extent in "
                    "its type"
                )


def _require_alone(op: Operation, value: SSAValue, probes: Mapping[str, int]) -> None:
    """Raises where a dimension is a named one together with others."""
    for dim, extent in enumerate(extents_in(value.type)):
        for name, probe in probes.items():
            if extent % probe == 0 and extent != probe:
                raise NamedExtentError(
                    f"{op_label(op)}: dimension {dim} of {value_label(value)} would be '{name}' "
                    f"times {extent // probe}; keep '{name}' a dimension of its own"
                )


def names_of_values(function: FuncOp) -> dict[SSAValue, Names]:
    """The names of the dimensions of every tensor of a function with open extents.

    Raises :class:`NamedExtentError` where they do not fit, or where an operator does not take them.
    """
    copy, probes = at_probes(function)
    pairs = zip(_tensors_of(function), _tensors_of(copy), strict=True)
    found = {value: names_in(other.type, probes) for value, other in pairs}
    held = held_extents(named_extents(function).values())
    end = function.body.block.last_op
    for index, value in enumerate(end.operands if isinstance(end, ReturnOp) else ()):
        if bounded := [name for name in found[value] if name in held and held[name].is_bounded]:
            raise NamedExtentError(
                f"result {index} of {op_label(function)} has the dimension '{bounded[0]}', whose "
                "value device memory holds: a call cannot say what it is at most; leave out "
                "'buckets'"
            )
        said = [dim for dim, name in enumerate(found[value]) if name and name not in held]
        if said and math.prod(extents_in(value.type)[: said[-1]]) != 1:
            raise NamedExtentError(
                f"result {index} of {op_label(function)} has the named extents "
                f"{[name for name in found[value] if name]}; only its first dimension may have one"
                ", but for those of one element"
            )
    require_parallel(copy, probes)
    return found


def _tensors_of(function: FuncOp) -> list[SSAValue]:
    """The arguments, and all that operators compute."""
    results = (result for op in function.body.block.ops for result in op.results)
    return [*function.args, *results]


def names_of_returned(function: FuncOp) -> list[Names]:
    """The names of the dimensions of each result of a function with open extents."""
    found, end = names_of_values(function), function.body.block.last_op
    return [found[value] for value in end.operands] if isinstance(end, ReturnOp) else []


def static_copy(function: FuncOp, sizes: Mapping[str, int], ending: Sequence[str] = ()) -> FuncOp:
    """The function at given values of its names; itself where it has no open extents.

    Of an extent whose value device memory holds, tensors have room for the largest value if none is
    given, and masks keep what is behind the value out of sums.  So they do of the names that are
    ``ending``: a call says a value of them, up to that of ``sizes``.

    Raises :class:`NamedExtentError` as :func:`names_of_values`, and for a value that cannot be.
    """
    if not is_open(function):
        return function
    known = require_names(function)
    held = held_extents(extent for name, extent in known.items() if name not in sizes)
    sizes = {**sizes, **{name: extent.largest for name, extent in held.items()}}
    for name, extent in known.items():
        if name not in sizes:
            raise NamedExtentError(f"{op_label(function)} needs a value of '{name}'")
        if (fault := extent.fault(sizes[name])) is not None:
            raise NamedExtentError(f"{op_label(function)}: {fault}")
    names = names_of_values(function)
    mapper: dict[SSAValue, SSAValue] = {}
    copy = function.clone(value_mapper=mapper)
    for value, of_dims in names.items():
        type_ = at_sizes(value.type, of_dims, sizes)
        Rewriter.replace_value_with_new_type(mapper[value], type_)
    pairs = zip(_tensors_of(copy), names.values(), strict=True)
    masked = held | {name: replace(known[name], largest=sizes[name]) for name in ending}
    mask_behind_ends(copy, dict(pairs), masked, _holders(copy))
    held_by = ((copy.args[e.held], e) for e in masked.values() if e.held is not None)
    most: dict[SSAValue, int] = {holder: extent.largest for holder, extent in held_by}
    for op in copy.body.block.ops:
        if isinstance(op, kn.MaskOp) and not most.keys().isdisjoint(op.lengths):
            numbers = zip(op.lengths, op.largest, strict=True)
            op.up_to = numbers_attribute([min(n, most.get(value, n)) for value, n in numbers])
    copy.update_function_type()
    return copy


def _holders(function: FuncOp) -> Callable[[NamedExtent], SSAValue]:
    """What gives the tensor of one number that has the value of an extent.

    That is an argument, or what a kernel makes of the number that a call says.
    """
    made: dict[str, SSAValue] = {}

    def holder_of(extent: NamedExtent) -> SSAValue:
        if extent.held is not None:
            return function.args[extent.held]
        if extent.name not in made:
            op = kn.ExtentOp(extent.name)
            op.result.name_hint = extent.name
            Rewriter.insert_op(op, InsertPoint.at_start(function.body.block))
            made[extent.name] = op.result
        return made[extent.name]

    return holder_of


__all__ = ["NamedExtentError", "is_open", "names_of_returned", "names_of_values", "static_copy"]
