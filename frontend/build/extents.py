"""Extents that are known when a kernel is called: ``mi.Extent("m", largest=8192)``.

While a graph is built, a prime that no other extent is likely to have as a factor stands in for the
extent, so that operators see numbers; in the module it is ``?``.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Self, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from mugraph.build.errors import BuildError, in_names, require_integers
from mugraph.build.named_numbers import SMALL, NamedNumber, Values
from mugraph.build.tensors import DTensor
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import (
    NamedExtent,
    Names,
    extents_in,
    set_named_extents,
    with_names,
)
from mugraph.dialects.tensor_types import STAND_INS, value_label
from mugraph.passes.program.named_extents import (
    NamedExtentError,
    names_of_values,
    primes_above,
    require_parallel,
)

APART = 2**12
"""About how far primes that stand in are apart, so that ``n + 14`` is no other extent's."""


def _stand_ins() -> Iterator[int]:
    """Primes that stand in for extents, from 2^24 down to factors that are called small."""
    for number in range(2**24 - APART, SMALL, -APART):
        yield next(primes_above(number))


def _stand_in_for(name: str) -> int:
    """The prime of an extent with this name; threads that ask at once get the same one."""
    with _NAMING:
        prime = next((number for number, known in STAND_INS.items() if known == name), None)
        if prime is None:
            prime = next(_PRIMES, None)
            if prime is None:
                raise BuildError(
                    f"Extent '{name}': this process has named {len(STAND_INS)} extents, as many as "
                    "it can; use names again in other graphs"
                )
            STAND_INS[prime] = name
        return prime


_PRIMES = _stand_ins()
_NAMING = Lock()
COMPUTED = 5
"""What is more than such a part of an extent's prime may be computed from it."""


class Extent(NamedNumber):
    """A dimension whose extent is known when the kernel is called.

    Its values are the multiples of ``multiple`` up to ``largest``.  A kernel is compiled for the
    largest value of each of the ranges that end at ``buckets`` and at ``largest``.  A number there,
    as in ``buckets=5``, lets an estimate choose where at most so many ranges end.

    With ``held``, an input of one int32 or int64, the value stands there when the kernel runs, and
    no call says it.  Tensors have room for the largest value.
    """

    named: NamedExtent
    least = 0
    """The smallest value of a call."""

    def __new__(
        cls,
        name: str,
        *,
        largest: int,
        multiple: int = 1,
        buckets: Sequence[int] | int = (),
        held: DTensor | None = None,
    ) -> Self:
        """``name`` is that of the C interface's argument, and the same for all tensors."""
        if not (isinstance(name, str) and name.isidentifier()):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BuildError(f"{name!r} cannot name an extent; use letters, digits and '_'")
        require_integers(f"Extent '{name}': largest and multiple", [largest, multiple])
        most = buckets if isinstance(buckets, int) else 0
        ends = () if isinstance(buckets, int) else tuple(buckets)
        require_integers(f"Extent '{name}': buckets", ends)
        if isinstance(buckets, int) and most < 1:
            raise BuildError(f"Extent '{name}': an estimate chooses at least 1 bucket, not {most}")
        if min(largest, multiple, *ends) < 1:
            raise BuildError(f"Extent '{name}': largest, multiple and buckets are at least 1")
        found = NamedExtent(name, largest, multiple)
        for value in (largest, *ends):
            if (fault := found.fault(value)) is not None:
                raise BuildError(f"Extent '{name}': largest or a bucket cannot be: {fault}")
        if (fault := found.own_fault) is not None:
            raise BuildError(f"Extent '{name}' {fault}")
        prime = _stand_in_for(name)
        holder = None if held is None else held.value
        if holder is not None and not isinstance(holder, BlockArgument):
            raise BuildError(f"Extent: '{name}' is held by {held!r}, which is no input of a graph")
        index = None if holder is None else holder.index
        values = Values(cls.least, largest, multiple)
        extent = super().__new__(cls, {(prime,): 1}, {prime: values})
        extent.named = NamedExtent(name, largest, multiple, ends, held=index, most_buckets=most)
        return extent

    @property
    def in_shape(self) -> NamedNumber:
        """What it is as an extent of a tensor."""
        return NamedNumber(self.terms, self.known)

    def __repr__(self) -> str:
        return f"Extent({self.named.name!r}, largest={self.named.largest})"


