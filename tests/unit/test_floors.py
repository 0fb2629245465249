"""Which module may import which: no circles, and arrows that go down a floor."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "mugraph_dialects": "mugraph.dialects",
    "passes": "mugraph.passes",
    "codegen": "mugraph.codegen",
    "runtime": "mugraph.runtime",
    "tools": "mugraph.tools",
    "frontend": "mugraph",
    "src/mugraph": "mugraph",
}
"""Folders, and the packages that they are installed as."""

FLOORS = (
    ("mugraph.tools",),
    ("mugraph.torch",),
    ("mugraph.build",),
    ("mugraph.jit", "mugraph.tune"),
    ("mugraph.reading",),
    ("mugraph.cute",),
    ("mugraph.texpr",),
    ("mugraph.runtime",),
    ("mugraph.codegen",),
    ("mugraph.passes.compile",),
    ("mugraph.passes.transpile", "mugraph.passes.texpr.te_lower"),
    ("mugraph.passes.program",),
    ("mugraph.passes.mugraph",),
    ("mugraph.passes.schedule",),
    ("mugraph.passes.texpr",),
    ("mugraph.passes.memory",),
    ("mugraph.passes",),
    ("mugraph.dialects",),
    ("mugraph.errors",),
)
"""From the top floor to the bottom: a module imports its own floor and those below it."""


def modules() -> dict[str, Path]:
    """Every module of the package, by its name."""
    found: dict[str, Path] = {}
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*.py")):
            relative = path.relative_to(ROOT / folder)
            linked = folder == "src/mugraph" and len(relative.parts) > 1
            if linked:
                continue
            parts = [package, *relative.with_suffix("").parts]
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node; none of them is part of an expression."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        below = getattr(node, field, None)
        for each in below if isinstance(below, list) else ():
            if isinstance(each, ast.stmt):
                yield each
            yield from statements(each)


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules that a file imports, those of its functions included."""
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in names]
        else:
            continue
        yield from (name for name in names if name in known)


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """What every module imports."""
    known = modules()
    return {name: {*imported(path, known)} - {name} for name, path in known.items()}


def floor_of(module: str) -> int | None:
    """The number of a module's floor, counted from the top; none for the package itself."""
    for prefix in sorted((name for names in FLOORS for name in names), key=len, reverse=True):
        if module == prefix or module.startswith(prefix + "."):
            return next(number for number, names in enumerate(FLOORS) if prefix in names)
    return None


def test_the_graph_is_that_of_the_package(graph: dict[str, set[str]]):
    assert len(graph) > 400
    assert "mugraph.dialects.sched" in graph["mugraph.codegen.cuda"]


def test_no_module_imports_itself_through_others(graph: dict[str, set[str]]):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_a_circle_would_be_found():
    with pytest.raises(CycleError):
        TopologicalSorter({"one": {"other"}, "other": {"one"}}).prepare()


def test_arrows_go_down(graph: dict[str, set[str]]):
    against = [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if (above := floor_of(module)) is not None
        and (below := floor_of(other)) is not None
        and below < above
    ]
    assert not against, "\n".join(against)


def test_no_module_imports_all_dialects_of_xdsl():
    # The package of xDSL's interpreters imports them all.
    for module, path in modules().items():
        assert "xdsl.interpreters" not in path.read_text(encoding="utf-8"), module
