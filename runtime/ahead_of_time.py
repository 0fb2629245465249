"""From a µGraph to files that programs without Python link: C header, libraries, packages.

The same input, options, mugraph and toolkit give the same bytes: nvcc runs in a folder of its own
with relative paths and fixed names for its intermediate files, archives carry no dates.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import uuid4

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass, PassPipeline

from mugraph.codegen.architecture import Architecture
from mugraph.codegen.c_abi import (
    INTERFACE_VERSION,
    CInterface,
    DevicesFunction,
    interface_of,
    print_cmake_package,
    print_header,
    print_launcher,
    print_pkg_config,
    print_variant,
)
from mugraph.codegen.cuda import require_kernels
from mugraph.codegen.cuda.names import sanitize
from mugraph.dialects import kn, sched, te
from mugraph.dialects.sharding import DeviceProgram, device_program, mesh_of
from mugraph.errors import UserError
from mugraph.passes.compile import planned_then_scheduled, with_kernels_that_compile
from mugraph.passes.program.contiguous_collectives import ContiguousCollectivesPass
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.partition.orders import steps_in_order
from mugraph.passes.program.partition.segments import Segment, first_alike
from mugraph.passes.program.use_peers import UsePeersPass
from mugraph.passes.targets import architecture_named
from mugraph.passes.texpr.te_lower import steps_to_kernels
from mugraph.runtime.compile import (
    CompileError,
    calls_cublas,
    cublas_includes,
    cublas_libraries,
    require_cublas,
)
from mugraph.runtime.cuda import only_function
from mugraph.runtime.toolchain import Toolchain, ToolchainError, find_toolchain
from mugraph.version import __version__

MANIFEST = "manifest.json"
LOCK = ".mugraph.lock"
"""Who writes into a folder holds this file there."""

_SHOWN_LINES = 20


@dataclass(frozen=True)
class Sources:
    """The text files of a compilation, by their path in the output folder."""

    interface: CInterface
    architectures: tuple[Architecture, ...]
    files: Mapping[str, str]
    uses_cublas: bool
    functions: tuple[str, ...] = ()
    """Of a program whose devices read one another's memory: the functions of one device."""

    @property
    def translation_units(self) -> list[tuple[str, tuple[Architecture, ...]]]:
        """The files that nvcc compiles, and what for."""
        # Launchers hold no kernel, any architecture will do for them; but devices meet in one.
        launched = self.architectures[:1]
        found = [(f"src/{name}.cu", launched) for name in self.functions]
        own = self.interface.name
        found.append((f"src/{own}.cu", self.architectures if self.functions else launched))
        return found + [
            (f"src/{name}_{arch.name}.cu", (arch,))
            for name in self.functions or (own,)
            for arch in self.architectures
        ]


def generate_sources(
    module: ModuleOp,
    context: Context,
    architectures: Sequence[str],
    name: str | None = None,
    *,
    fuse: bool = True,
    peers: bool = False,
) -> Sources:
    """The C interface and the CUDA of a µGraph, planned and scheduled for each architecture.

    Operators that are not in a custom kernel share kernels, unless ``fuse`` is false.  A program on
    several devices is partitioned; each of them calls what is made.  Its collectives are NCCL's, or
    with ``peers``, for devices of one host, loads from one another's memory.

    Where that would give an architecture other layouts of arguments or results than the first one
    has, it gets the kernels of the first one's plan, as all share one interface.  Each name is that
    of an architecture or of a GPU; ``UserError`` where two GPUs have one architecture.  Raises what
    the passes and the printer raise.
    """
    kinds = _names_by_architecture(architectures)
    function = only_function(module)
    if not te.is_texpr(function):
        require_kernels(function)
    if mesh_of(function) is not None:
        module = module.clone()
        steps = (PartitionPass(), *([UsePeersPass(everywhere=True)] if peers else []))
        PassPipeline(steps).apply(context, module)
        module.verify()
        program = device_program(only_function(module))
        assert program is not None
        if any(isinstance(op, kn.PeerOp) for op in module.walk()):
            return _of_devices(program, context, kinds, name, fuse=fuse)
        ContiguousCollectivesPass().apply(context, module)
        module.verify()
    elif peers:
        raise UserError(
            f"@{function.sym_name.data} is of one device, which reads no other one's memory; leave "
            "--peers out, or say the mesh of its devices."
        )
    return _of_one(module, context, kinds, name, fuse=fuse)


def _of_one(
    module: ModuleOp,
    context: Context,
    kinds: Mapping[Architecture, str],
    name: str | None,
    *,
    fuse: bool,
) -> Sources:
    """The sources of a program that launches all that it does."""

    def make(checked: bool) -> Sources:
        return _scheduled(module, context, kinds, name, fuse=fuse, checked=checked)

    return with_kernels_that_compile(make) if fuse else make(False)


