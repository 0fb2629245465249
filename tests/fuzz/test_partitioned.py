"""Random programs on random meshes: ``python -m fuzz.partitioned`` takes thousands."""

from __future__ import annotations

import numpy as np
import pytest
from thorough import inputs
from xdsl.ir import SSAValue

from fuzz.partitioned import (
    Array,
    check_partitioned,
    check_peers,
    draw_partitioned,
    inputs_of,
    unreported,
)
from mugraph.dialects import kn
from mugraph.dialects.sharding import device_program
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.partition.segments import Segment, segments_of
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Precision
from mugraph.runtime.interpreter.devices import exchange
from mugraph.runtime.interpreter.functions import part_of

SEED = 5


@pytest.mark.parametrize("number", range(inputs(5, 2000)))
def test_a_partitioned_program_is_the_same_function(number: int) -> None:
    module, _ = check_partitioned(draw_partitioned(SEED, number), fused=number % 4 == 0)
    assert module is not None


@pytest.mark.parametrize("number", range(inputs(3, 1000)))
def test_loads_from_other_devices_are_the_same_in_any_order_of_arrival(number: int) -> None:
    whole = draw_partitioned(SEED + 2, number)
    module, _ = check_partitioned(whole)
    check_peers(module, whole, number)


@pytest.mark.parametrize("number", range(inputs(2, 200)))
def test_what_is_wrong_with_collectives_is_reported(number: int) -> None:
    whole = draw_partitioned(SEED + 1, number)
    module, _ = check_partitioned(whole)
    for name, outcome in unreported(whole, module):
        assert outcome in ("reported", "harmless"), name


@pytest.mark.parametrize("number", range(inputs(3, 100)))
def test_functions_between_collectives_compute_what_devices_do(number: int) -> None:
    """As ``mugraph.compile(program, mesh=...)`` runs them, on simulated devices."""
    whole = draw_partitioned(SEED, number)
    module, _ = check_partitioned(whole)
    program = device_program(only_function(module))
    assert program is not None
    arithmetic, devices = Arithmetic(Precision.FLOAT64), program.mesh.devices
    values: dict[SSAValue, list[Array]] = {}
    arrays = inputs_of(whole)
    for argument, array, sharding in zip(
        program.function.args, arrays, program.arguments, strict=True
    ):
        shape = shape_of(argument.type)
        starts = [sharding.start(shape, program.mesh, device) for device in devices]
        values[argument] = [part_of(array.astype(np.float64), start, shape) for start in starts]
    for step in segments_of(program):
        if isinstance(step, Segment):
            results = [
                run_function(step.module, None, [values[each][d] for each in step.takes], "float64")
                for d in devices
            ]
            for value, of_devices in zip(step.gives, zip(*results, strict=True), strict=True):
                values[value] = list(of_devices)
        else:
            assert isinstance(step, kn.CollectiveOp)
            values[step.result] = exchange(step, values[step.input], arithmetic)
    last = program.function.get_return_op()
    assert last is not None
    expected = run_function(whole, None, arrays, "float64")
    for value, result, sharding in zip(last.operands, expected, program.results, strict=True):
        for device, part in zip(devices, values[value], strict=True):
            mine = part_of(result, sharding.start(part.shape, program.mesh, device), part.shape)
            assert np.allclose(part, mine, rtol=1e-2, atol=1e-2, equal_nan=True)
