"""The texts of a library: a C header, a launcher, and the CUDA of a µGraph for architectures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass, PassPipeline

from mugraph.codegen.architecture import Architecture
from mugraph.codegen.c_abi import (
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
from mugraph.passes.program.fuse_kernels.searches import Searches
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.partition.orders import steps_in_order
from mugraph.passes.program.partition.segments import Segment, first_alike
from mugraph.passes.program.use_peers import UsePeersPass
from mugraph.passes.targets import architecture_named
from mugraph.passes.texpr.te_lower import steps_to_kernels
from mugraph.runtime.compile import (
    calls_cublas,
)
from mugraph.runtime.cuda import only_function
from mugraph.version import __version__


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
    searches = Searches()

    def make(checked: bool) -> Sources:
        ways = {
            arch: _steps_for(
                only_function(module), target, fuse=fuse, checked=checked, searches=searches
            )
            for arch, target in kinds.items()
        }
        return _scheduled(module, context, kinds, name, ways)

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
    steps: Mapping[Architecture, tuple[Steps, Steps]],
) -> Sources:
    """The sources of a program by these passes, which settle its interface, and make kernels."""
    planned: dict[Architecture, ModuleOp] = {}
    interfaces: list[CInterface] = []
    for arch, (planning, _) in steps.items():
        own = module.clone()
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
        _, scheduling = steps[arch]
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


def _steps_for(
    function: FuncOp, target: str, *, fuse: bool, checked: bool, searches: Searches
) -> tuple[Steps, Steps]:
    """The passes that settle a function's interface, and those that then make its kernels."""
    if te.is_texpr(function):
        return steps_to_kernels(function, target), ()
    return planned_then_scheduled(target, fuse=fuse, checked=checked, searches=searches)


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
