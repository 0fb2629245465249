"""Tuning where there is no GPU: candidates, the search, its records, the tool.

Times are a function of the plan, so that the fastest plan is known.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.known_plans import Entry, PlanDatabase, UsePlansPass
from mugraph.passes.mugraph.known_plans.database import plan_text
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.mugraph.plan.candidates import variants
from mugraph.passes.mugraph.retile import RetilePass
from mugraph.reading import make_context
from mugraph.runtime.compile import CompileError
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function
from mugraph.tools import mg_tune
from mugraph.tune import Options, TunedKernel, cuda, tunable_kernels, tune_kernels, tune_program
from mugraph.tune.children import Answer, Child, ChildError, Children
from mugraph.tune.cuda import bench_of, differing, evenly, inputs_of
from mugraph.tune.records import ESTIMATE, Records, read_records
from mugraph.tune.search import Search
from mugraph.tune.workbench import Built, MeasureError

ARCH = "h200"
Times = list[float]


def norm_linear(rows: int = 16, columns: int = 1024, name: str = "norm_linear") -> mi.KernelGraph:
    """rms_norm(X) · W."""
    graph = mi.new_kernel_graph(name)
    x, w = graph.new_input((rows, 512)), graph.new_input((512, columns))
    graph.mark_output(mi.rms_norm(x) @ w)
    return graph


def kernel_of(graph: mi.KernelGraph) -> TunedKernel:
    """The one kernel of a graph."""
    (kernel,), left = tunable_kernels(graph.module(), make_context(), ARCH)
    assert left == []
    return kernel


@pytest.fixture(scope="module")
def kernel() -> TunedKernel:
    return kernel_of(norm_linear())


def cost(plan: Plan) -> float:
    """Microseconds on a made-up machine, which likes 32 blocks, 8 iterations and 3 stages."""
    if plan == Plan():
        return 20.0
    blocks, iterations = math.prod(plan.grid or (96,)), plan.forloop or 32
    stages = max(plan.stages or (2,))
    unlike = (math.log2(blocks / 32), math.log2(iterations / 8), stages - 3)
    return 12.0 + sum(map(abs, unlike))


class MadeUpBench:
    """A bench whose times are a function of the plan; plans of 8 stages cannot be built."""

    def __init__(self, cost: Callable[[Plan], float] = cost) -> None:
        self.cost = cost
        self.built: list[Plan] = []
        self.samples: dict[Plan, int] = {}

    def __enter__(self) -> MadeUpBench:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def build(self, plans: Sequence[Plan]) -> Iterator[Built[Plan]]:
        """Each under a code of its own."""
        for plan in plans:
            self.built.append(plan)
            if plan.stages == (8,):
                yield Built(plan, problem="8 stages have no room")
            else:
                yield Built(plan, code=f"code of {plan_text(plan)}")

    def times(self, built: Built[Plan], samples: int) -> list[float]:
        """All alike."""
        self.samples[built.plan] = self.samples.get(built.plan, 0) + samples
        return [self.cost(built.plan)] * samples


def quiet(text: str) -> None:
    """Says nothing."""
    del text


def records_of(kernel: TunedKernel, path: Path | None = None, version: str = "1") -> Records:
    return Records(path, kernel.structure, ARCH, kernel.name, version)


def test_candidates_compute_the_function(kernel: TunedKernel) -> None:
    plans = kernel.candidates(12)
    assert len(plans) == 12 and len({*plans}) == 12
    inputs = inputs_of(only_function(kernel.module))
    (expected,) = run_function(kernel.module, None, inputs, "float64")
    for plan in plans:
        module = kernel.module.clone()
        plan_pass = plan.over(PlanPass(arch=ARCH, notes=False))
        PassPipeline((plan_pass, RetilePass())).apply(make_context(), module)
        (result,) = run_function(module, None, inputs, "float64")
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-9)


def test_what_is_written_in_a_plan_stays_in_all_candidates() -> None:
    kernel = kernel_of(norm_linear())
    kernel.graph.decided = Plan(loads="cp_async", pdl="none")
    plans = kernel.candidates(8)
    assert len(plans) == 8
    assert all((plan.loads, plan.pdl) == ("cp_async", "none") for plan in plans)
    varied = kernel.variants(plans[0])
    assert varied and all((p.loads, p.pdl) == ("cp_async", "none") for p in varied)


def test_a_kernel_that_keeps_its_tiles_has_no_candidates() -> None:
    kernel = kernel_of(norm_linear())
    kernel.graph.decided = Plan(tiles="written")
    assert kernel.candidates(8) == []


def test_variants_differ_in_one_part() -> None:
    plan = Plan(grid=(8,), loads="cp_async", stages=(3,), preferred=("stages",))
    varied = variants(plan, Plan())
    assert Plan(grid=(8,), loads="tma") in varied  # the stages were those of the other loads
    assert Plan(grid=(8,), loads="cp_async", stages=(4,)) in varied
    assert plan not in varied and all(other.grid == (8,) for other in varied)


def test_kernels_that_are_alike_are_tuned_once() -> None:
    graph = mi.new_kernel_graph("layers")
    x = graph.new_input((16, 512))
    for _ in range(3):
        x = mi.rms_norm(x) @ graph.new_input((512, 512))
    graph.mark_output(x)
    kernels, left = tunable_kernels(graph.module(), make_context(), ARCH)
    assert len(kernels) < 3 and left == []


def test_a_kernel_that_reads_a_broadcast_tensor_is_built_alone() -> None:
    """Heads that share keys read one tensor under a stride of 0, which no argument has."""
    graph = mi.new_kernel_graph("grouped")
    q, k, v = (graph.new_input((2, heads, 128, 64)) for heads in (4, 1, 1))
    scores = q @ mi.broadcast_to(mi.transpose(k, (0, 1, 3, 2)), (2, 4, 64, 128))
    graph.mark_output(mi.softmax(scores, 3) @ mi.broadcast_to(v, (2, 4, 128, 64)))
    kernel = kernel_of(graph)
    signature = cuda.generate_plan(str(kernel.module), Plan(stages=(2,)), target=ARCH).signature
    assert [each.shape for each in signature.inputs] == [(2, 4, 128, 64), *[(2, 1, 128, 64)] * 2]


def test_a_structure_is_that_of_extents_and_types_not_of_names() -> None:
    one, other = kernel_of(norm_linear()), kernel_of(norm_linear(name="another"))
    assert one.structure == other.structure and one.name != other.name
    assert one.structure != kernel_of(norm_linear(rows=32)).structure
    assert one.structure != kernel_of(norm_linear(columns=2048)).structure


def test_the_search_finds_the_fastest(kernel: TunedKernel) -> None:
    bench, plans = MadeUpBench(), kernel.candidates(24)
    outcome = Search(bench, records_of(kernel), quiet).run(plans, kernel.variants)
    assert outcome.complete and outcome.before == 20.0
    assert outcome.microseconds == cost(outcome.plan) <= min(map(cost, plans))
    assert outcome.plan.stages == (3,)  # a variant's: no candidate says stages
    assert outcome.refused > 0
    samples = bench.samples.values()
    assert max(samples) > 4 * min(samples)  # what is slow is measured a little


def test_the_plan_of_the_estimate_stays_where_nothing_is_faster(kernel: TunedKernel) -> None:
    def slower(plan: Plan) -> float:
        return 11.9 if plan == Plan() else cost(plan)

    outcome = Search(MadeUpBench(slower), records_of(kernel), quiet).run(
        kernel.candidates(8), kernel.variants
    )
    assert (outcome.plan, outcome.microseconds, outcome.before) == (Plan(), 11.9, 11.9)


def test_luck_in_the_rounds_does_not_win_the_comparison(kernel: TunedKernel) -> None:
    lucky = kernel.candidates(4)[-1]

    class Noisy(MadeUpBench):
        """One plan has short times at first, and then those that it really has."""

        def times(self, built: Built[Plan], samples: int) -> list[float]:
            first = built.plan == lucky and self.samples.get(lucky, 0) < 10
            found = super().times(built, samples)
            return [1.0] * samples if first else found

    bench = Noisy(lambda plan: 10.0 if plan == Plan() else 10.5)
    outcome = Search(bench, records_of(kernel), quiet).run(kernel.candidates(4), lambda _: [])
    assert bench.samples[lucky] > 10
    assert (outcome.plan, outcome.microseconds) == (Plan(), 10.0)


def test_a_plan_that_fails_when_it_is_measured_is_left_out(kernel: TunedKernel) -> None:
    plans = kernel.candidates(8)
    broken = min(plans, key=cost)

    class Breaking(MadeUpBench):
        """One plan's kernel breaks the process."""

        def times(self, built: Built[Plan], samples: int) -> list[float]:
            if built.plan == broken:
                raise MeasureError("the process died")
            return super().times(built, samples)

    records = records_of(kernel)
    outcome = Search(Breaking(), records, quiet).run(plans, lambda _: [])
    assert outcome.plan not in (broken, Plan())
    known = records.known(plan_text(broken))
    assert known is not None and known.problem == "the process died"


