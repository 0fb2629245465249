"""Values that differ in one parameter differ: attributes, types and dataclasses of the package."""

import importlib
import inspect
import pkgutil
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute
from xdsl.parser import Parser

import mugraph
from mugraph.build.named_numbers import NamedNumber
from mugraph.build.tensors import Handle
from mugraph.cute.indices import Index, Part
from mugraph.cute.numbers import Number
from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.cute.basis import ScaledBasis
from mugraph.dialects.cute.f2 import LinearMap
from mugraph.reading import make_context
from mugraph.runtime.equivalence.indices import Variable, affine
from mugraph.runtime.equivalence.terms import Element, NormalForm, Term
from mugraph.torch.symbols import Symbol, _OfSymbols  # pyright: ignore[reportPrivateUsage]

NO_VALUES = (Handle, Index, Number)
"""``x == y`` of tensors is a tensor, and of indices and numbers of a kernel a condition."""


@cache
def package_classes() -> tuple[type, ...]:
    """Every class that is written in the package."""
    names = [each.name for each in pkgutil.walk_packages(mugraph.__path__, "mugraph.")]
    modules = [importlib.import_module(name) for name in names]
    return tuple(
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__ == module.__name__
    )


def parameters_of(cls: type) -> list[str]:
    """The names of what a value of the class is made of; those left out of ``==`` on purpose not.

    All that the class and its bases annotate counts, whether or not the decorator saw it.
    """
    if issubclass(cls, ParametrizedAttribute):
        return [name for name, _ in cls.get_irdl_definition().parameters]
    if issubclass(cls, Data):
        return ["data"]
    left_out = {field.name for field in fields(cls) if not field.compare}
    annotations = {
        name: str(type_)
        for base in reversed(cls.__mro__)
        for name, type_ in inspect.get_annotations(base).items()
    }
    return [
        name
        for name, type_ in annotations.items()
        if "ClassVar" not in type_ and name not in left_out
    ]


def compares_by_hand(cls: type) -> bool:
    """Whether ``==`` of a class is written in the package; decorators' functions have no file."""
    if cls in NO_VALUES:
        return False
    method = vars(cls).get("__eq__")
    return inspect.isfunction(method) and method.__code__.co_filename != "<string>"


def is_value_class(cls: type) -> bool:
    """Whether a decorator says what values of a class are equal."""
    if issubclass(cls, (Operation, *NO_VALUES)) or inspect.isabstract(cls) or compares_by_hand(cls):
        return False
    if issubclass(cls, ParametrizedAttribute):
        return "get_irdl_definition" in vars(cls)
    # Without one, each is equal to itself only.
    owner = next(base for base in cls.__mro__ if "__eq__" in vars(base))
    is_ours = owner.__module__.startswith("mugraph")
    return issubclass(cls, Data) or (is_dataclass(cls) and is_ours)


def value_of(cls: type, parameters: dict[str, object]) -> Any:
    """A value with these parameters, whatever their types should be."""
    value = object.__new__(cls)
    for name, parameter in parameters.items():
        object.__setattr__(value, name, parameter)
    return value


def equal_in_spite_of(cls: type) -> list[str]:
    """The parameters that values can differ in and be equal."""
    parameters = {name: object() for name in parameters_of(cls)}
    value = value_of(cls, parameters)
    assert value == value_of(cls, parameters)
    return [name for name in parameters if value == value_of(cls, {**parameters, name: object()})]


def test_values_that_differ_in_one_parameter_differ() -> None:
    classes = [cls for cls in package_classes() if is_value_class(cls)]
    assert len(classes) > 300
    faults = {cls.__name__: names for cls in classes if (names := equal_in_spite_of(cls))}
    assert faults == {}


def test_the_sweep_finds_what_the_decorators_miss() -> None:
    class Base:
        extents: int

    @dataclass(frozen=True)
    class Decorated(Base):
        kept: int

    class Undecorated(Decorated):
        added: int

    assert equal_in_spite_of(Decorated) == ["extents"]
    assert equal_in_spite_of(Undecorated) == ["extents", "added"]


INDEX = affine(Variable(0, 0, 4))
NORMAL = NormalForm(
    (Term(Fraction(1), (Variable(1, 0, 4),), ((Element(0, (INDEX,)), Fraction(1)),)),)
)


