"""The reference pages in docs/ are what the docstrings generate."""

from __future__ import annotations

from pathlib import Path

import pytest

from mugraph.tools.reference import pages

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("path", sorted(pages()))
def test_a_page_is_up_to_date(path: str) -> None:
    hint = "run `python -m mugraph.tools.reference docs`"
    assert (DOCS / path).read_text(encoding="utf-8") == pages()[path], hint


def test_every_operator_and_type_says_what_it_is() -> None:
    for path, text in pages().items():
        sections = text.split("\n### ")[1:]
        for section in sections:
            name, _, body = section.partition("\n\n")
            assert body.strip() and not body.startswith(("```", "- ")), f"{path}: {name}"