def test_a_kernel_that_cannot_be_built_at_all_is_an_error(kernel: TunedKernel) -> None:
    class Empty(MadeUpBench):
        """Nothing can be built."""

        def build(self, plans: Sequence[Plan]) -> Iterator[Built[Plan]]:
            return (Built(plan, problem="nvcc is not here") for plan in plans)

    with pytest.raises(MeasureError, match="nvcc is not here"):
        Search(Empty(), records_of(kernel), quiet).run(kernel.candidates(2), kernel.variants)


def test_a_gpu_that_does_not_answer_is_no_fault_of_plans(kernel: TunedKernel) -> None:
    class Broken(MadeUpBench):
        """Nothing can be measured."""

        def times(self, built: Built[Plan], samples: int) -> list[float]:
            raise MeasureError("the driver is too old")

    records, plans = records_of(kernel), kernel.candidates(4)
    with pytest.raises(MeasureError, match="the driver is too old"):
        Search(Broken(), records, quiet).run(plans, kernel.variants)
    assert all(known.problem == "" for plan in plans if (known := records.known(plan_text(plan))))


def test_a_search_keeps_to_its_time(kernel: TunedKernel) -> None:
    now = 0.0

    class Slow(MadeUpBench):
        """A build takes a second."""

        def build(self, plans: Sequence[Plan]) -> Iterator[Built[Plan]]:
            nonlocal now
            for built in super().build(plans):
                now += 1.0
                yield built

    bench = Slow()
    search = Search(bench, records_of(kernel), quiet, 20.0, lambda: now)
    outcome = search.run(kernel.candidates(48), kernel.variants)
    assert not outcome.complete and now <= 20.0
    assert 5 < len(bench.built) < 20 and outcome.plan != Plan()


