"""Products in parts that devices exchange while they compute others."""

from __future__ import annotations

import pytest
from fuzz.late import Late, check_mutants, late, wrong
from fuzz.overlapping import MUTANTS, check_layers, draw_layers
from thorough import THOROUGH, inputs
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.sharding import device_program, part_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.overlap import Way, overlap_collectives
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.partition.delivered import pieces_to_copy
from mugraph.passes.program.partition.orders import Await, Hear, Read, Run, Tell, check_order
from mugraph.passes.program.partition.segments import (
    Delivery,
    Exchange,
    Fetch,
    Join,
    Meeting,
    Segment,
    Step,
    View,
    segments_of,
)
from mugraph.passes.program.partition.turns import turns_of
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function


def product(collective: str, devices: int, rows: int, depth: int, columns: int) -> str:
    """A product before or behind a collective, of whole extents."""
    x, w, y = {
        "all-reduce": ("[[], [0]]", "[[0]]", "[[]]"),
        "reduce-scatter": ("[[], [0]]", "[[0]]", "[[0]]"),
        "all-gather": ("[[0]]", "[[], [0]]", "[[], [0]]"),
    }[collective]
    left, right, out = (
        f"tensor<{one}x{other}xf32>"
        for one, other in ((rows, depth), (depth, columns), (rows, columns))
    )
    return f"""
    func.func @f(%x: {left} {{mugraph.sharding = #kn.sharding<{x}>}},
                 %w: {right} {{mugraph.sharding = #kn.sharding<{w}>}})
        -> ({out} {{mugraph.sharding = #kn.sharding<{y}>}})
        attributes {{mugraph.mesh = [{devices}]}} {{
      %y = kn.matmul %x, %w : ({left}, {right}) -> {out}
      func.return %y : {out}
    }}
    """


def layers(devices: int) -> str:
    """A product before and behind what lies in parts of rows, and a sum that all need."""
    return f"""
    func.func @f(%x: tensor<24x16xf32> {{mugraph.sharding = #kn.sharding<[[], [0]]>}},
                 %w: tensor<16x24xf32> {{mugraph.sharding = #kn.sharding<[[0]]>}},
                 %u: tensor<24x48xf32> {{mugraph.sharding = #kn.sharding<[[], [0]]>}},
                 %d: tensor<48x24xf32> {{mugraph.sharding = #kn.sharding<[[0]]>}})
        -> (tensor<24x24xf32> {{mugraph.sharding = #kn.sharding<[[]]>}})
        attributes {{mugraph.mesh = [{devices}], mugraph.per_device}} {{
      %y = kn.matmul %x, %w : (tensor<24x16xf32>, tensor<16x24xf32>) -> tensor<24x24xf32>
      %s = kn.reduce_scatter %y axes [0] dim 0 : tensor<24x24xf32> -> tensor<{24 // devices}x24xf32>
      %e = kn.silu %s : tensor<{24 // devices}x24xf32> -> tensor<{24 // devices}x24xf32>
      %g = kn.all_gather %e axes [0] dim 0 : tensor<{24 // devices}x24xf32> -> tensor<24x24xf32>
      %a = kn.matmul %g, %u : (tensor<24x24xf32>, tensor<24x48xf32>) -> tensor<24x48xf32>
      %h = kn.matmul %a, %d : (tensor<24x48xf32>, tensor<48x24xf32>) -> tensor<24x24xf32>
      %r = kn.all_reduce %h axes [0] : tensor<24x24xf32> -> tensor<24x24xf32>
      func.return %r : tensor<24x24xf32>
    }}
    """


def overlapping(text: str, way: Way | None = None, members: int | None = None) -> Late:
    """A program with its products in parts, or with sums in another way."""
    module = parse_text(make_context(), text, "overlap")
    return late(module, overlap=True, way=way, members=members)


def kinds(one: Late, device: int) -> list[str]:
    """What a device does in a call, and the places of parts."""

    def name(step: Step) -> str:
        part = step.part if isinstance(step, Segment | Fetch) else None
        return type(step).__name__ + ("" if part is None else f" {part.place}")

    wanted = (Segment, Fetch, Join, Delivery, Exchange, Meeting)
    order = turns_of(one.steps, one.program.mesh, device)
    return [name(one.steps[n]) for n in order if isinstance(one.steps[n], wanted)]