def note_extents(known: dict[str, Extent], dims: Iterable[object]) -> None:
    """Adds the named extents among a tensor's; raises where one name has two meanings.

    Raises, too, for what is computed of them.
    """
    for number in (each for each in dims if isinstance(each, NamedNumber)):
        if not number.is_extent:
            raise BuildError(
                f"new_input: an extent would be '{number.text}', which is computed of what only a "
                "call says: not yet; give it a mi.Extent of its own"
            )
    for extent in (each for each in dims if isinstance(each, Extent)):
        other = known.setdefault(extent.named.name, extent)
        if other.named != extent.named:
            raise BuildError(
                f"new_input: '{extent.named.name}' is another {extent!r} than the one of a "
                "tensor before; use one mi.Extent for all tensors"
            )


def open_extents(function: FuncOp, known: Mapping[str, Extent]) -> None:
    """Lets extents for which a prime stands be ``?``, with names on the function's arguments.

    Raises :class:`BuildError` where an operator does not take a named extent.
    """
    values: list[SSAValue] = [*function.args]
    values += [result for op in function.body.block.ops for result in op.results]
    of_arguments = [_names(argument.type, known) for argument in function.args]
    for value in values:
        for extent in extents_in(value.type):
            _require_alone(extent, value, known)
            _require_not_computed(extent, value, known)
    for value in values:
        if any(_names(value.type, known)):
            Rewriter.replace_value_with_new_type(value, _opened(value.type, known))
    function.arg_attrs = with_names(function.arg_attrs, of_arguments)
    function.update_function_type()
    set_named_extents(function, {name: extent.named for name, extent in known.items()})
    try:
        names_of_values(function)
    except NamedExtentError as error:
        raise BuildError(in_names(str(error))) from None


def require_parallel_extents(
    function: FuncOp, known: Mapping[str, Extent], rows: Container[str]
) -> None:
    """Raises :class:`BuildError` where operators do not take dimensions for which primes stand."""
    try:
        require_parallel(function, {name: extent.stand_in for name, extent in known.items()}, rows)
    except NamedExtentError as error:
        raise BuildError(str(error)) from None


def _names(type_: Attribute, known: Mapping[str, Extent]) -> Names:
    primes = {extent.stand_in: name for name, extent in known.items()}
    return tuple(primes.get(extent, "") for extent in extents_in(type_))


def _require_alone(extent: int, value: SSAValue, known: Mapping[str, Extent]) -> None:
    for name, prime in ((name, each.stand_in) for name, each in known.items()):
        if extent % prime == 0 and extent != prime:
            raise BuildError(
                f"a dimension of {value_label(value)} would be '{name}' times "
                f"{in_names(str(extent // prime))}; "
                f"keep '{name}' a dimension of its own"
            )


def _require_not_computed(extent: int, value: SSAValue, known: Mapping[str, Extent]) -> None:
    """Raises where an operator makes an extent of one that only a call says, such as m + 3."""
    of_operands: set[int] = set()
    if isinstance(value.owner, Operation):
        of_operands.update(*(extents_in(operand.type) for operand in value.owner.operands))
    primes = {name: each.stand_in for name, each in known.items() if each.stand_in in of_operands}
    written = math.prod(of_operands - {*primes.values()})
    for name, prime in primes.items():
        is_merged = not written % extent
        named = any(extent % each.stand_in == 0 for each in known.values())
        is_known = extent in of_operands or named
        if not is_known and not is_merged and extent * COMPUTED > prime:
            raise BuildError(
                f"a dimension of {value_label(value)} would have a number of elements that is "
                f"computed from '{name}', which is known only at a call: not yet; keep '{name}' a "
                "dimension of its own, and whole"
            )


def _opened(type_: Attribute, known: Mapping[str, Extent]) -> Attribute:
    tensor = cast(TensorType[Attribute], type_)
    pairs = zip(tensor.get_shape(), _names(type_, known), strict=True)
    shape = [DYNAMIC_INDEX if name else extent for extent, name in pairs]
    return TensorType(tensor.element_type, shape, tensor.encoding)
