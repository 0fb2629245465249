"""Meshes, shardings, and the search of ``--partition``."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import pytest
from fuzz.partitioned import draw_partitioned
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f16
from xdsl.parser import Parser

from mugraph.dialects.sharding import Mesh, Sharding
from mugraph.passes.program.partition import partition_program, search
from mugraph.passes.program.partition.conversions import Conversions
from mugraph.passes.program.partition.search import Search, State
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function

MESHES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(lambda shape: Mesh(tuple(shape)))


@given(MESHES, st.data())
def test_groups_are_a_partition_of_the_devices_in_the_order_of_places(
    mesh: Mesh, data: st.DataObject
) -> None:
    orders = [
        axes
        for count in range(1, len(mesh.shape) + 1)
        for axes in itertools.permutations(range(len(mesh.shape)), count)
    ]
    axes = data.draw(st.sampled_from(orders))
    groups = list(mesh.groups(axes))
    assert sorted(itertools.chain.from_iterable(groups)) == list(mesh.devices)
    for group in groups:
        assert [mesh.place(device, axes) for device in group] == list(range(mesh.size(axes)))


@given(MESHES, st.data())
def test_parts_cover_a_tensor(mesh: Mesh, data: st.DataObject) -> None:
    """Each part is held by as many devices as there are along the axes that cut nothing."""
    dims = [data.draw(st.integers(-1, 1)) for _ in mesh.shape]
    axes = [tuple(axis for axis, dim in enumerate(dims) if dim == d) for d in (0, 1)]
    sharding = Sharding(tuple(axes))
    starts = [sharding.start((1, 1), mesh, device) for device in mesh.devices]
    extents = sharding.whole_shape((1, 1), mesh)
    assert {*starts} == {*itertools.product(*map(range, extents))}
    assert len(starts) == len({*starts}) * mesh.size(
        tuple(axis for axis, dim in enumerate(dims) if dim < 0)
    )


def test_ways_between_shardings_send_what_they_must() -> None:
    """Of an f16 tensor of 4x8 on four devices, 64 bytes."""
    conversions = Conversions(Mesh((4,)))
    type_ = TensorType(f16, (4, 8))
    rows, columns, whole = Sharding(((0,), ())), Sharding(((), (0,))), Sharding(((), ()))
    parts = Sharding(((), ()), (0,))
    sent = {
        (rows, whole): 48,
        (rows, columns): 12,
        (parts, whole): 96,
        (parts, rows): 48,
        (whole, rows): 0,
    }
    for (source, target), expected in sent.items():
        ways = conversions.ways(type_, conversions.number_of(source))
        assert ways[conversions.number_of(target)].cost.sent == expected
    ways = conversions.ways(type_, conversions.number_of(whole))
    assert conversions.number_of(parts) not in ways


def _kept(_search: Search, states: list[State]) -> list[State]:
    return sorted(states, key=lambda state: state.cost)


@pytest.mark.parametrize("number", [1, 3, 9, 15, 24])
def test_states_that_are_left_out_lose_nothing(number: int) -> None:
    """The cost is that of a search that keeps every state."""
    found = partition_program(only_function(draw_partitioned(0, number))).plan
    with patch.object(Search, "pruned", _kept), patch.object(search, "STATES", (10**6,)):
        every = partition_program(only_function(draw_partitioned(0, number))).plan
    assert found.is_exact
    assert found.cost == every.cost


@pytest.mark.parametrize(("rows", "sent"), [(4096, 2 * 4096 * 8192), (16, 2 * 16 * 8192)])
def test_no_product_is_computed_by_all_devices_to_send_less(rows: int, sent: int) -> None:
    """Of 4,096 rows both operands are smaller than the sum, and gathering them sends less."""
    text = f"""
    func.func @f(%x: tensor<{rows}x4096xf16> {{mugraph.sharding = #kn.sharding<[[], [0]]>}},
                 %w: tensor<4096x8192xf16> {{mugraph.sharding = #kn.sharding<[[0]]>}})
        -> (tensor<{rows}x8192xf16> {{mugraph.sharding = #kn.sharding<[[]]>}})
        attributes {{mugraph.mesh = [2]}} {{
      %y = kn.matmul %x, %w
        : (tensor<{rows}x4096xf16>, tensor<4096x8192xf16>) -> tensor<{rows}x8192xf16>
      func.return %y : tensor<{rows}x8192xf16>
    }}"""
    cost = partition_program(only_function(Parser(make_context(), text).parse_module())).plan.cost
    assert (cost.sent, cost.collectives) == (sent, 1)