def test_a_device_computes_its_own_part_at_last_where_parts_are_delivered() -> None:
    one = overlapping(product("reduce-scatter", 3, 24, 48, 16))
    for device, order in ((0, (1, 2, 0)), (1, (2, 0, 1)), (2, (0, 1, 2))):
        parts = [f"Segment {place}" for place in order]
        assert kinds(one, device) == ["Meeting", *parts, "Delivery", "Segment"]


@pytest.mark.parametrize("way", (Way.PARTS, Way.PUSHED))
def test_parts_are_copied_to_others_unless_kernels_store_them_there(way: Way) -> None:
    one = overlapping(product("all-reduce", 3, 24, 48, 16), way)
    deliveries = [step.op for step in one.steps if isinstance(step, Delivery)]
    for op in deliveries:
        of_others = {*op.pieces[:1], *op.pieces[2:]} if way is Way.PARTS else set[SSAValue]()
        assert pieces_to_copy(op, 1) == of_others
    assert deliveries


def test_a_slice_along_other_axes_is_of_what_all_delivered() -> None:
    one = overlapping(SLICED, Way.PUSHED)
    assert any(isinstance(step, kn.AllSliceOp) for step in one.steps)
    for device, events in enumerate(one.events[:4]):
        writers = {event.writer for event in events if isinstance(event, Read)}
        assert writers == {device % 2, device % 2 + 2}
    check_mutants(one)


def test_a_device_begins_with_its_own_part_where_others_are_fetched() -> None:
    one = overlapping(product("all-gather", 3, 24, 16, 48))
    for device, order in ((0, (0, 1, 2)), (1, (1, 2, 0)), (2, (2, 0, 1))):
        fetched = [f"Fetch {place}" for place in (*order[1:], order[0])]
        parts = [f"Segment {place}" for place in order]
        assert kinds(one, device) == ["Meeting", "Exchange", *fetched, *parts, "Join"]


def test_a_kernel_computes_the_parts_of_members_that_follow_each_other() -> None:
    scattered = overlapping(product("reduce-scatter", 4, 32, 48, 16), members=2)
    gathered = overlapping(product("all-gather", 4, 32, 16, 64), members=2)
    # The part with the device's own is the last one, or the first one.  No two devices copy from
    # the same one at a time.
    for device, parts, fetched in (
        (0, (2, 0), (1, 3, 2, 0)),
        (1, (2, 0), (0, 2, 3, 1)),
        (2, (0, 2), (3, 1, 0, 2)),
        (3, (0, 2), (2, 0, 1, 3)),
    ):
        own, other = (f"Segment {place}" for place in reversed(parts))
        assert kinds(scattered, device) == ["Meeting", other, own, "Delivery", "Segment"]
        copies = [f"Fetch {place}" for place in fetched]
        joined = ["Join", own, "Join", other, "Join"]
        assert kinds(gathered, device) == ["Meeting", "Exchange", *copies, *joined]


def test_a_device_does_not_wait_for_a_copy_before_it_takes_a_range_of_it() -> None:
    one = overlapping(product("all-reduce", 2, 32, 48, 16), Way.ADDED)
    shown = [each for each in kinds(one, 0) if each != "Join"]
    first, own = ["Segment 0", "Segment 1"], ["Segment 2", "Segment 3", "Segment 4"]
    theirs = [["Exchange", f"Fetch {stage}"] for stage in (0, 1)]
    gathered = ["Exchange", "Fetch 1", "Fetch 0"]
    in_turn = [[part, *copies] for part, copies in zip(first, theirs, strict=True)]
    in_turn += [[part, *gathered] for part in own]
    assert shown == [each for stage in in_turn for each in stage]
    assert all(step.beside for step in one.steps if isinstance(step, Exchange))
    functions = one.events[0]
    hears = [n for n, event in enumerate(functions) if isinstance(event, Hear)]
    runs = [n for n, e in enumerate(functions) if isinstance(e, Run) and e.step in _segments(one)]
    # Its own first range takes a copy that began before the range before it.
    assert len(runs) == 5
    assert runs[1] < hears[0] < runs[2] < hears[1] < runs[3]
    # Copies wait for one another, and meetings for no copy; who meets at last copies, too.
    copies, meetings = one.events[2], one.events[4]
    assert len([event for event in copies if isinstance(event, Run)]) == 4
    last = max(n for n, event in enumerate(meetings) if isinstance(event, Await))
    assert [type(event) for event in meetings[last + 1 :]] == [Tell, Read, Run, Tell]
    assert not any(isinstance(event, Run | Read) for event in meetings[:last])


