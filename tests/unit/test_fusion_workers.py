"""A search that tries kernels in several processes finds what it finds by itself."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection

import pytest
from thorough import inputs

import mugraph.build as mi
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.fuse_kernels import fusion as fusion_module
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.workers import MOST_WORKERS, Workers, usual_count
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function

TARGET = target_named("sm_90a")


def test_results_stand_in_the_order_of_tasks() -> None:
    def numbered(task: int) -> tuple[int, int]:
        return task, os.getpid()

    with Workers(numbered, 2) as workers:
        found = workers.results([3, 1, 4, 1, 5])
    assert [each and each[0] for each in found] == [3, 1, 4, 1, 5]
    assert os.getpid() not in {each and each[1] for each in found}


def test_a_process_that_fails_is_left_out() -> None:
    def divide(task: int) -> float:
        return 1 / task

    with Workers(divide, 2) as workers:
        assert workers.results([0, 2, 4])[1:] == [0.5, 0.25]
        assert workers.results([0, 0]) == [None, None]
        assert not workers
        assert workers.results([1]) == [None]


def test_no_process_is_started_where_there_are_few_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own: set[int] = set()

    def processors(process: int) -> set[int]:
        return own

    monkeypatch.setattr(os, "sched_getaffinity", processors)
    counts: list[int] = []
    for number in range(64):
        own.add(number)
        counts.append(usual_count())
    assert counts[:4] == [0, 0, 0, 2]
    assert counts[-1] == MOST_WORKERS


def layers() -> mi.KernelGraph:
    """A norm and a gated layer with a residual; two of them, alike, where there is time."""
    graph = mi.new_kernel_graph("layers")
    x = graph.new_input((64, 512))
    for _ in range(inputs(1, 2)):
        w, v, u = (graph.new_input(shape) for shape in ((512, 768), (512, 768), (768, 512)))
        y = mi.rms_norm(x)
        x = x + (mi.silu(y @ w) * (y @ v)) @ u
    graph.mark_output(x)
    return graph


def found(monkeypatch: pytest.MonkeyPatch, count: int) -> tuple[str, Fusion, int]:
    """The kernels of the program by a search with so many workers; how many tasks they had."""
    sent = 0
    send = Connection.send

    def counted(pipe: Connection, task: object) -> None:
        nonlocal sent
        sent += 1
        send(pipe, task)

    with monkeypatch.context() as patch:
        patch.setattr(fusion_module, "usual_count", lambda: count)
        patch.setattr(fusion_module, "MOST_BY_ITSELF", 0)
        patch.setattr(Connection, "send", counted)
        module = layers().module()
        fusion = fuse_program(only_function(module), TARGET)
    return str(module), fusion, sent


def test_a_search_with_workers_finds_the_same_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, of_one, none = found(monkeypatch, 0)
    together, of_several, some = found(monkeypatch, 2)
    assert together == alone
    assert none == 0 < some
    times = [[each.time for each in fusion.attempts.values()] for fusion in (of_one, of_several)]
    assert times[0] == times[1]
    reasons = [[each.reasons for each in f.known.attempts.values()] for f in (of_one, of_several)]
    assert sorted(reasons[0]) == sorted(reasons[1])
    assert of_one.known.cores == of_several.known.cores
