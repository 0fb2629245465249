"""Databases of measured plans: their text, what is refused, and how kernels get plans of them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import PassFailedException

import mugraph
import mugraph.build as mi
from mugraph.dialects.plan import Plan
from mugraph.errors import UserError
from mugraph.passes.compile import before_planning
from mugraph.passes.mugraph.known_plans import (
    Entry,
    PlanDatabase,
    PlanDatabaseWarning,
    UsePlansPass,
    measured_plans,
    use_plans,
)
from mugraph.passes.mugraph.known_plans.database import (
    MEASURED,
    entry_of,
    plan_of_text,
    plan_text,
)
from mugraph.passes.mugraph.known_plans.structure import likeness_of, structure_of
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.targets import gpu_named, target_named
from mugraph.reading import make_context

ARCH, GPU = "sm_90a", "h200"
TARGET = target_named(ARCH)
PLAN = Plan(grid=(32, 1, 1), forloop=8, loads="tma", stages=(3,), preferred=("stages",))


def graph(
    rows: int | mi.Extent = 16, columns: int = 1024, activation: bool = False
) -> mi.KernelGraph:
    """rms_norm(X) · W."""
    graph = mi.new_kernel_graph("norm_linear")
    x, w = graph.new_input((rows, 512)), graph.new_input((512, columns))
    y = mi.rms_norm(x) @ w
    graph.mark_output(mi.relu(y) if activation else y)
    return graph


def planless_of(graph: mi.KernelGraph) -> ModuleOp:
    """The graph's kernel before it is planned."""
    module = graph.module()
    PassPipeline(before_planning(ARCH)).apply(make_context(), module)
    return module


@pytest.fixture
def planless() -> ModuleOp:
    return planless_of(graph())


def entry(module: ModuleOp, plan: Plan = PLAN, **others: object) -> Entry:
    """What is known of the kernel of a module; the estimate would never take the plan elsewhere."""
    (kernel,) = custom_kernels(module)
    likeness = *likeness_of(kernel), 0.0
    found = Entry(structure_of(kernel), GPU, plan, 4.0, 5.0, *likeness, "k", "today")
    return replace(found, **others)  # pyright: ignore


@pytest.mark.parametrize(
    "plan", [Plan(), PLAN, Plan(swap_ab=False, along=(0, -1, -1), pdl="none", tiles="written")]
)
def test_lines_are_read_as_they_were_written(plan: Plan) -> None:
    name = 'a name, with "quotes"'
    written = Entry("0123", GPU, plan, 4.125, 5.5, "45", (16, 1024), 1.5, name, "2026-11-25")
    assert entry_of(written.line()) == written
    assert plan_of_text(plan_text(plan)) == plan
    assert "\n" not in written.line()


def test_no_plan_is_a_sentence() -> None:
    with pytest.raises(ValueError, match="grids is no part of a plan"):
        plan_of_text("grids = [3]")


def test_files_are_merged_in_any_order(planless: ModuleOp, tmp_path: Path) -> None:
    some = [
        entry(planless),
        entry(planless, Plan(forloop=4), microseconds=3.0),
        entry(planless, gpu="h100"),
        entry(planless, structure="another"),
    ]
    lines = [each.line() + "\n" for each in some]
    paths = tmp_path / "one", tmp_path / "other"
    paths[0].write_text("".join(lines))
    paths[1].write_text("".join(reversed(lines)))
    one, other = map(PlanDatabase.read, paths)
    for number, database in enumerate((one, other)):
        assert len(database) == 3
        assert database.find(some[0].structure, GPU) == some[1]  # it gained more
        database.write(paths[number])
    assert paths[0].read_text() == paths[1].read_text()


def test_no_file_is_an_empty_database(tmp_path: Path) -> None:
    assert len(PlanDatabase.read(tmp_path / "none")) == 0


def edited(line: str) -> str:
    return line.replace("forloop = 8", "forloop = 4")


def stale(line: str) -> str:
    fields = json.loads(line)
    return Entry(fields["structure"], GPU, PLAN, 1.0, 2.0, version="0.0.1").line()


def cut_off(line: str) -> str:
    return line[: len(line) // 2]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(edited, "was edited"), (stale, "is stale: mugraph 0.0.1 measured it"), (cut_off, "no JSON")],
)
def test_what_cannot_be_used_is_ignored_with_a_warning(
    planless: ModuleOp, tmp_path: Path, damage: object, reason: str
) -> None:
    path, good = tmp_path / "plans", entry(planless, structure="good")
    assert callable(damage)
    path.write_text(f"{good.line()}\n{damage(entry(planless).line())}\n")
    with pytest.warns(PlanDatabaseWarning, match=f"line 2, is ignored: it .*{reason}"):
        database = PlanDatabase.read(path)
    assert len(database) == 1 and database.find("good", GPU) == good
    assert use_plans(planless, database, GPU, TARGET) == []


