"""``mugraph.compile`` where there is no GPU: the interpreter, the checks, the cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled_once import kept_folder
from xdsl.utils.exceptions import DiagnosticException, PassFailedException

import mugraph
import mugraph.build as mi
from mugraph.errors import UserError
from mugraph.jit import ArgumentError, CpuKernel, CudaKernel
from mugraph.runtime import cache
from mugraph.runtime.cache import CacheWarning, cache_entry
from mugraph.runtime.compile import compile_library
from mugraph.runtime.execute import DeviceError
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

EXAMPLES = Path(__file__).parents[2] / "examples"


def scaled_sum() -> mi.KernelGraph:
    """(x + y) / 2 of 4x8 tensors; the result is column-major."""
    graph = mi.new_kernel_graph("scaled_sum")
    x = graph.new_input((4, 8), name="x")
    y = graph.new_input((4, 8), name="y")
    graph.mark_output(graph.mul_scalar(graph.add(x, y), 0.5), strides=(1, 4))
    return graph


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal(shape).astype(np.float16) for shape in shapes]


def test_a_kernel_for_the_cpu_computes() -> None:
    kernel = mugraph.compile(scaled_sum(), arch="cpu")
    x, y = arrays((4, 8), (4, 8))
    result = kernel(x, y)
    expected = (x.astype(float) + y.astype(float)) / 2
    assert kernel.arch == "cpu" and result.dtype == np.float16
    np.testing.assert_allclose(result, expected, atol=2e-3)


def test_a_module_and_text_and_a_file_compile_too(tmp_path: Path) -> None:
    graph = scaled_sum()
    module = graph.module()
    before = str(module)
    path = tmp_path / "graph.mlir"
    path.write_text(before)
    x, y = arrays((4, 8), (4, 8))
    results = [mugraph.compile(given, arch="cpu")(x, y) for given in (graph, module, before, path)]
    assert all(np.array_equal(result, results[0]) for result in results)
    assert str(module) == before


def test_a_path_may_be_text() -> None:
    by_text = mugraph.compile(str(EXAMPLES / "lora.mlir"), arch="cpu")
    assert repr(by_text) == repr(mugraph.compile(EXAMPLES / "lora.mlir", arch="cpu"))
    with pytest.raises(UserError, match=r"nowhere\.mlir cannot be read: No such file"):
        mugraph.compile("nowhere.mlir", arch="cpu")


def test_a_tensor_expression_compiles_with_its_sizes() -> None:
    path = EXAMPLES / "texpr/vector_add.te"
    for given in (path, str(path)):
        kernel = mugraph.compile(given, arch="cpu", sizes={"N": 64})
        a, b = (np.arange(64, dtype=np.float32) * factor for factor in (1, 2))
        assert np.array_equal(kernel(a, b), a + b)
    with pytest.raises(UserError, match=r"sizes= is for \.te files"):
        mugraph.compile(scaled_sum(), arch="cpu", sizes={"N": 64})


def test_a_function_in_linalg_becomes_a_mugraph() -> None:
    text = """func.func @product(%x: tensor<4x8xf16>, %w: tensor<8x2xf16>) -> tensor<4x2xf16> {
      %zero = arith.constant 0.0 : f16
      %empty = tensor.empty() : tensor<4x2xf16>
      %zeros = linalg.fill ins(%zero : f16) outs(%empty : tensor<4x2xf16>) -> tensor<4x2xf16>
      %y = linalg.matmul ins(%x, %w : tensor<4x8xf16>, tensor<8x2xf16>)
                         outs(%zeros : tensor<4x2xf16>) -> tensor<4x2xf16>
      func.return %y : tensor<4x2xf16>
    }"""
    x, w = arrays((4, 8), (8, 2))
    result = mugraph.compile(text, arch="cpu")(x, w)
    np.testing.assert_allclose(result, x.astype(float) @ w.astype(float), atol=2e-2)
    text = """func.func @f(%x: tensor<4xi32>) -> tensor<4xi32> {
      %y = arith.addi %x, %x : tensor<4xi32>
      func.return %y : tensor<4xi32>
    }"""
    with pytest.raises(DiagnosticException, match=r"@f has no operators of 'kn' or 'sched'"):
        mugraph.compile(text, arch="cpu")


def test_a_plan_is_kept_or_refused() -> None:
    plan = mugraph.Plan(tiles="written", stages=(2,))
    kernel = mugraph.compile(EXAMPLES / "rmsnorm_linear.mlir", arch="cpu", plan=plan)
    assert kernel.name == "rmsnorm_linear"
    with pytest.raises(PassFailedException, match="--plan: stages = 2 must be a list"):
        mugraph.compile(scaled_sum(), arch="cpu", plan=mugraph.Plan(stages=2))  # pyright: ignore


def test_a_graph_is_called_as_mirage_users_do() -> None:
    graph = scaled_sum()
    x, y = arrays((4, 8), (4, 8))
    graph.compile(arch="cpu")
    (result,) = graph(inputs=[x, y])
    assert np.array_equal(result, mugraph.compile(graph, arch="cpu")(x, y))


def test_outputs_go_where_they_are_wanted() -> None:
    kernel = mugraph.compile(scaled_sum(), arch="cpu")
    x, y = arrays((4, 8), (4, 8))
    out = np.zeros((8, 4), np.float16).T
    assert kernel(x, y, out=out) is out
    assert np.array_equal(out, kernel(x, y))
    with pytest.raises(ArgumentError, match=r"output 0 .* strides \(8, 1\), expected \(1, 4\)"):
        kernel(x, y, out=np.zeros((4, 8), np.float16))


def test_extents_of_1_may_stand_elsewhere() -> None:
    kernel = mugraph.compile(scaled_sum(), arch="cpu")
    x, y = arrays((4, 8), (4, 8))
    out = np.zeros((1, 8, 1, 4), np.float16).T
    assert kernel(x.reshape(4, 1, 8, 1), y[None], out=out) is out
    assert np.array_equal(out[:, 0, :, 0], kernel(x, y))
    with pytest.raises(ArgumentError, match=r"input 0 .* has shape 8x1x4, expected 4x8"):
        kernel(x.reshape(8, 1, 4), y)
    with pytest.raises(ArgumentError, match=r"input 0 .* has strides \(1, 0, 4\), expected"):
        kernel(np.asfortranarray(x)[:, None], y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:, :4].copy(), r"input 1 \('y'\) has shape 4x4, expected 4x8"),
        (lambda x: x.astype(np.float32), r"input 1 \('y'\) has elements of type f32, expected f16"),
        (
            lambda x: np.asfortranarray(x),
            r"input 1 \('y'\) has strides \(1, 4\), expected \(8, 1\)",
        ),
        (lambda x: x.tolist(), r"input 1 \('y'\) is a list; expected an array"),
        (
            lambda x: np.frombuffer(bytes(65), np.float16, 32, 0).reshape(4, 8)[:, ::-1],
            r"input 1 \('y'\) has strides \(8, -1\)",
        ),
        (
            lambda x: x.astype(">f2" if sys.byteorder == "little" else "<f2"),
            r"input 1 \('y'\) has elements of type f16 with swapped bytes, expected f16",
        ),
        (
            lambda x: np.zeros((4, 8), [("x", np.float16), ("byte", np.int8)])["x"],
            r"input 1 \('y'\): its elements of 2 bytes are 3 bytes apart along dimension 1",
        ),
        (lambda _: np.empty((4, 8), "V0"), r"input 1 \('y'\) has elements of type void, expected"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(change: object, message: str) -> None:
    kernel = mugraph.compile(scaled_sum(), arch="cpu")
    x, y = arrays((4, 8), (4, 8))
    with pytest.raises(ArgumentError, match=message):
        kernel(x, change(y))  # type: ignore[operator]


def test_results_are_not_written_to_what_is_read_only() -> None:
    kernel = mugraph.compile(scaled_sum(), arch="cpu")
    kept = np.zeros((4, 8), np.float16)
    kept.flags.writeable = False
    with pytest.raises(ArgumentError, match=r"output 0 .* is read-only; pass an array that may be"):
        kernel(*arrays((4, 8), (4, 8)), out=kept)
    assert not kept.any()


def test_a_forked_process_compiles_in_threads_of_its_own() -> None:
    """It has none of those that wait for nvcc in the process that it was forked from."""
    program = """
