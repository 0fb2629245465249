"""What a run of the suite found, as text, Markdown and JSON."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from cases.case import coverage
from cases.catalogue import all_cases
from cases.device import Outcome
from mugraph.errors import UserError


def family_rows(outcomes: Sequence[Outcome]) -> list[str]:
    """A table with a line a family, and one for all."""
    families: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        families.setdefault(outcome.id.split("/")[0], []).append(outcome)
    lines = [
        "| family | cases | right | largest error / budget | largest relative error | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for name, rows in [*families.items(), ("all", list(outcomes))]:
        right = [row for row in rows if not row.error]
        share = max((row.share for row in right), default=0)
        error = max((row.relative_error for row in right), default=0)
        seconds = sum(row.seconds for row in rows)
        lines.append(
            f"| {name} | {len(rows)} | {len(right)} | {share:.3f} | {error:.2e} | {seconds:.1f} |"
        )
    return lines


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """A line a case that is not right."""
    return [f"{row.id}: {row.error}" for row in outcomes if row.error]


def covered(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """The operators and element types that right cases cover."""
    right = {outcome.id for outcome in outcomes if not outcome.error}
    pairs: set[tuple[str, str]] = set()
    for case in all_cases():
        if case.id in right:
            pairs |= coverage(case.text)
    return sorted(pairs)


def facts(arch: str) -> dict[str, str]:
    """Where and on what a run took place."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    commit = os.environ.get("MUGRAPH_COMMIT", "")
    if not commit:
        known = subprocess.run(command, capture_output=True, text=True).stdout.strip()
        commit = known or "unknown"
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        gpu = "none"
    return {
        "gpu": gpu,
        "date": date.today().isoformat(),
        "commit": commit,
        "arch": arch,
    }


def write(
    path: Path, outcomes: Sequence[Outcome], about: dict[str, str], more: Sequence[str] = ()
) -> None:
    """Writes PATH.md and PATH.json."""
    if path.suffix:
        raise UserError(f"--output {path} gets the endings .md and .json; leave out {path.suffix}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    wrong = failures(outcomes)
    lines = [f"# The tables of cases on {about['gpu']}", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += [
        "",
        "Each case ran twice on random inputs and poisoned outputs. Right: every element of every",
        "result is within its error budget, guards around outputs and workspace, gaps of outputs'",
        "layouts and inputs are untouched, and both runs gave the same bits.",
        "",
        *family_rows(outcomes),
        "",
        *more,
        "",
        f"{len(wrong)} cases are not right." if wrong else "Every case is right.",
        *(f"- {line}" for line in wrong),
    ]
    path.with_suffix(".md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    content: dict[str, Any] = {
        **about,
        "covered": covered(outcomes),
        "cases": [asdict(outcome) for outcome in outcomes],
    }
    path.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