def test_a_kernel_gets_the_plan_of_its_structure_and_gpu(planless: ModuleOp) -> None:
    database = PlanDatabase([entry(planless)])
    assert use_plans(planless.clone(), database, "h100", TARGET) == []
    (changed,) = use_plans(planless, database, GPU, TARGET)
    assert changed.decided == PLAN
    assert use_plans(planless, database, GPU, TARGET) == []  # its plan is another kernel's now


def test_a_bucket_shares_its_plan_with_a_kernel_of_as_many_rows(planless: ModuleOp) -> None:
    named = planless_of(graph(mi.Extent("m", largest=64, buckets=(16,))))
    (changed,) = use_plans(named, PlanDatabase([entry(planless)]), GPU, TARGET)
    assert changed.operands[0].type.get_shape() == (16, 512)  # pyright: ignore


@pytest.mark.parametrize(
    ("other", "is_near"),
    [
        (graph(rows=24), True),
        (graph(rows=32), True),
        (graph(rows=40), False),
        (graph(rows=24, columns=768), False),
        (graph(rows=24, activation=True), False),
    ],
)
def test_a_neighbour_has_the_same_operators_and_one_other_extent(
    planless: ModuleOp, other: mi.KernelGraph, is_near: bool
) -> None:
    database = PlanDatabase([entry(planless, estimated=2.0)])
    changed = use_plans(planless_of(other), database, GPU, TARGET)
    assert [kernel.decided for kernel in changed] == [PLAN] * is_near


def test_the_nearest_counts_if_the_estimate_thinks_as_much_of_its_plan(
    planless: ModuleOp,
) -> None:
    nearer = planless_of(graph(rows=20))
    known = entry(planless, estimated=2.0)
    another = entry(nearer, Plan(grid=(16,), forloop=8), estimated=2.0)
    (changed,) = use_plans(planless_of(graph(rows=24)), PlanDatabase([known, another]), GPU, TARGET)
    assert changed.decided == another.plan
    for none in (replace(another, plan=Plan()), replace(another, estimated=0.5)):
        database = PlanDatabase([known, none])
        assert use_plans(planless_of(graph(rows=24)), database, GPU, TARGET) == []


def test_what_a_kernel_is_like_leaves_its_program_as_it_was(planless: ModuleOp) -> None:
    (kernel,) = custom_kernels(planless)
    uses = [len([*value.uses]) for value in kernel.operands]
    likeness_of(kernel)
    assert [len([*value.uses]) for value in kernel.operands] == uses


@pytest.mark.parametrize("rows", [4, 2])
def test_a_layer_and_its_neighbour_get_a_plan_that_comes_with_mugraph(rows: int) -> None:
    layer = mi.new_kernel_graph("layer")
    x, weight, w = map(layer.new_input, ((rows, 1024), (1024,), (4096, 1024)))
    layer.mark_output(mi.rms_norm(x, weight, eps=1e-5) @ mi.transpose(w, (1, 0)))
    (changed,) = use_plans(planless_of(layer), measured_plans(GPU), GPU, TARGET)
    assert changed.decided.forloop == 4


def test_parts_that_a_user_wrote_make_another_kernel(planless: ModuleOp) -> None:
    database = PlanDatabase([entry(planless)])
    (kernel,) = custom_kernels(planless)
    kernel.decided = Plan(loads="cp_async")
    assert use_plans(planless, database, GPU, TARGET) == []


def test_a_plan_that_cannot_be_is_ignored_with_a_warning(planless: ModuleOp) -> None:
    database = PlanDatabase([entry(planless, Plan(grid=(7, 7, 7)))])
    with pytest.warns(PlanDatabaseWarning, match="the plan that was measured on h200 is ignored"):
        assert use_plans(planless, database, GPU, TARGET) == []


def test_the_estimate_s_plan_is_no_plan_to_write(planless: ModuleOp) -> None:
    assert use_plans(planless, PlanDatabase([entry(planless, Plan())]), GPU, TARGET) == []


def test_the_pass_says_where_there_is_no_file(planless: ModuleOp, tmp_path: Path) -> None:
    missing = UsePlansPass(str(tmp_path / "none"))
    with pytest.raises(PassFailedException, match=r"there is no file .*none; write database=FILE"):
        missing.apply(make_context(), planless)