import os, signal
from mugraph.jit.compilation import compilers
assert compilers().submit(int).result() == 0
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(compilers().submit(int, 7).result())
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_misaligned_array_is_named() -> None:
    kernel = mugraph.compile(scaled_sum(), arch="cpu")
    memory = np.zeros(40, np.float16)
    offset = next(i for i in range(1, 9) if (memory.ctypes.data + 2 * i) % 16)
    with pytest.raises(ArgumentError, match=r"input 0 \('x'\) .* not a multiple of 16 bytes"):
        kernel(memory[offset : offset + 32].reshape(4, 8), *arrays((4, 8)))


def test_the_number_of_arguments_is_checked() -> None:
    kernel = mugraph.compile(scaled_sum(), arch="cpu")
    with pytest.raises(ArgumentError, match="takes 2 inputs, got 1"):
        kernel(*arrays((4, 8)))


def test_without_a_gpu_native_is_the_interpreter() -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU on this machine")
    assert isinstance(mugraph.compile(scaled_sum()), CpuKernel)


def test_several_graphs_compile_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    other = mi.new_kernel_graph("other")
    other.mark_output(other.exp(other.new_input((2, 2))))
    kernels = mugraph.compile_all([scaled_sum(), other], arch="cpu", progress=True)
    assert [kernel.name for kernel in kernels] == ["scaled_sum", "other"]
    assert "[2/2]" in capsys.readouterr().err


