import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mugraph.codegen.architecture import choose_architecture
from mugraph.errors import UserError
from mugraph.runtime.compare import Comparison, compare
from mugraph.tools import mg_run

EXPONENTIAL = """
func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %y = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  func.return %y : tensor<4x8xf16>
}
"""


class Runner:
    """Runs the tool on a µGraph in a folder of its own, with ``{}`` in arguments for the folder."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ):
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        (folder / "f.mlir").write_text(EXPONENTIAL)

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        return self.on("f.mlir", *arguments)

    def on(self, name: str, *arguments: str) -> tuple[int, str, str]:
        """Runs the tool on a file of the folder."""
        given = [argument.replace("{}", str(self.folder)) for argument in arguments]
        self._monkeypatch.setattr(sys, "argv", ["mg-run", str(self.folder / name), *given])
        code = mg_run.main()
        captured = self._capsys.readouterr()
        return code, captured.out, captured.err


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Runner:
    return Runner(tmp_path, monkeypatch, capsys)


def test_arrays_in_and_out(run: Runner):
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
    np.save(run.folder / "x.npy", x)
    assert run("--inputs", "{}/x.npy", "--outputs", "{}/y.npy") == (0, "", "")
    y = np.load(run.folder / "y.npy")
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, np.exp(x.astype(np.float16).astype(float)), rtol=1e-3)


def test_results_are_printed_where_nothing_else_is_asked_for(run: Runner):
    code, out, err = run("--scale", "0")
    assert (code, err) == (0, "")
    assert out.startswith("output 0, 4x8 float16:\n[[1. 1. 1. 1. 1. 1. 1. 1.]\n")


@pytest.mark.parametrize(
    ("types", "value", "within"),
    [
        ("x: i32[9]): h: i32[9]", "x[i] & 15", "within 0"),
        ("x: f32[9]): h: i32[9]", "i32(floor(x[i]))", "within 0"),
        ("x: f32[9]): h: f8e4m3[9]", "x[i] * x[i]", "within 0.12"),
    ],
)
def test_numbers_that_tensor_expressions_round_to(run: Runner, types: str, value: str, within: str):
    (run.folder / "f.te").write_text(f"fn f({types} {{ par 9 i {{ h[i] = {value} }} }}")
    code, out, _err = run.on("f.te", "--check")
    assert code == 0 and within in out


def test_a_long_run_says_what_it_does(run: Runner, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mg_run, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(mg_run, "run_function", lambda *_given: time.sleep(0.2) or [np.ones(1)])
    _code, _out, err = run()
    assert "the interpreter is computing @f on 4x8; smaller sizes take less time" in err


def test_random_inputs_are_the_same_for_the_same_seed(run: Runner):
    one, same, other = (run("--seed", seed) for seed in ("1", "1", "2"))
    assert one == same != other


def test_a_check_that_fails(run: Runner):
    code, out, err = run("--check", "--scale", "20")
    assert (code, err) == (1, "")
    assert "elements are not finite (overflown, or never written)" in out
    code, out, err = run("--check", "--tolerance", "1e-9")
    assert (code, err) == (1, "")
    assert out.endswith("against float64, FAILED: over 1e-09\n")


def test_a_check_says_where_types_alone_round_as_far(run: Runner):
    (run.folder / "softmax.mlir").write_text(
        """
        func.func @f(%x: tensor<64x64xf16>) -> tensor<64x64xf16> {
          %s = kn.mul_scalar %x by 20.0 : tensor<64x64xf16> -> tensor<64x64xf16>
          %y = kn.softmax %s dim 1 : tensor<64x64xf16> -> tensor<64x64xf16>
          func.return %y : tensor<64x64xf16>
        }
        """
    )
    code, out, _err = run.on("softmax.mlir", "--check")
    (error,) = re.findall(r"relative error (\S+) against float64, FAILED: over", out)
    assert code == 1
    assert f"check: the types of the µGraph alone round to {error} with these inputs" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--scale", "1,2"],
            "--scale has 2 values; expected one, or one for each of the 1 inputs.",
        ),
        (
            ["--scale", "one"],
            "argument --scale: 'one' is no list of numbers, such as 0.25,1; mg-run --help explains "
            "the arguments.",
        ),
        (["--outputs", "{}/y.npy", "{}/z.npy"], "--outputs has 2 files, but @f has 1 results."),
        (["--inputs", "{}/none.npy"], "{}/none.npy: No such file or directory"),
        (["--inputs", "{}/f.mlir"], "{}/f.mlir is no .npy file of numbers."),
        (["--inputs", "{}/both.npz"], "{}/both.npz is no .npy file of numbers."),
        (["--inputs", "{}/tall.npy"], "{}/tall.npy holds an array of 8x4; expected 4x8."),
        (["--inputs", "{}/int.npy"], "{}/int.npy holds int32; expected floating-point numbers."),
        (
            ["--inputs", "{}/int.npy", "{}/int.npy"],
            "--inputs has 2 files, but @f takes 1 tensors.",
        ),
        (["--arch", "sm_80"], "--arch is for generated CUDA; add --backend=cuda."),
        (
            ["--size", "N=4"],
            "--size N=4: @f has no extent of this name; its sizes are in its types.",
        ),
        (["--size", "N=²"], "--size N=² gives no size; write --size M=64,N=32."),
        (
            ["--seed", "²"],
            "argument --seed: '²' is no seed; expected an integer of at least 0; mg-run --help "
            "explains the arguments.",
        ),
        (
            ["--no-such-flag"],
            "unrecognized arguments: --no-such-flag; mg-run --help explains the arguments.",
        ),
    ],
)
def test_errors_are_one_message(run: Runner, arguments: list[str], message: str):
    np.save(run.folder / "tall.npy", np.zeros((8, 4), np.float16))
    np.savez(run.folder / "both.npz", x=np.zeros((4, 8), np.float16))
    np.save(run.folder / "int.npy", np.zeros((4, 8), np.int32))
    before = sorted(run.folder.iterdir())
    expected = message.replace("{}", str(run.folder))
    assert run(*arguments) == (1, "", f"mg-run: error: {expected}\n")
    assert sorted(run.folder.iterdir()) == before


KNOWN = ["sm_80", "sm_90a", "sm_100a"]


@pytest.mark.parametrize(
    ("device", "chosen"),
    [("sm_80", "sm_80"), ("sm_86", "sm_80"), ("sm_90a", "sm_90a"), ("sm_120a", "sm_80")],
)
def test_architectures_that_fit(device: str, chosen: str):
    assert choose_architecture(device, KNOWN) == chosen


def test_architectures_that_do_not_fit():
    with pytest.raises(UserError) as error:
        choose_architecture("sm_75", KNOWN)
    assert str(error.value) == (
        "this GPU is of architecture sm_75; mugraph compiles for sm_80, sm_90a, sm_100a."
    )


def test_comparison_is_relative_in_the_frobenius_norm():
    reference = np.array([[3.0, 4.0]])
    (one,) = compare([np.array([[3.0, 4.5]], np.float16)], [reference])
    assert one == Comparison(pytest.approx(0.1), 0, 0)
    assert one.holds(0.1001) and not one.holds(0.0999)


def test_elements_that_are_not_finite_never_hold():
    reference = np.ones(4)
    (one,) = compare([np.array([1, np.nan, np.inf, 1], np.float16)], [reference])
    assert (one.missing, one.reference_missing) == (2, 0)
    assert not one.holds(np.inf)
    (other,) = compare([np.ones(4, np.float16)], [np.array([1, np.inf, 1, 1])])
    assert (other.missing, other.reference_missing) == (0, 1)
    assert not other.holds(np.inf)


def test_a_reference_of_zeros_gives_the_absolute_error():
    (one,) = compare([np.array([3e-3, 4e-3], np.float32)], [np.zeros(2)])
    assert one.relative_error == pytest.approx(5e-3)


def test_outputs_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shape"):
        compare([np.zeros((2, 1))], [np.zeros(2)])
    with pytest.raises(ValueError):
        compare([np.zeros(2)], [])


PROGRAM = """
func.func @f(%x: tensor<4x8xf16>, %w: tensor<8x4xf32>) -> tensor<4x4xf16> {
  %a = kn.exp %x : tensor<4x8xf16> -> tensor<4x8xf16>
  %b = kn.exp %a : tensor<4x8xf16> -> tensor<4x8xf16>
  %t = kn.reshape %b : tensor<4x8xf16> -> tensor<8x4xf16>
  %d = kn.add %t, %t : (tensor<8x4xf16>, tensor<8x4xf16>) -> tensor<8x4xf16>
  %m = kn.mul %d, %w : (tensor<8x4xf16>, tensor<8x4xf32>) -> tensor<8x4xf16>
  %r = kn.reshape %m : tensor<8x4xf16> -> tensor<4x8xf16>
  %y = kn.matmul %r, %d : (tensor<4x8xf16>, tensor<8x4xf16>) -> tensor<4x4xf16>
  func.return %y : tensor<4x4xf16>
}
"""


def test_each_kernel_is_checked_alone(run: Runner):
    (run.folder / "f.mlir").write_text(PROGRAM)
    code, out, err = run("--each-kernel")
    assert (code, err) == (0, "")
    kernels = [line.rpartition(": ")[2] for line in out.splitlines() if "f.mlir:" in line]
    assert kernels == ["'kn.exp' %a, 2 times", "'kn.add' %d", "'kn.mul' %m", "'kn.matmul' %y"]
    assert out.count("check: output 0, ") == 4


def test_a_kernel_that_is_wrong_fails_the_run_and_the_others_are_checked(run: Runner):
    (run.folder / "f.mlir").write_text(PROGRAM)
    code, out, _ = run("--each-kernel", "--tolerance", "0")
    assert code == 1
    assert out.count("check: output 0, ") == 4


@pytest.mark.parametrize("argument", ["--inputs", "--outputs"])
def test_inputs_of_each_kernel_are_drawn(run: Runner, argument: str):
    code, _, err = run("--each-kernel", argument, "{}/x.npy")
    assert code == 1 and "leave out --inputs, --outputs and --size" in err