def test_a_search_that_was_ended_goes_on(kernel: TunedKernel, tmp_path: Path) -> None:
    path, plans = tmp_path / "records", kernel.candidates(16)

    class Ended(MadeUpBench):
        """The user has no more time."""

        def times(self, built: Built[Plan], samples: int) -> list[float]:
            if len(self.samples) == 9:
                raise KeyboardInterrupt
            return super().times(built, samples)

    first, second, alone = Ended(), MadeUpBench(), MadeUpBench()
    with pytest.raises(KeyboardInterrupt):
        Search(first, records_of(kernel, path), quiet).run(plans, kernel.variants)
    with path.open("a") as stream:
        stream.write('{"structure": "cut o')  # where it was killed while it wrote
    outcome = Search(second, records_of(kernel, path), quiet).run(plans, kernel.variants)
    whole = Search(alone, records_of(kernel), quiet).run(plans, kernel.variants)
    assert outcome.plan == whole.plan and outcome.microseconds == whole.microseconds
    assert not {*second.built} & {*plans}  # they are known
    assert sum(second.samples.values()) < sum(alone.samples.values())
    assert any(record.role == ESTIMATE for record in read_records(path))


def test_records_of_another_compiler_do_not_count(kernel: TunedKernel, tmp_path: Path) -> None:
    path, built = tmp_path / "records", Built(Plan(forloop=4), "code")
    records_of(kernel, path, "1").add(built, [1.0, 2.0])
    assert records_of(kernel, path, "1").times_of("code") == [1.0, 2.0]
    assert records_of(kernel, path, "2").times_of("code") == []
    assert records_of(kernel, path, "2").known("forloop = 4") is None


def options(path: Path, again: bool = False) -> Options:
    return Options(path, ARCH, candidates=8, jobs=1, again=again)


def test_what_is_tuned_is_kept_and_not_tuned_again(kernel: TunedKernel, tmp_path: Path) -> None:
    path, lines = tmp_path / "plans.jsonl", list[str]()
    (entry,) = tune_kernels(
        [kernel], options(path), Children(1), lines.append, lambda _, __: MadeUpBench()
    )
    assert PlanDatabase.read(path).find(kernel.structure, ARCH) == entry
    assert entry.microseconds < entry.before == 20.0 and entry.kernel == kernel.name

    def refuse(kernel: TunedKernel, builders: Children) -> MadeUpBench:
        raise AssertionError(
            f"{kernel.name} is known, and {builders.count} processes are not needed"
        )

    assert tune_kernels([kernel], options(path), Children(1), lines.append, refuse) == [entry]
    assert "is known" in lines[-1]
    slow = MadeUpBench(lambda plan: 30.0)
    (other,) = tune_kernels(
        [kernel], options(path, True), Children(1), lines.append, lambda _, __: slow
    )
    assert (other.plan, other.microseconds) == (Plan(), 30.0)  # what is kept is what is so now
    assert len({*slow.samples}) > 8  # and all were measured again
    assert PlanDatabase.read(path).find(kernel.structure, ARCH) == other


