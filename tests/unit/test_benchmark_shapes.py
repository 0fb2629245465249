"""The drawn shapes of the benchmarks: what is drawn, what it computes, and how a run is said."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.h200 import records as results
from benchmarks.h200.building import Prepared, prepare
from benchmarks.h200.checking import RIGHT
from benchmarks.h200.peers import COMPILED, EAGER, MAX_AUTOTUNE, Level
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.records import Record, System
from benchmarks.h200.statistics import Samples
from benchmarks.programs.families import several
from benchmarks.shapes import measure
from benchmarks.shapes.__main__ import main
from benchmarks.shapes.check import check, interpreted
from benchmarks.shapes.draw import (
    LAYER_ROWS,
    LAYERS,
    LAYERS_SEED,
    MOST_FLOP,
    Array,
    Shape,
    elements_of,
    shape_named,
    shapes,
)
from benchmarks.shapes.kinds import KINDS, MOST_COLUMNS, Attention
from benchmarks.shapes.measure import is_measured, tasks_of, write
from benchmarks.shapes.models import MODELS
from benchmarks.shapes.peers import CUBLASLT, peers_of
from benchmarks.shapes.regret import regrets_of, write_regrets
from benchmarks.shapes.report import PLANS, TUNED, page, worst_first
from mugraph.errors import UserError
from mugraph.passes.mugraph.known_plans import Entry, PlanDatabase
from mugraph.reading import make_context
from mugraph.runtime.compare import compare, tolerance_for
from mugraph.tune import tunable_kernels
from mugraph.tune.records import ESTIMATE
from mugraph.tune.records import Record as TuningRecord

ARCH = "sm_90a"
DRAWN = shapes(3, 300)


def of_each_kind() -> list[Shape]:
    """The first shape of each kind with its options."""
    found: dict[object, Shape] = {}
    for shape in DRAWN:
        options = frozenset(shape.drawn.options) - {"qkv", "attention output", "up", "down"}
        found.setdefault((shape.kind.name, options), shape)
    return [*found.values()]


def test_the_draw_of_a_number_is_always_the_same() -> None:
    assert shapes(3, 40) == DRAWN[:40]
    assert all(shape_named(shape.name) == shape for shape in DRAWN[:40])
    assert len({shape.name for shape in (*DRAWN, *shapes(5, 300))}) == 600


def test_a_name_that_is_not_drawn_is_refused() -> None:
    other = DRAWN[0].name.replace("f16", "f32")
    with pytest.raises(UserError, match="no shape is called"):
        shape_named(other)


def test_what_is_drawn_covers_what_users_have() -> None:
    assert {shape.kind.name for shape in DRAWN} == {*KINDS}
    assert {shape.element_type for shape in DRAWN} == {"f16", "bf16"}
    assert len({shape.drawn.model for shape in DRAWN}) > 20
    rows = [shape.drawn.sizes["m"] for shape in DRAWN if "m" in shape.drawn.sizes]
    assert min(rows) == 1 and max(rows) > 4096
    powers = sum(row & (row - 1) == 0 for row in rows)
    assert len(rows) / 4 < powers < 3 * len(rows) / 4
    attention = [shape.drawn for shape in DRAWN if isinstance(shape.kind, Attention)]
    assert {each.sizes["depth"] for each in attention} >= {64, 72, 80, 96, 128, 192, 256}
    assert {"causal" in each.options for each in attention} == {True, False}
    assert any(each.sizes["group"] > 1 for each in attention)


def test_what_is_drawn_fits_a_run() -> None:
    for shape in DRAWN:
        assert shape.flop <= MOST_FLOP and elements_of(shape) <= 2**30
        assert shape.drawn.sizes.get("columns", 128) in range(128, MOST_COLUMNS + 1)


def test_heads_of_a_model_share_keys_evenly() -> None:
    assert len({model.name for model in MODELS}) == len(MODELS)
    assert all(model.heads % model.key_heads == 0 for model in MODELS)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", of_each_kind(), ids=lambda shape: shape.name)
def test_planned_kernels_compute_the_function(shape: Shape) -> None:
    for comparison, allowed in interpreted(shape.small, ARCH):
        assert comparison.holds(allowed), (comparison, allowed)


@pytest.mark.parametrize("shape", of_each_kind(), ids=lambda shape: shape.name)
def test_peers_compute_the_function(shape: Shape) -> None:
    torch = pytest.importorskip("torch")
    small = shape.small
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[shape.element_type]
    inputs = [torch.from_numpy(each).to(dtype) for each in small.random_inputs(5)]
    expected = small.reference(*(each.double().numpy() for each in inputs))
    eps = torch.finfo(dtype).eps
    for peer in peers_of(small, Level.FAST):
        if not peer.same_function or peer.compiled is not None or peer.name == CUBLASLT:
            continue  # what only a GPU, or its compiler, computes
        with torch.inference_mode():
            given = peer.function(*inputs)  # without the backend: they are of a GPU
        wide = [each.double().numpy() for each in several(given)]
        for comparison in compare(wide, expected):
            assert comparison.holds(max(4 * eps, tolerance_for([]))), (peer.name, comparison)


def test_peers_by_level() -> None:
    shape = next(shape for shape in DRAWN if isinstance(shape.kind, Attention))
    fast = [peer.name for peer in peers_of(shape, Level.FAST)]
    assert {EAGER, COMPILED, "SDPA flash", "SDPA cudnn"} <= {*fast}
    assert MAX_AUTOTUNE in [peer.name for peer in peers_of(shape, Level.ALL)]
    assert peers_of(shape, Level.NONE) == ()


def test_a_program_is_built_from_its_file(tmp_path: Path) -> None:
    shape = next(shape for shape in DRAWN if shape.kind.name == "gated MLP")
    (task,) = tasks_of(shape, ARCH, tmp_path)
    prepared = prepare(task)
    assert isinstance(prepared, Prepared) and "__global__" in prepared.source


def test_a_database_gives_a_shape_another_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = next(each for each in DRAWN if each.group == "gated MLP, M <= 64")
    (kernel,), _ = tunable_kernels(shape.module(), make_context(), ARCH)
    plan = kernel.candidates(8)[-1]
    plans = tmp_path / "plans.jsonl"
    PlanDatabase([Entry(kernel.structure, "h200", plan, 1.0, 2.0)]).write(plans)
    for gpu, same in (("h200", False), ("h100", True)):
        monkeypatch.setattr(measure, "gpu_here", lambda gpu=gpu: gpu)
        ours, tuned = map(prepare, tasks_of(shape, ARCH, tmp_path, plans))
        assert isinstance(ours, Prepared) and isinstance(tuned, Prepared)
        assert (ours.source == tuned.source) is same


def test_a_shape_that_cannot_be_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = next(shape for shape in DRAWN if shape.kind.name == "linear")

    def another(self: Shape, x: Array, *others: Array) -> list[Array]:
        del self, others
        return [np.zeros_like(x)]

    monkeypatch.setattr(Shape, "reference", another)
    assert "for one of shape" in check(shape, ARCH).problem


def record_of(shape: Shape, times: dict[str, float]) -> Record:
    """A record of made-up times."""
    names = ("gpu", "date", "arch", "python", "nvcc", "torch", "commit")
    record = Record(shape.name, dict.fromkeys(names, "x") | shape.facts, 10, 1.0)
    for name, time in times.items():
        record.add(System(name, RIGHT, is_peer=name not in (OURS, TUNED))).set_samples(
            Samples((time,))
        )
    return record


def test_a_page_has_geometric_means_of_groups(tmp_path: Path) -> None:
    one, other = [shape for shape in DRAWN if shape.group == "linear, M <= 64"][:2]
    records = {
        one.name: record_of(one, {OURS: 1.0, EAGER: 4.0, COMPILED: 5.0}),
        other.name: record_of(other, {OURS: 4.0, EAGER: 1.0}),
    }
    records[other.name].add(System(COMPILED, "wrong: error 1.0e+00", is_peer=True))
    write(records, tmp_path / "page")
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "| linear, M <= 64 | 2 | 2 | 1.00 | 0.25 | 4.00 | 1 |  |  |  |" in text
    assert "torch.compile: wrong" in text
    assert results.read(tmp_path / "page.json") == records


def test_tuned_kernels_have_means_of_their_own() -> None:
    one, other = [shape for shape in DRAWN if shape.group == "linear, M <= 64"][:2]
    records = {
        one.name: record_of(one, {OURS: 2.0, TUNED: 1.0}),
        other.name: record_of(other, {OURS: 2.0}),  # where the plans change nothing
    }
    for record in records.values():
        record.facts[PLANS] = "plans.jsonl"
        record.add(System(EAGER, RIGHT, is_peer=True)).set_samples(Samples((4.0,)))
    text = "\n".join(page(records))
    assert "| linear, M <= 64 | 2 | 2 | 2.00 | 2.00 | 2.00 | 0 | 2 | 2.83 | 2.00 |" in text


def test_shapes_behind_their_peers_come_first() -> None:
    found, times = DRAWN[:3], {EAGER: 4.0}
    records = {
        found[1].name: record_of(found[1], times | {OURS: 2.0}),
        found[2].name: record_of(found[2], times | {OURS: 8.0}),
    }
    assert worst_first(found, records) == [found[2], found[1], found[0]]


def tuning_record(kernel: str, code: str, times: tuple[float, ...], role: str = "") -> TuningRecord:
    return TuningRecord("structure", "h200", kernel, f"plan of {code}", code, "", times, role, "1")


def test_regret_is_against_plans_that_were_measured_often(tmp_path: Path) -> None:
    shape = DRAWN[0]
    kernel, library = f"{shape.name}_custom0", "of_no_shape_custom0"
    records = [
        tuning_record(kernel, "a", (12.0,) * 5, ESTIMATE),
        tuning_record(kernel, "a", (12.0,) * 20, ESTIMATE),
        tuning_record(kernel, "b", (10.0,) * 40),
        tuning_record(kernel, "lucky", (5.0,) * 5),
        tuning_record(kernel, "c", (14.0,) * 40),
        tuning_record(library, "a", (12.0,) * 5, ESTIMATE),
        tuning_record(f"{DRAWN[1].name}_custom0", "b", (12.0,) * 40),
    ]
    (one,) = regrets_of(records)
    assert (one.kernel, one.group, one.plans) == (kernel, shape.group, 4)
    assert one.regret == pytest.approx(0.2) and one.plan == "plan of b"
    write_regrets([one, replace(one, chosen=10.0)], tmp_path / "regret")
    text = (tmp_path / "regret.md").read_text(encoding="utf-8")
    assert f"| {shape.group} | 2 | 10.0% | 9.5% | 20.0% | 1 | 0 |" in text


def test_what_another_commit_measured_is_measured_again() -> None:
    shape = DRAWN[0]
    records = {shape.name: record_of(shape, {OURS: 1.0})}
    assert is_measured(shape, records, {"commit": "x", "gpu": "x"})
    assert not is_measured(shape, records, {"commit": "y", "gpu": "x"})
    assert not is_measured(DRAWN[1], records, {"commit": "x", "gpu": "x"})


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs ``python -m benchmarks.shapes``."""
    monkeypatch.setattr(sys, "argv", ["shapes", *arguments])
    return main()


def test_shards_are_all_shapes_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    listed: list[str] = []
    for part in range(1, 4):
        assert command(monkeypatch, "list", "--seed", "3", "--shard", f"{part}/3") == 0
        listed += [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert sorted(listed) == sorted(shape.name for shape in DRAWN[:20])
    assert command(monkeypatch, "list", "--shard", "4/3") == 1
    assert "error: --shard is '4/3'" in capsys.readouterr().err


def test_seed_0_is_layers_over_rows() -> None:
    layers = shapes(LAYERS_SEED, len(LAYERS) * len(LAYER_ROWS))
    assert all(shape_named(shape.name) == shape for shape in layers)
    with pytest.raises(UserError, match="seed 0 has 24 shapes"):
        shapes(LAYERS_SEED, len(layers) + 1)
