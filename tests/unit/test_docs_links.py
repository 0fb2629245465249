"""Links between the documents lead somewhere, and the files that they name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mugraph.passes.compile import planned_then_scheduled

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FOLDERS = "benchmarks|codegen|docs|examples|frontend|mugraph_dialects|passes|runtime|tests|tools"


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in found}


def text_of(page: Path) -> str:
    """A page's text without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_page_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in headings(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_are_there(page: Path) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text_of(page))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_page_on_scheduling_names_the_passes_of_the_schedule_level_in_order() -> None:
    page = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \[`--([a-z-]+)`\]", page, re.M)
    assert named == [step.name for step in planned_then_scheduled()[1]]
