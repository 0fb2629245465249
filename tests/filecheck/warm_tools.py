"""How lit starts the Python tools that a test names: as forks of a process that has imported them.

A new Python that imports the compiler takes longer than most tests do with it.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib.metadata import EntryPoint, entry_points
from io import StringIO
from pathlib import Path
from subprocess import Popen
from typing import Any, NoReturn
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

# What tools import only when they need it.
for table in (
    MUGRAPH_UNIVERSE.all_dialects,
    MUGRAPH_UNIVERSE.all_passes,
    MUGRAPH_UNIVERSE.all_targets,
):
    for load in table.values():
        load()
# And what a process finds out once, whatever it compiles.
with patch("sys.argv", ["mg-opt", "--transpile", str(EXAMPLE)]), redirect_stdout(StringIO()):
    mg_opt.main()
# A collection in a fork would write to, and so copy, the pages of all that was imported.
gc.freeze()


class WarmShTest(lit.formats.ShTest):
    """lit's own shell tests, where a console script does not start a new Python.

    Each command still has a process of its own, so that nothing it changes is seen by another one.
    """

    def execute(self, test: Any, lit_config: Any) -> Any:
        """Run ``test``, and return lit's result."""
        with patch("subprocess.Popen", WarmPopen):
            return super().execute(test, lit_config)


class WarmPopen(Popen[str]):
    """A process that a console script ends in place of ``exec``."""

    def __init__(self, args: Sequence[str], **options: Any) -> None:
        script = TOOLS.get(options.get("executable", ""))
        if script is not None:
            main = script.load()
            options["preexec_fn"] = lambda: run_to_the_end(main, args, options["env"])
        super().__init__(args, **options)


def run_to_the_end(main: Any, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Do in a forked process what a console script does in a new one, and end the process."""
    # As at ``exec``. One of them is the pipe by which the parent waits for that.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(arguments)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
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
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)