def _segments(one: Late) -> set[int]:
    return {number for number, step in enumerate(one.steps) if isinstance(step, Segment)}


def test_each_member_gets_its_range_of_what_a_kernel_computed() -> None:
    one = overlapping(product("reduce-scatter", 4, 32, 48, 16), members=2)
    (delivery,) = (step.op for step in one.steps if isinstance(step, Delivery))
    assert pieces_to_copy(delivery, 1) == {*delivery.pieces}
    order = turns_of(one.steps, one.program.mesh, 3)
    sent = [step.op.result for n in order if isinstance(step := one.steps[n], View)]
    places = [delivery.pieces.index(value) for value in sent if value in delivery.pieces]
    assert places == [0, 1, 2, 3]
    order = turns_of(one.steps, one.program.mesh, 2)
    sent = [step.op.result for n in order if isinstance(step := one.steps[n], View)]
    places = [delivery.pieces.index(value) for value in sent if value in delivery.pieces]
    assert places == [1, 0, 3, 2]


@pytest.mark.parametrize(
    ("collective", "is_beside"),
    [("reduce-scatter", [True]), ("all-gather", [True, True]), ("all-reduce", [True])],
)
def test_functions_do_not_wait_for_meetings_of_copies(
    collective: str, is_beside: list[bool]
) -> None:
    one = overlapping(product(collective, 2, 24, 48, 48))
    meetings = [step for step in one.steps if isinstance(step, Exchange | Meeting)]
    assert [step.beside for step in meetings] == is_beside


def test_a_function_that_stores_at_another_device_waits_for_the_meeting() -> None:
    one = overlapping(product("all-gather", 2, 24, 48, 48), Way.PUSHED)
    meetings = [step for step in one.steps if isinstance(step, Meeting)]
    assert [step.beside for step in meetings] == [False]
    # Parts that are delivered from what was gathered: a device meets before it does so.
    chained = overlapping(layers(2))
    exchanges = [step for step in chained.steps if isinstance(step, Exchange)]
    assert [step.beside for step in exchanges] == [False, True]


def test_a_device_that_copies_only_its_own_waits_for_the_meeting() -> None:
    text = """
    func.func @f(%x: tensor<8x16xf32>) -> tensor<8x16xf32>
        attributes {mugraph.mesh = [2], mugraph.per_device} {
      %p = kn.peer %x axes [0] place 0 : tensor<8x16xf32> -> tensor<8x16xf32>
      %c = kn.copy %p {mugraph.part = array<i64: 0, 1, 0>} : tensor<8x16xf32> -> tensor<8x16xf32>
      %e = kn.exp %c : tensor<8x16xf32> -> tensor<8x16xf32>
      func.return %e : tensor<8x16xf32>
    }
    """
    steps = late(parse_text(make_context(), text, "of one place")).steps
    assert [step.beside for step in steps if isinstance(step, Exchange | Meeting)] == [False, False]


def residual(devices: int) -> str:
    """A sum that all need, added to what all have, a norm, and the next products."""
    rows, wide = "tensor<24x16xf32>", "tensor<24x48xf32>"
    return f"""
    func.func @f(%x: {wide} {{mugraph.sharding = #kn.sharding<[[], [0]]>}}, %r: {rows},
                 %w: tensor<48x16xf32> {{mugraph.sharding = #kn.sharding<[[0]]>}},
                 %u: tensor<16x48xf32> {{mugraph.sharding = #kn.sharding<[[], [0]]>}},
                 %d: tensor<48x16xf32> {{mugraph.sharding = #kn.sharding<[[0]]>}})
        -> ({rows} {{mugraph.sharding = #kn.sharding<[[]]>}})
        attributes {{mugraph.mesh = [{devices}]}} {{
      %y = kn.matmul %x, %w : ({wide}, tensor<48x16xf32>) -> {rows}
      %h = kn.add %y, %r : ({rows}, {rows}) -> {rows}
      %n = kn.rms_norm %h over [16] epsilon 1.0e-05 : ({rows}) -> {rows}
      %a = kn.matmul %n, %u : ({rows}, tensor<16x48xf32>) -> {wide}
      %b = kn.matmul %a, %d : ({wide}, tensor<48x16xf32>) -> {rows}
      %o = kn.add %b, %h : ({rows}, {rows}) -> {rows}
      func.return %o : {rows}
    }}
    """