def test_what_there_was_no_time_for_is_tuned_another_time(
    kernel: TunedKernel, tmp_path: Path
) -> None:
    path, lines = tmp_path / "plans.jsonl", list[str]()
    hasty = replace(options(path), seconds=0.0)
    assert tune_kernels([kernel], hasty, Children(1), lines.append, lambda _, __: Alone()) == []
    assert "no time to build another plan" in lines[-1] and not path.exists()


class Alone(MadeUpBench):
    """Only the estimate's plan is built."""

    def build(self, plans: Sequence[Plan]) -> Iterator[Built[Plan]]:
        return super().build(plans[:1])


def two_kernels() -> mi.KernelGraph:
    """Two norms and linear layers of other sizes."""
    graph = mi.new_kernel_graph("two_kernels")
    x = graph.new_input((16, 512))
    for rows, columns in ((512, 1024), (1024, 512)):
        x = mi.rms_norm(x) @ graph.new_input((rows, columns))
    graph.mark_output(x)
    return graph


@pytest.mark.parametrize(("after", "kept"), [(9.0, True), (11.0, False)])
def test_plans_that_slow_the_program_down_are_taken_back(
    after: float, kept: bool, tmp_path: Path
) -> None:
    path, compared = tmp_path / "plans.jsonl", list[str]()

    def compare(text: str, target: str, fuse: bool, known: UsePlansPass) -> tuple[Times, Times]:
        assert len(PlanDatabase.read(Path(known.database))) == 2 and fuse and target == ARCH
        compared.append(text)
        return [10.0], [after]

    for _ in range(2):  # the second time all is known
        entries = tune_program(
            two_kernels().module(),
            make_context(),
            ARCH,
            options(path),
            say=quiet,
            open_bench=lambda _, __: MadeUpBench(),
            compare=compare,
        )
        assert [entry.plan.parts() != {} for entry in entries] == [kept, kept]
        assert all(entry.microseconds <= entry.before for entry in entries)
        database = PlanDatabase.read(path)
        assert [database.find(entry.structure, ARCH) for entry in entries] == entries
    assert len(compared) == 1


def test_a_program_is_compared_as_it_is_compiled(tmp_path: Path) -> None:
    kernel, path = kernel_of(norm_linear()), tmp_path / "plans.jsonl"
    text = str(norm_linear().module())
    PlanDatabase([Entry(kernel.structure, ARCH, Plan(grid=(16, 1, 1)), 1.0, 2.0)]).write(path)
    sources: list[str] = []

    def keep(source: str, arch: str) -> Path:
        sources.append(source)
        return Path(arch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "compile_kernel", keep)
        compiled = [
            cuda.compile_program(text, ARCH, True, known)
            for known in (None, UsePlansPass(str(path), "h100"), UsePlansPass(str(path), ARCH))
        ]
    assert compiled[0].code == compiled[1].code != compiled[2].code
    assert compiled[0].signature == compiled[2].signature
    assert compiled[0].library == Path("sm_90a")
    assert "dim3(16, 1, 1)" in sources[2]


def test_results_are_compared_with_those_of_the_estimate() -> None:
    right = np.linspace(-1, 1, 1000, dtype=np.float16)
    assert differing([right], [right]) == ""
    assert "1.0e-01 away" in differing([right * np.float16(1.1)], [right])
    broken = right.copy()
    broken[3] = np.nan
    assert "finite at other places" in differing([broken], [right])
    assert differing([broken], [broken]) == ""
    counts = np.arange(5, dtype=np.int32)
    assert differing([counts], [counts]) == ""
    assert "other whole numbers" in differing([counts + 1], [counts])


def test_a_child_answers_raises_and_is_replaced() -> None:
    child = Child()
    assert child.call(math.gcd, 12, 18) == 6
    with pytest.raises(ChildError, match=r"math domain error|nonnegative input"):
        child.call(math.sqrt, -1.0)
    first = child.call(os.getpid)
    assert child.call(os.getpid) == first != os.getpid()
    with pytest.raises(ChildError, match="the process died"):
        child.call(os._exit, 3)
    assert not child.is_alive and child.call(os.getpid) != first
    with pytest.raises(ChildError, match=r"not done after 1 s"):
        child.call(os.read, 0, 1, seconds=0.6)
    child.end()


