"""Extents that are known when a program is called: dimensions ``?`` with names.

A function says what its names mean, and each argument which name a dimension has, ``""`` for none::

    func.func @f(%x: tensor<?x64xf16> {mugraph.extent = ["m", ""]}) -> ...
        attributes {mugraph.extents = {m = {largest = 8192, multiple = 1, buckets = [16, 512]}}}

The value of an extent may stand in device memory: ``{n = {largest = 4096, held = 3}}``, in argument
3, a tensor of one i32 or i64 (:mod:`mugraph.dialects.lengths`).  Tensors have room for the largest
value then, and their first n elements along the dimension count.  With ``buckets`` a call says a
bound of the value, by the extents of its tensors, whose strides are those of the largest value.

``{m = {largest = 8192, most_buckets = 5}}`` leaves the ends of buckets to ``--choose-buckets``.  Of
several extents that a call says ``mugraph.buckets = [[64, 8], [12, 512], [64, 512]]`` then lists
where each bucket ends along all; without it every end of one goes with every end of the others.

``--bucket-extents`` makes static functions of it, one a bucket.  Each is named after what it holds,
keeps ``mugraph.extent`` on arguments and results, and says from which value on it is taken:
``{m = {largest = 512, least = 17}}``.  That of the largest values has the function's own name, the
others say ``mugraph.bucket_of = "f"``.  Of extents that memory holds ``mugraph.lengths = {n = [3,
4096]}`` is left, and ``mugraph.ends`` of tensors that end there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.launch_extents import HeldLength
from mugraph.dialects.tensor_types import (
    LaidOutType,
    kept_with_attribute,
    op_label,
    value_label,
)

EXTENTS = "mugraph.extents"
"""The attribute of a function: what its names mean."""
EXTENT = "mugraph.extent"
"""The attribute of an argument or a result: the name of each dimension."""
BUCKETS = "mugraph.buckets"
"""The attribute of a function with open extents: where each bucket ends along those that a call
says.  A call takes the first that holds its values."""
BUCKET_OF = "mugraph.bucket_of"
"""The attribute of a bucket but for the largest: the function that it is a bucket of."""
LENGTHS = "mugraph.lengths"
"""The attribute of a static function: which argument holds a length, and its largest value."""
ENDS = "mugraph.ends"
"""The attribute of its arguments and results: the length that each dimension ends at."""
LARGEST_EXTENT = 2**31 - 1
"""Kernels count elements along a dimension in 32 bits."""
FIELDS = ("largest", "multiple", "least", "buckets", "most_buckets", "held")


@dataclass(frozen=True)
class NamedExtent:
    """What is known of an extent: its values are the multiples of ``multiple`` up to ``largest``.

    ``least`` is the smallest value that a bucket is taken for; 0 launches nothing in any case.
    ``held``: the argument, a tensor of one number, that holds the value when a kernel runs.
    """

    name: str
    largest: int
    multiple: int = 1
    buckets: tuple[int, ...] = ()
    least: int = 0
    held: int | None = None
    most_buckets: int = 0
    """Where an estimate chooses the ends of buckets: how many the function may have; else 0."""

    @property
    def is_fixed(self) -> bool:
        """Whether there is one value only."""
        return self.held is None and self.least > self.largest - self.multiple

    @property
    def is_bounded(self) -> bool:
        """Whether device memory holds the value, and a call says what it is at most."""
        said = self.buckets or self.least or self.most_buckets
        return self.held is not None and bool(said)

    @property
    def own_fault(self) -> str | None:
        """What is wrong with ``largest`` and ``multiple``; ``None`` where nothing is."""
        in_range = self.multiple >= 1 and 1 <= self.largest <= LARGEST_EXTENT
        if in_range and self.largest % self.multiple == 0:
            return None
        return (
            f"is at most {self.largest}, in multiples of {self.multiple}; give a multiple of it "
            f"from 1 to {LARGEST_EXTENT}"
        )

    def fault(self, value: int) -> str | None:
        """What is wrong with a value at a call; ``None`` where nothing is."""
        if not 0 <= value <= self.largest:
            return f"{self.name} is {value}; it may be 0 to {self.largest}"
        if value % self.multiple:
            return f"{self.name} is {value}, which is no multiple of {self.multiple}"
        return None

    def attribute(self) -> DictionaryAttr:
        """The entry of :data:`EXTENTS`."""
        fields: dict[str, Attribute] = {"largest": IntegerAttr(self.largest, i64)}
        if self.multiple != 1:
            fields["multiple"] = IntegerAttr(self.multiple, i64)
        if self.least:
            fields["least"] = IntegerAttr(self.least, i64)
        if self.held is not None:
            fields["held"] = IntegerAttr(self.held, i64)
        if self.most_buckets:
            fields["most_buckets"] = IntegerAttr(self.most_buckets, i64)
        if self.buckets:
            fields["buckets"] = ArrayAttr([IntegerAttr(each, i64) for each in self.buckets])
        return DictionaryAttr(fields)


def _number(attribute: Attribute | None, what: str, least: int) -> int:
    if not isinstance(attribute, IntegerAttr):
        raise VerifyException(f"{what}: expected an integer, not {attribute}")
    value = cast(IntegerAttr, attribute).value.data
    if not least <= value <= LARGEST_EXTENT:
        raise VerifyException(f"{what} is {value}; expected {least} to {LARGEST_EXTENT}")
    return value


def _named_extent(name: str, entry: Attribute, what: str) -> NamedExtent:
    if not name.isidentifier() or not isinstance(entry, DictionaryAttr):
        raise VerifyException(f"{what}: expected NAME = {{largest = NUMBER}}, not {name} = {entry}")
    fields = entry.data
    unknown = [field for field in fields if field not in FIELDS]
    if unknown or "largest" not in fields:
        wrong = f"there is no '{unknown[0]}'" if unknown else "'largest' is missing"
        raise VerifyException(f"{what} of '{name}': {wrong}; there are {', '.join(FIELDS)}")
    numbers = {
        field: _number(value, f"{what} of '{name}': {field}", field not in ("least", "held"))
        for field, value in fields.items()
        if field != "buckets"
    }
    listed = fields.get("buckets", ArrayAttr[Attribute]([]))
    if not isinstance(listed, ArrayAttr):
        raise VerifyException(f"{what} of '{name}': buckets are a list of integers, not {listed}")
    buckets = tuple(
        _number(each, f"{what} of '{name}': a bucket", 1)
        for each in cast(ArrayAttr[Attribute], listed)
    )
    found = NamedExtent(name, buckets=buckets, **numbers)
    for value in buckets:
        if (fault := found.fault(value)) is not None:
            raise VerifyException(f"{what} of '{name}': bucket {value} cannot be: {fault}")
    if found.largest % found.multiple:
        raise VerifyException(
            f"{what} of '{name}': largest {found.largest} is no multiple of {found.multiple}"
        )
    if found.buckets and found.most_buckets:
        raise VerifyException(
            f"{what} of '{name}': buckets say where ranges end, most_buckets that an estimate "
            "chooses it; leave one of them out"
        )
    if found.held is not None and found.multiple != 1:
        raise VerifyException(
            f"{what} of '{name}': argument {found.held} holds it, so that no call says it; leave "
            "out 'multiple'"
        )
    if found.held is not None and min(found.largest, *buckets, 2) == 1:
        raise VerifyException(
            f"{what} of '{name}': argument {found.held} holds whether there is one element or "
            "none; expected a largest value, and buckets, of at least 2: multiply by it, or mask "
            "what it makes"
        )
    return found


def held_extents(extents: Iterable[NamedExtent]) -> dict[str, NamedExtent]:
    """Those whose values device memory holds."""
    return {extent.name: extent for extent in extents if extent.held is not None}


def said_extents(extents: Iterable[NamedExtent]) -> tuple[NamedExtent, ...]:
    """Those whose values a call says."""
    return tuple(extent for extent in extents if extent.held is None)


def called_extents(extents: Iterable[NamedExtent]) -> tuple[NamedExtent, ...]:
    """Those of which a call says the value, or what the value in device memory is at most."""
    return tuple(extent for extent in extents if extent.held is None or extent.is_bounded)


def function_lengths(function: FuncOp) -> dict[str, HeldLength]:
    """The lengths at which results of a static function end."""
    attribute = function.attributes.get(LENGTHS)
    if not isinstance(attribute, DictionaryAttr):
        return {}
    return {
        name: HeldLength.of(cast(DenseArrayBase[IntegerType], entry))[0]
        for name, entry in attribute.data.items()
    }


def ends_of_argument(function: FuncOp, index: int) -> Names:
    """The length that each dimension of an argument ends at, ``""`` for none."""
    argument = function.body.block.args[index]
    what = f"argument {index} ({value_label(argument)}) of {op_label(function)}"
    return _names_of(_entry(function.arg_attrs, index, ENDS), argument.type, what)


def ends_of_result(function: FuncOp, index: int) -> Names:
    """The length that each dimension of a result ends at, ``""`` for none."""
    type_ = function.function_type.outputs.data[index]
    what = f"result {index} of {op_label(function)}"
    return _names_of(_entry(function.res_attrs, index, ENDS), type_, what)


def named_extents(function: FuncOp) -> dict[str, NamedExtent]:
    """The names of a function; none where it has none.

    Raises ``VerifyException`` where the attribute is malformed.
    """
    attribute = function.attributes.get(EXTENTS)
    if attribute is None:
        return {}
    what = f"{EXTENTS} of {op_label(function)}"
    if not isinstance(attribute, DictionaryAttr):
        raise VerifyException(f"{what}: expected {{NAME = {{largest = NUMBER}}}}, not {attribute}")
    return {name: _named_extent(name, entry, what) for name, entry in attribute.data.items()}


def set_named_extents(function: FuncOp, extents: Mapping[str, NamedExtent]) -> None:
    """Writes what the names of a function mean."""
    function.attributes[EXTENTS] = DictionaryAttr(
        {name: extent.attribute() for name, extent in extents.items()}
    )


def bucket_ends(function: FuncOp) -> list[tuple[int, ...]]:
    """Where the buckets of a function end along the extents that a call says, small ones first.

    Raises ``VerifyException`` where :data:`BUCKETS` is malformed.
    """
    extents = called_extents(named_extents(function).values())
    listed = function.attributes.get(BUCKETS)
    if listed is None:
        return list(itertools.product(*(sorted({*e.buckets, e.largest}) for e in extents)))
    what = f"{BUCKETS} of {op_label(function)}"
    largest = tuple(extent.largest for extent in extents)
    ends: list[tuple[int, ...]] = []
    for entry in cast(ArrayAttr[Attribute], listed) if isinstance(listed, ArrayAttr) else ():
        numbers = cast(ArrayAttr[Attribute], entry) if isinstance(entry, ArrayAttr) else ()
        ends.append(tuple(_number(each, f"{what}: an end", 1) for each in numbers))
        if len(ends[-1]) != len(extents):
            names = ", ".join(extent.name for extent in extents)
            raise VerifyException(f"{what}: {entry} is no end for each of {names}")
        for extent, end in zip(extents, ends[-1], strict=True):
            if (fault := extent.fault(end)) is not None:
                raise VerifyException(f"{what}: {entry} cannot be: {fault}")
        for before in ends[:-1]:
            if all(most >= end for most, end in zip(before, ends[-1], strict=True)):
                raise VerifyException(
                    f"{what}: no call takes {list(ends[-1])}, since {list(before)} before it holds "
                    "all of its values; leave it out, or write it first"
                )
    if not ends or ends[-1] != largest:
        raise VerifyException(
            f"{what}: the last bucket ends at {list(largest)}, the largest values"
        )
    return ends


Names = tuple[str, ...]
"""The name of each dimension of a tensor, ``""`` for those whose extent is in the type."""


def _names_of(attribute: Attribute | None, type_: Attribute, what: str) -> Names:
    if isinstance(type_, IndexType):
        return (attribute.data,) if isinstance(attribute, StringAttr) else ()
    rank = len(extents_in(type_))
    if attribute is None:
        return ("",) * rank
    names = (
        [
            each.data
            for each in cast(ArrayAttr[Attribute], attribute)
            if isinstance(each, StringAttr)
        ]
        if isinstance(attribute, ArrayAttr)
        else []
    )
    if len(names) != rank or not rank:
        raise VerifyException(
            f"{what}: {EXTENT} is {attribute}; expected a name for each of its {rank} dimensions, "
            '"" for those that have none'
        )
    return tuple(names)


def _entry(
    attributes: ArrayAttr[DictionaryAttr] | None, index: int, key: str = EXTENT
) -> Attribute | None:
    return None if attributes is None else attributes.data[index].data.get(key)


def argument_names(function: FuncOp, index: int) -> Names:
    """The names of the dimensions of an argument; of an ``index`` that of its value, if any."""
    argument = function.body.block.args[index]
    what = f"argument {index} ({value_label(argument)}) of {op_label(function)}"
    return _names_of(_entry(function.arg_attrs, index), argument.type, what)


def result_names(function: FuncOp, index: int) -> Names:
    """The names of the dimensions of a result."""
    type_ = function.function_type.outputs.data[index]
    what = f"result {index} of {op_label(function)}"
    return _names_of(_entry(function.res_attrs, index), type_, what)


def called_names(function: FuncOp, index: int) -> Names:
    """Of an argument's dimensions the names of those of which a call says something."""
    known, ends = named_extents(function), ends_of_argument(function, index)
    pairs = zip(argument_names(function, index), ends, strict=True)
    return tuple(name or (end if end in known else "") for name, end in pairs)


