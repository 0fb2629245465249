"""Kernels whose rows a call says are cut for all numbers of rows that they may have."""

from __future__ import annotations

from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import kn
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.plan.choose import space_of, trial_of
from mugraph.passes.mugraph.plan.sizes import Range, for_all_values, range_of, time_at
from mugraph.passes.mugraph.plan.tiles import choose_least_time, least_times
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

TARGET = target_named("sm_90a")


def kernel(rows: int, **range_: int) -> kn.CustomizedOp:
    """The product of a layer before it is planned; of a range of rows, or of so many."""
    graph = mi.new_kernel_graph("layer")
    m = mi.Extent("m", largest=rows, buckets=(range_["above"],)) if range_ else rows
    x, w = graph.new_input((m, 2048)), graph.new_input((2048, 4096), constant=True)
    graph.mark_output(mi.silu(x @ w))
    module = graph.module()
    steps = compile_pipeline("sm_90a")
    names = [step.name for step in steps]
    PassPipeline(steps[: names.index("plan")]).apply(make_context(), module)
    return [op for op in module.walk() if isinstance(op, kn.CustomizedOp)][-1]


def test_the_rows_of_a_bucket_are_known() -> None:
    with trial_of(kernel(1024, above=64)) as trial:
        found = range_of(space_of(trial, Plan()))
    assert found is not None and (found.least, found.largest) == (65, 1024)
    samples = found.samples()
    assert samples == sorted(samples) and 65 <= samples[0] < 100 and 800 < samples[-1] <= 1024
    with trial_of(kernel(1024)) as trial:
        assert range_of(space_of(trial, Plan())) is None


def test_no_partition_loses_less_over_all_rows() -> None:
    with trial_of(kernel(1024, above=64)) as trial:
        space = space_of(trial, Plan())
        rows = range_of(space)
        largest = choose_least_time(space, TARGET, Plan())
        assert isinstance(rows, Range) and largest is not None
        chosen = for_all_values(space, largest, rows, TARGET, Plan())
        candidates = [largest, *least_times(space, TARGET, Plan(), 24)]
        times = {
            each: [time_at(space, each, rows, value, TARGET) for value in rows.samples()]
            for each in candidates
        }
    best = [min(column) for column in zip(*times.values(), strict=True)]
    losses = {
        each: sum((one / least - 1) ** 2 for one, least in zip(own, best, strict=True))
        for each, own in times.items()
    }
    assert losses[chosen] == min(losses.values()) <= losses[largest]
    # Fewer rows take fewer blocks.
    assert times[largest][0] <= times[largest][-1]