def test_threads_call_one_kernel_for_the_cpu() -> None:
    kernel = mugraph.compile(scaled_sum(), arch="cpu")
    given = [(np.full((4, 8), i, np.float16), np.ones((4, 8), np.float16)) for i in range(24)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda arguments: kernel(*arguments), given))
    for number, result in enumerate(results):
        assert (result == (number + 1) / 2).all()


LAUNCHER = r"""
#include <stdio.h>
#include <unistd.h>
static _Thread_local char error[64];
int scaled_sum_run(void const* x, void const* y, void* o, void* buf, size_t size, void* stream) {
  long const number = *(long const*)x;
  snprintf(error, sizeof error, "error of %ld", number);
  usleep(2000);
  *(long*)o = number + *(long const*)y + (long)stream;
  return number % 3 == 2 ? 6 : 0;
}
char const* scaled_sum_error(void) { return error; }
"""
"""Adds its two numbers to the stream's; every third call is an error, of its thread."""


def test_threads_launch_one_kernel_on_streams_of_their_own(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not on this machine")
    (tmp_path / "launcher.c").write_text(LAUNCHER)
    library = tmp_path / "launcher.so"
    subprocess.run(["gcc", "-shared", "-fPIC", tmp_path / "launcher.c", "-o", library], check=True)
    interface = mugraph.compile(scaled_sum(), arch="cpu").interface
    kernel = CudaKernel(library, interface, "sm_90a")

    def call(number: int) -> str:
        arrays = [np.array([value], np.int64) for value in (number, 10, 0)]
        try:
            kernel.launch([array.ctypes.data for array in arrays], 0, stream=100 * number)
        except DeviceError as error:
            return str(error)
        return str(arrays[-1][0])

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, range(64)))
    assert results == [
        f"scaled_sum: error of {number}" if number % 3 == 2 else str(101 * number + 10)
        for number in range(64)
    ]


def test_what_is_no_graph_is_said() -> None:
    with pytest.raises(UserError, match="cannot compile 3"):
        mugraph.compile(3)  # type: ignore[arg-type]


def test_options_of_another_type_are_said() -> None:
    graph = mi.new_kernel_graph()
    graph.mark_output(mi.exp(graph.new_input((4, 8))))
    with pytest.raises(UserError, match=r"plan=.stages=3. is no plan; write plan=mugraph.Plan"):
        mugraph.compile(graph, "cpu", plan="stages=3")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="arch=90 is no word such as 'cpu'"):
        mugraph.compile(graph, 90)  # type: ignore[arg-type]
    with pytest.raises(PassFailedException, match=r"stages = .x. has 'x'; expected integers"):
        mugraph.compile(graph, "cpu", plan=mugraph.Plan(stages=("x",)))  # type: ignore[arg-type]
    assert mugraph.Plan(stages=[3]) == mugraph.Plan(stages=(3,))  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "mugraph" / "kernels"


