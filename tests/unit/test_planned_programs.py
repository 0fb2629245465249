"""Programs that were planned before are found again: by their text, options and mugraph's code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mugraph
import mugraph.build as mi
from mugraph.jit import compilation
from mugraph.jit.planned import planned


class FoundError(Exception):
    """In the place of nvcc."""


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was printed for nvcc, in an empty cache; each program that is planned is counted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    steps: list[str] = []
    pipeline: Any = compilation.compile_pipeline

    def counted(*given: Any, **options: Any) -> Any:
        steps.append("planned")
        return pipeline(*given, **options)

    def stop(source: str, *_: Any, **__: Any) -> Path:
        steps.append(source)
        raise FoundError

    monkeypatch.setattr(compilation, "compile_pipeline", counted)
    monkeypatch.setattr(compilation, "compile_library", stop)
    return steps


def compile_sum(columns: int, **options: Any) -> None:
    graph = mi.new_kernel_graph("added")
    x, y = (graph.new_input((8, columns)) for _ in range(2))
    graph.mark_output(mi.exp(x) + y)
    with pytest.raises(FoundError):
        mugraph.compile(graph, "sm_90a", **options)


def test_a_program_is_planned_once(plans: list[str]) -> None:
    compile_sum(64)
    compile_sum(64)
    first, source, again = plans
    assert first == "planned" and source == again and "__global__" in source


@pytest.mark.parametrize("options", [{"fuse": False}, {"plan": mugraph.Plan(pdl="none")}])
def test_other_options_are_another_plan(plans: list[str], options: dict[str, Any]) -> None:
    compile_sum(64)
    compile_sum(64, **options)
    compile_sum(128)
    assert plans.count("planned") == 3


def test_what_is_told_of_lines_or_printed_is_made_each_time(plans: list[str]) -> None:
    for options in ({"remarks": True}, {"lineinfo": True}):
        compile_sum(64, **options)
        compile_sum(64, **options)
    assert plans.count("planned") == 4


def test_the_interface_is_kept_and_an_error_is_not(tmp_path: Path, plans: list[str]) -> None:
    graph = mi.new_kernel_graph("scaled")
    graph.mark_output(graph.new_input((4, 8), name="rows") * 2.0)
    module = graph.module()

    def fail() -> Any:
        raise FoundError

    with pytest.raises(FoundError):
        planned(module, plan=fail)
    interface = mugraph.compile(graph, "cpu").interface
    for make in (lambda: compilation.Planned("text", interface), fail):
        source, known = planned(module, plan=make)
        assert (source, known) == ("text", interface)
