"""From cases to shared objects: in parallel, several kernels a translation unit.

CuTe's headers take nvcc longer than a kernel does, so cases are compiled in batches.  A batch looks
like one generated file to ``runtime/launcher.cu``.  Cases with the same generated text share one.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from io import StringIO
from pathlib import Path

import numpy as np
from compiled_once import compiled_once, digest_of
from fuzz.emulated import (
    emulating_compiler,
    headers_digest,
    precompiled_headers,
    with_clusters,
    with_emulated_memory,
)
from xdsl.dialects.builtin import ModuleOp

from cases.case import Array, Case, Level, results_of
from cases.catalogue import all_cases
from cases.check import MANY_ELEMENTS, derived, inputs_of, parse, quantizes, transpile
from mugraph.codegen.cuda import CudaTarget
from mugraph.reading import make_context
from mugraph.runtime import interpreter
from mugraph.runtime.batch import MOST_TOGETHER, batch_source
from mugraph.runtime.compile import CompileError, calls_cublas, compile_kernel
from mugraph.runtime.cuda import only_function, signature_of
from mugraph.runtime.execute import Signature
from mugraph.runtime.toolchain import find_toolchain, runtime_include_paths
from mugraph.tools.diagnostics import describe_error


@dataclass(frozen=True)
class Built:
    """A case on its way: what was made of it, or why nothing was."""

    id: str
    error: str = ""
    source: str = ""
    signature: Signature | None = None
    library: Path | None = None
    number: int = 0
    """Of the µGraph in the library."""
    budgets: str = ""
    """The folder of its budgets."""


@dataclass(frozen=True)
class Settings:
    """How cases are built."""

    folder: Path
    """Where inputs, references, budgets and what was built are kept."""
    arch: str = "sm_90a"
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    batch: int = MOST_TOGETHER
    emulate: bool = False
    """For the emulator on the CPU, in place of a GPU."""


@cache
def _code_digest() -> str:
    """Of what makes inputs, references and budgets: the tables and the interpreter."""
    folders = (Path(__file__).parent, Path(interpreter.__file__).parent)
    return digest_of(
        part
        for folder in folders
        for path in sorted(folder.rglob("*.py"))
        for part in (str(path.relative_to(folder)), path.read_bytes())
    )


def data_key(case: Case) -> str:
    """The folder of a case's inputs and reference."""
    name = f"{case.family}-{case.data or case.name}"
    digest = digest_of([_code_digest(), name, str(case.ranges), str(case.seed)])[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', name)}-{digest}"


def budget_key(case: Case, module: ModuleOp) -> str:
    """The folder of a case's budgets, which follow from its schedule unless it gives them."""
    if case.budget is not None:
        return data_key(case)
    return f"{data_key(case)}-{digest_of([str(module)])[:8]}"


@contextmanager
def _whole_folder(path: Path) -> Generator[Path]:
    """A folder that appears at ``path`` when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        folder = Path(temporary) / "whole"
        folder.mkdir()
        yield folder
        if not path.exists():
            try:
                folder.rename(path)
            except OSError:
                # Another process was first; the two are equal.
                if not path.exists():
                    raise


def _save(folder: Path, name: str, arrays: Sequence[Array]) -> None:
    for index, array in enumerate(arrays):
        # numpy's files know its own types only.
        native = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
        np.save(folder / f"{name}{index}.npy", native)


def load_arrays(folder: Path, name: str) -> list[Array]:
    """The arrays of that name that were saved in a folder, mapped into memory.

    8-bit floating-point numbers and bf16 come back as whole numbers of their bits.
    """
    count = len(list(folder.glob(f"{name}*.npy")))
    return [np.load(folder / f"{name}{index}.npy", mmap_mode="r") for index in range(count)]


def _in_fp32(results: list[Array], budgets: list[Array]) -> tuple[list[Array], list[Array]]:
    """Large results in half the memory; the budgets grow by what that rounds."""
    for index, (result, budget) in enumerate(zip(results, budgets, strict=True)):
        if result.size > MANY_ELEMENTS:
            budgets[index] = ((budget + 2.0**-23 * np.abs(result)) * (1 + 2.0**-22)).astype(
                np.float32
            )
            results[index] = result.astype(np.float32)
    return results, budgets


def write_data(task: tuple[str, Settings]) -> str:
    """Saves inputs, reference and closed-form budgets of a case; returns what went wrong."""
    case, settings = _case(task[0]), task[1]
    path = settings.folder / "data" / data_key(case)
    if path.exists():
        return ""
    try:
        inputs = inputs_of(case, parse(case))
        results = results_of(case.reference, inputs)
        budgets = [] if case.budget is None else results_of(case.budget, inputs)
        if budgets:
            results, budgets = _in_fp32(results, budgets)
        with _whole_folder(path) as folder:
            _save(folder, "input", inputs)
            _save(folder, "result", results)
            _save(folder, "budget", budgets)
    except Exception as error:
        return describe_error(error)
    return ""


def write_source(task: tuple[str, Settings]) -> Built:
    """Transpiles and prints a case, and saves its derived budgets."""
    case, settings = _case(task[0]), task[1]
    try:
        module = transpile(case, parse(case), settings.arch)
        budgets_of = budget_key(case, module)
        path = settings.folder / "data" / budgets_of
        if case.budget is None and not path.exists():
            values, budgets = derived(module, inputs_of(case, parse(case)))
            if not all(np.isfinite(budget).all() for budget in budgets):
                return Built(case.id, "some elements have no error budget")
            with _whole_folder(path) as folder:
                _save(folder, "budget", budgets)
                _save(folder, "result", values if quantizes(parse(case)) else [])
        text = StringIO()
        CudaTarget().emit(make_context(), module, text)
        signature = signature_of(only_function(module))
        return Built(case.id, "", text.getvalue(), signature, budgets=budgets_of)
    except Exception as error:
        return Built(case.id, describe_error(error))


def _case(id_: str) -> Case:
    return next(case for case in all_cases() if case.id == id_)


def compile_emulated(source: str) -> Path:
    """The same for the CPU: a shared object whose kernels the emulator runs."""
    source = with_clusters(with_emulated_memory(source))
    launcher = runtime_include_paths()[0].parent / "launcher.cu"
    flags = ['-DMUGRAPH_GENERATED="kernel.cu"', "-shared"]

    def make(folder: Path) -> None:
        (folder / "kernel.cu").write_text(source, encoding="utf-8")
        command = [*emulating_compiler(), "-include", str(precompiled_headers())]
        command += [*flags, f"-I{folder}", str(launcher), "-o", str(folder / "case.so")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line]
            raise CompileError("\n".join(errors[:5]) or done.stderr[:2000])

    key = digest_of([headers_digest(), *flags, launcher.read_text(encoding="utf-8"), source])
    return compiled_once(key, "case.so", make)


def _compile(task: tuple[list[str], Settings]) -> Path | str:
    """The library of a batch, or what the compiler said."""
    sources, settings = task
    try:
        source = batch_source(sources)
        return (
            compile_emulated(source) if settings.emulate else compile_kernel(source, settings.arch)
        )
    except Exception as error:
        return describe_error(error)


def build(
    cases: Sequence[Case], settings: Settings, say: Callable[[str], None] = print
) -> list[Built]:
    """Builds cases, as many at a time as there are jobs; those that fail carry their error."""
    start = time.perf_counter()
    with ProcessPoolExecutor(settings.jobs) as pool:
        keys = {data_key(case): case.id for case in cases}
        # The largest first, since they take longest.
        ordered = sorted(keys.values(), key=lambda id_: _case(id_).level is not Level.TRANSPILED)
        failures = dict(
            zip(
                (data_key(_case(id_)) for id_ in ordered),
                pool.map(write_data, [(id_, settings) for id_ in ordered]),
                strict=True,
            )
        )
        say(f"inputs and references of {len(keys)} functions: {time.perf_counter() - start:.1f} s")
        ready = [case for case in cases if not failures[data_key(case)]]
        written = list(pool.map(write_source, [(case.id, settings) for case in ready], chunksize=4))
        built = {one.id: one for one in written}
        for case in cases:
            if failures[data_key(case)]:
                built[case.id] = Built(case.id, failures[data_key(case)])
        say(f"{len(written)} µGraphs transpiled: {time.perf_counter() - start:.1f} s")
        libraries = _compile_all(built, settings, pool, say)
        for id_, one in built.items():
            if not one.error:
                place = libraries[one.source]
                built[id_] = (
                    replace(one, error=place)
                    if isinstance(place, str)
                    else replace(one, library=place[0], number=place[1])
                )
        say(f"{len(libraries)} kernel files compiled: {time.perf_counter() - start:.1f} s")
    result = [built[case.id] for case in cases]
    settings.folder.mkdir(parents=True, exist_ok=True)
    (settings.folder / "built.pickle").write_bytes(pickle.dumps(result))
    return result


def load_built(folder: Path) -> list[Built]:
    """What the last :func:`build` into this folder made."""
    return pickle.loads((folder / "built.pickle").read_bytes())


def _compile_all(
    built: dict[str, Built],
    settings: Settings,
    pool: ProcessPoolExecutor,
    say: Callable[[str], None],
) -> dict[str, tuple[Path, int] | str]:
    """The library and the number of each source text, or the compiler's message."""
    sources = list(dict.fromkeys(one.source for one in built.values() if not one.error))
    libraries: dict[str, tuple[Path, int] | str] = {}
    groups: list[list[str]] = []
    has_cublas = settings.emulate or find_toolchain().cublas is not None
    for needs_cublas in (False, True):
        chosen = [source for source in sources if calls_cublas(source) is needs_cublas]
        if needs_cublas and not has_cublas:
            libraries |= dict.fromkeys(chosen, "cuBLAS is not on this machine")
            continue
        groups += [chosen[i : i + settings.batch] for i in range(0, len(chosen), settings.batch)]
    retried: list[list[str]] = []
    for group, found in zip(
        groups, pool.map(_compile, [(group, settings) for group in groups]), strict=True
    ):
        if isinstance(found, Path):
            libraries |= {source: (found, number) for number, source in enumerate(group)}
        elif len(group) == 1:
            libraries[group[0]] = found
        else:
            retried += [[source] for source in group]
    if retried:
        say(f"{len(retried)} kernel files compiled again, each alone, to find which fail")
    for (source,), found in zip(
        retried, pool.map(_compile, [(group, settings) for group in retried]), strict=True
    ):
        libraries[source] = found if isinstance(found, str) else (found, 0)
    return libraries


def inputs_and_budgets(
    case: Case, built: Built, settings_folder: Path
) -> tuple[list[Array], list[Array], list[Array]]:
    """Inputs, reference and budgets of a case that was built.

    Where the case quantizes, its schedule's results in float64 stand for the reference's.
    """
    data = settings_folder / "data" / data_key(case)
    own = settings_folder / "data" / built.budgets
    results = load_arrays(own, "result") or load_arrays(data, "result")
    return load_arrays(data, "input"), results, load_arrays(own, "budget")
