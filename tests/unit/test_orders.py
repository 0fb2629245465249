"""Devices that read one another's memory are kept in order by their flags, and faults are seen."""

from __future__ import annotations

import pytest
from fuzz.late import Late, check_mutants, late, wrong
from thorough import THOROUGH

from mugraph.passes.program.partition.meetings import with_meetings
from mugraph.passes.program.partition.orders import Await, check_order, faults_of, streams_of
from mugraph.passes.program.partition.segments import Meeting, segments_of
from mugraph.reading import make_context, parse_text
from mugraph.runtime.interpreter import ExecutionError

LAYERS = """
func.func @f(%x: tensor<2x24xf32>,
             %w: tensor<24x48xf32> {{mugraph.sharding = #kn.sharding<[[], [0]]>}},
             %v: tensor<48x24xf32> {{mugraph.sharding = #kn.sharding<[[0]]>}})
    -> (tensor<2x24xf32> {{mugraph.sharding = #kn.sharding<[[]]>}})
    attributes {{mugraph.mesh = [{devices}]}} {{
  %a = kn.matmul %x, %w : (tensor<2x24xf32>, tensor<24x48xf32>) -> tensor<2x48xf32>
  %s = kn.silu %a : tensor<2x48xf32> -> tensor<2x48xf32>
  %p = kn.matmul %s, %v : (tensor<2x48xf32>, tensor<48x24xf32>) -> tensor<2x24xf32>
  {more}
}}
"""
ONE = "func.return %p : tensor<2x24xf32>"
TWO = """%b = kn.matmul %p, %w : (tensor<2x24xf32>, tensor<24x48xf32>) -> tensor<2x48xf32>
  %q = kn.matmul %b, %v : (tensor<2x48xf32>, tensor<48x24xf32>) -> tensor<2x24xf32>
  %r = kn.add %q, %p : (tensor<2x24xf32>, tensor<2x24xf32>) -> tensor<2x24xf32>
  func.return %r : tensor<2x24xf32>"""

GRID = """
func.func @f(%x: tensor<4x8xf32> {mugraph.sharding = #kn.sharding<[[1], [0]]>})
    -> (tensor<4x8xf32> {mugraph.sharding = #kn.sharding<[[]]>}, tensor<4x8xf32>)
    attributes {mugraph.mesh = [2, 3], mugraph.per_device} {
  %e = kn.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = kn.all_reduce %e axes [1] : tensor<4x8xf32> -> tensor<4x8xf32>
  %r = kn.reduce_scatter %s combine max axes [0] dim 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  %g = kn.all_gather %r axes [0] dim 1 : tensor<4x4xf32> -> tensor<4x8xf32>
  %p = kn.peer %g axes [1, 0] place 4 : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %g, %p : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


def of_text(text: str) -> Late:
    """A program that is not yet of loads from other devices."""
    return late(parse_text(make_context(), text, "orders"))


PROGRAMS = {
    **{f"one sum, {n} devices": LAYERS.format(devices=n, more=ONE) for n in (2, 3, 4, 8)},
    **{f"two sums, {n} devices": LAYERS.format(devices=n, more=TWO) for n in (2, 3, 8)},
    "grid": GRID,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_late_memory_changes_nothing(name: str) -> None:
    one = of_text(PROGRAMS[name])
    assert check_order(one.steps, one.returned, one.program.mesh) == []
    for seed in range(8):
        assert wrong(one, one.events, seed) is None


def test_a_tensor_that_is_replaced_too_soon_is_a_fault() -> None:
    one = of_text(PROGRAMS["one sum, 2 devices"])
    open_ = one._replace(steps=[step for step in one.steps if not isinstance(step, Meeting)])
    assert len(open_.steps) < len(one.steps)
    faults = check_order(open_.steps, open_.returned, open_.program.mesh)
    assert any("lays out tensor 0 of call 1 while device" in fault for fault in faults) or any(
        "which may have laid out another call's" in fault for fault in faults
    )
    assert any(wrong(open_, open_.events, seed) for seed in range(50))


def test_a_flag_that_is_not_waited_for_is_a_fault() -> None:
    one = of_text(PROGRAMS["two sums, 2 devices"])
    events = [[each for each in own if not isinstance(each, Await)] for own in one.events]
    assert (
        "device 0 reads tensor 0 of device 1 in call 0, which may have laid out another call's"
        in (faults_of(events))
    )


def test_whoever_waits_for_ever_is_named() -> None:
    one = of_text(PROGRAMS["two sums, 3 devices"])
    events = one.events
    events[2] = [each for each in events[2] if type(each).__name__ != "Raise"]
    with pytest.raises(ExecutionError, match="wait for one another for ever"):
        wrong(one, events, 0)
    assert "device 0 waits for ever in call 0: for device 2 to have met 1 times" in faults_of(
        events
    )


@pytest.mark.parametrize(
    "name", ["one sum, 2 devices", *(["two sums, 3 devices", "grid"] if THOROUGH else [])]
)
def test_mutants_are_reported_or_harmless(name: str) -> None:
    one = of_text(PROGRAMS[name])
    reported, harmless = check_mutants(one)
    assert reported > harmless > 0


def test_what_is_not_planned_with_meetings_is_seen_by_the_check_alone() -> None:
    one = of_text(PROGRAMS["one sum, 4 devices"])
    plain = segments_of(one.program)
    assert check_order(plain, one.returned, one.program.mesh)
    planned = with_meetings(plain, one.returned)
    assert not check_order(planned, one.returned, one.program.mesh)
    assert streams_of(planned, one.returned, one.program.mesh) == one.events
