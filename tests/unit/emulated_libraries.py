"""The library of a compilation, as ``mg-compile`` makes it, with kernels that the emulator runs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from fuzz.emulated import (
    emulating_compiler,
    precompiled_headers,
    with_clusters,
    with_emulated_memory,
)

from mugraph.runtime.library_sources import Sources

# The emulator must know what no kernel writes.
LOADING = """
extern "C" __attribute__((visibility("default"))) int emulated_load_weights(
    const char* const* files, size_t count, struct @_weights** weights) {
  int const code = @_load_weights(files, count, weights);
  if (code == 0) emulator::mark_constant((*weights)->pointers[0]);
  return code;
}
"""
ALIGNED = "static std::size_t const of_cuda = emulator::alignment = 256;\n"


def emulated_library(sources: Sources, folder: Path, program: Path | None = None) -> Path:
    """A shared object of a library for one architecture, or a program that is linked with it.

    Its weights are loaded by ``emulated_load_weights``, which a program calls by the usual name.
    """
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine: no kernel was emulated")
    name = sources.interface.name
    (arch,) = sources.architectures
    for path, text in sources.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    kernels = with_emulated_memory(sources.files[f"src/{name}_{arch.name}.cu"])
    host = sources.files[f"src/{name}.cu"]
    loading = LOADING.replace("@", name) if sources.interface.model.weights else ""
    library = folder / "library.cu"
    library.write_text(with_clusters(kernels + host) + loading, encoding="utf-8")
    command = [*emulating_compiler(), "-include", str(precompiled_headers())]
    command += [f"-I{folder / 'include'}", str(library)]
    if program is not None:
        main = folder / "main.cpp"
        before = f"#define {name}_load_weights emulated_load_weights\n" + ALIGNED
        main.write_text(before + program.read_text(encoding="utf-8"), encoding="utf-8")
        command.append(str(main))
    made = folder / ("library.so" if program is None else "program")
    command += ["-shared", "-o", str(made)] if program is None else ["-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return made
