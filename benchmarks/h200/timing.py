"""How systems are timed.

The median of 40 samples a system, interleaved over 5 rounds, each in another order; a sample
replays a CUDA graph of at least 16 calls that go round input sets of about 200 MB in all.
Calls are captured one after another on one stream, so a dependent launch that starts before the
kernel before it has ended does so inside the graph, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.h200.statistics import ROUNDS, SAMPLES_PER_ROUND, Samples, call_count

Call = Callable[[int], Any]
"""Enqueues one call on the current stream, on the tensors of a set, and returns its result."""


@dataclass
class Captured:
    """A CUDA graph of so many calls."""

    graph: Any
    calls: int
    kept: list[Any]
    """The results, which must not be freed and reused within a round of the sets."""
    call: Call
    """What was captured: it holds the tensors that the graph knows by their addresses only."""


def capture(call: Call, sets: int, calls: int) -> Captured:
    """A CUDA graph of ``calls`` calls that go round the sets; called outside of it before."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            call(0)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    kept: list[Any] = [None] * sets
    with torch.cuda.graph(graph, stream=stream):
        for index in range(calls):
            kept[index % sets] = None
            kept[index % sets] = call(index % sets)
    return Captured(graph, calls, kept, call)


def sample(captured: Captured) -> float:
    """Microseconds of a call in one replay."""
    import torch

    start = torch.cuda.Event(enable_timing=True)
    stop = torch.cuda.Event(enable_timing=True)
    start.record()
    captured.graph.replay()
    stop.record()
    stop.synchronize()
    return 1000.0 * start.elapsed_time(stop) / captured.calls


def prepared(call: Call, sets: int) -> Captured:
    """A graph that is long enough: a first one tells how many calls that takes."""
    first = capture(call, sets, call_count(sets))
    sample(first)
    calls = call_count(sets, min(sample(first), sample(first)))
    return first if calls <= first.calls else capture(call, sets, calls)


def interleaved(
    graphs: Sequence[Captured],
    before: Callable[[int], None],
    microseconds_a_round: float | None = None,
) -> list[Samples]:
    """Samples of each graph, in rounds: other work of the machine hits all of them.

    Each round has another order: products of 4096 x 4096 run into the limit of power, and what ran
    before decides how fast the clock still is.  ``before`` is called with the graph's number
    whenever one is about to run.  ``microseconds_a_round`` is how long a graph runs in a round, at
    most: one that takes long has fewer samples then.
    """
    values: list[list[float]] = [[] for _ in graphs]
    for turn in range(ROUNDS):
        order = list(range(len(graphs)))
        random.Random(turn).shuffle(order)
        for index in order:
            graph = graphs[index]
            before(index)
            once = sample(graph) * graph.calls  # what ran before is not measured with it
            count = SAMPLES_PER_ROUND
            if microseconds_a_round is not None:
                count = max(1, min(count, int(microseconds_a_round / once)))
            values[index] += [sample(graph) for _ in range(count)]
    return [Samples(tuple(times)) for times in values]
