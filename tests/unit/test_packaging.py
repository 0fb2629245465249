"""The wheel holds what git holds, and the installed package works with xDSL's own tools."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest
from xdsl.universe import Universe

from mugraph import __version__
from mugraph.runtime.toolchain import CUTLASS_VERSION
from mugraph.tools.universe import DIALECTS, PASSES, TARGETS

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]

# The folders of the repository that are installed, and where.
LINKED = {
    "mugraph_dialects": "mugraph/dialects",
    "passes": "mugraph/passes",
    "codegen": "mugraph/codegen",
    "runtime": "mugraph/runtime",
    "tools": "mugraph/tools",
    "frontend": "mugraph",
}


def test_types_of_all_folders_are_checked() -> None:
    package = ROOT / "src" / "mugraph"
    links = {str(path.relative_to(ROOT)) for path in package.iterdir() if path.is_symlink()}
    checked = set(SETTINGS["tool"]["pyright"]["include"])
    assert links and links | {"src/mugraph", "benchmarks"} == checked


def tracked_files() -> list[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not in a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


@pytest.fixture(scope="module")
def wheel_members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The members of a wheel that is built from what git tracks alone.

    In the working tree, `build/` would keep files that have been deleted since.
    """
    tree = tmp_path_factory.mktemp("tree")
    for name in tracked_files():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name, follow_symlinks=False)
    output = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--wheel-dir", str(output), str(tree)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 and "setuptools" in done.stderr and "find a version" in done.stderr:
        pytest.skip("the build needs setuptools from the package index, which is out of reach")
    assert done.returncode == 0, done.stderr
    (wheel,) = output.glob("mugraph-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_what_git_holds(wheel_members: set[str]):
    expected: set[str] = set()
    for name in tracked_files():
        folder, _, rest = name.partition("/")
        if folder in LINKED:
            expected.add(f"{LINKED[folder]}/{rest}")
        elif name.startswith("src/mugraph/") and not (ROOT / name).is_symlink():
            expected.add(name.removeprefix("src/"))
    packaged = {name for name in wheel_members if ".dist-info/" not in name}
    assert packaged == expected


def test_the_wheel_holds_headers_and_launcher(wheel_members: set[str]):
    assert "mugraph/runtime/include/mugraph/runtime.h" in wheel_members
    assert "mugraph/runtime/launcher.cu" in wheel_members


def test_the_cuda_extra_brings_compiler_and_headers():
    extras = PROJECT["optional-dependencies"]
    packages = ("cuda-nvcc", "cuda-crt", "nvvm", "cuda-runtime", "cuda-cccl", "cublas")
    cutlass = f"nvidia-cutlass=={CUTLASS_VERSION}.0"
    assert {f"nvidia-{name}==13.0.*" for name in packages} | {cutlass} == set(extras["cuda"])
    assert cutlass in extras["dev"]


@pytest.mark.parametrize("tool", sorted(PROJECT["scripts"]))
def test_every_tool_says_the_version(
    tool: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", [tool, "--version"])
    with pytest.raises(SystemExit) as end:
        EntryPoint(tool, PROJECT["scripts"][tool], "console_scripts").load()()
    said = capsys.readouterr().out
    assert end.value.code in (0, None) and said.startswith(f"{tool} of mugraph {__version__}")


def test_xdsl_finds_the_dialects_passes_and_targets():
    assert "mugraph" in entry_points(group="xdsl.universe").names
    universe = Universe.get_multiverse()
    assert DIALECTS.keys() <= universe.all_dialects.keys()
    assert PASSES.keys() <= universe.all_passes.keys()
    assert TARGETS.keys() <= universe.all_targets.keys()


def test_the_passes_run_in_xdsl_opt():
    tool = Path(sys.executable).parent / "xdsl-opt"
    example = ROOT / "examples" / "rmsnorm_linear.mlir"
    command = [tool, "-p", "resolve-layout,plan-swizzle", example]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "#cute.layout<" in done.stdout
    assert "!tb.stensor<16x128xf16, S<" in done.stdout


def test_starting_mg_opt_loads_no_pass_and_no_dialect():
    """Start-up stays short because the universe is lazy: nothing is imported that is not used."""
    code = """
import sys
from mugraph.tools.mg_opt import MgOptMain
MgOptMain([])
heavy = [name for name in sys.modules if name.startswith(("z3", "numpy", "mugraph.passes",
    "mugraph.dialects", "mugraph.codegen", "mugraph.runtime.interpreter"))]
sys.exit(", ".join(heavy) or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_python_m_mugraph_prints_the_include_options():
    command = [sys.executable, "-m", "mugraph", "--includes"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    options = done.stdout.split()
    assert all(option.startswith("-I") for option in options)
    folders = [Path(option.removeprefix("-I")) for option in options]
    assert (folders[0] / "mugraph" / "runtime.h").is_file()
    assert (folders[1] / "runtime.h").is_file()