def test_gpus_are_called_as_their_targets() -> None:
    assert gpu_named("NVIDIA H200") == "h200"
    assert gpu_named("NVIDIA H100 80GB HBM3") == "h100"
    assert gpu_named("NVIDIA A100-SXM4-80GB") == "a100"
    assert gpu_named("NVIDIA GH200 480GB") == "NVIDIA GH200 480GB"


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A database of its own, and no GPU to measure on; its path."""
    monkeypatch.setattr("mugraph.jit.tuned.device_architecture", lambda: None)
    monkeypatch.setattr("mugraph.jit.tuned.gpu_here", lambda: None)

    def source_itself(source: str, *others: object, **flags: object) -> str:
        del others, flags
        return source

    monkeypatch.setattr("mugraph.jit.compilation.compile_library", source_itself)
    monkeypatch.setattr("mugraph.jit.compilation.CudaKernel", source_itself)
    path = tmp_path / "plans.jsonl"
    monkeypatch.setenv("MUGRAPH_PLANS", str(path))
    return path


def test_a_compilation_uses_what_is_known(planless: ModuleOp, without_gpu: Path) -> None:
    """Instead of kernels it gives their source."""
    plain = mugraph.compile(graph(), ARCH)
    assert mugraph.compile(graph(), ARCH, tune=True) == plain
    PlanDatabase([entry(planless)]).write(without_gpu)
    assert mugraph.compile(graph(), ARCH) == plain
    assert mugraph.compile(graph(), ARCH, tune=True) != plain
    assert mugraph.compile(graph(), "h100", tune=True) == mugraph.compile(graph(), "h100")


@pytest.fixture
def shipped(without_gpu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of an H200's plans that come with mugraph, which is not there yet."""
    monkeypatch.setattr("mugraph.passes.mugraph.known_plans.database.MEASURED", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    measured_plans.cache_clear()
    yield tmp_path / f"{GPU}.jsonl"
    measured_plans.cache_clear()


def test_what_comes_with_mugraph_is_for_its_gpu_alone(
    planless: ModuleOp, shipped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = mugraph.compile(graph(), GPU, remarks=True)
    assert "measured" not in capsys.readouterr().err
    PlanDatabase([entry(planless)]).write(shipped)
    measured_plans.cache_clear()
    assert mugraph.compile(graph(), GPU, remarks=True) == mugraph.compile(graph(), GPU) != plain
    assert "its plan <grid = [32, 1, 1], forloop = 8" in capsys.readouterr().err
    assert mugraph.compile(graph(), ARCH) == plain
    assert mugraph.compile(graph(), "h100") == plain
    assert mugraph.compile(graph(), GPU, plan=Plan()) == plain


@pytest.mark.parametrize("is_shipped", [False, True])
def test_a_plan_that_no_schedule_can_have_is_not_used(
    planless: ModuleOp, shipped: Path, without_gpu: Path, is_shipped: bool
) -> None:
    plain = mugraph.compile(graph(), ARCH)
    impossible = Plan(grid=(32, 1, 1), forloop=8, stages=(64,))
    PlanDatabase([entry(planless, impossible)]).write(shipped if is_shipped else without_gpu)
    measured_plans.cache_clear()
    arch = GPU if is_shipped else ARCH
    with pytest.warns(PlanDatabaseWarning, match="are not used: .*stages = \\[64\\]"):
        assert mugraph.compile(graph(), arch, tune=not is_shipped) == plain


def test_plans_are_not_blamed_for_what_is_wrong_with_a_program(
    planless: ModuleOp, shipped: Path
) -> None:
    PlanDatabase([entry(planless)]).write(shipped)
    measured_plans.cache_clear()
    plan = Plan(grid=(32, 1, 1), forloop=8, stages=(64,))
    module = planless.clone()
    (kernel,) = custom_kernels(module)
    kernel.decided = plan
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanDatabaseWarning)
        with pytest.raises(PassFailedException, match=r"stages = \[64\]"):
            mugraph.compile(module, GPU)


def test_on_the_cpu_nothing_is_tuned(without_gpu: Path) -> None:
    kernel = mugraph.compile(graph(), "cpu", tune=True)
    x, w = (np.ones(shape, np.float16) for shape in ((16, 512), (512, 1024)))
    np.testing.assert_allclose(kernel(x, w), np.full((16, 1024), 512.0), rtol=1e-3)
    assert not without_gpu.exists()


def test_what_contradicts_tuning_is_refused() -> None:
    with pytest.raises(UserError, match="tune=True finds all parts of plans by measuring"):
        mugraph.compile(graph(), ARCH, tune=True, plan=Plan(loads="tma"))
    with pytest.raises(UserError, match=r"leave plan and tune out for a \.te file"):
        mugraph.compile("examples/texpr/vector_add.te", ARCH, tune=True, sizes={"N": 64})


def test_reading_a_good_file_warns_of_nothing(planless: ModuleOp, tmp_path: Path) -> None:
    PlanDatabase([entry(planless)]).write(tmp_path / "plans")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(PlanDatabase.read(tmp_path / "plans")) == 1


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_what_comes_with_mugraph_can_be_used(gpu: str) -> None:
    """Plans of another version would be ignored: they are measured anew with each one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = PlanDatabase.read(MEASURED / f"{gpu}.jsonl")
    assert (len(known) > 0) == (gpu == GPU)