def test_what_stands_behind_a_sum_begins_with_the_part_of_the_device_that_added_it_up() -> None:
    one = overlapping(residual(2))
    exchanged = ("Delivery", "Segment", "Exchange", "Fetch 0", "Fetch 1")
    assert kinds(one, 1) == [
        *("Segment 0", "Segment 1", *exchanged),
        # The residual, the norm and the products of each part.
        *("Segment 1", "Segment 0", *exchanged),
        *("Join", "Segment 0", "Segment 1", "Join"),
    ]


SQUARE = """
    func.func @f(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>)
        -> (tensor<16x16xf32> {mugraph.sharding = #kn.sharding<[[]]>})
        attributes {mugraph.mesh = [2], mugraph.per_device} {
      %a = kn.matmul %x, %x : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %b = kn.matmul %w, %x : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %y = kn.add %a, %b : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
      %s = kn.all_reduce %y axes [0] : tensor<16x16xf32> -> tensor<16x16xf32>
      func.return %s : tensor<16x16xf32>
    }
    """
"""Products take a range of an argument on their left, and all of it on their right."""

SLICED = """
    func.func @f(%x: tensor<4x16xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
        -> (tensor<4x16xf32> {mugraph.sharding = #kn.sharding<[[1]]>})
        attributes {mugraph.mesh = [2, 2], mugraph.per_device} {
      %e = kn.exp %x : tensor<4x16xf32> -> tensor<4x16xf32>
      %g = kn.all_gather %e axes [0] dim 0 : tensor<4x16xf32> -> tensor<8x16xf32>
      %s = kn.all_slice %g axes [1] dim 0 : tensor<8x16xf32> -> tensor<4x16xf32>
      %r = kn.silu %s : tensor<4x16xf32> -> tensor<4x16xf32>
      func.return %r : tensor<4x16xf32>
    }
"""
"""What was delivered along one axis is cut along the other one, at the same extents."""
GATHERED_TWICE = """
    func.func @f(%x: tensor<4x16xf32> {mugraph.sharding = #kn.sharding<[[0, 1]]>},
                 %w: tensor<16x24xf32>)
        -> (tensor<16x24xf32> {mugraph.sharding = #kn.sharding<[[]]>})
        attributes {mugraph.mesh = [2, 2], mugraph.per_device} {
      %g = kn.all_gather %x axes [1] dim 0 : tensor<4x16xf32> -> tensor<8x16xf32>
      %h = kn.all_gather %g axes [0] dim 0 : tensor<8x16xf32> -> tensor<16x16xf32>
      %y = kn.matmul %h, %w : (tensor<16x16xf32>, tensor<16x24xf32>) -> tensor<16x24xf32>
      func.return %y : tensor<16x24xf32>
    }
    """
"""What one exchange has brought the next one copies to where others read it."""

ARGUMENT = """
    func.func @f(%x: tensor<4x16xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
        -> (tensor<4x16xf32> {mugraph.sharding = #kn.sharding<[[]]>})
        attributes {mugraph.mesh = [3], mugraph.per_device} {
      %s = kn.all_reduce %x axes [0] : tensor<4x16xf32> -> tensor<4x16xf32>
      func.return %s : tensor<4x16xf32>
    }
    """
"""A sum of what the caller has: its copy is what devices write for one another."""

