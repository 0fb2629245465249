"""From a graph, a module or text to a kernel."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, overload, runtime_checkable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import DiagnosticException

from mugraph.codegen.architecture import Architecture, choose_architecture
from mugraph.codegen.c_abi import interface_as_written, interface_of, print_single_file
from mugraph.codegen.cuda import require_kernels
from mugraph.dialects import te
from mugraph.dialects.functions import is_foreign
from mugraph.dialects.locations import SourcePlace, reported_within
from mugraph.dialects.plan import Plan
from mugraph.dialects.sharding import (
    MESH,
    device_program,
    is_per_device,
    mesh_attribute,
    mesh_of,
)
from mugraph.errors import UserError
from mugraph.jit.cpu import CpuKernel
from mugraph.jit.cuda import CudaKernel
from mugraph.jit.groups import mesh_shape
from mugraph.jit.kernel import Kernel
from mugraph.jit.mesh import MeshKernel
from mugraph.jit.planned import Planned, planned
from mugraph.jit.tuned import known_plans, shipped_plans
from mugraph.passes.compile import (
    compile_pipeline,
    planned_then_scheduled,
    with_kernels_that_compile,
)
from mugraph.passes.mugraph.known_plans import PlanDatabaseWarning, UsePlansPass
from mugraph.passes.program.convert_linalg_to_kn import ConvertLinalgToKnPass
from mugraph.passes.program.fuse_kernels.searches import Searches
from mugraph.passes.program.overlap import OverlapCollectivesPass
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.use_peers import UsePeersPass
from mugraph.passes.schedule.remarks import RemarksPass
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import DEFAULT_TARGET, default_targets, target_named
from mugraph.passes.texpr.te_lower import steps_to_kernels
from mugraph.passes.transpile import LEVEL_ENDS
from mugraph.reading import make_context, parse_text, read_text
from mugraph.runtime.compile import LINE_INFO, compile_library
from mugraph.runtime.cuda import only_function
from mugraph.runtime.toolchain import device_architecture
from mugraph.texpr import read_texpr


@runtime_checkable
class BuildsModule(Protocol):
    """A graph under construction, such as one of ``mugraph.build``."""

    def module(self) -> ModuleOp:
        """The verified module of the graph as it is now."""
        ...


Graph = BuildsModule | ModuleOp | str | Path
"""What can be compiled: a graph of ``mugraph.build``, a module, MLIR text, or a file.

