"""Plans of kernels whose loops end at a length are chosen for all lengths."""

from __future__ import annotations

from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import before_planning
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.choose import space_of, trial_of
from mugraph.passes.mugraph.plan.shape import KernelModel
from mugraph.passes.mugraph.plan.smaller_extents import (
    Candidate,
    Shrink,
    Values,
    called_dimensions,
    ended_dimensions,
    least_regret,
    smaller,
    values_of,
)
from mugraph.passes.mugraph.retile.partition import partition_of
from mugraph.reading import make_context


def test_the_plan_nearest_to_the_fastest_at_all_lengths_and_calls_is_kept() -> None:
    """One in long tiles is the fastest at the largest length, and slow at short ones."""
    graph = mi.new_kernel_graph("decode")
    batch = mi.Extent("b", largest=16)
    q = graph.new_input((batch, 8, 4, 64))
    n = mi.Extent("n", largest=4096, held=graph.new_input((1,), dtype=mi.int32))
    k, v = (graph.new_input((batch, 8, n, 64)) for _ in "kv")
    graph.mark_output(mi.softmax(q @ graph.transpose(k, [0, 1, 3, 2]), 3) @ v)
    module = graph.module()
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    (kernel,) = custom_kernels(module)
    seen: list[KernelShape] = []
    with trial_of(kernel) as trial:
        space = space_of(trial, Plan())
        assert [extent.name for extent in called_dimensions(space).values()] == ["b"]
        present = partition_of(space)._replace(grid=(16, 8, 1))
        long, short = (Candidate(present.with_loop(count), 1) for count in (8, 64))

        def time_of(model: KernelModel, candidate: Candidate, shrink: Shrink) -> float:
            shape = shrink(model.under(candidate.partition).shape)
            seen.append(shape)
            tile = 64 // candidate.partition.forloop
            return shape.blocks * shape.iterations * tile * (1.0 if candidate is long else 1.05)

        assert least_regret(space, [long, short], time_of) == [short]
    assert {shape.blocks for shape in seen} == {128, 8}
    assert min(shape.iterations for shape in seen) == 1


def test_lengths_of_smaller_bounds_are_not_looked_at() -> None:
    graph = mi.new_kernel_graph("decode")
    q = graph.new_input((2, 8, 4, 64))
    length = graph.new_input((1,), dtype=mi.int32)
    n = mi.Extent("n", largest=4096, held=length, buckets=(100,))
    k, v = (graph.new_input((2, 8, n, 64)) for _ in "kv")
    graph.mark_output(mi.softmax(q @ graph.transpose(k, [0, 1, 3, 2]), 3) @ v)
    module = graph.module()
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    lengths: list[list[float]] = []
    for kernel in custom_kernels(module):
        with trial_of(kernel) as trial:
            space = space_of(trial, Plan())
            largest = trial.held_lengths[0].largest
            found = values_of(space, called_dimensions(space))
            lengths.append([values.length * largest for values in found])
    assert lengths == [[100, 25, 6.25, 1.5625], [4096, 1024, 256]]


def test_a_loop_over_the_depth_stays_where_zeros_fill_tiles_behind_the_length() -> None:
    """8 of 32 keys: a quarter of the keys comes, whether the loop is over the keys or the depth."""
    graph = mi.new_kernel_graph("decode")
    q = graph.new_input((2, 8, 4, 64))
    n = mi.Extent("n", largest=32, held=graph.new_input((1,), dtype=mi.int32))
    k, v = (graph.new_input((2, 8, n, 64)) for _ in "kv")
    graph.mark_output(mi.softmax(q @ graph.transpose(k, [0, 1, 3, 2]), 3) @ v)
    module = graph.module()
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    (kernel,) = custom_kernels(module)
    found: list[tuple[int, list[float], list[float]]] = []
    with trial_of(kernel) as trial:
        space = space_of(trial, Plan())
        ((keys,), present) = ended_dimensions(space), partition_of(space)
        model = KernelModel.of(space, present.looped())
        (of_queries, _) = (space.numbers[load.tile] for load in model.loaded[:2])
        for looped, tiles in ((keys, 2), (of_queries[-1], 4)):
            cuts = [cut._replace(looped=at == looped) for at, cut in enumerate(present.cuts)]
            candidate = Candidate(present._replace(cuts=tuple(cuts), forloop=tiles), 1)
            shrink = smaller(space, candidate, Values(8 / 32, {}), {}, frozenset({keys}))
            model = KernelModel.of(space, candidate.partition.looped())
            whole = model.under(candidate.partition).shape
            shape = shrink(whole)
            pairs = [*zip(shape.loads, whole.loads, strict=True)]
            came = [one.tensor_bytes / other.tensor_bytes for one, other in pairs]
            zeros = [one.padding / one.bytes for one, _ in pairs]
            found.append((shape.iterations, sorted(came), sorted(zeros)))
    assert found == [
        (1, [0.25, 0.25, 1.0], [0.0, 0.5, 0.5]),
        (4, [0.25, 0.25, 1.0], [0, 0.75, 0.75]),
    ]
