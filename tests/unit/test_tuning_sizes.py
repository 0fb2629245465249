"""Sizes of `.te` files where there is no GPU: what is tried, the search, the tool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mugraph.errors import UserError
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda
from mugraph.tools import mg_tune
from mugraph.tune import Options
from mugraph.tune.children import Children
from mugraph.tune.records import read_records
from mugraph.tune.sizes import SizedProgram, by_estimate, tried_values, tune_sizes
from mugraph.tune.workbench import Built, MeasureError, Sizes

TEXT = """
size M = 64, T = 16, AHEAD = 1
fn f(x: f32[M]): f32[M] {
    par M / T b #grid { par T i #block { result[b * T + i] = x[b * T + i] } }
}
"""
TRIED = (("T", (8, 16, 32)), ("AHEAD", (1, 2)))


class MadeUpBench:
    """Likes tiles of 32, and tiles of 8 cannot be built."""

    def __init__(self, program: SizedProgram, builders: Children) -> None:
        del builders
        self.built: list[Sizes] = []
        self.program = program

    def __enter__(self) -> MadeUpBench:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def build(self, plans: Sequence[Sizes]) -> Iterator[Built[Sizes]]:
        """Each under a code of its own; the tile of 16 is the text's."""
        for sizes in plans:
            self.built.append(sizes)
            tile = dict(sizes.values).get("T", 16)
            problem = "no room" if tile == 8 else ""
            yield Built(sizes, "" if problem else f"tile {tile} {sizes}", problem)

    def times(self, built: Built[Sizes], samples: int) -> list[float]:
        """By the tile alone."""
        return [40.0 - dict(built.plan.values).get("T", 16)] * samples


def program(**changes: int) -> SizedProgram:
    return SizedProgram(TEXT, "f.te", "h200", (*changes.items(),), TRIED)


def test_all_combinations_are_tried_or_as_many_as_asked_for() -> None:
    every = program().candidates(48)
    assert len({*every}) == 6
    assert Sizes((("T", 8), ("AHEAD", 2))) in every
    assert len({*program().candidates(4)}) == 4
    assert {*program().candidates(4)} <= {*every}
    varied = program().variants(Sizes((("T", 8), ("AHEAD", 2))))
    assert [str(one) for one in varied] == ["T=16,AHEAD=2", "T=32,AHEAD=2", "T=8,AHEAD=1"]
    assert program().variants(Sizes()) == []


def test_the_fastest_sizes_are_found_and_written_down(tmp_path: Path) -> None:
    said: list[str] = []
    options = Options(tmp_path / "plans.jsonl", "h200", candidates=6, jobs=1)
    outcome = tune_sizes(program(), options, said.append, MadeUpBench)
    assert dict(outcome.plan.values)["T"] == 32
    assert (outcome.before, outcome.microseconds, outcome.refused) == (24.0, 8.0, 2)
    assert {one.plan for one in read_records(options.records)} == {
        "",
        *(f"T={tile},AHEAD={ahead}" for tile in (8, 16, 32) for ahead in (1, 2)),
    }
    assert "8.00 µs, 24.00 µs before" in said[-1]


def test_a_program_that_fails_as_it_is_written(tmp_path: Path) -> None:
    class Broken(MadeUpBench):
        def times(self, built: Built[Sizes], samples: int) -> list[float]:
            raise MeasureError("it was not done after 20 s")

    options = Options(tmp_path / "plans.jsonl", "h200", jobs=1)
    with pytest.raises(UserError, match=r"f\.te is not tuned: it was not done"):
        tune_sizes(program(), options, lambda _: None, Broken)


def test_what_a_function_takes_stays() -> None:
    changed = SizedProgram(TEXT, "f.te", "h200", (), (("M", (64, 128)),))
    with pytest.raises(UserError, match="at M=128 the function takes other buffers"):
        changed.generate(Sizes((("M", 128),)))


def test_generated_files_have_what_the_launcher_calls() -> None:
    made = generate_cuda(program().module(Sizes()), make_context(), "h200")
    assert "static void _init()" in made.source
    assert "static void _execute_mugraph(" in made.source


@pytest.mark.parametrize("text", ["TM", "TM=", "TM=a", "TM=0", "TM=64,", "TM=²", "3=4"])
def test_no_values(text: str) -> None:
    with pytest.raises(UserError, match="gives no sizes; write --try TM=64,128"):
        tried_values([text])


def test_values_of_a_size_are_given_at_once() -> None:
    with pytest.raises(UserError, match="--try gives TM twice; give all its values at once"):
        tried_values(["TM=64", "TM=128"])


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs ``mg-tune``."""
    monkeypatch.setattr("sys.argv", ["mg-tune", *arguments])
    return mg_tune.main()


def test_the_tool_lists_what_it_would_try(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "f.te"
    path.write_text(TEXT)
    tries = ("--try", "T=8,16", "--try", "AHEAD=1,2")
    assert run(monkeypatch, str(path), "--size", "M=128", *tries, "--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert {line.split(":")[0] for line in lines} == {
        *("T=8,AHEAD=1", "T=8,AHEAD=2", "T=16,AHEAD=1", "T=16,AHEAD=2")
    }
    times = [float(line.split(": ")[1].removesuffix(" µs")) for line in lines]
    assert times == sorted(times)
    assert "16 blocks, 1 a multiprocessor, 1 waves; issue" in lines[-1] + lines[0]


def test_the_tool_tries_what_the_text_leaves_open(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "f.te"
    path.write_text(TEXT.replace("T = 16", "T = 16 | 32 | 2048"))
    assert run(monkeypatch, str(path), "--size", "M=2048", "--list") == 0
    found = capsys.readouterr().out
    assert all(f"T={tile}: " in found for tile in (16, 32, 2048))
    assert run(monkeypatch, str(path), "--size", "M=2048,T=16", "--list") == 1
    assert "size TM = 64 | 128" in capsys.readouterr().err


def test_candidates_are_built_in_the_order_of_their_estimates() -> None:
    changed = SizedProgram(TEXT, "f.te", "h200", (("M", 1 << 22),), (("T", (8, 256)),))
    with Children(1) as builders:
        assert [str(one) for one in by_estimate(changed, 4, builders)] == ["T=256", "T=8"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["f.te"], "say values of its sizes that are to be tried"),
        (["f.te", "--try", "X=4", "--list"], "f.te has no size X; leave it out."),
        (["f.mlir", "--try", "T=4"], "--size and --try are of sizes of a .te file"),
    ],
)
def test_the_tool_refuses(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    sentence: str,
) -> None:
    path = tmp_path / arguments[0]
    path.write_text(TEXT)
    assert run(monkeypatch, str(path), *arguments[1:]) == 1
    assert sentence in capsys.readouterr().err
