"""On what, when and from which commit something was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mugraph.errors import UserError
from mugraph.runtime.toolchain import find_toolchain

MACHINE_START = "machine start"
"""The fact that tells two starts of a machine apart."""


def machine_start() -> str:
    """When the machine was started and the random number that it took then."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8")[:8]
        lines = Path("/proc/stat").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    seconds = next((int(line.split()[1]) for line in lines if line.startswith("btime ")), 0)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC, {boot}"


def graphics_card() -> str:
    """Name and driver of the GPU, as nvidia-smi says; ``UserError`` where there is none."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(
            "there is no NVIDIA GPU here (nvidia-smi says so), to measure on."
        ) from error
    return done.stdout.splitlines()[0].strip()


def revision() -> str:
    """The commit of this checkout: ``MUGRAPH_COMMIT``, or what git knows."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    given = os.environ.get("MUGRAPH_COMMIT")
    if given:
        return given
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def facts_of_this_run(arch: str) -> dict[str, str]:
    """GPU, date, commit, architecture and versions."""
    return {
        "gpu": graphics_card(),
        "date": date.today().isoformat(),
        "commit": revision(),
        MACHINE_START: machine_start(),
        "arch": arch,
        "python": platform.python_version(),
        "nvcc": find_toolchain().version,
        "torch": installed("torch"),
    }


def installed(package: str) -> str:
    """The version of a package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"
