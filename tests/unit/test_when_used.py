"""What packages import at once, and what they import when a name of them is used."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = ["mugraph", "mugraph.runtime.interpreter", "mugraph.texpr", "mugraph.tune"]

FIRST = """
import sys

def loaded(*names):
    return [name for name in names if name in sys.modules]

import mugraph.tune.children
assert not loaded("xdsl", "numpy", "mugraph.tune.cuda"), "tune"
from mugraph import cute
late = ("codegen.cuda", "passes.costs", "runtime.interpreter.run", "texpr.read", "dialects.sched")
assert not loaded(*(f"mugraph.{name}" for name in late)), "cute"
"""


def test_processes_of_a_search_and_cute_start_without_the_compiler() -> None:
    subprocess.run([sys.executable, "-c", FIRST], check=True)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_is_there(package: str) -> None:
    module = importlib.import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing
