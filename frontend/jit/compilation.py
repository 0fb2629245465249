"""From a graph, a module or text to a kernel."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any, cast, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.exceptions import DiagnosticException

from mugraph.build import KernelGraph
from mugraph.codegen.c_abi import Architecture, interface_of, print_single_file
from mugraph.codegen.cuda import require_kernels
from mugraph.dialects.functions import is_foreign
from mugraph.dialects.locations import Place, reported_within
from mugraph.dialects.te import is_texpr
from mugraph.jit.cpu import CpuKernel
from mugraph.jit.cuda import CudaKernel
from mugraph.jit.kernel import Kernel
from mugraph.passes.convert_linalg_to_kn import ConvertLinalgToKnPass
from mugraph.passes.online_softmax import OnlineSoftmaxPass
from mugraph.passes.options import values_in_words
from mugraph.passes.remarks import RemarksPass
from mugraph.passes.targets import TARGETS, target_named
from mugraph.passes.te_lower import TeLowerPass
from mugraph.passes.transpile import TranspilePass, planned_then_scheduled
from mugraph.runtime.compile import LINE_INFO, compile_library
from mugraph.runtime.cuda import only_function
from mugraph.runtime.errors import UserError
from mugraph.runtime.toolchain import device_architecture
from mugraph.texpr import read_texpr
from mugraph.tools.mg_run import choose_architecture
from mugraph.tools.modules import make_context, parse_text, read_text

Graph = KernelGraph | ModuleOp | str | Path
"""What can be compiled: a graph of ``mugraph.build``, a module, MLIR text, or a file.

