"""Libraries of programs whose devices read one another's memory, on simulated devices."""

from __future__ import annotations

import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from fuzz.emulated import emulating_compiler, precompiled_headers, with_emulated_memory
from thorough import THOROUGH

from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.dialects.sharding import MESH, Mesh, device_program, mesh_attribute
from mugraph.errors import UserError
from mugraph.passes.program.partition import PartitionPass
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.functions import part_of
from mugraph.runtime.library_sources import Sources, generate_sources
from mugraph.runtime.toolchain import cuda_include_paths

# A sum that all need, one of which each needs its columns, and a tensor that is gathered as it is.
LAYERS = """
func.func @layers(
    %x: tensor<4x96xf32>,
    %w: tensor<96x48xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
    %v: tensor<48x96xf32> {mugraph.sharding = #kn.sharding<[[0]]>},
    %peers: tensor<12x8xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<4x96xf32> {mugraph.sharding = #kn.sharding<[[]]>},
        tensor<4x96xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
        tensor<12x8xf32> {mugraph.sharding = #kn.sharding<[[]]>}) {
  %a = kn.matmul %x, %w precision ieee
      : (tensor<4x96xf32>, tensor<96x48xf32>) -> tensor<4x48xf32>
  %s = kn.silu %a : tensor<4x48xf32> -> tensor<4x48xf32>
  %p = kn.matmul %s, %v precision ieee
      : (tensor<4x48xf32>, tensor<48x96xf32>) -> tensor<4x96xf32>
  %h = kn.add %p, %x : (tensor<4x96xf32>, tensor<4x96xf32>) -> tensor<4x96xf32>
  %b = kn.matmul %h, %w precision ieee
      : (tensor<4x96xf32>, tensor<96x48xf32>) -> tensor<4x48xf32>
  %q = kn.matmul %b, %v precision ieee
      : (tensor<4x48xf32>, tensor<48x96xf32>) -> tensor<4x96xf32>
  func.return %h, %q, %peers : tensor<4x96xf32>, tensor<4x96xf32>, tensor<12x8xf32>
}
"""
ONE_SUM = """
func.func @one(%x: tensor<4x64xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
               %w: tensor<64x32xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<4x32xf32> {mugraph.sharding = #kn.sharding<[[]]>}) {
  %y = kn.matmul %x, %w precision ieee
      : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
  func.return %y : tensor<4x32xf32>
}
"""
BOTH = """
func.func @both(%x: tensor<4x8xf32>) -> (tensor<4x8xf32> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %p = kn.peer %x axes [0] place 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  %e = kn.exp %p : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = kn.all_reduce %e axes [0] : tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %s : tensor<4x8xf32>
}
"""
ALONE = """
#include <mugraph/meet.h>
int main() {
  unsigned flags[2][2] = {}, met = 0;
  unsigned* const of[] = {flags[0], flags[1]};
  mugraph::meet(mugraph::overlapping(nullptr), of, 2, 1, &met, 50'000'000, 3);
}
"""
"""A device that nobody meets."""
CALLS = 3
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "several_gpus"


def sources_of(text: str, devices: int) -> Sources:
    context = make_context()
    module = parse_text(context, text, "peers")
    only_function(module).attributes[MESH] = mesh_attribute(Mesh((devices,)))
    return generate_sources(module, context, ["sm_90a"], peers=True)


def test_the_c_function_takes_the_memory_of_all_devices() -> None:
    sources = sources_of(LAYERS, 2)
    (peers,) = sources.interface.peers
    assert (peers.name, peers.place, peers.devices) == ("peers", "place", 2)
    assert sources.interface.communicators == ()
    header = sources.files["include/layers.h"]
    # An argument of that name has another one.
    assert "const void *peers_1, void *h" in header
    assert "void *const *peers, int place, void *workspace" in header
    assert f"{peers.bytes} bytes each, aligned to 256" in header
    assert not any("nccl" in text.lower() for text in sources.files.values())
    calls = sources.files["src/layers.cu"]
    # What others read is written where they do, and a result where the caller wants it.
    assert "layers_0_run(x, w, v, peers_.own(256), nullptr, 0, stream)" in calls
    assert "layers_1_run(peers_.of(0, 256), peers_.of(1, 256), x, peers_.of(0, 1792), " in calls
    assert "peers_.of(1, 1792), h, peers_2, nullptr, 0, stream)" in calls
    assert calls.count("peers_.meet(stream") == 3


def test_a_tensor_that_is_replaced_in_the_next_call_is_met_for() -> None:
    assert sources_of(ONE_SUM, 2).files["src/one.cu"].count("peers_.meet(stream") == 2


def test_programs_without_such_a_function_are_refused() -> None:
    context = make_context()
    with pytest.raises(UserError, match="@one is of one device, which reads no other one's memory"):
        generate_sources(parse_text(context, ONE_SUM, "one"), context, ["sm_90a"], peers=True)
    with pytest.raises(CodegenError, match=r"'kn.all_reduce' %s is NCCL's, and @both also reads"):
        generate_sources(parse_text(context, BOTH, "both"), context, ["sm_90a"])


