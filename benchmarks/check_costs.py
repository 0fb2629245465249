"""What ``mg-check`` and ``mg-opt --verify-semantics`` cost on saved µGraphs: time and memory.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.check_costs FOLDER --output NAME.md

``FOLDER`` holds saved µGraphs in Mirage's JSON.  Each file is held against its function in
``examples/reference``: all its graphs by proof, the first one by one random evaluation of each
kind.  The first one is also transpiled with every pass watched.  Times are processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

REFERENCES = Path(__file__).parents[1] / "examples" / "reference"
REFERENCE_OF = {
    "lora": "lora",
    "rmsnorm_bs8": "rmsnorm_linear",
    "gated_mlp": "gated_mlp",
    "single_mqa_bs1": "attention_mqa",
    "gqa_bs8": "attention_gqa",
    "mha_bs8": "attention_mha",
}


@dataclass(frozen=True)
class Cost:
    """The processor seconds of each check of a process, or of all of it, and its peak memory."""

    seconds: tuple[float, ...]
    mebibytes: float

    def __str__(self) -> str:
        """The seconds and the memory, in a table."""
        return f"{_seconds(max(self.seconds))}; {self.mebibytes:.0f} MiB"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"


def run(module: str, arguments: Sequence[str], output: Path) -> Cost:
    """Runs a tool; raises ``RuntimeError`` with what it says where it fails."""
    with output.open("w", encoding="utf-8") as file:
        command = [sys.executable, "-m", module, *arguments]
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: {output.read_text(encoding='utf-8')[-2000:]}")
    return Cost((usage.ru_utime + usage.ru_stime,), usage.ru_maxrss / 1024)


def check(path: Path, index: str, evidence: str, folder: Path) -> Cost:
    """The checks of one kind, as ``mg-check --time`` gives them."""
    output = folder / "check.txt"
    reference = REFERENCES / f"{REFERENCE_OF[path.stem]}.mlir"
    arguments = ["--of-file", str(path), "--index", index, "--against", str(reference)]
    arguments += ["--evidence", evidence, "--seeds", "1", "--budget", "600", "--time"]
    cost = run("mugraph.tools.mg_check", arguments, output)
    times = re.findall(r": processor time: \S+ ([\d.]+) s$", output.read_text("utf-8"), re.M)
    return Cost(tuple(float(time) for time in times), cost.mebibytes)


def transpiled(path: Path, folder: Path, flags: Sequence[str]) -> Cost:
    """The whole of ``mg-opt --transpile`` for the first graph of a file."""
    graph = folder / "graph.mlir"
    is_list = isinstance(json.loads(path.read_text("utf-8"))[0], list)
    index = ["--index", "0"] if is_list else []
    run("mugraph.tools.mg_translate", ["--import-mirage", str(path), *index], graph)
    return run("mugraph.tools.mg_opt", [*flags, "--transpile", str(graph)], folder / "out.mlir")


def row(path: Path, folder: Path) -> str:
    """The costs of one file, in Markdown."""
    proofs = check(path, "all", "proof", folder)
    middle, worst = (
        1000 * value for value in (statistics.median(proofs.seconds), max(proofs.seconds))
    )
    cells = [
        f"{path.stem}, {len(proofs.seconds)}",
        f"{middle:.0f} ms, {worst:.0f} ms; {proofs.mebibytes:.0f} MiB",
        check(path, "0", "float64", folder),
        check(path, "0", "finite-field", folder),
        transpiled(path, folder, ["--verify-semantics"]),
        transpiled(path, folder, []),
    ]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Writes the page, a row after each file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    lines = [
        "# What checks of equality cost",
        "",
        f"{date.today().isoformat()}, Python {platform.python_version()}, {platform.machine()}, "
        f"{os.environ.get('OPENBLAS_NUM_THREADS', 'all')} thread of OpenBLAS, other work beside. "
        "Processor seconds and peak memory; one seed. Evaluations include the reference, "
        "transpilation is the whole command for the first µGraph of the file.",
        "",
        "| saved µGraphs | proofs: median, worst; memory | float64 | finite fields | "
        "`--verify-semantics --transpile` | `--transpile` |",
        "|---|---|---|---|---|---|",
    ]
    for name in REFERENCE_OF:
        with tempfile.TemporaryDirectory() as folder:
            lines.append(row(options.folder / f"{name}.json", Path(folder)))
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