A file is a ``pathlib.Path``, or a ``str`` without line breaks that ends in ``.mlir`` or ``.te``.
"""

_SUFFIXES = (".mlir", ".te")


def compile(
    graph: Graph,
    arch: str = "native",
    *,
    sizes: Mapping[str, int] | None = None,
    lineinfo: bool = False,
    remarks: bool = False,
    **options: Any,
) -> Kernel:
    """A kernel for ``arch``: an architecture such as ``sm_90a``, ``native`` or ``cpu``.

    ``native`` is this machine's GPU, or the interpreter where there is none.  The graph is not
    changed.  Functions in ``linalg`` become µGraphs first.  ``sizes`` are the named sizes of a
    `.te` file.  ``options`` are those of ``--transpile``: ``online_softmax=True``, for instance.
    Kernels are planned (``--plan``) unless ``plan=False``.
    ``lineinfo`` compiles with nvcc's ``-lineinfo``, so that profilers show the lines of the file
    or of the Python program that built the graph.  ``remarks`` prints, to standard error, what each
    kernel lost against the best form of its target, as ``--remarks`` does; for the interpreter of a
    kernel for the default target.

    Raises ``UserError`` and xDSL's exceptions, as the passes do, with a sentence that names the
    operator and a note with its line; ``CompileError`` where nvcc refuses what was generated.
    """
    return _prepare(graph, arch, sizes or {}, options, lineinfo=lineinfo, remarks=remarks)()


def compile_all(
    graphs: Iterable[Graph],
    arch: str = "native",
    *,
    progress: bool = False,
    jobs: int = 2,
    **options: Any,
) -> list[Kernel]:
    """Kernels of several graphs, ``jobs`` of them under nvcc at a time.

    ``options`` are those of ``--transpile``.  With ``progress`` a line a kernel goes to stderr when
    it is done.
    """
    prepared = [_prepare(graph, arch, {}, options) for graph in graphs]
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


def _prepare(
    graph: Graph,
    arch: str,
    sizes: Mapping[str, int],
    options: Mapping[str, Any],
    *,
    lineinfo: bool = False,
    remarks: bool = False,
) -> Callable[[], Kernel]:
    """Runs the passes and the printer; the result runs nvcc and loads."""
    context = make_context()
    module = _module_of(graph, context, sizes)
    transpile = _transpile_pass(options)
    with reported_within(module):
        try:
            return _prepare_module(
                module, context, arch, transpile, lineinfo=lineinfo, remarks=remarks
            )
        except DiagnosticException as error:
            # The note that xDSL adds is the whole module, which the caller has.
            error.__notes__ = [
                note for note in getattr(error, "__notes__", ()) if isinstance(note, Place)
            ]
            raise


def _prepare_module(
    module: ModuleOp,
    context: Context,
    arch: str,
    transpile: TranspilePass,
    *,
    lineinfo: bool,
    remarks: bool,
) -> Callable[[], Kernel]:
    module.verify()
    function = only_function(module)
    is_te = is_texpr(function)
    if is_foreign(function) and not is_te:
        ConvertLinalgToKnPass(strict=True).apply(context, module)
        require_kernels(function)
    name = _architecture(arch)
    if name is None:
        if transpile.online_softmax:
            OnlineSoftmaxPass().apply(context, module)
        original = module.clone()
        if remarks and not is_te:
            PassPipeline((transpile, RemarksPass())).apply(context, module.clone())
        # The layouts of arguments and results are those of the kernel that a GPU would run.
        steps = (TeLowerPass(),) if is_te else planned_then_scheduled()[0]
        PassPipeline(steps).apply(context, module)
        interface = interface_of(only_function(module))
        return lambda: CpuKernel(original, interface)
    target_named(name)
    (TeLowerPass(arch=name) if is_te else replace(transpile, arch=name)).apply(context, module)
    module.verify()
    if remarks and not is_te:
        RemarksPass(name).apply(context, module)
    interface = interface_of(only_function(module))
    source = print_single_file(module, interface, Architecture(name), line_info=lineinfo)
    flags = LINE_INFO if lineinfo else ()
    return lambda: CudaKernel(compile_library(source, name, flags=flags), interface, name)


def _transpile_pass(options: Mapping[str, Any]) -> TranspilePass:
    """``--transpile`` with these options; raises ``UserError`` for one that it does not have."""
    known = [option.name for option in fields(TranspilePass) if option.name != "arch"]
    for option in options:
        if option not in known:
            raise UserError(
                f"mugraph.compile has no option {option!r}; those of --transpile are "
                f"{', '.join(known)}."
            )
    given = {name: _as_list(value) for name, value in options.items()}
    types = get_type_hints(TranspilePass)
    for name, value in given.items():
        try:
            TranspilePass.from_spec(ArgSpec(TranspilePass.name, {name: value}))
        except ValueError as error:
            if "Incompatible types" not in str(error):
                raise UserError(f"mugraph.compile: the option {name!r}: {error}.") from error
            raise UserError(
                f"mugraph.compile: the option {name!r} is {options[name]!r}; expected "
                f"{values_in_words(types[name])}."
            ) from error
    given.setdefault("plan", (True,))
    return TranspilePass.from_spec(ArgSpec(TranspilePass.name, given))


def _as_list(value: Any) -> tuple[Any, ...]:
    return tuple(cast(Iterable[Any], value)) if isinstance(value, (tuple, list)) else (value,)


def _architecture(arch: str) -> str | None:
    """The architecture to compile for; ``None`` for the interpreter."""
    if arch == "cpu":
        return None
    if arch != "native":
        return arch
    device = device_architecture()
    return None if device is None else choose_architecture(device, list(TARGETS))


def _module_of(graph: Graph, context: Context, sizes: Mapping[str, int]) -> ModuleOp:
    if isinstance(graph, str) and "\n" not in graph and graph.endswith(_SUFFIXES):
        graph = Path(graph)
    if sizes and not (isinstance(graph, Path) and graph.suffix == ".te"):
        raise UserError("sizes are those of a .te file; leave them out.")
    match graph:
        case KernelGraph():
            return graph.module()
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
        case _:
            raise UserError(
                f"cannot compile a {type(graph).__name__}; expected a graph of mugraph.build, a "
                "module, MLIR text, or the path of a .mlir or .te file."
            )