A file is a ``pathlib.Path``, or a ``str`` without line breaks that ends in ``.mlir`` or ``.te``.
"""

_SUFFIXES = (".mlir", ".te")


@overload
def compile(
    graph: Graph,
    arch: str = "native",
    *,
    sizes: Mapping[str, int] | None = None,
    lineinfo: bool = False,
    remarks: bool = False,
    plan: Plan | None = None,
    fuse: bool = True,
    tune: bool = False,
) -> Kernel: ...


@overload
def compile(
    graph: Graph,
    arch: str = "native",
    *,
    mesh: Any,
    peers: bool = False,
    plan: Plan | None = None,
    fuse: bool = True,
) -> MeshKernel: ...


@overload
def compile(
    graph: Any, arch: tuple[Any, ...] | list[Any] | Mapping[str, Any]
) -> Callable[..., Any]: ...


def compile(
    graph: Any,
    arch: Any = "native",
    *,
    sizes: Mapping[str, int] | None = None,
    lineinfo: bool = False,
    remarks: bool = False,
    plan: Plan | None = None,
    fuse: bool = True,
    tune: bool = False,
    mesh: Any = None,
    peers: bool = False,
) -> Any:
    """A kernel for ``arch``: an architecture such as ``sm_90a``, a GPU such as ``h100``,
    ``native`` or ``cpu``.

    ``native`` is this machine's GPU, or the interpreter where there is none.  The graph is not
    changed.  Functions in ``linalg`` become µGraphs first.  ``sizes`` are the named sizes of a
    `.te` file.  Operators outside of custom kernels share kernels (``--fuse-kernels``), unless
    ``fuse`` is false.  Kernels are planned (``--plan``); ``plan`` has the parts that are said of
    all of them: ``Plan(tiles="written")`` keeps how each is cut.
    With ``tune`` kernels have the plans that were measured to be fastest; those that were not
    measured yet are now, on this machine's GPU, which takes a minute for each.
    ``lineinfo`` compiles with nvcc's ``-lineinfo``, so that profilers show the lines of the file
    or of the Python program that built the graph.  ``remarks`` prints, to standard error, what each
    kernel lost against the best form of its target, as ``--remarks`` does, and which kernels have
    measured plans; for the interpreter those of a kernel for the default target.

    ``mesh`` is a ``DeviceMesh`` of ``torch.distributed`` on whose devices the program runs, each in
    a process of its own, as ``torchrun`` starts them.  A program of whole tensors is partitioned
    (``--partition``) by what ``mugraph.sharding`` says of its arguments.  With ``peers``, for GPUs
    of one host, collectives of few bytes are loads from one another's memory (``--use-peers``), and
    products of many rows are computed while devices exchange parts (``--overlap-collectives``).

    Of a model of PyTorch, or an exported program, and example inputs in the place of ``arch`` it is
    what :func:`mugraph.torch.compile_model` makes, on the device of the inputs.

    Raises ``UserError`` and xDSL's exceptions, as the passes do, with a sentence that names the
    operator and a note with its line; ``CompileError`` where nvcc refuses what was generated.
    """
    if _is_of_torch(graph):
        given = {"sizes": sizes, "lineinfo": lineinfo, "remarks": remarks, "plan": plan}
        given |= {"fuse=False": not fuse, "tune": tune, "mesh": mesh, "peers": peers}
        if left_out := [name for name, value in given.items() if value]:
            raise UserError(
                f"{', '.join(left_out)}: options of a µGraph, which a PyTorch model does not take; "
                "leave them out."
            )
        return import_module("mugraph.torch").compile_model(graph, arch)
    if not isinstance(arch, str):
        raise UserError(
            'a function is compiled by torch.compile(function, backend="mugraph"); what is '
            "compiled for example inputs is a torch.nn.Module, or what torch.export.export gives."
            if callable(graph) and not isinstance(graph, BuildsModule)
            else f"arch={arch!r} is no word such as 'cpu', 'native' or 'sm_90a'; example inputs "
            "are those of a PyTorch model."
        )
    if not isinstance(plan, Plan | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(f"plan={plan!r} is no plan; write plan=mugraph.Plan(stages=(3,)).")
    if mesh is not None:
        if sizes or lineinfo or remarks or tune:
            raise UserError(
                "sizes, lineinfo, remarks and tune are of a program on one device; leave them out "
                "beside mesh."
            )
        return _on_mesh(graph, arch, mesh, plan, fuse=fuse, peers=peers)
    if peers:
        raise UserError("peers needs a program on several devices: pass mesh=, or leave peers out.")
    if tune and plan is not None:
        raise UserError(
            "tune=True finds all parts of plans by measuring; leave plan out, or write its parts "
            "into the kernels that they are of."
        )
    prepared = _prepare(
        graph, arch, sizes or {}, plan, fuse=fuse, lineinfo=lineinfo, remarks=remarks, tune=tune
    )
    return prepared()


def _on_mesh(
    graph: Graph, arch: str, mesh: Any, plan: Plan | None, *, fuse: bool, peers: bool
) -> MeshKernel:
    """The kernel of a program on several devices."""
    context = make_context()
    module = _module_of(graph, context, {})
    module.verify()
    function = only_function(module)
    devices, own = mesh_shape(mesh), mesh_of(function)
    if own is None:
        function.attributes[MESH] = mesh_attribute(devices)
    elif own != devices:
        raise UserError(
            f"@{function.sym_name.data} is for a mesh of {own} devices, but the DeviceMesh has "
            f"{devices}."
        )
    with reported_within(module):
        if not is_per_device(function):
            PartitionPass().apply(context, module)
            module.verify()
        if peers:
            target = _architecture(arch) or DEFAULT_TARGET
            for each in (OverlapCollectivesPass(target), UsePeersPass()):
                each.apply(context, module)
                module.verify()
        program = device_program(function)
    assert program is not None

    def compile_segments(segments: Sequence[ModuleOp]) -> list[Kernel]:
        if _architecture(arch) is None:
            # Their layouts are written, so that none need be planned.
            return [CpuKernel(each, interface_as_written(only_function(each))) for each in segments]
        jobs = max(2, min(8, (os.cpu_count() or 2) // 2))
        return compile_all(segments, arch, jobs=jobs, plan=plan, fuse=fuse)

    return MeshKernel(program, module, mesh, compile_segments)


def _is_of_torch(graph: object) -> bool:
    """Whether an object's class, or one that it is made from, is PyTorch's."""
    return any(each.__module__.partition(".")[0] == "torch" for each in type(graph).__mro__)


def compile_all(
    graphs: Iterable[Graph],
    arch: str = "native",
    *,
    progress: bool = False,
    jobs: int = 2,
    plan: Plan | None = None,
    fuse: bool = True,
) -> list[Kernel]:
    """Kernels of several graphs, ``jobs`` of them under nvcc at a time.

    ``plan`` and ``fuse`` are those of :func:`compile`.  With ``progress`` a line a kernel goes to
    stderr when it is done.
    """
    every = [*graphs]
    done = 0

    def finish(make: Callable[[], Kernel]) -> Kernel:
        nonlocal done
        start = perf_counter()
        kernel = make()
        done += 1
        if progress:
            seconds = perf_counter() - start
            print(
                f"[{done}/{len(every)}] {kernel.name} for {kernel.arch}: {seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
        return kernel

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        # The passes of the next graph run while nvcc compiles the last one.
        begun = [pool.submit(finish, _prepare(graph, arch, {}, plan, fuse=fuse)) for graph in every]
        return [each.result() for each in begun]


def compile_beside(
    graph: Graph, arch: str = "native", *, fuse: bool = True
) -> Callable[[], Kernel]:
    """Runs the passes of :func:`compile` and begins to run nvcc; the result waits for the kernel.

    So nvcc runs beside the passes of the next graph.  What it refuses is raised by the result.
    """
    return compilers().submit(_prepare(graph, arch, {}, None, fuse=fuse)).result


@cache
def compilers() -> ThreadPoolExecutor:
    """Threads that wait for nvcc, which takes a processor, and memory for its headers."""
    return ThreadPoolExecutor(max_workers=max(2, min(8, (os.cpu_count() or 2) // 2)))


# A forked process has none of these threads.
os.register_at_fork(after_in_child=compilers.cache_clear)


def _prepare(
    graph: Graph,
    arch: str,
    sizes: Mapping[str, int],
    plan: Plan | None,
    *,
    fuse: bool,
    lineinfo: bool = False,
    remarks: bool = False,
    tune: bool = False,
) -> Callable[[], Kernel]:
    """Runs the passes and the printer; the result runs nvcc and loads."""
    context = make_context()
    module = _module_of(graph, context, sizes)
    with reported_within(module):
        try:
            return _prepare_module(
                module,
                context,
                arch,
                plan,
                fuse=fuse,
                lineinfo=lineinfo,
                remarks=remarks,
                tune=tune,
            )
        except DiagnosticException as error:
            # The note that xDSL adds is the whole module, which the caller has.
            error.__notes__ = [
                note for note in getattr(error, "__notes__", ()) if isinstance(note, SourcePlace)
            ]
            raise


def _prepare_module(
    module: ModuleOp,
    context: Context,
    arch: str,
    plan: Plan | None,
    *,
    fuse: bool,
    lineinfo: bool,
    remarks: bool,
    tune: bool,
) -> Callable[[], Kernel]:
    module.verify()
    function = only_function(module)
    if is_per_device(function):
        raise UserError(
            f"@{function.sym_name.data} is the program of each of several devices; pass the "
            "DeviceMesh that it is for as mesh=."
        )
    is_te = te.is_texpr(function)
    if is_te and (plan is not None or tune):
        raise UserError(
            "a plan says how kernels of µGraphs are compiled; leave plan and tune out for a .te "
            "file."
        )
    if is_foreign(function) and not is_te:
        ConvertLinalgToKnPass(strict=True).apply(context, module)
        require_kernels(function)
    name = _architecture(arch)
    if name is None:
        original = module.clone()
        if remarks and not is_te:
            steps = (*compile_pipeline(plan=plan, fuse=fuse), RemarksPass())
            PassPipeline(steps).apply(context, module.clone())
        # The layouts of arguments and results are those of the kernel that a GPU would run.
        steps = (
            steps_to_kernels(function) if is_te else planned_then_scheduled(plan=plan, fuse=fuse)[0]
        )
        PassPipeline(steps).apply(context, module)
        interface = interface_of(only_function(module))
        return lambda: CpuKernel(original, interface)
    found = Architecture(target_named(name).arch)

    def make() -> Planned:
        own = module
        if is_te:
            verifying(steps_to_kernels(function, name), LEVEL_ENDS).apply(context, own)
        else:
            known = known_plans(own, context, name, fuse=fuse) if tune else shipped
            known = known and replace(known, remarks=remarks)
            own = _with_kernels(own, context, name, plan, fuse=fuse, known=known)
        if remarks and not is_te:
            RemarksPass(name).apply(context, own)
        interface = interface_of(only_function(own))
        return Planned(print_single_file(own, interface, found, line_info=lineinfo), interface)

    shipped = None if is_te or plan is not None else shipped_plans(arch, name)
    # What is measured, printed or told of lines of a file is found again.
    is_said_by_text = not (is_te or tune or remarks or lineinfo)
    options = name, plan, fuse, shipped
    source, interface = planned(module, *options, plan=make) if is_said_by_text else make()
    flags = LINE_INFO if lineinfo else ()
    return lambda: CudaKernel(
        compile_library(source, found.name, flags=flags), interface, found.name
    )


def _with_kernels(
    module: ModuleOp,
    context: Context,
    target: str,
    plan: Plan | None,
    *,
    fuse: bool,
    known: UsePlansPass | None,
) -> ModuleOp:
    """A copy of a program, scheduled, its kernels under known plans.

    If only these cannot be, a warning says so, and the kernels are planned as without them.
    """
    searches = Searches()

    def make(checked: bool) -> ModuleOp:
        own = module.clone()
        steps = compile_pipeline(
            target, plan, fuse=fuse, checked=checked, searches=searches, known_plans=known
        )
        with reported_within(own):
            verifying(steps, LEVEL_ENDS).apply(context, own)
        return own

    def attempt() -> ModuleOp:
        return with_kernels_that_compile(make) if fuse else make(False)

    if known is None:
        return attempt()
    try:
        return attempt()
    except (DiagnosticException, UserError) as error:
        reason = [*str(error).strip().splitlines(), ""][0]
    known = None
    found = attempt()  # raises what is wrong with the program itself
    sentence = f"measured plans are not used: {reason}"
    warnings.warn(sentence, PlanDatabaseWarning, stacklevel=2)
    return found


def _architecture(arch: str) -> str | None:
    """The architecture, or the GPU, to compile for; ``None`` for the interpreter."""
    if arch == "cpu":
        return None
    if arch != "native":
        return arch
    device = device_architecture()
    return None if device is None else choose_architecture(device, [*default_targets()])


def _module_of(graph: Graph, context: Context, sizes: Mapping[str, int]) -> ModuleOp:
    if isinstance(graph, str) and "\n" not in graph and graph.endswith(_SUFFIXES):
        graph = Path(graph)
    if sizes and not (isinstance(graph, Path) and graph.suffix == ".te"):
        raise UserError("sizes= is for .te files; leave it out.")
    match graph:
        case ModuleOp():
            return graph.clone()
        case Path():
            try:
                text = read_text(str(graph))
            except OSError as error:
                raise UserError(f"{graph} cannot be read: {error.strerror}.") from error
            if graph.suffix == ".te":
                return read_texpr(text, str(graph), sizes)
            return parse_text(context, text, str(graph))
        case str():
            return parse_text(context, graph, "<text>")
        case BuildsModule():
            return graph.module()
        case _:
            raise UserError(
                f"cannot compile {graph!r}; expected a graph of mugraph.build, a "
                "module, MLIR text, or the path of a .mlir or .te file."
            )