def _of_devices(
    program: DeviceProgram,
    context: Context,
    kinds: Mapping[Architecture, str],
    name: str | None,
    *,
    fuse: bool,
) -> Sources:
    """The sources of a program whose devices read one another's memory: of each function between
    meetings, and of the one that calls them."""
    name = name or sanitize(program.function.sym_name.data)
    steps = steps_in_order(program)
    numbers = [number for number, step in enumerate(steps) if isinstance(step, Segment)]
    segments = [step for step in steps if isinstance(step, Segment)]
    first = first_alike(segments)
    parts = {
        each: _of_one(segments[each].module, context, kinds, f"{name}_{each}", fuse=fuse)
        for each in dict.fromkeys(first)
    }
    interfaces = {
        number: parts[alike].interface for number, alike in zip(numbers, first, strict=True)
    }
    function = DevicesFunction(name, program, steps, interfaces)
    files = {
        # Their headers are for the function that calls them alone.
        path.replace("include/", "src/"): text
        for part in parts.values()
        for path, text in part.files.items()
        if not path.startswith("lib/")
    }
    uses_cublas = any(part.uses_cublas for part in parts.values())
    files |= _files_of(function.interface, function.text(), uses_cublas=uses_cublas)
    names = tuple(part.interface.name for part in parts.values())
    return Sources(function.interface, tuple(kinds), files, uses_cublas, names)


def _scheduled(
    module: ModuleOp,
    context: Context,
    kinds: Mapping[Architecture, str],
    name: str | None,
    *,
    fuse: bool,
    checked: bool,
) -> Sources:
    """The sources of a program; ``checked`` is that of ``compile_pipeline``."""
    function = only_function(module)
    planned: dict[Architecture, ModuleOp] = {}
    interfaces: list[CInterface] = []
    for arch, target in kinds.items():
        own = module.clone()
        planning, _ = _steps_for(function, target, fuse=fuse, checked=checked)
        PassPipeline(planning).apply(context, own)
        own.verify()
        found = interface_of(only_function(own), name)
        first = interfaces[0] if interfaces else found
        if replace(found, workspace_bytes=first.workspace_bytes) == first:
            planned[arch] = own
            interfaces.append(found)
        else:
            planned[arch] = next(iter(planned.values()))
    scheduled: dict[Architecture, ModuleOp] = {}
    for arch, own in planned.items():
        scheduled[arch] = own.clone()
        _, scheduling = _steps_for(function, kinds[arch], fuse=fuse, checked=checked)
        PassPipeline(scheduling).apply(context, scheduled[arch])
    # Launches that are joined need more of the workspace at a time.
    interfaces = [interface_of(only_function(own), name) for own in scheduled.values()]
    return _sources_of(scheduled, interfaces)


def _names_by_architecture(names: Sequence[str]) -> dict[Architecture, str]:
    """What nvcc compiles for, and the name that a user gave it."""
    kinds: dict[Architecture, str] = {}
    for name in names:
        arch = Architecture(architecture_named(name))
        if kinds.setdefault(arch, name) != name:
            raise UserError(
                f"{kinds[arch]} and {name} are both {arch.name}, and a library has kernels once "
                "for an architecture: leave one of them out."
            )
    return kinds


Steps = tuple[ModulePass, ...]


def _steps_for(function: FuncOp, target: str, *, fuse: bool, checked: bool) -> tuple[Steps, Steps]:
    """The passes that settle a function's interface, and those that then make its kernels."""
    if te.is_texpr(function):
        return steps_to_kernels(function, target), ()
    return planned_then_scheduled(target, fuse=fuse, checked=checked)


def _sources_of(
    modules: Mapping[Architecture, ModuleOp], interfaces: Sequence[CInterface]
) -> Sources:
    """The kernels of each architecture, the launcher, and what build systems read."""
    # Architectures may need different workspaces; a call gives the largest.
    interface = max(interfaces, key=lambda one: one.workspace_bytes)
    files: dict[str, str] = {}
    for arch, module in modules.items():
        _rename_kernels(module, arch)
        module.verify()
        files[f"src/{interface.name}_{arch.name}.cu"] = print_variant(module, interface, arch)
    launcher = print_launcher(interface, tuple(modules))
    uses_cublas = any(calls_cublas(text) for text in files.values())
    files |= _files_of(interface, launcher, uses_cublas=uses_cublas)
    return Sources(interface, tuple(modules), files, uses_cublas)