class Here(Children):
    """Calls in this process."""

    def call(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        try:
            return function(*arguments)
        except Exception as error:
            raise ChildError(str(error).splitlines()[0]) from error


def test_plans_are_compiled_together_each_code_once(
    kernel: TunedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources: list[str] = []

    def keep(source: str, arch: str) -> Path:
        sources.append(source)
        if "namespace member_0" in source and "dim3(32, 1, 1)" in source:
            raise CompileError("nvcc has no room for one of them")
        if "dim3(32, 1, 1)" in source:
            raise CompileError("nvcc has no room")
        return Path(f"{len(sources)}.so")

    monkeypatch.setattr(cuda, "compile_kernel", keep)
    bench = bench_of(kernel, Here(1))
    written = [
        Plan(),
        Plan(grid=(16, 1, 1)),
        Plan(loads="cp_async", swap_ab=True),
        Plan(grid=(16, 1, 1), pdl="end"),
    ]
    built = {one.plan: one for one in bench.build(written)}
    assert "need a producer" in built[written[2]].problem
    others = {one.code for one in built.values() if not one.problem}
    assert len(sources) == 1 and sources[0].count("namespace member_") == 2 * len(others)
    assert sources[0].index("namespace member_0") < sources[0].index("dim3(16, 1, 1)")
    (again,) = bench.build([Plan(grid=(16, 1, 1))])
    assert again.code == built[written[1]].code and len(sources) == 1
    # What nvcc refuses is compiled alone, so that it is known which of them it is.
    refused = {
        one.plan.grid: one.problem
        for one in bench.build([Plan(grid=(32, 1, 1)), Plan(grid=(64, 1, 1))])
    }
    assert refused == {(32, 1, 1): "nvcc has no room", (64, 1, 1): ""} and len(sources) == 4


def test_shares_of_what_is_compiled_are_even() -> None:
    codes = [*map(str, range(20))]
    assert [len(part) for part in evenly(codes, 16)] == [2, 2, 2, 2, *[1] * 12]
    assert [len(part) for part in evenly(codes, 1)] == [7, 7, 6]
    assert evenly([], 4) == []
    assert sorted(code for part in evenly(codes, 3) for code in part) == sorted(codes)
    assert Children(16, 8).share == 2 and Children(2, 8).share == 1


def test_the_next_fastest_is_compared_where_the_fastest_is_wrong(kernel: TunedKernel) -> None:
    wrong = min(kernel.candidates(8), key=cost)

    class Wrong(MadeUpBench):
        """One plan's results are wrong, which shows when it is measured again."""

        def times(self, built: Built[Plan], samples: int) -> list[float]:
            if built.plan == wrong and wrong in self.samples:
                raise MeasureError("result 0 is 1.0e+00 away")
            found = super().times(built, samples)
            return [1.0] * samples if built.plan == wrong else found

    records, plans = records_of(kernel), [*kernel.candidates(2), wrong]
    outcome = Search(Wrong(), records, quiet).run(plans, lambda _: [])
    assert outcome.plan not in (wrong, Plan()) and outcome.microseconds < outcome.before
    known = records.known(plan_text(wrong))
    assert known is not None and "away" in known.problem


def tool(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs ``mg-tune``."""
    monkeypatch.setattr("sys.argv", ["mg-tune", *arguments])
    return mg_tune.main()


def test_the_tool_lists_and_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "graph.mlir"
    path.write_text(str(norm_linear().module()))
    assert tool(monkeypatch, str(path), "--list", "--candidates", "5", "--arch", ARCH) == 0
    head, *plans = capsys.readouterr().out.splitlines()
    assert head.startswith("norm_linear_custom0 ") and len(plans) == 5
    for arguments, sentence in (
        (("--jobs", "0"), "--jobs 0 must be at least 1."),
        (("--limit", "-1"), "--limit -1.0 must be more than 0 seconds."),
        (("--candidates", "0"), "--candidates 0 must be at least 1."),
    ):
        assert tool(monkeypatch, str(path), *arguments) == 1
        assert capsys.readouterr().err == f"mg-tune: error: {sentence}\n"
    monkeypatch.setattr("mugraph.runtime.toolchain.device_architecture", lambda: None)
    assert tool(monkeypatch, str(path)) == 1
    assert "there is none here; --list shows" in capsys.readouterr().err


def test_children_take_calls_in_turn() -> None:
    """Calls of several threads wait for a child that has nothing to do."""
    with Children(2) as children, ThreadPoolExecutor(4) as threads:
        roots = list(threads.map(partial(children.call, math.sqrt), (1.0, 4.0, 9.0, 16.0)))
        assert roots == [1.0, 2.0, 3.0, 4.0]
        with pytest.raises(ChildError):
            children.call(math.sqrt, -1.0)
        assert children.call(math.sqrt, 25.0) == 5.0
