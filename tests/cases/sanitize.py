"""Runs cases under compute-sanitizer: one process for all of them a tool."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mugraph.errors import UserError

TOOLS = ("memcheck", "racecheck", "initcheck")
SECONDS_A_TOOL = 300
ERROR_CODE = 86
"""What compute-sanitizer exits with where it found something."""


@dataclass(frozen=True)
class Finding:
    """What one tool said of a run over all cases."""

    tool: str
    is_silent: bool
    summary: str
    seconds: float


def find_sanitizer() -> str:
    """compute-sanitizer; ``UserError`` where there is none."""
    found = shutil.which("compute-sanitizer")
    nvcc = shutil.which("nvcc")
    beside = Path(nvcc).resolve().parent / "compute-sanitizer" if nvcc else None
    if found is None and beside is not None and beside.is_file():
        found = str(beside)
    if found is None:
        raise UserError("compute-sanitizer is not on this machine; it comes with the CUDA toolkit.")
    return found


def command_of(tool: str, folder: Path, sanitizer: str, shard: str) -> list[str]:
    """The command that runs a shard, such as ``0/4``, of the cases in ``folder`` under a tool."""
    options = ["--tool", tool, "--error-exitcode", str(ERROR_CODE), "--print-limit", "20"]
    if tool == "memcheck":
        options += ["--leak-check", "no"]
    launch = [sys.executable, "-m", "cases", "launch", "--folder", str(folder), "--shard", shard]
    return [sanitizer, *options, *launch]


def run_tool(tool: str, folder: Path, sanitizer: str, log: Path, shard: str) -> Finding:
    """Runs a tool over a shard of the cases that were built; its output goes to ``log``."""
    start = time.perf_counter()
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    try:
        done = subprocess.run(
            command_of(tool, folder, sanitizer, shard),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            timeout=SECONDS_A_TOOL,
        )
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode(errors="replace")
        output += f"\ndid not end in {SECONDS_A_TOOL} s\n"
        code = -1
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(output, encoding="utf-8")
    return summarize(tool, output, code, time.perf_counter() - start)


def summarize(tool: str, output: str, code: int, seconds: float) -> Finding:
    """Silent only where the tool says that it found nothing and every case was launched."""
    clean = re.search(r"ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards", output)
    launched = re.search(r"^launched (\d+) cases", output, re.M)
    if code == 0 and clean and launched:
        return Finding(tool, True, f"silent over {launched.group(1)} cases", seconds)
    said = [
        line for line in output.splitlines() if line.startswith("=========") and line.strip("= ")
    ]
    last = output.strip().splitlines()[-1:] or ["nothing"]
    shown = [*said[:6], *[line for line in said[6:] if "SUMMARY" in line]] or last
    return Finding(tool, False, f"exit code {code}: " + "\n  ".join(shown), seconds)