def _files_of(interface: CInterface, launcher: str, *, uses_cublas: bool) -> dict[str, str]:
    """The files around the kernels: the header, what is behind it, and packages."""
    name = interface.name
    return {
        f"include/{name}.h": print_header(interface),
        f"src/{name}.cu": launcher,
        f"lib/cmake/{name}/{name}-config.cmake": print_cmake_package(
            interface, uses_cublas=uses_cublas
        ),
        f"lib/pkgconfig/{name}.pc": print_pkg_config(
            interface, __version__, uses_cublas=uses_cublas
        ),
    }


def _rename_kernels(module: ModuleOp, arch: Architecture) -> None:
    """Adds the architecture to every kernel's name: those of all of them are linked together."""
    for op in module.walk():
        if isinstance(op, sched.KernelOp):
            op.sym_name = StringAttr(f"{op.sym_name.data}_{arch.name}")
        elif isinstance(op, sched.LaunchOp):
            op.kernel = SymbolRefAttr(f"{op.kernel.root_reference.data}_{arch.name}")
        elif isinstance(op, te.KernelOp):
            op.symbol = StringAttr(f"{op.symbol.data}_{arch.name}")


def write_sources(sources: Sources, output: Path) -> list[Path]:
    """Writes the texts alone into a folder; returns what was written, sorted.

    Raises ``UserError`` where they cannot be written, and leaves the folder as it was.
    """
    with _writing(output), tempfile.TemporaryDirectory(prefix="mugraph-") as temporary:
        _write_texts(sources, Path(temporary))
        return _publish(Path(temporary), output)


@contextmanager
def _writing(output: Path) -> Generator[None]:
    """Names the user's folder where something on the way to it cannot be written."""
    try:
        yield
    except OSError as error:
        where = Path(error.filename or output)
        # A temporary name says nothing to a user, but its folder is the one without room.
        beside = "" if where.is_relative_to(output) else f" in {where.parent}"
        raise UserError(
            f"cannot write {output}: {error.strerror}{beside}; nothing there has changed"
        ) from error


def _write_texts(sources: Sources, folder: Path) -> None:
    for path, text in sources.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def build(
    sources: Sources,
    output: Path,
    input_text: str,
    *,
    flags: Sequence[str] = (),
    toolchain: Toolchain | None = None,
    jobs: int = 2,
) -> list[Path]:
    """Compiles and writes everything into a folder; returns what was written, sorted.

    Files appear only when all of it has succeeded.  Raises ``ToolchainError`` where something to
    compile with is missing, ``CompileError`` where nvcc fails and ``UserError`` where a file cannot
    be written.
    """
    toolchain = toolchain or find_toolchain()
    if sources.uses_cublas:
        require_cublas(toolchain)
    digest = _digest(sources, input_text, toolchain, flags)
    with _writing(output), _build_folder(digest) as folder:
        _write_texts(sources, folder)
        objects = _compile_all(sources, folder, toolchain, flags, jobs)
        _link(sources, folder, objects, toolchain)
        for path in objects:
            (folder / path).unlink()
        shutil.rmtree(folder / "keep", ignore_errors=True)
        manifest = _manifest(sources, folder, input_text, toolchain, flags)
        (folder / MANIFEST).write_text(manifest, encoding="utf-8")
        return _publish(folder, output)


def _digest(sources: Sources, input_text: str, toolchain: Toolchain, flags: Sequence[str]) -> str:
    """A digest of what a compilation is made from."""
    parts = [input_text, toolchain.version, *flags]
    for path, text in sorted(sources.files.items()):
        parts += [path, text]
    return _sha256("\0".join(parts).encode())[:32]


@contextmanager
def _build_folder(digest: str) -> Generator[Path]:
    """An empty folder to compile in, whose path is a function of what is compiled.

    nvcc puts a hash of the source's absolute path into the names of hidden symbols, so the bytes
    repeat only where the path does.  Who compiles the same waits; who compiles something else does
    not.  Where the folder cannot be had (it is another user's), it is a temporary one: the code is
    the same, those names are not.
    """
    parent = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    folder = parent / f"mugraph-{digest}"
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(folder.with_suffix(".lock")))
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        except OSError:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mugraph-")))
        yield folder


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Holds the lock of that name, which stands beside what it guards and is gone afterwards."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            # Who held it before may have removed it meanwhile.
            if os.path.samestat(os.fstat(lock), path.stat()):
                break
        except FileNotFoundError:
            pass
        os.close(lock)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _run(command: Sequence[str], folder: Path, what: str) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    except FileNotFoundError as error:
        raise ToolchainError(f"{what} needs {command[0]}, which is not installed.") from error
    if done.returncode != 0:
        said = done.stdout + done.stderr
        full = os.strerror(errno.ENOSPC)
        if full in said:
            raise OSError(errno.ENOSPC, full, str(folder))
        lines = said.strip().splitlines()
        raise CompileError(f"{what} fails:\n" + "\n".join(lines[:_SHOWN_LINES]))


