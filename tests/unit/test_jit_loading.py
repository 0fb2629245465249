"""``mugraph.load`` of what ``mg-compile`` wrote, with a device that the host makes believe.

nvcc is a script that calls g++: the launcher is compiled against ``host_cuda``, and the code of an
architecture writes its name to the output.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mugraph
from mugraph.errors import UserError
from mugraph.jit import CudaKernel
from mugraph.reading import make_context, parse_text, read_module
from mugraph.runtime import toolchain
from mugraph.runtime.ahead_of_time import MANIFEST, build
from mugraph.runtime.execute import DeviceError
from mugraph.runtime.library_sources import Sources, generate_sources
from mugraph.runtime.toolchain import Cublas, Toolchain

HERE = Path(__file__).resolve().parent
GRAPH = HERE.parents[1] / "examples" / "rmsnorm_linear.mlir"

NVCC = f"""#!{sys.executable}
import subprocess, sys
from pathlib import Path

arguments = sys.argv[1:]
output = arguments[arguments.index("-o") + 1]
command = ["g++", "-std=c++17", "-fPIC", "-fvisibility=hidden", "-o", output]
if "-shared" in arguments:
    command += ["-shared", "-Wl,--no-as-needed"]
    # The stubs call nothing of the libraries, which are needed all the same.
    command += [each for each in arguments if each.startswith(("-L", "-l")) or each.endswith(".o")]
else:
    (source,) = (Path(each) for each in arguments if each.endswith(".cu"))
    _, _, arch = source.stem.partition("_sm_")
    if arch:
        source.write_text(
            "#include <cuda_runtime.h>\\n"
            f"void {{source.stem}}(void const* const*, void* const* outputs, void*, cudaStream_t)"
            f' {{{{ std::strcpy((char*)outputs[0], "sm_{{arch}}"); }}}}'
        )
    command += ["-I{HERE / "host_cuda"}", *(each for each in arguments if each.startswith("-I"))]
    command += ["-x", "c++", "-c", str(source)]
sys.exit(subprocess.run(command).returncode)
"""


def compiled(folder: Path, sources: Sources, cublas: Cublas | None = None) -> Path:
    """The folder that ``mg-compile`` writes."""
    for tool in ("g++", "ar"):
        if shutil.which(tool) is None:
            pytest.skip(f"not on this machine: {tool}")
    nvcc = folder / "nvcc"
    nvcc.write_text(NVCC)
    nvcc.chmod(0o755)
    tools = Toolchain(nvcc, "13.0.88", folder, folder, cublas)
    build(sources, folder / "compiled", "", toolchain=tools)
    return folder / "compiled"


def sources_for(*architectures: str) -> Sources:
    context = make_context()
    return generate_sources(read_module(str(GRAPH), context), context, architectures)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("built"), sources_for("sm_80", "sm_90a"))


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy of its own, as a library asks for the device's capability once."""
    return Path(shutil.copytree(built, tmp_path / "copy"))


def variant_of(kernel: CudaKernel) -> str:
    """The architecture whose code a launch runs."""
    inputs, output = np.zeros(64, np.uint8), np.zeros(64, np.uint8)
    start = -output.ctypes.data % 16
    aligned = inputs.ctypes.data + -inputs.ctypes.data % 16
    kernel.launch([aligned, aligned, output.ctypes.data + start], 0, 0)
    return output[start:].tobytes().partition(b"\0")[0].decode()


@pytest.mark.parametrize(
    ("device", "arch"),
    [("8.0", "sm_80"), ("8.6", "sm_80"), ("9.0", "sm_90a"), ("10.0", "sm_80"), ("12.1", "sm_80")],
)
def test_a_device_runs_its_own_code_or_older_ptx(
    folder: Path, monkeypatch: pytest.MonkeyPatch, device: str, arch: str
) -> None:
    monkeypatch.setenv("HOST_CUDA_DEVICE", device)
    assert variant_of(mugraph.load(folder)) == arch


def test_the_manifest_holds_the_interface(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_CUDA_DEVICE", "9.0")
    kernel = mugraph.load(folder)
    assert kernel.arch == "sm_80,sm_90a" and kernel.interface == sources_for("sm_80").interface


def test_a_device_that_none_of_the_code_fits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOST_CUDA_DEVICE", "7.5")
    with pytest.raises(DeviceError) as error:
        mugraph.load(str(folder))
    assert str(error.value) == (
        "rmsnorm_linear: the current device has compute capability 7.5; this was compiled for "
        "sm_80 (8.0 and newer), sm_90a (9.0 only): compile for the device's architecture."
    )


def test_code_of_one_architecture_has_no_ptx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_CUDA_DEVICE", "10.0")
    with pytest.raises(DeviceError, match=r"10\.0; this was compiled for sm_90a \(9\.0 only\): "):
        mugraph.load(compiled(tmp_path, sources_for("sm_90a")))


def test_no_device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOST_CUDA_DEVICE", raising=False)
    with pytest.raises(DeviceError, match="an NVIDIA GPU and a driver for CUDA 13 are needed"):
        mugraph.load(folder)


PRODUCT = """func.func @product(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = kn.matmul %x, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  func.return %y : tensor<8x8xf32>
}"""


def test_cublas_is_found_among_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    include, library = (tmp_path / "cu13" / name for name in ("include", "lib/libcublas.so.13"))
    for path in (include, library.parent):
        path.mkdir(parents=True)
    (include / "cublas_v2.h").touch()
    (tmp_path / "empty.cpp").touch()
    command = ["g++", "-shared", f"-Wl,-soname={library.name}", "empty.cpp", "-o", str(library)]
    if shutil.which("g++") is None:
        pytest.skip("not on this machine: g++")
    subprocess.run(command, cwd=tmp_path, check=True)
    context = make_context()
    sources = generate_sources(parse_text(context, PRODUCT, "product"), context, ["sm_80"])
    folder = compiled(tmp_path, sources, Cublas(include, library))

    monkeypatch.setenv("HOST_CUDA_DEVICE", "9.0")
    monkeypatch.setattr(toolchain, "_package_folders", lambda name: [])
    with pytest.raises(DeviceError, match=r"libcublas\.so\.13: cannot open shared object file"):
        mugraph.load(folder)
    monkeypatch.setattr(toolchain, "_package_folders", lambda name: [tmp_path])
    assert variant_of(mugraph.load(folder)) == "sm_80"


def test_folders_that_hold_no_kernel(folder: Path) -> None:
    def message() -> str:
        with pytest.raises(UserError) as error:
            mugraph.load(folder)
        return str(error.value).replace(str(folder), "FOLDER")

    library = folder / "lib" / "librmsnorm_linear.so"
    library.write_bytes(library.read_bytes() + b"\0")
    assert message() == (
        "FOLDER/lib/librmsnorm_linear.so is not the file that manifest.json beside it describes; "
        "run mg-compile again, or copy its whole folder."
    )
    library.unlink()
    assert message() == "FOLDER/lib/librmsnorm_linear.so cannot be read: No such file or directory."
    manifest = folder / MANIFEST
    contents = json.loads(manifest.read_text()) | {"interface_version": 0}
    for text in (json.dumps(contents), "[]"):
        manifest.write_text(text)
        assert message() == (
            "FOLDER/manifest.json is not of version 1 of the C interface; run this mugraph's "
            "mg-compile again."
        )
    manifest.write_text("{")
    assert message().startswith("FOLDER/manifest.json is no JSON (")
    manifest.unlink()
    assert message() == (
        "FOLDER/manifest.json cannot be read: No such file or directory; expected a folder that "
        "mg-compile wrote."
    )
