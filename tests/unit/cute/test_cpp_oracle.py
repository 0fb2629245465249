"""Every operation against NVIDIA's own CuTe headers: the oracle that counts.

The number of random expressions of every operation is MUGRAPH_CUTE_EXPRESSIONS (default 4, so
that the compiler needs ten seconds; 300 takes a quarter of an hour).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from cpp_oracle import Answer, cpp, cpp_tuple, evaluate, include_directories
from sampling import (
    POWERS,
    plain_extents_of_one,
    random_layout,
    random_shape,
    random_swizzled,
)
from thorough import THOROUGH, inputs

from mugraph.dialects import cute
from mugraph.dialects.cute import ComposedLayout, Layout, LayoutError, recast
from mugraph.dialects.cute.atoms import COPY_ATOMS, MMA_ATOMS, copy_atom, mma_atom
from mugraph.dialects.cute.int_tuple import flatten, product_each, size, unflatten
from mugraph.dialects.cute.notation import parse_layout
from mugraph.dialects.cute.tensor import make_fragment_layout
from mugraph.dialects.cute.tiled import TiledMma, make_tiled_copy, make_tiled_copy_for

COUNT = int(os.environ.get("MUGRAPH_CUTE_EXPRESSIONS", inputs(2, 4)))

Case = tuple[str, Any]
"""A C++ expression and what this library makes of it."""


def _divisor_layout(rng: random.Random, of: int, most: int = 64) -> Layout[int]:
    """A tiler for a domain of ``of`` coordinates: one or two modes of divisors."""
    first = rng.choice([d for d in range(1, min(of, most) + 1) if of % d == 0])
    step = rng.choice([d for d in range(1, of // first + 1) if (of // first) % d == 0])
    return Layout(first, step if first > 1 else 0)


def _plain(operation: str, *more: str) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        layout = random_layout(rng)
        return f"{operation}({cpp(layout)})", _named(operation)(layout)

    return make


def _named(operation: str) -> Any:
    names = {
        "filter": cute.filter_layout,
        "max_alignment": recast.max_alignment,
        "make_fragment_like": make_fragment_layout,
    }
    return names.get(operation) or getattr(cute, operation)


def _of_kind(operation: str, kinds: tuple[str, ...]) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        layout = random_layout(rng, rng.choice(kinds))
        return f"{operation}({cpp(layout)})", _named(operation)(layout)

    return make


def _coalesce_by_mode(rng: random.Random) -> Case:
    layout = random_layout(rng, rank=rng.randint(1, 3))
    profile = tuple(1 for _mode in range(rng.randint(1, layout.rank)))
    return f"coalesce({cpp(layout)},{cpp(profile)})", cute.coalesce(layout, profile)


def _composition(rng: random.Random) -> Case:
    left, right = random_layout(rng), random_layout(rng)
    return f"composition({cpp(left)},{cpp(right)})", cute.composition(left, right)


def _composition_by_mode(rng: random.Random) -> Case:
    left = random_layout(rng, rank=rng.randint(1, 3))
    tiler = tuple(
        rng.choice((cute._, _divisor_layout(rng, left[mode].size())))
        for mode in range(rng.randint(1, left.rank))
    )
    return f"composition({cpp(left)},{cpp(tiler)})", cute.composition(left, tiler)


def _composition_identity(rng: random.Random) -> Case:
    shape = random_shape(rng, rank=rng.randint(1, 3))
    left = cute.make_identity_layout(shape)
    right = _divisor_layout(rng, size(shape))
    return f"composition({cpp(left)},{cpp(right)})", cute.composition(left, right)


def _complement(rng: random.Random) -> Case:
    layout = random_layout(rng, rng.choice(("compact", "padded", "broadcast", "wild")))
    bound = rng.choice((24, 48, 64, 100, 240, 256))
    return f"complement({cpp(layout)},Int<{bound}>{{}})", cute.complement(layout, bound)


def _divide(form: str) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        layout = random_layout(rng)
        tiler = rng.choice(
            (_divisor_layout(rng, layout.size()), random_layout(rng, "padded", POWERS))
        )
        return f"{form}_divide({cpp(layout)},{cpp(tiler)})", getattr(cute, f"{form}_divide")(
            layout, tiler
        )

    return make


def _divide_by_mode(form: str) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        layout = random_layout(rng, rank=rng.randint(1, 3))
        tiler = tuple(
            rng.choice((_divisor_layout(rng, layout[mode].size()), rng.choice((1, 2, 4))))
            for mode in range(rng.randint(1, layout.rank))
        )
        return f"{form}_divide({cpp(layout)},{cpp(tiler)})", getattr(cute, f"{form}_divide")(
            layout, tiler
        )

    return make


def _injective(rng: random.Random) -> str:
    return rng.choice(("compact", "padded"))


def _product(form: str) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        # CuTe's blocked and raked product do not compile where one part of rank 1 is a tuple and
        # the other is not.
        by_mode = form in ("blocked", "raked")
        rank = rng.choice((0, 2, 3)) if by_mode else None
        small, of_tiler = (1, 2, 2, 3, 4), 0 if form == "raked" and rank == 0 else None
        block = random_layout(rng, "compact" if rank == 0 else _injective(rng), small, rank)
        tiler = random_layout(rng, rng.choice((_injective(rng), "broadcast")), small, of_tiler)
        return f"{form}_product({cpp(block)},{cpp(tiler)})", getattr(cute, f"{form}_product")(
            block, tiler
        )

    return make


def _product_by_mode(form: str) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        block = random_layout(rng, "compact", (1, 2, 2, 3, 4), rank=rng.randint(1, 2))
        tiler = tuple(
            rng.choice((random_layout(rng, "compact", (2, 3, 4), rank=0), rng.choice((1, 2, 3))))
            for _mode in range(rng.randint(1, block.rank))
        )
        return f"{form}_product({cpp(block)},{cpp(tiler)})", getattr(cute, f"{form}_product")(
            block, tiler
        )

    return make


def _tile_to_shape(rng: random.Random) -> Case:
    block: Any
    if rng.random() < 0.5:
        block = random_layout(rng, "compact", (2, 3, 4), rank=rng.randint(1, 3))
    else:
        block = random_swizzled(rng, rank=rng.randint(1, 3))
    shape = tuple(extent * rng.randint(1, 3) for extent in product_each(block.shape))
    if rng.random() < 0.5:
        return (
            f"tile_to_shape({cpp(block)},{cpp_tuple(shape, 'Shape')}{{}})",
            cute.tile_to_shape(block, shape),
        )
    order = tuple(rng.sample(range(len(shape)), len(shape)))
    return (
        f"tile_to_shape({cpp(block)},{cpp_tuple(shape, 'Shape')}{{}},"
        f"{cpp_tuple(order, 'Step')}{{}})",
        cute.tile_to_shape(block, shape, order),
    )


def _ordered(rng: random.Random) -> Case:
    shape = random_shape(rng, rank=rng.randint(1, 3))
    order = tuple(rng.sample(range(5), len(shape)))
    return (
        f"make_ordered_layout({cpp_tuple(shape, 'Shape')}{{}},{cpp_tuple(order, 'Step')}{{}})",
        cute.make_ordered_layout(shape, order),
    )


def _upcast(rng: random.Random) -> Case:
    factor = rng.choice((2, 4, 8))
    layout: Any = rng.choice((random_layout(rng), random_swizzled(rng)))
    return f"upcast<{factor}>({cpp(layout)})", recast.upcast(layout, factor)


def _downcast(rng: random.Random) -> Case:
    factor = rng.choice((2, 3, 4, 8))
    layout = random_layout(rng, rng.choice(("compact", "broadcast")), (2, 3, 4, 8))
    return f"downcast<{factor}>({cpp(layout)})", recast.downcast(layout, factor)


def _max_common_vector(rng: random.Random) -> Case:
    shape = random_shape(rng, POWERS)
    a, b = (
        Layout(shape, random_strides(rng, shape)) if rng.random() < 0.7 else random_layout(rng)
        for _side in range(2)
    )
    cute.composition(a, cute.right_inverse(b))  # CuTe has no answer where this is inadmissible
    return f"max_common_vector({cpp(a)},{cpp(b)})", recast.max_common_vector(a, b)


def _max_common_layout(rng: random.Random) -> Case:
    shape = random_shape(rng, POWERS)
    a, b = (Layout(shape, random_strides(rng, shape)) for _side in range(2))
    return f"max_common_layout({cpp(a)},{cpp(b)})", recast.max_common_layout(a, b)


def random_strides(rng: random.Random, shape: Any) -> Any:
    return random_layout_of(rng, shape).stride


def random_layout_of(rng: random.Random, shape: Any) -> Layout[int]:
    leaves = len(flatten(shape))
    order = list(range(leaves))
    if rng.random() < 0.5:
        rng.shuffle(order)
    extents, strides, step = flatten(shape), [0] * leaves, 1
    for leaf in order:
        strides[leaf] = step if extents[leaf] > 1 else 0
        step *= extents[leaf]
    return Layout(shape, unflatten(tuple(strides), shape))


def _slice(rng: random.Random) -> Case:
    layout = random_layout(rng, rank=rng.randint(1, 3))
    coord = tuple(
        cute._ if rng.random() < 0.5 else rng.randrange(layout[mode].size())
        for mode in range(layout.rank)
    )
    if cute._ not in coord:
        coord = (cute._, *coord[1:])
    sliced, offset = layout.slice_and_offset(coord)
    return f"slice_and_offset({cpp(coord)},{cpp(layout)})", (sliced, offset)


def _swizzled(operation: str) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        layout = random_swizzled(rng)
        return f"{operation}({cpp(layout)})", _named(operation)(layout)

    return make


def _swizzled_with_tiler(operation: str) -> Callable[[random.Random], Case]:
    def make(rng: random.Random) -> Case:
        layout = random_swizzled(rng)
        tiler = _divisor_layout(rng, layout.size())
        return f"{operation}({cpp(layout)},{cpp(tiler)})", _named(operation)(layout, tiler)

    return make


def _swizzled_vector(rng: random.Random) -> Case:
    a = random_swizzled(rng)
    b: Any = rng.choice((random_layout_of(rng, a.shape), ComposedLayout(a.swizzle, 0, a.layout)))
    return f"max_common_vector({cpp(a)},{cpp(b)})", recast.max_common_vector(a, b)


def _layout_after_swizzle(rng: random.Random) -> Case:
    right = random_swizzled(rng)
    left = random_layout(rng, "compact", POWERS)
    return f"composition({cpp(left)},{cpp(right)})", cute.composition(left, right)


def _layout_after_a_swizzle_alone(rng: random.Random) -> Case:
    left = random_layout(rng, "compact", POWERS)
    swizzle = random_swizzled(rng).swizzle
    if swizzle.period() > left.size():
        raise LayoutError("the swizzle leaves the layout")
    return f"composition({cpp(left)},{cpp(swizzle)})", cute.composition(left, swizzle)


OPERATIONS: dict[str, Callable[[random.Random], Case]] = {
    "coalesce": _plain("coalesce"),
    "coalesce by mode": _coalesce_by_mode,
    "filter": _plain("filter"),
    "filter_zeros": _plain("filter_zeros"),
    "nullspace": _plain("nullspace"),
    "make_fragment_like": _of_kind("make_fragment_like", ("compact", "padded")),
    "max_alignment": _of_kind("max_alignment", ("compact", "padded")),
    "composition": _composition,
    "composition by mode": _composition_by_mode,
    "composition of an identity layout": _composition_identity,
    "complement": _complement,
    "complement to cosize": _of_kind("complement", ("compact", "padded", "broadcast")),
    "right_inverse": _plain("right_inverse"),
    "left_inverse": _of_kind("left_inverse", ("compact", "padded")),
    **{f"{form}_divide": _divide(form) for form in ("logical", "zipped", "tiled", "flat")},
    **{
        f"{form}_divide by mode": _divide_by_mode(form)
        for form in ("logical", "zipped", "tiled", "flat")
    },
    **{
        f"{form}_product": _product(form)
        for form in ("logical", "zipped", "tiled", "flat", "blocked", "raked")
    },
    **{
        f"{form}_product by mode": _product_by_mode(form)
        for form in ("logical", "zipped", "tiled", "flat")
    },
    "tile_to_shape": _tile_to_shape,
    "make_ordered_layout": _ordered,
    "upcast": _upcast,
    "downcast": _downcast,
    "max_common_vector": _max_common_vector,
    "max_common_layout": _max_common_layout,
    "slice_and_offset": _slice,
    "swizzled coalesce": _swizzled("coalesce"),
    "swizzled right_inverse": _swizzled("right_inverse"),
    "swizzled left_inverse": _swizzled("left_inverse"),
    "swizzled composition": _swizzled_with_tiler("composition"),
    "swizzled logical_divide": _swizzled_with_tiler("logical_divide"),
    "swizzled zipped_divide": _swizzled_with_tiler("zipped_divide"),
    "swizzled max_common_vector": _swizzled_vector,
    "composition of a layout and a swizzled one": _layout_after_swizzle,
    "composition of a layout and a swizzle": _layout_after_a_swizzle_alone,
}


def _cases(name: str, make: Callable[[random.Random], Case]) -> list[Case]:
    """Distinct expressions that this library has an answer for."""
    rng = random.Random(f"{name} 1")
    cases: dict[str, Any] = {}
    for _attempt in range(COUNT * 200):
        if len(cases) == COUNT:
            break
        try:
            expression, result = make(rng)
        except LayoutError:
            continue
        cases[expression] = result
    assert len(cases) >= COUNT * 0.6, f"{name}: only {len(cases)} distinct admissible expressions"
    return list(cases.items())


def _check(name: str, expression: str, result: Any, answer: Any) -> None:
    message = f"{name}: {expression}\n  CuTe: {answer}\n  here: {result}"
    if isinstance(result, (int, tuple)):
        assert answer == result, message
        return
    assert result.shape == answer.shape, message
    if isinstance(result, ComposedLayout):
        assert isinstance(answer, ComposedLayout), message
        assert result.swizzle == answer.swizzle and result.offset == answer.offset, message
        result, answer = result.layout, answer.layout
    assert isinstance(answer, Layout)
    assert plain_extents_of_one(result) == plain_extents_of_one(answer), message


def _maps_to_integers(result: Any) -> bool:
    if isinstance(result, ComposedLayout):
        return True
    return isinstance(result, Layout) and all(isinstance(d, int) for d in result.flat_stride)


@pytest.fixture(scope="module")
def needs_compiler() -> None:
    reason = include_directories()
    if isinstance(reason, str):
        pytest.skip(reason)


# --- atoms and tiled operations ---

ATOM_HEADERS = """
#include <cute/tensor.hpp>
#include <cute/atom/mma_atom.hpp>
#include <cute/atom/copy_atom.hpp>
#include <cute/arch/mma_sm90_gmma_ext.hpp>
#include <cute/atom/mma_traits_sm90_gmma_ext.hpp>
#include <cute/arch/copy_sm75.hpp>
#include <cute/atom/copy_traits_sm75.hpp>
#include <cute/arch/copy_sm90.hpp>
#include <cute/atom/copy_traits_sm90.hpp>
"""

CPP_TYPES = {
    "f16": "cute::half_t",
    "bf16": "cute::bfloat16_t",
    "f32": "float",
    "f64": "double",
    "s8": "int8_t",
    "s32": "int32_t",
}


def _cpp_atom(name: str) -> str:
    """The C++ type of an MMA atom."""
    atom = mma_atom(name)
    if name.startswith("UniversalFMA"):
        types = (atom.d_type, atom.a_type, atom.b_type, atom.c_type)
        return f"cute::UniversalFMA<{','.join(CPP_TYPES[name] for name in types)}>"
    if atom.b_space == "shared":
        if atom.d_type == "s32":
            return f"cute::{name}"
        majors = "" if name.endswith("_TN") else "cute::GMMA::Major::K,cute::GMMA::Major::K"
        return f"cute::{name}<{majors}>"
    return f"cute::{name}"


def _one_of_a_kind(names: list[str]) -> list[str]:
    """One atom of each set of layouts, as we have them, or all of them in a thorough run.

    An atom whose layouts are wrong is one of its own, unless they are those of another.
    """
    if THOROUGH:
        return names
    kinds: dict[tuple[Any, ...], str] = {}
    for name in names:
        atom = mma_atom(name)
        layouts = (atom.thr_id, atom.a_layout, atom.b_layout, atom.c_layout)
        kinds.setdefault((*map(str, layouts), atom.shape_mnk), name)
    return list(kinds.values())


def _traits(name: str) -> list[Case]:
    atom, cpp_atom = mma_atom(name), f"cute::MMA_Traits<{_cpp_atom(name)}>"
    return [
        (f"typename {cpp_atom}::ThrID{{}}", atom.thr_id),
        (f"typename {cpp_atom}::ALayout{{}}", atom.a_layout),
        (f"typename {cpp_atom}::BLayout{{}}", atom.b_layout),
        (f"typename {cpp_atom}::CLayout{{}}", atom.c_layout),
        (f"make_layout(typename {cpp_atom}::Shape_MNK{{}})", Layout(atom.shape_mnk)),
    ]


def _copy_traits(name: str) -> list[Case]:
    atom, traits = copy_atom(name), f"cute::Copy_Traits<{name}>"
    return [
        (f"typename {traits}::SrcLayout{{}}", atom.src_bits),
        (f"typename {traits}::DstLayout{{}}", atom.dst_bits),
        (f"typename {traits}::RefLayout{{}}", atom.ref_bits),
    ]


def _tiled_cases() -> list[Case]:
    cases: list[Case] = []
    for name, atoms, permutation, cpp_permutation in (
        ("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (), ""),
        ("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16), ",Tile<_32,_32,_16>{}"),
        ("SM90_16x8x4_F64F64F64F64_TN", (2, 2, 1), (), ""),
        (
            "SM90_16x8x4_F64F64F64F64_TN",
            (2, 2, 1),
            (parse_layout("(8,2,2):(2,1,16)"),),
            ",Tile<Layout<Shape<_8,_2,_2>,Stride<_2,_1,_16>>,Underscore,Underscore>{}",
        ),
        ("SM70_8x8x4_F32F16F16F32_NT", (2, 2, 1), (), ""),
        ("SM70_8x8x4_F16F16F16F16_TN", (1, 1, 1), (), ""),
        ("SM80_8x8x4_F64F64F64F64_TN", (4, 1, 1), (), ""),
        ("SM90_64x128x16_F32F16F16_RS", (2, 1, 1), (), ""),
        ("UniversalFMA_F32", (16, 16, 1), (), ""),
    ):
        mma = TiledMma(name, atoms, permutation)
        cpp_mma = (
            f"make_tiled_mma({_cpp_atom(name)}{{}},"
            f"Layout<{cpp_tuple(atoms, 'Shape')}>{{}}{cpp_permutation})"
        )
        for operand in "ABC":
            cases.append((f"{cpp_mma}.get_layout{operand}_TV()", mma.layout_tv(operand)))
        rows, columns = (n * 2 for n in mma.tile_shape("A"))
        tensor = Layout((rows, columns), (columns, 1))
        cases.append((f"{cpp_mma}.thrfrg_A({cpp(tensor)})", mma.thrfrg("A", tensor)))
    for atom, thr, val in (
        ("UniversalCopy_U128", Layout((16, 8), (8, 1)), Layout((1, 8))),
        ("UniversalCopy_U32", Layout((32, 4)), Layout((2, 1))),
        ("UniversalCopy_U16", Layout((8, 4), (4, 1)), Layout((2, 4), (4, 1))),
    ):
        copy = make_tiled_copy(atom, 16, thr, val)
        bits = {"U128": "uint128_t", "U32": "uint32_t", "U16": "uint16_t"}[atom.split("_")[1]]
        cpp_atom = f"Copy_Atom<UniversalCopy<{bits}>,half_t>{{}}"
        cpp_copy = f"make_tiled_copy({cpp_atom},{cpp(thr)},{cpp(val)})"
        cases.append((f"{cpp_copy}.get_layoutS_TV()", copy.layout_tv("S")))
        tensor = Layout((128, 64), (64, 1))
        cases.append((f"{cpp_copy}.tidfrg_S({cpp(tensor)})", copy.thrfrg_source(tensor)))
    mma = TiledMma("SM80_16x8x16_F32F16F16F32_TN", (2, 2), (32, 32, 16))
    cpp_mma = (
        "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{},Layout<Shape<_2,_2>>{},Tile<_32,_32,_16>{})"
    )
    for atom, operand in (
        ("SM75_U32x4_LDSM_N", "A"),
        ("SM75_U32x2_LDSM_N", "B"),
        ("SM75_U16x4_LDSM_T", "B"),
        ("SM90_U32x2_STSM_N", "C"),
    ):
        copy = make_tiled_copy_for(atom, 16, mma, operand)
        cpp_copy = f"make_tiled_copy_{operand}(Copy_Atom<{atom},half_t>{{}},{cpp_mma})"
        cases.append((f"{cpp_copy}.get_layoutS_TV()", copy.layout_tv("S")))
        cases.append((f"{cpp_copy}.get_layoutD_TV()", copy.layout_tv("D")))
        tile = mma.tile_shape(operand)
        tensor = Layout((tile[0] * 2, tile[1] * 4), (tile[1] * 4, 1))
        cases.append((f"{cpp_copy}.tidfrg_S({cpp(tensor)})", copy.thrfrg_source(tensor)))
        cases.append((f"{cpp_copy}.tidfrg_D({cpp(tensor)})", copy.thrfrg_destination(tensor)))
    return cases


def _operation_cases() -> list[tuple[str, str, Any]]:
    """Of each operation, its name too."""
    return [(name, *case) for name, make in OPERATIONS.items() for case in _cases(name, make)]


def _atom_cases() -> list[Case]:
    rng = random.Random(0)
    # CuTe has no instructions with swapped operands.
    known = [atom.name for atom in MMA_ATOMS.values() if not atom.swaps_operands]
    wgmma = [name for name in known if name.startswith("SM90_64")]
    small = _one_of_a_kind([name for name in known if not name.startswith("SM90_64")])
    copies = [name for name in COPY_ATOMS if "LDSM" in name or "STSM" in name]
    cases = [case for name in [*small, *rng.sample(wgmma, inputs(4, 24))] for case in _traits(name)]
    cases += [case for name in copies for case in _copy_traits(name)]
    return cases + _tiled_cases()


@pytest.fixture(scope="module")
def answers(needs_compiler: None) -> list[Answer]:
    """What CuTe makes of all operations, and then of all atoms: the headers are parsed once."""
    operations = _operation_cases()
    # Types say all there is to compare; CuTe's own evaluation of every third checks ours.
    with_values = frozenset(
        number
        for number, (_name, _expression, result) in enumerate(operations)
        if number % 3 == 0 and _maps_to_integers(result)
    )
    expressions = [expression for _name, expression, _result in operations]
    expressions += [expression for expression, _result in _atom_cases()]
    return evaluate(expressions, with_values, ATOM_HEADERS)


def test_every_operation_equals_cute(answers: list[Answer]) -> None:
    cases = _operation_cases()
    for (name, expression, result), answer in zip(cases, answers, strict=False):
        _check(name, expression, result, answer.result)
        if answer.values:
            assert answer.values == [result(i) for i in range(len(answer.values))], (
                f"{name}: {expression} = {answer.result} here is {result}"
            )


def test_atoms_and_tiled_operations_equal_cute(answers: list[Answer]) -> None:
    cases = _atom_cases()
    for (expression, result), answer in zip(cases, answers[-len(cases) :], strict=True):
        mine, theirs = result, answer.result
        # The nesting of what follows the values may differ; the functions may not.
        assert mine.size() == theirs.size(), f"{expression}: CuTe {theirs}, here {mine}"
        assert plain_extents_of_one(mine) == plain_extents_of_one(theirs), expression