def test_the_example_in_cpp_compiles(tmp_path: Path) -> None:
    text = (EXAMPLE / "mlp.mlir").read_text(encoding="utf-8")
    context = make_context()
    sources = generate_sources(parse_text(context, text, "mlp"), context, ["sm_90a"], peers=True)
    (tmp_path / "mlp.h").write_text(sources.files["include/mlp.h"], encoding="utf-8")
    includes = [f"-I{tmp_path}", *(f"-isystem{path}" for path in cuda_include_paths())]
    if shutil.which("g++") is None or not cuda_include_paths():
        pytest.skip("no g++ or no CUDA headers on this machine")
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", *includes]
    done = subprocess.run([*command, str(EXAMPLE / "peers.cpp")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_device_that_waits_too_long_says_for_whom(needs_emulator: None, tmp_path: Path) -> None:
    unit, program = tmp_path / "alone.cu", tmp_path / "alone"
    unit.write_text(with_emulated_memory(ALONE), encoding="utf-8")
    command = [*emulating_compiler(), "-include", str(precompiled_headers())]
    subprocess.run([*command, str(unit), "-o", str(program)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == -signal.SIGABRT
    assert done.stdout == (
        "mugraph: in meeting 3 of its program the device at place 1 waits for the one at place 0, "
        "which has met 0 of 1 times.\n"
    )


def built(sources: Sources, devices: int, folder: Path) -> Path:
    """A program of simulated devices that call the library."""
    interface = sources.interface
    for path, text in sources.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(with_emulated_memory(text), encoding="utf-8")
    name, count = interface.name, len(interface.tensors)
    tensors = ", ".join(f"tensors[{number}]" for number in range(count))
    (folder / "library.h").write_text(
        f"""#include "{name}.h"
constexpr int DEVICES = {devices}, CALLS = {CALLS};
constexpr std::size_t kInputs = {len(interface.inputs)};
constexpr std::size_t kBytes[] = {{{", ".join(str(each.span) for each in interface.tensors)}}};
inline std::size_t workspace_bytes() {{ return {name}_workspace_bytes(); }}
inline std::size_t peers_bytes() {{ return {name}_peers_bytes(); }}
inline char const* error() {{ return {name}_error(); }}
inline int run(void* const* tensors, void* const* peers, int place, void* workspace,
               std::size_t bytes) {{
  return {name}_run({tensors}, peers, place, workspace, bytes, nullptr);
}}
""",
        encoding="utf-8",
    )
    main = Path(__file__).parent / "simulated_devices.cpp"
    units = [folder / path for path, _ in sources.translation_units] + [main]
    command = [*emulating_compiler(), "-include", str(precompiled_headers())]
    command += [f"-I{folder / each}" for each in (".", "include", "src")]

    def compile(unit: Path) -> str:
        target = str(folder / f"{unit.stem}.o")
        done = subprocess.run([*command, "-c", str(unit), "-o", target], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()[:4000]
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compile, units))
    program = folder / "program"
    linking = [word for word in command if word not in ("-x", "c++")]
    linking = linking[: linking.index("-include")]
    done = subprocess.run([*linking, *objects, "-o", str(program)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[:4000]
    return program


@pytest.mark.skipif(not THOROUGH, reason="compiles a library; MUGRAPH_THOROUGH=1 does")
@pytest.mark.parametrize(("text", "devices"), [(LAYERS, 2), (LAYERS, 3), (ONE_SUM, 4)])
def test_simulated_devices_compute_what_one_does(text: str, devices: int, tmp_path: Path) -> None:
    sources = sources_of(text, devices)
    whole = parse_text(make_context(), text, "whole")
    function, mesh = only_function(whole), Mesh((devices,))
    only_function(whole).attributes[MESH] = mesh_attribute(mesh)
    cut = whole.clone()
    PartitionPass().apply(make_context(), cut)
    random = np.random.default_rng(devices)
    program = built(sources, devices, tmp_path)
    of_device = device_program(only_function(cut))
    assert of_device is not None
    expected = []
    for call in range(CALLS):
        arrays = [
            (random.standard_normal(argument.type.get_shape()) / 4).astype(np.float32)
            for argument in function.args
        ]
        expected.append(run_function(whole, None, arrays, "float64"))
        for device in range(devices):
            for number, (array, sharding, tensor) in enumerate(
                zip(arrays, of_device.arguments, sources.interface.inputs, strict=True)
            ):
                start = sharding.start(tensor.shape, mesh, device)
                part_of(array, start, tensor.shape).tofile(tmp_path / f"{device}_{call}_{number}")
    done = subprocess.run([str(program), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    inputs = len(sources.interface.inputs)
    for call in range(CALLS):
        for device in range(devices):
            for number, (sharding, tensor, whole_result) in enumerate(
                zip(of_device.results, sources.interface.outputs, expected[call], strict=True)
            ):
                found = np.fromfile(tmp_path / f"{device}_{call}_{inputs + number}", np.float32)
                start = sharding.start(tensor.shape, mesh, device)
                exact = part_of(whole_result, start, tensor.shape)
                assert np.allclose(found.reshape(tensor.shape), exact, rtol=1e-4, atol=1e-5)
