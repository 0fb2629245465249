"""The launcher and the Python around it, with CUDA's runtime replaced by one on host memory."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mugraph.dialects.cute import Layout, parse_layout
from mugraph.runtime import execute
from mugraph.runtime.execute import (
    CudaModule,
    DeviceError,
    Signature,
    TensorSpec,
    from_physical,
)

HERE = Path(__file__).parent
LAUNCHER = HERE.parent.parent / "runtime" / "launcher.cu"

# Adds the elements of a [4, 6] matrix by row, times `init`; what it does wrong is in input 1.
GENERATED = """
#include <cuda_runtime.h>
#include <cmath>
#include <stdexcept>
#include <vector>
static float init = 0.0f;
static void _init() { init = 2.0f; }
static void _execute_mugraph(std::vector<void const *> input_tensors,
                             std::vector<void *> output_tensors, void *buf, cudaStream_t stream) {
  float const *x = (float const *)input_tensors.at(0);
  int const mode = (int)*(float const *)input_tensors.at(1);
  float *y = (float *)output_tensors.at(0);
  if (mode == 1) throw std::runtime_error("this kernel cannot run");
  if (mode == 2) host_error() = cudaErrorLaunchFailure;
  host_launch(stream, [=] {
    for (int i = 0; i < 4; ++i) {
      if (mode == 3 && i == 2) continue;
      float sum = 0.0f;
      for (int j = 0; j < 6; ++j) sum += x[i * 8 + j];
      // A second call on the same memory would see that it has been written.
      y[i] = std::isnan(y[i]) && std::isnan(x[6]) ? init * sum : -1.0f;
    }
    if (mode == 4) y[4] = 0.0f;
    if (mode == 5) ((char *)buf)[16] = 0;
    if (mode == 6) y[0] = (size_t)x % 16, y[1] = (size_t)y % 16;
  });
}
"""

FLOAT = np.dtype(np.float32)
SIGNATURE = Signature(
    inputs=(
        TensorSpec((4, 6), FLOAT, Layout((4, 6), (8, 1))),
        TensorSpec((1,), FLOAT, Layout(1, 1)),
    ),
    outputs=(TensorSpec((4,), FLOAT, Layout(4, 1)),),
    workspace_bytes=16,
)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> CudaModule:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("launcher")
    (folder / "kernel.cu").write_text(GENERATED)
    command = [compiler, "-x", "c++", "-std=c++17", "-Wall", "-Werror", "-shared", "-fPIC"]
    command += ['-DMUGRAPH_GENERATED="kernel.cu"', f"-I{folder}", f"-I{HERE / 'host_cuda'}"]
    subprocess.run([*command, str(LAUNCHER), "-o", str(folder / "module.so")], check=True)
    return CudaModule(folder / "module.so", SIGNATURE)


def inputs(mode: int) -> list[np.ndarray]:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    return [x, np.array([mode], np.float32)]


def test_run_gives_the_outputs_each_time_on_poisoned_memory(module: CudaModule):
    for _ in range(3):
        (y,) = module.run(inputs(0))
        np.testing.assert_array_equal(y, 2 * inputs(0)[0].sum(1))


def test_elements_that_are_not_written_are_nan(module: CudaModule):
    (y,) = module.run(inputs(3))
    np.testing.assert_array_equal(np.isnan(y), [False, False, True, False])


def test_tensors_are_aligned_to_what_is_promised_and_no_more(module: CudaModule):
    promises = {
        "inputs": tuple(replace(spec, alignment=8) for spec in SIGNATURE.inputs),
        "outputs": tuple(replace(spec, alignment=4) for spec in SIGNATURE.outputs),
    }
    path = module._launcher._library._name  # pyright: ignore
    misaligned = CudaModule(Path(path), replace(SIGNATURE, **promises))
    assert list(module.run(inputs(6))[0][:2]) == [0, 0]
    assert list(misaligned.run(inputs(6))[0][:2]) == [8, 4]
    np.testing.assert_array_equal(misaligned.run(inputs(0))[0], 2 * inputs(0)[0].sum(1))
    assert len(misaligned.time(inputs(0), sample_count=3).samples) == 3


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (1, "this kernel cannot run."),
        (
            2,
            "launching the kernels: cudaErrorLaunchFailure, unspecified launch failure.",
        ),
        (4, "the generated code wrote behind the end of output 0."),
        (5, "the generated code wrote behind the end of the workspace."),
    ],
)
def test_errors_are_sentences(module: CudaModule, mode: int, message: str):
    with pytest.raises(DeviceError) as error:
        module.run(inputs(mode))
    assert str(error.value) == message


def test_time_divides_by_the_calls(module: CudaModule, monkeypatch: pytest.MonkeyPatch):
    # 32 floats in, 1 float mode, 4 floats out are 148 bytes (the last row ends at column 5).
    monkeypatch.setattr(execute, "TIMED_BYTES", 148 * 5)
    timing = module.time(inputs(0), sample_count=7)
    assert len(timing.samples) == 7
    assert timing.median == pytest.approx(3.0, rel=1e-4)


def test_no_such_device(module: CudaModule):
    path = module._launcher._library._name  # pyright: ignore
    with pytest.raises(DeviceError, match=r"^choosing the GPU"):
        CudaModule(Path(path), SIGNATURE, device=1)


def test_inputs_of_other_shapes_are_refused(module: CudaModule):
    with pytest.raises(ValueError, match=r"the kernel takes \(4, 6\), \(1,\)"):
        module.run([np.zeros((6, 4), np.float32), np.zeros(1, np.float32)])


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((4, 6), "(4,6):(6,1)"),
        ((4, 6), "(4,6):(1,4)"),
        ((4, 6), "(4,6):(16,2)"),
        ((4, 6), "((2,2),(3,2)):((1,40),(4,16))"),
        ((1, 3, 5), "(1,3,5):(64,1,8)"),
        ((7,), "7:3"),
    ],
)
def test_physical_form_follows_the_layout(shape: tuple[int, ...], layout: str):
    cute = parse_layout(layout)
    assert isinstance(cute, Layout)
    array = np.arange(np.prod(shape), dtype=np.float16).reshape(shape)
    memory = TensorSpec(array.shape, array.dtype, cute).to_physical(array)
    assert memory.shape == (cute.cosize(),)
    for coordinate in np.ndindex(*shape):
        assert memory[cute(*coordinate)] == array[coordinate]
    assert np.isnan(memory).sum() == cute.cosize() - array.size
    np.testing.assert_array_equal(from_physical(memory, cute, shape), array)


def test_rows_of_a_call_lie_one_behind_the_other() -> None:
    spec = TensorSpec((8, 16), FLOAT, Layout((8, 16), (16, 1)), names=("M", "N"))
    called = spec.at({"M": 3, "N": 5}, {"M": 3, "N": 5})
    assert (called.shape, called.layout) == ((3, 5), Layout((3, 5), (5, 1)))
    bounded = spec.at({"M": 3, "N": 5}, {"M": 3, "N": 16})
    assert (bounded.layout, bounded.room) == (Layout((3, 5), (16, 1)), 48)
    padded = TensorSpec((8, 16), FLOAT, Layout((8, 16), (24, 1)), names=("M", ""))
    assert padded.at({"M": 3}, {"M": 3}).layout == Layout((3, 16), (24, 1))