def make(key: str, text: str = "result") -> tuple[bool, Path]:
    with cache_entry(key, "file") as entry:
        if entry.is_new:
            (entry.folder / "file").write_text(text)
    return entry.is_new, entry.result


def test_an_entry_is_made_once(folder: Path) -> None:
    assert make("a") == (True, folder / "a" / "file")
    assert make("a") == (False, folder / "a" / "file")
    assert sorted(path.name for path in folder.iterdir()) == ["a"]


def test_an_error_leaves_no_entry(folder: Path) -> None:
    with pytest.raises(ZeroDivisionError), cache_entry("a", "file"):
        _ = 1 / 0
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("damage", ["garbage", "", None])
def test_a_damaged_entry_is_made_again(folder: Path, damage: str | None) -> None:
    _, result = make("a")
    # What this process checked it does not read again; another one does.
    cache._checked.clear()
    if damage is None:
        (folder / "a" / "sha256").unlink()
    else:
        result.write_text(damage)
    assert make("a", "again") == (True, result) and result.read_text() == "again"
    assert sorted(path.name for path in folder.iterdir()) == ["a"]


def test_what_a_killed_compiler_left_is_removed(folder: Path) -> None:
    make("a")
    old = folder / ".compiling-old"
    old.mkdir()
    os.utime(old, (0, 0))
    young = folder / ".compiling-young"
    young.mkdir()
    make("b")
    assert young.exists() and not old.exists()


