"""The harness of benchmarks of cases: pages, means, the command."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks import cases
from benchmarks.cases import Case, Comparison, Row, means, page, parser, run

FACTS = {"gpu": "GPU", "commit": "abc"}


@dataclass(frozen=True)
class Product(Case):
    """A case whose builds succeed where it has rows."""

    rows: int

    @property
    def name(self) -> str:
        return f"product of {self.rows}"

    def build(self, arch: str) -> str:
        if not self.rows:
            raise ValueError("there are no rows")
        return arch

    def comparison(self, built: str) -> Comparison:
        raise AssertionError(f"{built} needs a GPU")


def row(case: str, system: str, microseconds: float | None, status: str = "right") -> Row:
    return Row(case, "products", system, "abc", status, 1e-3, microseconds)


ROWS = [
    row("a", "mugraph narrow", 4.0),
    row("a", "mugraph wide", 2.0),
    row("a", "cuBLAS", 3.0),
    row("b", "mugraph", None, "wrong: error 1, allowed 0"),
    row("b", "cuBLAS", 3.0),
]


def test_peers_are_compared_with_our_fastest_where_it_is_right() -> None:
    assert list(means(ROWS)) == [
        "products, cuBLAS: 1 cases, geometric mean 1.50, median 1.50, 1.50 to 1.50 of ours"
    ]


def test_what_is_wrong_has_no_time_on_the_page() -> None:
    lines = page("Products", ROWS, FACTS)
    assert "| a | mugraph narrow | 4.0 | 2.00 |  | 1.0e-03 | abc | right |" in lines
    assert "| b | mugraph |  |  |  | 1.0e-03 | abc | wrong: error 1, allowed 0 |" in lines
    assert "| b | cuBLAS | 3.0 |  |  | 1.0e-03 | abc | right |" in lines


class OwnThread(ThreadPoolExecutor):
    """Stands in for a process, which takes over a second to start."""

    def __init__(self, jobs: int, context: object) -> None:
        super().__init__(jobs)


@pytest.mark.parametrize(("only", "code"), [("16", 0), ("0", 1)])
def test_builds_need_no_gpu(
    only: str,
    code: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One builds in a process of its own, as all do."""
    if code:
        monkeypatch.setattr(cases, "ProcessPoolExecutor", OwnThread)
    arguments = ["--compile", "--jobs", "1", "--only", f"of {only}"]
    options = parser(None, output=str(tmp_path / "products")).parse_args(arguments)
    assert run("Products", [Product(16), Product(0)], options) == code
    said = "compiled" if code == 0 else "there are no rows"
    assert capsys.readouterr().out == f"product of {only}: {said}\n"
