"""Pages of results: their heads, their tables, and the files that they are written to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path


def head(title: str, facts: Mapping[str, str]) -> list[str]:
    """A title, and on what, when and from which commit something was measured."""
    return [f"# {title}", "", *(f"- {name}: {value}" for name, value in facts.items()), ""]


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table in Markdown; a column whose name ends in a colon is of numbers.

    A cell of ``None`` is empty.
    """

    def line(cells: Iterable[object]) -> str:
        return f"| {' | '.join('' if cell is None else str(cell) for cell in cells)} |"

    names = line(column.removesuffix(":") for column in columns)
    rule = "|" + "|".join("---:" if column.endswith(":") else "---" for column in columns) + "|"
    return [names, rule, *map(line, rows)]


def write(output: Path, content: object, lines: Sequence[str]) -> None:
    """Writes OUTPUT.json and OUTPUT.md; each appears whole or not at all."""
    output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    for suffix, whole in ((".json", text), (".md", "\n".join(lines))):
        temporary = output.with_suffix(f"{suffix}.part")
        temporary.write_text(f"{whole}\n", encoding="utf-8")
        os.replace(temporary, output.with_suffix(suffix))