def test_a_cache_that_cannot_be_written_is_done_without(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.mkdir(parents=True)
    # A file where the folder would be: nothing can be made there, by root neither.
    folder.write_text("")
    with pytest.warns(CacheWarning, match="for this process only"):
        is_new, result = make("a")
    assert is_new and result.read_text() == "result" and folder not in result.parents


def test_processes_that_ask_for_the_same_entry_make_it_once(folder: Path) -> None:
    script = (
        "import time; from mugraph.runtime.cache import cache_entry\n"
        "with cache_entry('a', 'file') as entry:\n"
        "    if entry.is_new:\n"
        "        time.sleep(0.3); (entry.folder / 'file').write_text('x' * 100000)\n"
        "assert entry.result.read_text() == 'x' * 100000, entry\n"
        "print(entry.is_new)"
    )
    command = [sys.executable, "-c", script]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert sorted(each.communicate()[0].strip() for each in running) == ["False"] * 3 + ["True"]
    assert sorted(path.name for path in folder.iterdir()) == ["a"]


def test_a_compiler_killed_half_way_leaves_no_entry(folder: Path) -> None:
    script = (
        "import os, signal; from mugraph.runtime.cache import cache_entry\n"
        "with cache_entry('a', 'file') as entry:\n"
        "    (entry.folder / 'file').write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode < 0
    assert not (folder / "a").exists()
    assert make("a")[0]


def in_another_process(key: str) -> subprocess.Popen[str]:
    """A process that makes, or takes, an entry of 1000 bytes, says so, and waits for its input."""
    script = (
        "import sys; from mugraph.runtime.cache import cache_entry\n"
        f"with cache_entry({key!r}, 'file') as entry:\n"
        "    if entry.is_new: (entry.folder / 'file').write_text('x' * 1000)\n"
        "print(entry.is_new, flush=True); sys.stdin.readline()\n"
        "assert entry.result.read_text() == 'x' * 1000\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline().strip() in ("True", "False")
    return running


def end(running: subprocess.Popen[str]) -> None:
    running.communicate("\n")
    assert running.returncode == 0


def use(key: str, at: float, folder: Path) -> None:
    """In a process that has ended, at a time."""
    end(in_another_process(key))
    os.utime(folder / key, (at, at))


def test_the_least_recently_used_entries_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at, key in enumerate("abc"):
        use(key, at, folder)
    # Of an entry that is used again the time is new.
    assert make("a")[0] is False
    (folder / "failed-1.cu").write_text("x" * 1000)
    os.utime(folder / "failed-1.cu", (0, 0))
    monkeypatch.setenv("MUGRAPH_CACHE_SIZE", "2300")
    assert make("d")[0]
    assert sorted(path.name for path in folder.iterdir()) == ["a", "c", "d"]


def test_what_a_process_uses_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = in_another_process("a")
    os.utime(folder / "a", (0, 0))
    use("b", 1, folder)
    make("c")
    monkeypatch.setenv("MUGRAPH_CACHE_SIZE", "0")
    make("d")
    # Those of this process and of one that runs are larger than the cache may be.
    assert sorted(path.name for path in folder.iterdir()) == ["a", "c", "d"]
    end(running)
    make("e")
    assert sorted(path.name for path in folder.iterdir()) == ["c", "d", "e"]
    assert make("a")[0]


def test_processes_and_threads_that_fill_a_small_cache(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUGRAPH_CACHE_SIZE", "3K")
    script = (
        "import random; from concurrent.futures import ThreadPoolExecutor\n"
        "from mugraph.runtime.cache import cache_entry\n"
        "def one(seed):\n"
        "    key = str(random.Random(seed).randrange(12))\n"
        "    with cache_entry(key, 'file') as entry:\n"
        "        if entry.is_new: (entry.folder / 'file').write_text(key * 1000)\n"
        "    assert entry.result.read_text() == key * 1000\n"
        "for round in range(4):\n"
        "    with ThreadPoolExecutor(4) as pool: list(pool.map(one, range(round, round + 8)))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [process.wait() for process in running] == [0] * 3
    make("last")
    assert len(list(folder.iterdir())) <= 3


@pytest.mark.parametrize("size", ["much", "-1", "4GB", ""])
def test_a_size_that_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
    monkeypatch.setenv("MUGRAPH_CACHE_SIZE", size)
    with pytest.raises(UserError, match="expected a number of bytes, or one such as 500M or 4G"):
        make("a")


@pytest.fixture(scope="module")
def for_a_gpu() -> CudaKernel:
    """A kernel that is compiled for a GPU, in the cache of the tests."""
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(kept_folder("kernels")))
        kernel = mugraph.compile(scaled_sum(), arch="sm_90a")
    assert isinstance(kernel, CudaKernel)
    return kernel


def test_a_kernel_for_a_gpu_compiles_without_one(for_a_gpu: CudaKernel) -> None:
    assert for_a_gpu.arch == "sm_90a" and "scaled_sum" in repr(for_a_gpu)
    x, y = arrays((4, 8), (4, 8))
    with pytest.raises(ArgumentError, match="in host memory"):
        for_a_gpu(x, y, out=x)


def test_a_kernel_for_a_gpu_names_a_tensor_on_the_cpu(for_a_gpu: CudaKernel) -> None:
    """Also where torch is built without CUDA."""
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    x, y = (torch.zeros(4, 8, dtype=torch.float16) for _ in range(2))
    with pytest.raises(ValueError, match=r"in host memory|is on the CPU"):
        for_a_gpu(x, y)


def test_a_full_disk_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(self: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device", str(self))

    try:
        toolchain = find_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    monkeypatch.setattr(Path, "write_text", no_room)
    with pytest.raises(UserError, match="No space left on device; make room"):
        compile_library("int f();", toolchain=toolchain)
    assert list(folder.iterdir()) == []


def test_an_output_where_an_input_is_read_is_refused() -> None:
    graph = mi.new_kernel_graph("put")
    table, new = graph.new_input((8, 4), name="table"), graph.new_input((1, 4), name="new")
    place = graph.new_input((1,), dtype=mi.int64, name="place")
    graph.mark_output(graph.scatter(new, table, place, 0))
    kernel = mugraph.compile(graph, "cpu")
    cache, row, at = np.zeros((8, 4), np.float16), np.ones((1, 4), np.float16), np.array([3])
    kernel(cache, row, at, out=cache)
    assert cache.sum(axis=1).tolist() == [0, 0, 0, 4, 0, 0, 0, 0]
    graph.mark_output(mi.exp(table))
    kernel = mugraph.compile(graph, "cpu")
    with pytest.raises(ArgumentError, match=r"input 0 \('table'\) does, which is read besides"):
        kernel(cache, row, at, out=[cache, np.zeros((8, 4), np.float16)])
