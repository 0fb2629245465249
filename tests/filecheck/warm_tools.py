"""How lit runs the Python tools that a test names: in its own worker, which has imported them.

A new Python that imports the compiler takes longer than most tests do with it, and a fork for each
command or test costs time, too: most of its pages are copied as soon as Python counts references.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib.metadata import EntryPoint, entry_points
from io import StringIO
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch

import lit.formats

from mugraph.tools import mg_opt
from mugraph.tools.universe import MUGRAPH_UNIVERSE

EXAMPLE = Path(__file__).parents[2] / "examples" / "rmsnorm_linear.mlir"

TOOLS: dict[str, EntryPoint] = {
    os.path.join(os.path.dirname(sys.executable), script.name): script
    for script in entry_points(group="console_scripts")
}
"""The console scripts of the Python that runs lit, by the path of their executables."""
TOOLS[str(Path(__file__).with_name("status"))] = EntryPoint("status", "warm_tools:status", "lit")

# What tools import only when they need it.
for table in (
    MUGRAPH_UNIVERSE.all_dialects,
    MUGRAPH_UNIVERSE.all_passes,
    MUGRAPH_UNIVERSE.all_targets,
):
    for load in table.values():
        load()
for tool in TOOLS.values():
    if tool.module.startswith(("mugraph.", "filecheck.")):
        tool.load()
# And what a process finds out once, whatever it compiles.
with patch("sys.argv", ["mg-opt", "--transpile", str(EXAMPLE)]), redirect_stdout(StringIO()):
    mg_opt.main()
# Workers of lit are forks: a collection would write to, and so copy, all pages of the imports.
gc.freeze()


def status() -> None:
    """Does what the script of this name does, with a console script."""
    name, *_ = sys.argv = sys.argv[1:]
    main = TOOLS[os.path.join(os.path.dirname(sys.executable), name)].load()
    try:
        ended = main()
    except SystemExit as end:
        ended = end.code
    print("exit", ended or 0)


class WarmShTest(lit.formats.ShTest):
    """lit's own shell tests, where a console script does not start a new Python."""

    def execute(self, test: Any, lit_config: Any) -> Any:
        """Run ``test``, and return lit's result."""
        with patch("subprocess.Popen", warm_popen):
            return super().execute(test, lit_config)


def warm_popen(args: Sequence[str], **options: Any) -> Popen[str] | RunHere:
    """A process, or what has become of a console script that was run in this one."""
    script = TOOLS.get(options.get("executable", ""))
    if script is None:
        return Popen(args, **options)
    return RunHere(script.load(), args, **options)


class RunHere:
    """A console script that has run to its end, and what lit asks of a process."""

    def __init__(
        self,
        main: Callable[[], object],
        args: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: Any,
        stdout: Any,
        stderr: Any,
        **_options: Any,
    ) -> None:
        self.args = args
        # Of the first command of a pipe: nothing to read.
        self.stdin, self.stdout, self.stderr = (
            TemporaryFile("w+", errors="replace") if each == PIPE else None  # noqa: SIM115
            for each in (stdin, stdout, stderr)
        )
        ends: list[Any] = [self.stdin or stdin, self.stdout or stdout]
        ends.append(ends[1] if stderr == STDOUT else self.stderr or stderr)
        own = [os.dup(number) for number in range(3)]
        try:
            for number, end in enumerate(ends):
                os.dup2(end.fileno(), number)
            self.returncode = status_of(main, args, cwd, env)
        finally:
            for number, kept in enumerate(own):
                os.dup2(kept, number)
                os.close(kept)
        for written in filter(None, (self.stdout, self.stderr)):
            written.seek(0)

    def communicate(self) -> tuple[str | None, str | None]:
        """What it has written to pipes."""
        out, error = (pipe and pipe.read() for pipe in (self.stdout, self.stderr))
        return out, error

    def wait(self) -> int:
        """Its exit status."""
        return self.returncode


def status_of(
    main: Callable[[], object], args: Sequence[str], cwd: str, env: Mapping[str, str]
) -> int:
    """Does what a console script does in a new process; returns its exit status."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    with (
        open(0, closefd=False) as given,
        open(1, "w", closefd=False) as written,
        open(2, "w", buffering=1, errors="backslashreplace", closefd=False) as said,
        patch.multiple("sys", argv=[*args], stdin=given, stdout=written, stderr=said),
    ):
        try:
            status = main()
        except SystemExit as end:
            status = end.code
        except BaseException:
            traceback.print_exc()
            status = 1
        if status is not None and not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    return status or 0
