import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_pipeline

from mugraph.tools.diagnostics import ToolError, atomic_output
from mugraph.tools.mg_opt import check_options, pass_flags_to_pipeline
from mugraph.tools.universe import MUGRAPH_UNIVERSE, PASSES

NAMES = ("resolve-layout", "plan-swizzle", "transpile")


@dataclass(frozen=True)
class ExamplePass(ModulePass):
    """A pass with one option of each kind."""

    name: ClassVar[str] = "transpile"
    arch: str = "sm_90a"
    stage_count: int | None = None
    verify_each: bool = False
    tolerance: float = 0.5
    widths: tuple[int, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], []),
        (["in.mlir", "-t", "cuda"], ["in.mlir", "-t", "cuda"]),
        (
            ["--resolve-layout", "--plan-swizzle", "in.mlir"],
            ["-p", "resolve-layout,plan-swizzle", "in.mlir"],
        ),
        (
            ["in.mlir", "-p", "cse,dce", "--transpile", "-pcanonicalize", "--passes=a{b=c}"],
            ["-p", "cse,dce,transpile,canonicalize,a{b=c}", "in.mlir"],
        ),
        (["--transpile=arch=sm_90a"], ["-p", "transpile{arch=sm_90a}"]),
        (["--transpile=a=1 b=2"], ["-p", "transpile{a=1 b=2}"]),
        (["--transpile={a=1 b=2}"], ["-p", "transpile{a=1 b=2}"]),
        (["--transpile="], ["-p", "transpile"]),
        (["--transpile=verify-each"], ["-p", "transpile{verify-each=true}"]),
        (["--transpile=verify_each"], ["-p", "transpile{verify-each=true}"]),
        (["--transpile=w=1,2,3"], ["-p", "transpile{w=1,2,3}"]),
        (["--transpile=file=a/b.txt,c"], ["-p", 'transpile{file="a/b.txt",c}']),
        (["--transpile=text='a b' x=1"], ["-p", 'transpile{text="a b" x=1}']),
        (['--transpile=text="say \\ no"'], ["-p", 'transpile{text="say \\\\ no"}']),
        (["--transpile=t=1e-3"], ["-p", "transpile{t=1.0e-3}"]),
        (["--transpile=t=-5x"], ["-p", 'transpile{t="-5x"}']),
        # The value of another flag is never a pass, and nothing is after `--`.
        (["-o", "--transpile"], ["-o", "--transpile"]),
        (["--", "--transpile"], ["--", "--transpile"]),
        (["--transpiled"], ["--transpiled"]),
    ],
)
def test_flags_become_one_pipeline(arguments: list[str], expected: list[str]):
    assert pass_flags_to_pipeline(arguments, NAMES) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("arch=sm_80", ExamplePass(arch="sm_80")),
        ("verify-each stage-count=3", ExamplePass(verify_each=True, stage_count=3)),
        ("tolerance=1e-3 widths=8,16", ExamplePass(tolerance=1e-3, widths=(8, 16))),
        ("arch='with, \"quotes\" in'", ExamplePass(arch='with, "quotes" in')),
        ("arch=back\\slash", ExamplePass(arch="back\\slash")),
    ],
)
def test_options_reach_the_pass(options: str, expected: ExamplePass):
    _, pipeline = pass_flags_to_pipeline([f"--transpile={options}"], NAMES)
    (spec,) = parse_pipeline(pipeline)
    assert ExamplePass.from_spec(spec) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p"], "-p needs a pipeline: -p pass-one,pass-two"),
        (["--transpile=a='b"], "--transpile: the quote ' is not closed in \"a='b\"."),
        (["--transpile=a="], "--transpile: the option 'a' has no value after its equals sign."),
        (["--transpile=1=2"], "--transpile: cannot read the option '1=2'"),
    ],
)
def test_flags_that_cannot_be_read(arguments: list[str], message: str):
    with pytest.raises(ToolError) as error:
        pass_flags_to_pipeline(arguments, NAMES)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            "transpile{stagecount=3}",
            "--transpile has no option 'stagecount' (is 'stage-count' meant?). "
            "Its options: arch, stage-count, verify-each, tolerance, widths.",
        ),
        (
            "transpile{arch=sm_80 stage-count=many}",
            "--transpile: the option 'stage-count' is 'many'; expected an integer.",
        ),
    ],
)
def test_options_that_the_pass_does_not_take(pipeline: str, message: str):
    (spec,) = parse_pipeline(pipeline)
    with pytest.raises(ToolError) as error:
        check_options("--transpile", spec, ExamplePass)
    assert str(error.value) == message


def test_output_is_whole_or_absent(tmp_path: Path):
    path = str(tmp_path / "out.txt")
    with pytest.raises(RuntimeError), atomic_output(path) as stream:
        stream.write("half")
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with atomic_output(path) as stream:
        stream.write("whole")
    with open(path) as stream:
        assert stream.read() == "whole"
    with atomic_output("/dev/null") as stream:
        stream.write("gone")
    assert not os.path.isfile("/dev/null")


def test_every_name_of_the_universe_loads():
    for name, load in MUGRAPH_UNIVERSE.all_dialects.items():
        assert load().name == name
    for name, load in MUGRAPH_UNIVERSE.all_passes.items():
        assert load().name == name
        assert load().__doc__, f"{name} has no docstring"
    for name, load in MUGRAPH_UNIVERSE.all_targets.items():
        assert load().name == name
    assert list(PASSES)[-1] == "transpile"