def with_term(**changes: Any) -> NormalForm:
    return NormalForm((replace(NORMAL.terms[0], **changes),))


# Of each class that compares by hand: values that all differ.
DIFFERENT: dict[type, tuple[Any, ...]] = {
    ScaledBasis: (ScaledBasis(2, (0,)), ScaledBasis(3, (0,)), ScaledBasis(2, (1,))),
    LinearMap: (LinearMap((1, 2), 3), LinearMap((2, 1), 3), LinearMap((1, 2), 2)),
    Layout: (Layout((4, 8), (8, 1)), Layout((4, 8), (1, 4)), Layout((8, 4), (8, 1))),
    Swizzle: (Swizzle(3, 3, 3), Swizzle(2, 3, 3), Swizzle(3, 4, 3), Swizzle(3, 3, 4)),
    ComposedLayout: (
        ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))),
        ComposedLayout(Swizzle(2, 3, 3), 0, Layout((8, 64), (64, 1))),
        ComposedLayout(Swizzle(3, 3, 3), 8, Layout((8, 64), (64, 1))),
        ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (1, 8))),
    ),
    NamedNumber: tuple(NamedNumber({(prime,): 1}, {}) for prime in (5, 7)),
    _OfSymbols: tuple(_OfSymbols({(prime,): 1}, {}) for prime in (5, 7)),
    Symbol: (Symbol("m", largest=8), Symbol("n", largest=8)),
    Part: (
        Part(Index(0, ()), 4, True),
        Part(Index(1, ()), 4, True),
        Part(Index(0, ()), 8, True),
        Part(Index(0, ()), 4, False),
    ),
    NormalForm: (
        NORMAL,
        NormalForm(),
        NormalForm((*NORMAL.terms, *NORMAL.terms)),
        with_term(coefficient=Fraction(2)),
        with_term(bound=(Variable(1, 0, 8),)),
        with_term(factors=((Element(1, (INDEX,)), Fraction(1)),)),
        with_term(factors=((Element(0, (INDEX.scaled(2),)), Fraction(1)),)),
        with_term(factors=((Element(0, (INDEX,)), Fraction(2)),)),
    ),
}


def test_every_comparison_by_hand_has_values_that_differ() -> None:
    assert {cls for cls in package_classes() if compares_by_hand(cls)} == set(DIFFERENT)


def test_symbols_that_the_same_number_stands_in_for_differ() -> None:
    one, other = Symbol("m", largest=8), Symbol("n", largest=8)
    apart = other.stand_in - one.stand_in
    assert (one + apart).stand_in == other.stand_in
    assert one + apart != other and other != one + apart
    assert one + apart - apart == one == one.stand_in


@pytest.mark.parametrize("cls", DIFFERENT)
def test_values_of_comparisons_by_hand_differ(cls: type) -> None:
    assert all(isinstance(value, cls) for value in DIFFERENT[cls])
    assert len(set(DIFFERENT[cls])) == len(DIFFERENT[cls])


ADDRESSED = (
    "<16x128xf16, (16,128):(128,1)>",
    "<16x128xbf16, (16,128):(128,1)>",
    "<16x64xf16, (16,64):(128,1)>",
    "<16x128xf16, (16,128):(1,16)>",
)
MMA = "#cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (2,2,1)>"
FRAGMENTS = (
    f"<64x64xf32, {MMA}>",
    f"<64x64xf16, {MMA}>",
    f"<64x128xf32, {MMA}>",
    f"<64x64xf32, {MMA.replace('2,2,1', '4,1,1')}>",
    "<64x64xf32, #sched.linear<128, vector 4, order [1, 0]>>",
    "<64x64xf32, #sched.linear<128, vector 2, order [1, 0]>>",
)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("sched.global", ADDRESSED),
        ("sched.shared", ADDRESSED),
        ("sched.tmem", ADDRESSED),
        ("sched.tile", FRAGMENTS),
    ],
)
def test_types_of_the_schedule_that_are_written_differently_differ(
    name: str, parameters: tuple[str, ...]
) -> None:
    def parse() -> list[Attribute]:
        return [Parser(make_context(), f"!{name}{each}").parse_type() for each in parameters]

    assert parse() == parse()
    assert len(set(parse())) == len(parameters)
