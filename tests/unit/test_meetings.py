"""Where devices meet that read one another's memory."""

from __future__ import annotations

from mugraph.dialects import kn
from mugraph.dialects.sharding import device_program, is_per_device
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.partition.meetings import with_meetings
from mugraph.passes.program.partition.segments import (
    Exchange,
    Meeting,
    Segment,
    Step,
    first_alike,
    segments_of,
)
from mugraph.passes.program.use_peers import Ways, use_peers, ways_of
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function

ONE_SUM = """
func.func @f(%x: tensor<4x64xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %w: tensor<64x32xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
             %r: tensor<4x32xf16>,
             %v: tensor<32x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>})
    -> (tensor<4x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>})
    attributes {mugraph.mesh = [2]} {
  %p = kn.matmul %x, %w : (tensor<4x64xf16>, tensor<64x32xf16>) -> tensor<4x32xf16>
  %h = kn.add %p, %r : (tensor<4x32xf16>, tensor<4x32xf16>) -> tensor<4x32xf16>
  %n = kn.rms_norm %h over [32] : (tensor<4x32xf16>) -> tensor<4x32xf16>
  %y = kn.matmul %n, %v : (tensor<4x32xf16>, tensor<32x16xf16>) -> tensor<4x16xf16>
  func.return %y : tensor<4x16xf16>
}
"""


NORM = "add, add, square, reduction, mul_scalar, sqrt, div"
"""The sum of what two devices hold, and what it is the operand of, up to the product."""


def steps_of(text: str) -> list[Step]:
    """What a device does in a call, with collectives as loads from others."""
    module = parse_text(make_context(), text, "steps")
    function = only_function(module)
    if not is_per_device(function):
        PartitionPass().apply(make_context(), module)
    use_peers(function, everywhere=True)
    module.verify()
    program = device_program(function)
    assert program is not None
    returned = function.get_return_op()
    assert returned is not None
    return with_meetings(segments_of(program), returned.operands)


def names(step: Step) -> str:
    """The operators of a step, or what it is."""
    if isinstance(step, Segment):
        operators = [op.name for op in step.module.walk() if op.dialect_name() == "kn"]
        return ", ".join(name.removeprefix("kn.") for name in operators)
    return type(step).__name__


def test_what_reads_others_ends_before_a_product_and_the_next_call_waits_for_it() -> None:
    assert [names(step) for step in steps_of(ONE_SUM)] == [
        "Meeting",
        "matmul",
        "Exchange",
        NORM,
        "matmul",
    ]


def test_what_a_function_behind_an_exchange_takes_alone_is_computed_there() -> None:
    text = ONE_SUM.replace(
        "%v: tensor<32x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>}",
        "%u: tensor<16x32xf16> {mugraph.constant, mugraph.sharding = #kn.sharding<[[0]]>}",
    ).replace(
        "  %y = kn.matmul",
        "  %v = kn.transpose %u dims [1, 0] : tensor<16x32xf16> -> tensor<32x16xf16>\n"
        "  %y = kn.matmul",
    )
    steps = steps_of(text)
    assert [names(step) for step in steps][-2:] == [NORM, "transpose, matmul"]
    assert isinstance(steps[-1], Segment)
    assert str(steps[-1].module).count("mugraph.constant") == 1


def test_products_see_one_tensor_behind_an_exchange_in_the_extents_of_each() -> None:
    """Their kernel loads it once; as results of the function before they would be two tensors."""
    text = """
    func.func @f(%x: tensor<1x4x32xf16>, %u: tensor<32x16xf16>, %v: tensor<32x16xf16>)
        -> (tensor<4x16xf16> {mugraph.sharding = #kn.sharding<[[]]>})
        attributes {mugraph.mesh = [2], mugraph.per_device} {
      %s = kn.all_reduce %x axes [0] : tensor<1x4x32xf16> -> tensor<1x4x32xf16>
      %a = kn.reshape %s : tensor<1x4x32xf16> -> tensor<4x32xf16>
      %b = kn.reshape %s : tensor<1x4x32xf16> -> tensor<4x32xf16>
      %p = kn.matmul %a, %u : (tensor<4x32xf16>, tensor<32x16xf16>) -> tensor<4x16xf16>
      %q = kn.matmul %b, %v : (tensor<4x32xf16>, tensor<32x16xf16>) -> tensor<4x16xf16>
      %y = kn.mul %p, %q : (tensor<4x16xf16>, tensor<4x16xf16>) -> tensor<4x16xf16>
      func.return %y : tensor<4x16xf16>
    }
    """
    steps = steps_of(text)
    assert [names(step) for step in steps] == [
        *("Meeting", "Exchange", "add", "reshape, reshape, matmul, matmul, mul")
    ]
    reading = steps[2]
    assert isinstance(reading, Segment)
    assert len(reading.gives) == 1


def test_two_exchanges_in_turn_need_no_other_meeting() -> None:
    wanted = "tensor<4x16xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>}"
    text = ONE_SUM.replace(wanted, wanted.replace("[[], [0]]", "[[]]"))
    assert [names(step) for step in steps_of(text)] == [
        "matmul",
        "Exchange",
        NORM,
        "matmul",
        "Exchange",
        "concat",
    ]


