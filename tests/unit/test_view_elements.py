"""Which elements of its operand a ``kn.view`` may see."""

from __future__ import annotations

import tracemalloc

import pytest
from xdsl.dialects.builtin import TensorType, f16
from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute import Layout
from mugraph.dialects.kn import ViewOp
from mugraph.dialects.tensor_types import with_layout

Extents = tuple[int, ...]


def view(shape: Extents, strides: Extents, seen: Extents, seen_strides: Extents) -> ViewOp:
    types = [
        with_layout(TensorType(f16, extents), Layout(extents, steps))
        for extents, steps in ((shape, strides), (seen, seen_strides))
    ]
    (value,) = Block(arg_types=types[:1]).args
    return ViewOp(value, types[1])


def test_a_view_of_a_large_cache_is_verified_without_a_list_of_its_elements() -> None:
    shape, steps = (8, 8, 128, 128), (2**25, 2**22, 2**7, 1)  # 128 keys of 32,768
    keys = view(shape, steps, shape, steps)
    turned = view(shape, steps, (8, 8, 1, 128, 128), (2**25, 2**22, 0, 1, 2**7))
    tracemalloc.start()
    for each in (keys, turned):
        each.verify_()
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("seen", "strides"),
    [
        ((4, 7), (8, 1)),  # a column of the hole between rows
        ((5, 6), (8, 1)),  # a row too many
        ((4, 6, 2), (8, 1, 1)),  # two steps of one column each
        ((4, 6), (4, 1)),  # rows that start in holes
    ],
)
def test_what_the_operand_has_not_is_refused(seen: Extents, strides: Extents) -> None:
    with pytest.raises(VerifyException):
        view((4, 6), (8, 1), seen, strides).verify_()


@pytest.mark.parametrize(
    ("seen", "strides"), [((6, 4), (1, 8)), ((4, 3), (8, 1)), ((2, 6), (16, 1)), ((3,), (8,))]
)
def test_parts_and_other_orders_are_there(seen: Extents, strides: Extents) -> None:
    view((4, 6), (8, 1), seen, strides).verify_()