def with_names(
    attributes: ArrayAttr[DictionaryAttr] | None, names: Sequence[Names], key: str = EXTENT
) -> ArrayAttr[DictionaryAttr]:
    """The attributes of arguments or results with these names of their dimensions."""
    before = attributes.data if attributes else [DictionaryAttr({})] * len(names)
    entries: list[DictionaryAttr] = []
    for entry, of_one in zip(before, names, strict=True):
        data = {known: value for known, value in entry.data.items() if known != key}
        if any(of_one):
            data[key] = ArrayAttr([StringAttr(name) for name in of_one])
        entries.append(DictionaryAttr(data))
    return ArrayAttr(entries)


class ExtentError(ValueError):
    """The tensors of a call do not fit named extents; the message is a sentence."""


def needs_elements(name: str, results: Sequence[Names]) -> bool:
    """Whether an extent cannot be 0: where it is nothing is computed, and a result has elements."""
    return any(name not in of_one for of_one in results)


def sizes_of_call(
    extents: Sequence[NamedExtent],
    names: Sequence[Names],
    shapes: Sequence[Sequence[int]],
    results: Sequence[Names] = (),
) -> dict[str, int]:
    """The values of named extents, from the extents of a call's inputs.

    ``names`` are those of the inputs, and ``results`` of what the call gives.  Raises
    :class:`ExtentError` where two inputs disagree, or for a value that cannot be.
    """
    held, found = held_extents(extents), dict[str, tuple[int, str]]()
    for index, (of_one, shape) in enumerate(zip(names, shapes, strict=True)):
        for dim, (name, size) in enumerate(zip(of_one, shape, strict=False)):
            if not name:
                continue
            place = f"dimension {dim} of input {index}"
            if name in held and not held[name].is_bounded:
                if size != held[name].largest:
                    raise ExtentError(
                        f"{place} has {size} elements; it needs room for all "
                        f"{held[name].largest} that '{name}' may have"
                    )
                continue
            known, where = found.setdefault(name, (size, place))
            if known != size:
                raise ExtentError(
                    f"{place} has {size} elements and {where} has {known}; both are '{name}' and "
                    "must be equal"
                )
    called = called_extents(extents)
    for extent in called:
        if extent.name not in found:
            raise ExtentError(f"no input has '{extent.name}'; its value is not known")
        if (fault := extent.fault(found[extent.name][0])) is not None:
            raise ExtentError(f"{found[extent.name][1]}: {fault}")
        is_empty = found[extent.name][0] == 0 and extent.held is None
        if is_empty and needs_elements(extent.name, results):
            raise ExtentError(
                f"{found[extent.name][1]}: {extent.name} is 0; it is at least 1, as there is a "
                "result of which it is no dimension"
            )
    return {extent.name: found[extent.name][0] for extent in called}