def _compile_all(
    sources: Sources, folder: Path, toolchain: Toolchain, flags: Sequence[str], jobs: int
) -> list[str]:
    """Compiles every translation unit; returns the object files' paths in ``folder``."""
    includes = [f"-I{path}" for path in toolchain.include_paths]
    if sources.uses_cublas:
        includes += cublas_includes(toolchain)

    def compile_one(unit: tuple[str, tuple[Architecture, ...]]) -> str:
        path, kinds = unit
        target = f"{Path(path).stem}.o"
        keep = f"keep/{Path(path).stem}"
        (folder / keep).mkdir(parents=True)
        command = [
            *(str(toolchain.nvcc), "-std=c++17", "-O3", "--expt-relaxed-constexpr", "-c"),
            *(flag for kind in kinds for flag in kind.compiler_flags()),
            *("-Xcompiler", "-fPIC,-fvisibility=hidden,-frandom-seed=mugraph"),
            # Intermediate files whose names do not change from run to run.
            *("--keep", "--keep-dir", keep),
            *("-Iinclude", *includes, *flags, path, "-o", target),
        ]
        _run(command, folder, f"compiling {path}")
        return target

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        return list(pool.map(compile_one, sources.translation_units))


def _link(sources: Sources, folder: Path, objects: Sequence[str], toolchain: Toolchain) -> None:
    name = sources.interface.name
    _run(["ar", "rcsD", f"lib/lib{name}.a", *objects], folder, "making the static library")
    libraries = cublas_libraries(toolchain) if sources.uses_cublas else []
    command = [
        *(str(toolchain.nvcc), "-shared", "-cudart", "static"),
        *("-Xlinker", "--exclude-libs,ALL", "-Xlinker", "--build-id=none"),
        *("-Xlinker", f"-soname=lib{name}.so"),
        *("--keep", "--keep-dir", "keep"),
        *(f"-L{path}" for path in toolchain.library_paths),
        *(*objects, *libraries, "-o", f"lib/lib{name}.so"),
    ]
    _run(command, folder, "linking the shared library")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest(
    sources: Sources, folder: Path, input_text: str, toolchain: Toolchain, flags: Sequence[str]
) -> str:
    """What was compiled from what, with what, and the digest of every file; sorted JSON."""
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    contents = {
        "name": sources.interface.name,
        "interface_version": INTERFACE_VERSION,
        "mugraph": __version__,
        "nvcc": toolchain.version,
        "nvcc_flags": list(flags),
        "architectures": [arch.name for arch in sources.architectures],
        "input_sha256": _sha256(input_text.encode()),
        "workspace_bytes": sources.interface.workspace_bytes,
        "uses_cublas": sources.uses_cublas,
        "inputs": [asdict(tensor) for tensor in sources.interface.inputs],
        "outputs": [asdict(tensor) for tensor in sources.interface.outputs],
        "extents": [asdict(extent) for extent in sources.interface.extents],
        "communicators": [asdict(each) for each in sources.interface.communicators],
        "peers": [asdict(each) for each in sources.interface.peers],
        "files_sha256": {path: _sha256((folder / path).read_bytes()) for path in files},
    }
    return json.dumps(contents, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _publish(folder: Path, output: Path) -> list[Path]:
    """Moves every file to its place in ``output``, the manifest last: all of them, or none.

    Another compilation into the same folder does so before or afterwards.
    """
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    paths.sort(key=lambda path: path.name == MANIFEST)
    made: list[Path] = []
    try:
        _make_folder(output, made)
        with _locked(output / LOCK):
            _move(folder, output, paths, made)
    except BaseException:
        with suppress(OSError):
            for parent in reversed(made):
                parent.rmdir()
        raise
    return sorted(output / path for path in paths)


def _move(folder: Path, output: Path, paths: Sequence[Path], made: list[Path]) -> None:
    """Replaces the files of ``output`` once there is room for all; notes new folders."""
    partial: dict[Path, Path] = {}
    try:
        for path in paths:
            target = output / path
            _make_folder(target.parent, made)
            # In the same folder first: a reader sees the old file or the new one.
            partial[path] = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
            shutil.copyfile(folder / path, partial[path])
    except BaseException:
        with suppress(OSError):
            for copy in partial.values():
                copy.unlink(missing_ok=True)
        raise
    for path, copy in partial.items():
        copy.replace(output / path)


def _make_folder(folder: Path, made: list[Path]) -> None:
    """Makes a folder and those around it; notes which were not there, the outer ones first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        made.append(each)
