"""From a graph, a module or text to a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import DiagnosticException

from mugraph.build import KernelGraph
from mugraph.codegen.c_abi import Architecture, interface_of, print_single_file
from mugraph.jit.cpu import CpuKernel
from mugraph.jit.cuda import CudaKernel
from mugraph.jit.kernel import Kernel
from mugraph.passes.remarks import RemarksPass
from mugraph.passes.targets import TARGETS, target_named
from mugraph.passes.transpile import planned_then_scheduled, transpile_pipeline
from mugraph.runtime.compile import compile_library
from mugraph.runtime.cuda import only_function
from mugraph.runtime.errors import UserError
from mugraph.runtime.toolchain import device_architecture
from mugraph.tools.mg_run import choose_architecture
from mugraph.tools.modules import make_context, parse_text

Graph = KernelGraph | ModuleOp | str | Path
"""What can be compiled: a graph of ``mugraph.build``, a module, MLIR text, or a file of it."""


def compile(graph: Graph, arch: str = "native", *, remarks: bool = False) -> Kernel:
    """A kernel for ``arch``: an architecture such as ``sm_90a``, ``native`` or ``cpu``.

    ``native`` is this machine's GPU, or the interpreter where there is none.  The graph is not
    changed.  ``remarks`` prints, to standard error, what each kernel lost against the best form of
    its target, as ``--remarks`` does; for the interpreter of a kernel for the default target.

    Raises ``UserError`` and xDSL's exceptions, as the passes do, with a sentence that
    names the operator; ``CompileError`` where nvcc refuses what was generated.
    """
    return _prepare(graph, arch, remarks=remarks)()


def compile_all(
    graphs: Iterable[Graph], arch: str = "native", *, progress: bool = False, jobs: int = 2
) -> list[Kernel]:
    """Kernels of several graphs, ``jobs`` of them under nvcc at a time.

    With ``progress`` a line a kernel goes to stderr when it is done.
    """
    prepared = [_prepare(graph, arch) for graph in graphs]
    done = 0

    def finish(make: Callable[[], Kernel]) -> Kernel:
        nonlocal done
        start = perf_counter()
        kernel = make()
        done += 1
        if progress:
            seconds = perf_counter() - start
            print(
                f"[{done}/{len(prepared)}] {kernel.name} for {kernel.arch}: {seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )
        return kernel

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        return list(pool.map(finish, prepared))


def _prepare(graph: Graph, arch: str, *, remarks: bool = False) -> Callable[[], Kernel]:
    """Runs the passes and the printer; the result runs nvcc and loads."""
    context = make_context()
    module = _module_of(graph, context)
    name = _architecture(arch)
    if name is None:
        original = module.clone()
        if remarks:
            PassPipeline((*transpile_pipeline(), RemarksPass())).apply(context, module.clone())
        # The layouts of arguments and results are those of the kernel that a GPU would run.
        PassPipeline(planned_then_scheduled()[0]).apply(context, module)
        interface = interface_of(only_function(module))
        return lambda: CpuKernel(original, interface)
    target_named(name)
    PassPipeline(transpile_pipeline(name)).apply(context, module)
    module.verify()
    if remarks:
        RemarksPass(name).apply(context, module)
    interface = interface_of(only_function(module))
    source = print_single_file(module, interface, Architecture(name))
    return lambda: CudaKernel(compile_library(source, name), interface, name)


def _architecture(arch: str) -> str | None:
    """The architecture to compile for; ``None`` for the interpreter."""
    if arch == "cpu":
        return None
    if arch != "native":
        return arch
    device = device_architecture()
    return None if device is None else choose_architecture(device, list(TARGETS))


def _module_of(graph: Graph, context: Context) -> ModuleOp:
    match graph:
        case KernelGraph():
            return graph.module()
        case ModuleOp():
            module = graph.clone()
        case Path():
            module = parse_text(context, graph.read_text(encoding="utf-8"), str(graph))
        case str():
            module = parse_text(context, graph, "<text>")
        case _:
            raise UserError(
                f"cannot compile a {type(graph).__name__}; expected a graph of mugraph.build, a "
                "module, MLIR text or a pathlib.Path to a file of it."
            )
    try:
        module.verify()
    except DiagnosticException as error:
        # The note that xDSL adds is the whole module, which the caller has.
        error.__notes__ = []
        raise
    return module