def rooms_of_call(extents: Iterable[NamedExtent], sizes: Mapping[str, int]) -> dict[str, int]:
    """For how many elements along named dimensions tensors of a call have room.

    Those are the values of a call, and the largest ones where it says bounds.
    """
    return {
        extent.name: extent.largest if extent.is_bounded else sizes[extent.name]
        for extent in called_extents(extents)
    }


def sized(names: Names, shape: Sequence[int], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a tensor whose named dimensions have these values."""
    if not names:
        return tuple(shape)
    return tuple(sizes[name] if name else extent for name, extent in zip(names, shape, strict=True))


@kept_with_attribute
def extents_in(type_: Attribute) -> tuple[int, ...]:
    """The extents of a tensor or a buffer, -1 for those that are open; none of other types."""
    return type_.get_shape() if isinstance(type_, LaidOutType) else ()


@kept_with_attribute
def is_dynamic(type_: Attribute) -> bool:
    """Whether a tensor's type leaves an extent open."""
    return any(extent < 0 for extent in extents_in(type_))


def is_open(function: FuncOp) -> bool:
    """Whether extents of a function's tensors are known only when it is called."""
    types = function.function_type
    return any(map(is_dynamic, (*types.inputs.data, *types.outputs.data)))


def is_verified_when_static(op: Operation) -> bool:
    """Whether a static copy is verified of an operator on tensors with extents that are open."""
    function = enclosing(op, FuncOp)
    return function is not None and EXTENTS in function.attributes


def is_one_of_buckets(function: FuncOp) -> bool:
    """Whether a static function is one of several for the values that calls say."""
    is_listed = any(key in function.attributes for key in (BUCKET_OF, BUCKETS))
    known = named_extents(function).values()
    return is_listed or any(extent.least > extent.multiple for extent in known)


def is_smaller_bucket(function: FuncOp) -> bool:
    """Whether another function of the module is called, which may call this one."""
    return BUCKET_OF in function.attributes


def buckets_of(module: ModuleOp, function: FuncOp) -> list[FuncOp]:
    """The buckets of a function, small ones first; the function alone where it has none."""
    own = StringAttr(function.sym_name.data)
    found = [
        op
        for op in module.body.block.ops
        if isinstance(op, FuncOp) and op.attributes.get(BUCKET_OF) == own
    ]
    return [*found, function]