def test_groups_along_other_axes_keep_nothing_in_order() -> None:
    text = """
    func.func @f(%x: tensor<4x32xf16> {mugraph.sharding = #kn.sharding<[[0], [1]]>})
        -> (tensor<2x16xf16> {mugraph.sharding = #kn.sharding<[[]]>})
        attributes {mugraph.mesh = [2, 2], mugraph.per_device} {
      %e = kn.exp %x : tensor<2x16xf16> -> tensor<2x16xf16>
      %s = kn.all_reduce %e axes [0] : tensor<2x16xf16> -> tensor<2x16xf16>
      %t = kn.all_reduce %s axes [1] : tensor<2x16xf16> -> tensor<2x16xf16>
      func.return %t : tensor<2x16xf16>
    }
    """.replace("tensor<4x32xf16> {", "tensor<2x16xf16> {")
    found = steps_of(text)
    assert [names(step) for step in found] == [
        *("Meeting", "exp", "Exchange"),
        *("Meeting", "add", "Exchange"),
        "add",
    ]
    axes = [step.axes for step in found if isinstance(step, Meeting | Exchange)]
    assert axes == [(0,), (0,), (1,), (1,)]


def test_what_is_returned_of_others_is_read_behind_all_steps() -> None:
    text = """
    func.func @f(%x: tensor<4x32xf16>) -> (tensor<4x32xf16>, tensor<4x32xf16>)
        attributes {mugraph.mesh = [2], mugraph.per_device} {
      %p = kn.peer %x axes [0] place 1 : tensor<4x32xf16> -> tensor<4x32xf16>
      %e = kn.exp %x : tensor<4x32xf16> -> tensor<4x32xf16>
      %q = kn.peer %e axes [0] place 0 : tensor<4x32xf16> -> tensor<4x32xf16>
      func.return %p, %q : tensor<4x32xf16>, tensor<4x32xf16>
    }
    """
    assert [names(step) for step in steps_of(text)] == ["Meeting", "exp", "Exchange", "Exchange"]


def ways(devices: int, rows: int) -> Ways:
    """What a sum behind a product takes, of so many rows of 1024 f16, in each way."""
    text = f"""
    func.func @f(%x: tensor<{rows}x64xf16>, %w: tensor<64x1024xf16>)
        -> (tensor<{rows}x1024xf16> {{mugraph.sharding = #kn.sharding<[[]]>}})
        attributes {{mugraph.mesh = [{devices}], mugraph.per_device}} {{
      %p = kn.matmul %x, %w
          : (tensor<{rows}x64xf16>, tensor<64x1024xf16>) -> tensor<{rows}x1024xf16>
      %s = kn.all_reduce %p axes [0] : tensor<{rows}x1024xf16> -> tensor<{rows}x1024xf16>
      func.return %s : tensor<{rows}x1024xf16>
    }}
    """
    function = only_function(parse_text(make_context(), text, "sum"))
    (op,) = (op for op in function.walk() if isinstance(op, kn.AllReduceOp))
    return ways_of(op)


def test_a_sum_is_loaded_whole_in_parts_or_left_to_the_library_by_what_each_takes() -> None:
    few, more, many = ways(8, 8), ways(8, 512), ways(8, 16384)
    assert few.loads < min(few.library, few.in_two)
    # Each of eight devices would load seven tensors.
    assert more.in_two < min(more.library, more.loads)
    assert many.library < min(many.loads, many.in_two)
    # Of two devices each loads as much in both ways.
    assert ways(2, 512).loads < ways(2, 512).in_two


def test_parts_of_sums_are_added_up_by_their_devices_and_then_loaded() -> None:
    text = """
    func.func @f(%x: tensor<256x64xf16>, %w: tensor<64x1024xf16>)
        -> (tensor<256x1024xf16> {mugraph.sharding = #kn.sharding<[[]]>})
        attributes {mugraph.mesh = [8], mugraph.per_device} {
      %p = kn.matmul %x, %w
          : (tensor<256x64xf16>, tensor<64x1024xf16>) -> tensor<256x1024xf16>
      %s = kn.all_reduce %p axes [0] : tensor<256x1024xf16> -> tensor<256x1024xf16>
      func.return %s : tensor<256x1024xf16>
    }
    """
    found = [names(step) for step in steps_of(text) if not isinstance(step, kn.AllSliceOp)]
    assert found == ["matmul", "Exchange", ", ".join(["add"] * 7), "Exchange", "concat"]


def test_functions_of_layers_that_are_alike_are_compiled_once() -> None:
    layer = """
      %a{n} = kn.matmul %{x}, %w : (tensor<4x16xf16>, tensor<16x16xf16>) -> tensor<4x16xf16>
      %s{n} = kn.all_reduce %a{n} axes [0] : tensor<4x16xf16> -> tensor<4x16xf16>"""
    layers = "".join(layer.format(n=n, x=f"s{n - 1}" if n else "x") for n in range(4))
    text = f"""
    func.func @f(%x: tensor<4x16xf16>, %w: tensor<16x16xf16>)
        -> (tensor<4x16xf16> {{mugraph.sharding = #kn.sharding<[[]]>}})
        attributes {{mugraph.mesh = [2], mugraph.per_device}} {{{layers}
      %t = kn.exp %s3 : tensor<4x16xf16> -> tensor<4x16xf16>
      func.return %t : tensor<4x16xf16>
    }}
    """
    segments = [step for step in steps_of(text) if isinstance(step, Segment)]
    # A product; the sum of what both devices hold, and the next product; the last sum.
    assert [names(each) for each in segments] == [
        "matmul",
        *("add", "matmul") * 3,
        "add, exp",
    ]
    assert first_alike(segments) == [0, 1, 0, 1, 0, 1, 0, 7]