PROGRAMS = {
    "squares": SQUARE,
    "gathered twice": GATHERED_TWICE,
    "sum of an argument": ARGUMENT,
    **{f"residual, {devices} devices": residual(devices) for devices in (2, 3)},
    **{
        f"{collective}, {devices} devices": product(collective, devices, 24, 48, 48)
        for collective in ("all-reduce", "reduce-scatter", "all-gather")
        for devices in (2, 3)
    },
    "reduce-scatter, 4 devices": product("reduce-scatter", 4, 16, 16, 8),
    **{f"layers, {devices} devices": layers(devices) for devices in (2, 4)},
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("way", [None, Way.PUSHED, Way.ADDED])
def test_late_memory_changes_nothing(name: str, way: Way | None) -> None:
    one = overlapping(PROGRAMS[name], way)
    assert way is not None or any(isinstance(step, Delivery | Fetch) for step in one.steps)
    assert check_order(one.steps, one.returned, one.program.mesh) == []
    for seed in range(4):
        assert wrong(one, one.events, seed) is None


@pytest.mark.parametrize(
    ("name", "way", "members"),
    [
        ("reduce-scatter, 2 devices", None, 1),
        ("all-gather, 2 devices", None, 1),
        ("all-reduce, 2 devices", Way.ADDED, 1),
        ("reduce-scatter, 4 devices", None, 2),
        *([("layers, 4 devices", None, 2), ("layers, 4 devices", Way.ADDED, 1)] * THOROUGH),
    ],
)
def test_mutants_are_reported_or_harmless(name: str, way: Way | None, members: int) -> None:
    one = overlapping(PROGRAMS[name], way, members)
    assert check_order(one.steps, one.returned, one.program.mesh) == []
    assert wrong(one, one.events, 0) is None
    reported, harmless = check_mutants(one, most=80 if THOROUGH else 30)
    assert reported > harmless > 0


def test_a_sum_is_cut_behind_dimensions_of_one_element() -> None:
    text = """
    func.func @f(%x: tensor<1x24x16xf32> {mugraph.sharding = #kn.sharding<[[], [], [0]]>},
                 %w: tensor<1x16x8xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>})
        -> (tensor<1x24x8xf32> {mugraph.sharding = #kn.sharding<[[]]>})
        attributes {mugraph.mesh = [2], mugraph.per_device} {
      %y = kn.matmul %x, %w
          : (tensor<1x24x16xf32>, tensor<1x16x8xf32>) -> tensor<1x24x8xf32>
      %s = kn.all_reduce %y axes [0] : tensor<1x24x8xf32> -> tensor<1x24x8xf32>
      func.return %s : tensor<1x24x8xf32>
    }
    """
    one = overlapping(text)
    (delivery,) = (step for step in one.steps if isinstance(step, Delivery))
    assert delivery.op.cut_dim == delivery.op.joined_dim == 1
    assert wrong(one, one.events, 0) is None


def test_parts_that_are_delivered_too_soon_are_a_fault() -> None:
    one = overlapping(PROGRAMS["reduce-scatter, 2 devices"])
    open_ = one._replace(steps=[step for step in one.steps if not isinstance(step, Meeting)])
    assert len(open_.steps) < len(one.steps)
    (fault, *_) = check_order(open_.steps, open_.returned, open_.program.mesh)
    assert "reads tensor 0 of device 1" in fault
    assert "may have laid out another call's" in fault
    assert any(wrong(open_, open_.events, seed) for seed in range(50))


def test_what_is_pushed_is_added_up_without_another_exchange() -> None:
    one = overlapping(PROGRAMS["residual, 2 devices"], Way.PUSHED)
    assert kinds(one, 0) == ["Segment", "Delivery", "Segment", "Delivery", "Segment"]
    (first, *_) = (step for step in one.steps if isinstance(step, Segment))
    places = [op.place for op in first.module.walk() if isinstance(op, kn.CopyOp)]
    assert [place.value.data for place in places if place is not None] == [0, 1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rows", [1024, 4096])
def test_a_large_product_for_four_devices_is_one_kernel_of_wide_tiles(rows: int) -> None:
    text = product("all-reduce", 4, rows, 8192, 8192).replace("xf32>", "xbf16>")
    module = parse_text(make_context(), text, "product")
    PartitionPass().apply(make_context(), module)
    function = only_function(module)
    target = target_named("h200")
    overlap_collectives(function, target, everywhere=True, way=Way.PUSHED)
    program = device_program(function)
    assert program is not None
    first = next(step for step in segments_of(program) if isinstance(step, Segment))
    for step in compile_pipeline("h200"):
        step.apply(make_context(), first.module)
        if step.name == "plan":
            break
    (kernel,) = (op for op in first.module.walk() if isinstance(op, kn.CustomizedOp))
    assert len(kernel.results) == 4
    assert kernel.decided.grid == (8192 // 256, rows // 128, 1)


def overlaps(collective: str, devices: int, rows: int, depth: int, columns: int) -> str:
    """How a product overlaps with a collective, by what that takes."""
    text = product(collective, devices, rows, depth, columns).replace("xf32>", "xbf16>")
    module = parse_text(make_context(), text, "product")
    PartitionPass().apply(make_context(), module)
    return overlap_of(module)


def overlap_of(module: ModuleOp) -> str:
    """How the one collective of the program of each device overlaps, by what that takes."""
    function = only_function(module)
    overlap_collectives(function, target_named("h200"))
    operators = [*function.body.block.ops]
    if any(isinstance(op, kn.CombiningOp | kn.AllGatherOp) for op in operators):
        return "not"
    pushed = any(isinstance(op, kn.CopyOp) and op.place is not None for op in operators)
    if any(isinstance(op, kn.MatmulAddOp) for op in operators):
        return "added"
    parts = any(part_of(op) is not None for op in operators)
    return "in parts" if parts else "pushed" if pushed else "not"


def test_products_overlap_as_takes_the_least_time() -> None:
    # Weights would be read twice, in tiles of half the rows.
    for rows, way in ((4096, "in parts"), (1024, "in parts"), (128, "not"), (16, "not")):
        assert overlaps("reduce-scatter", 2, rows, 28672, 8192) == way
    # The kernel that adds up the parts is more of a short product.
    assert overlaps("reduce-scatter", 2, 4096, 8192, 8192) == "added"
    for rows, way in ((4096, "in parts"), (128, "pushed"), (16, "pushed")):
        assert overlaps("all-gather", 4, rows, 8192, 28672) == way
    for devices, rows, depth, way in (
        # Summands of all rows take longer on the links than a sum that goes around.
        (2, 4096, 8192, "added"),
        (2, 4096, 28672, "added"),
        (2, 1024, 28672, "pushed"),
        (2, 16, 28672, "pushed"),
        (4, 16, 28672, "pushed"),
        # All summands of all devices take longer on the links than the product.
        (4, 1024, 28672, "in parts"),
        (4, 4096, 8192, "in parts"),
    ):
        assert overlaps("all-reduce", devices, rows, depth, 8192) == way


@pytest.mark.parametrize(
    ("collective", "rows", "depth", "columns", "kernels"),
    [
        # As was fastest on four H200.  One all-reduce, where partitioning may gather operands.
        ("all-reduce", 4096, 2048, 8192, 4),
        ("all-reduce", 4096, 4096, 8192, 4),
        ("all-reduce", 4096, 8192, 8192, 4),
        ("all-reduce", 1024, 28672, 8192, 4),
        # Kernels of two parts leave a copy behind the last one; tiles for all multiprocessors do
        # not outweigh that, and they do before a product.
        ("reduce-scatter", 1024, 28672, 8192, 4),
        ("reduce-scatter", 4096, 28672, 8192, 4),
        ("all-gather", 1024, 8192, 28672, 2),
    ],
)
def test_products_are_in_as_many_parts_as_takes_the_least_time_on_four_devices(
    collective: str, rows: int, depth: int, columns: int, kernels: int
) -> None:
    text = product(collective, 4, rows, depth, columns).replace("xf32>", "xbf16>")
    module = parse_text(make_context(), text, "product")
    PartitionPass().apply(make_context(), module)
    assert overlap_of(module) == "in parts"
    assert sum(isinstance(op, kn.MatmulOp) for op in module.walk()) == kernels


def test_the_last_range_is_an_eighth_where_its_tiles_are_enough() -> None:
    """So it was faster on two H200: of 256 x 8,192 elements, and not of 128."""
    for rows, last in ((4096, 256), (2048, 256)):
        text = product("all-reduce", 2, rows, 8192, 8192).replace("xf32>", "xbf16>")
        module = parse_text(make_context(), text, "product")
        PartitionPass().apply(make_context(), module)
        assert overlap_of(module) == "added"
        ranges = [op.result for op in module.walk() if isinstance(op, kn.MatmulAddOp)]
        assert shape_of(ranges[-1].type) == (last, 8192)


X, Y = "tensor<4096x4096xbf16>", "tensor<4096x8192xbf16>"
ALONG_ROWS = "tensor<4096x8192xbf16, #cute.layout<(4096,8192):(1,4096)>>"


@pytest.mark.parametrize(
    ("weight", "body", "way"),
    [
        (Y, f"%y = kn.matmul %x, %w : ({X}, {Y}) -> {Y}", "added"),
        # A kernel of ours would add what cuBLAS cannot.
        (
            Y,
            f"""%p = kn.matmul %x, %w : ({X}, {Y}) -> {Y}
            %y = kn.silu %p : {Y} -> {Y}""",
            "pushed",
        ),
        (ALONG_ROWS, f"%y = kn.matmul %x, %w : ({X}, {ALONG_ROWS}) -> {Y}", "added"),
        # cuBLAS reads a weight's transpose where the weight lies; what is made of it is copied.
        (
            "tensor<8192x4096xbf16>",
            f"""%t = kn.transpose %w dims [1, 0] : tensor<8192x4096xbf16> -> {Y}
            %y = kn.matmul %x, %t : ({X}, {Y}) -> {Y}""",
            "added",
        ),
        (
            "tensor<8192x4096xbf16>",
            f"""%e = kn.exp %w : tensor<8192x4096xbf16> -> tensor<8192x4096xbf16>
            %t = kn.transpose %e dims [1, 0] : tensor<8192x4096xbf16> -> {Y}
            %y = kn.matmul %x, %t : ({X}, {Y}) -> {Y}""",
            "pushed",
        ),
    ],
)
def test_a_sum_goes_around_where_cublas_adds_and_takes_weights_as_they_lie(
    weight: str, body: str, way: str
) -> None:
    text = f"""
    func.func @f(%x: {X}, %w: {weight}) -> ({Y} {{mugraph.sharding = #kn.sharding<[[]]>}})
        attributes {{mugraph.mesh = [2], mugraph.per_device}} {{
      {body}
      %s = kn.all_reduce %y axes [0] : {Y} -> {Y}
      func.return %s : {Y}
    }}
    """
    assert overlap_of(parse_text(make_context(), text, "sum")) == way


@pytest.mark.parametrize("number", range(inputs(3, 200)))
def test_random_layers_are_the_same_in_parts(number: int) -> None:
    one, _ = check_layers(draw_layers(3, number), number)
    check_mutants(one, MUTANTS, seeds=1)


@pytest.mark.parametrize("way", [Way.PARTS, Way.ADDED])
def test_functions_of_parts_read_a_transposed_weight_where_it_lies(way: Way) -> None:
    x, w, t, y = (f"tensor<{m}x{n}xf16>" for m, n in ((16, 16), (8, 16), (16, 8), (16, 8)))
    text = f"""
    func.func @linear(%x: {x} {{mugraph.sharding = #kn.sharding<[[], [0]]>}},
                      %w: {w} {{mugraph.sharding = #kn.sharding<[[], [0]]>}})
        -> ({y} {{mugraph.sharding = #kn.sharding<[[]]>}})
        attributes {{mugraph.mesh = [2], mugraph.per_device}} {{
      %t = kn.transpose %w dims [1, 0] : {w} -> {t}
      %y = kn.matmul %x, %t : ({x}, {t}) -> {y}
      %s = kn.all_reduce %y axes [0] : {y} -> {y}
      func.return %s : {y}
    }}"""
    module = parse_text(make_context(), text, "linear")
    function = only_function(module)
    overlap_collectives(function, target_named("h200"), everywhere=True, way=way)
    program = device_program(function)
    assert program is not None
    functions = [step for step in segments_of(program) if isinstance(step, Segment)]
    turned = [each for each in functions if "kn.transpose" in str(each.module)]
    assert len(turned) == {Way.PARTS: 2, Way.ADDED: 5}[way]
    assert all(
        function.args[1] in each.takes and "kn.matmul" in str(each.module) for each in turned
    )
