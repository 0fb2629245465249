"""``torch.compile(model, backend="mugraph")``."""

from __future__ import annotations

import operator
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from time import perf_counter
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from mugraph.build.errors import BuildError
from mugraph.codegen.architecture import choose_architecture
from mugraph.codegen.c_abi import CInterface, interface_as_written
from mugraph.dialects.named_extents import is_open
from mugraph.errors import UserError, first_line
from mugraph.jit import CpuKernel, Kernel, compile, compile_beside
from mugraph.jit.mesh import MeshKernel
from mugraph.passes.program.bucket_extents import bucket_extents
from mugraph.passes.targets import DEFAULT_TARGET, default_targets
from mugraph.runtime.cuda import only_function
from mugraph.runtime.toolchain import device_architecture
from mugraph.torch.aten import CONVERSIONS
from mugraph.torch.aten.conversion import Devices
from mugraph.torch.attention import keep_attention_whole, leave_out_known_masks, note_empty_rows
from mugraph.torch.call import as_module
from mugraph.torch.complex_numbers import make_pairs
from mugraph.torch.decompositions import decompositions
from mugraph.torch.devices import compile_for, devices_of, is_exchange
from mugraph.torch.growing_caches import equate_key_counts, grow_in_order
from mugraph.torch.islands import (
    copy_returned_constants,
    fold_constants,
    is_view,
    keep_shared_memory,
    place_constants,
    programs_of,
    returns_shared_memory,
    split_off_programs,
)
from mugraph.torch.merged_rows import merge_rows
from mugraph.torch.mutations import put_back_mutations, take_out_mutations
from mugraph.torch.narrow_weights import store_narrow_weights
from mugraph.torch.operator import import_torch
from mugraph.torch.report import Island, Kernels, Report, fuse_and_explain
from mugraph.torch.rows import keep_rows_apart
from mugraph.torch.strided_views import read_whole_memory
from mugraph.torch.symbols import divide_into_buckets, is_symbol
from mugraph.torch.translation import PROGRAM, Refusals, results_of, tensor_like, translate
from mugraph.torch.unchanged import leave_out_unchanged
from mugraph.torch.whole_indices import view_whole_indices
from mugraph.torch.whole_numbers import simplify_whole_numbers

MOST_OF_MEMORY = 4
"""A workspace for the largest values of extents takes a quarter of a device's memory at most."""


def backend(
    graph_module: Any,
    example_inputs: Sequence[Any],
    *,
    report: Report | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles a graph that ``torch.compile`` caught; what mugraph does not take stays in torch.

    Parts of the graph in ATen operators that have a conversion become programs, which are fused,
    planned and compiled for the device of the graph's tensors; on a CPU the interpreter runs them.
    ``report`` is filled.  For inference: raises ``UserError`` where gradients are asked for, and
    for a ``mode`` or ``options`` of ``torch.compile``, which are Inductor's.
    """
    if mode is not None or options is not None:
        given = f"options={options!r}" if mode is None else f"mode={mode!r}"
        raise UserError(
            f"{given} is for torch.compile's own backend; leave it out beside backend='mugraph', "
            "which has no modes (a CompileConfig of transformers has one: write mode=None). "
            "torch.cuda.graph captures calls of what it compiles."
        )
    torch = import_torch()
    if torch.is_grad_enabled() and any(
        isinstance(each, torch.Tensor) and each.requires_grad for each in example_inputs
    ):
        raise UserError(
            "mugraph compiles models for inference, and gradients are asked for: call the model "
            "under torch.no_grad(), or take requires_grad from its parameters."
        )
    equate_key_counts(keep_attention_whole(graph_module))
    view_whole_indices(graph_module)
    common = import_module("torch._dynamo.backends.common")

    def compile_graph(inner: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        names = [node.name for node in _placeholders(inner)]
        given = zip(names, example_inputs, strict=True) if len(names) == len(example_inputs) else ()
        return _compile_graph(inner, report or Report(), dict(given))

    compiler = common.aot_autograd(
        fw_compiler=compile_graph,
        decompositions=decompositions(whole_views=returns_shared_memory(graph_module)),
        keep_inference_input_mutations=True,
    )
    return compiler(graph_module, example_inputs)


def _compile_graph(
    graph_module: Any, report: Report, inputs: Mapping[str, Any]
) -> Callable[..., Any]:
    torch = import_torch()
    mutations = take_out_mutations(graph_module)
    read_whole_memory(graph_module)
    make_pairs(graph_module)
    fold_constants(graph_module)
    leave_out_unchanged(graph_module)
    leave_out_known_masks(graph_module)
    note_empty_rows(graph_module, _weights_of(graph_module))
    grow_in_order(graph_module)
    place_constants(graph_module)
    weights = _weights_of(graph_module) - mutations.inputs
    weights |= store_narrow_weights(graph_module, weights, inputs)
    simplify_whole_numbers(graph_module)
    keep_rows_apart(graph_module)
    tf32 = bool(torch.backends.cuda.matmul.allow_tf32)
    devices = devices_of(graph_module)
    refusals = Refusals(tf32=tf32, devices=devices)
    merge_rows(graph_module, refusals)
    for node in graph_module.graph.nodes:
        is_call = node.op == "call_function" and not is_symbol(node.meta.get("val"))
        reason = refusals(node) if is_call else None
        of_another = node.target is operator.getitem and refusals(node.args[0]) is not None
        if reason is not None and not of_another and not is_view(node):
            report.stays(node, reason)
    setting = Setting(tf32, devices, report.explains)
    count = len(graph_module.graph.output_node().args[0]) - 2 * mutations.sources
    shared = keep_shared_memory(graph_module, count)

    def refusal(node: Any) -> str | None:
        return "a caller sees whose memory it is" if node in shared else refusals(node)

    parts = split_off_programs(graph_module, refusal, report.stays)
    _say_what_is_known_late(parts)
    begun: dict[str, Callable[[], Compiled]] = {}
    programs = programs_of(parts)
    waiting: dict[str, tuple[Callable[[], Compiled], float]] = {}
    for name, part in programs.items():
        start = perf_counter()
        # nvcc compiles it while the next ones are planned.
        waiting[name] = _begin_part(part, weights, begun, setting), perf_counter() - start
    for name, part in programs.items():
        calls = [node for node in part.graph.nodes if node.op == "call_function"]
        calls = [node for node in calls if node.target is not operator.getitem]
        operators = Counter(str(node.target) for node in calls)
        (compiled, spent), start = waiting[name], perf_counter()
        try:
            made = compiled()
        except (UserError, BuildError, DiagnosticException) as error:
            reason = first_line(error)
            warnings.warn(f"a part of the model stays in torch: {reason}", stacklevel=2)
            for node in calls:
                report.stays(node, reason)
            continue
        likes = [tensor_like(node.meta["val"]) for node in _tensors_of(part)]
        results = [tensor_like(node.meta["val"]) for node in results_of(part)]
        island = Island(name, operators, made.kernels, spent + perf_counter() - start)
        report.islands.append(island)
        if made.kernel is not None:
            program = as_module(made.kernel, likes, results, part)
            if made.kernels is not None:
                program.register_forward_pre_hook(partial(_keep_call, island))
            setattr(parts, name, program)
    put_back_mutations(parts, mutations)
    copy_returned_constants(parts)
    parts.recompile()
    return import_module("torch._functorch.aot_autograd").make_boxed_func(parts.forward)


def _say_what_is_known_late(parts: Any) -> None:
    """Warns of operators that stay in torch, as they depend on numbers that change with a call."""
    late = Counter(
        str(node.target)
        for node in parts.graph.nodes
        if node.op == "call_function"
        and str(node.target) in CONVERSIONS
        and any(is_symbol(extent) for extent in getattr(node.meta.get("val"), "shape", ()))
        and not is_view(node)
    )
    if late:
        named = ", ".join(f"{count} {name}" for name, count in sorted(late.items()))
        warnings.warn(
            f"extents that change from call to call keep {named} in torch; with "
            "torch.compile(model, backend='mugraph', dynamic=False) extents are numbers.",
            stacklevel=2,
        )


class Setting(NamedTuple):
    """What holds for all parts of a graph."""

    tf32: bool
    devices: Devices | None
    explains: bool


@dataclass(frozen=True)
class Compiled:
    """A program's kernel, and what is said of it; none where that is all that is asked for."""

    kernel: Kernel | MeshKernel | None
    kernels: Kernels | None


def _begin_part(
    part: Any, weights: set[str], begun: dict[str, Callable[[], Compiled]], setting: Setting
) -> Callable[[], Compiled]:
    """Begins to compile a part, and waits for its kernel when it is called.

    Parts that are the same program share one.  What is refused is raised by the result.
    """
    inputs = _tensors_of(part)
    constant = [node.name in weights for node in inputs]
    devices = setting.devices if any(map(is_exchange, part.graph.nodes)) else None
    try:
        module = translate(part, PROGRAM, constant, tf32=setting.tf32, devices=devices).module()
        written = str(module)
        if written not in begun:
            device_type = _device_type(inputs)
            if devices is not None:
                made = partial(Compiled, compile_for(devices, module, device_type), None)
            elif setting.explains:
                made = partial(_itself, _explained(module, device_type))
            else:
                made = cache(partial(_with_kernel, MAKERS[device_type](module)))
            begun[written] = made
        return begun[written]
    except (UserError, BuildError, DiagnosticException) as error:
        return partial(_refuse, error)


def _refuse(error: Exception) -> Compiled:
    raise error


def _itself(made: Compiled) -> Compiled:
    return made


def _with_kernel(wait: Callable[[], Kernel]) -> Compiled:
    return Compiled(wait(), None)


def _explained(module: ModuleOp, device: str) -> Compiled:
    """What is said of a program, whose kernels are searched for once; torch runs it on a CPU."""
    fused = _at_largest(module).clone()
    if device == "cpu":
        return Compiled(None, fuse_and_explain(fused, DEFAULT_TARGET))
    architecture = device_architecture()
    assert architecture is not None  # as a tensor is there
    target = choose_architecture(architecture, [*default_targets()])
    kernels = fuse_and_explain(fused, target)
    if is_open(only_function(module)):
        return Compiled(_begun(module)(), kernels)
    try:
        return Compiled(compile(fused, fuse=False), kernels)
    except DiagnosticException:
        return Compiled(_begun(module)(), kernels)


def _at_largest(module: ModuleOp) -> ModuleOp:
    """The program at the largest values of its named extents; itself where it has none."""
    function = only_function(module)
    if not is_open(function):
        return module
    *_, largest = bucket_extents(function.clone())
    return ModuleOp([largest])


def _keep_call(island: Island, program: Any, given: tuple[Any, ...]) -> None:
    """Notes the tensors of a program's last call."""
    island.call = partial(program, *given)


def _begun(module: ModuleOp) -> Callable[[], Kernel]:
    """The kernel of a program; one of each operator where those that are found do not compile."""
    divide_into_buckets(module)
    try:
        wait = compile_beside(module)
    except DiagnosticException as error:
        reason = first_line(error)
        warnings.warn(f"operators share no kernels in a part of the model: {reason}", stacklevel=2)
        wait = compile_beside(module, fuse=False)
    memory = import_torch().cuda.get_device_properties().total_memory
    return partial(_with_room, wait, memory)


def _with_room(wait: Callable[[], Kernel], memory: int) -> Kernel:
    kernel = wait()
    require_room(kernel.interface, memory)
    return kernel


def require_room(interface: CInterface, memory: int) -> None:
    """Raises ``UserError`` where extents of a call make a program need most of a device's memory.

    Its workspace has room for their largest values, whatever a call has.
    """
    needed = interface.workspace_bytes
    if interface.extents and needed > memory // MOST_OF_MEMORY:
        largest = ", ".join(f"{each.name} = {each.largest}" for each in interface.extents)
        raise UserError(
            f"its program needs {needed / 2**30:.1f} GiB of device memory at {largest}; bound the "
            "extent, as by torch._dynamo.mark_dynamic(x, dim, min=2, max=2048)"
        )


def _interpreted(module: ModuleOp) -> Callable[[], Kernel]:
    """The program on a CPU: all its layouts are written, so that no kernel need be planned."""
    module.verify()
    # The interface is that of the largest extents.
    interface = interface_as_written(only_function(_at_largest(module)))
    return partial(CpuKernel, module, interface)


MAKERS: dict[str, Callable[[ModuleOp], Callable[[], Kernel]]] = {
    "cpu": _interpreted,
    "cuda": _begun,
}
"""How a program is made to run on each type of device: begun, and then waited for."""


def _device_type(inputs: Sequence[Any]) -> str:
    """That of all inputs of a part; raises ``UserError`` where there is no program for them."""
    devices = {node.meta["val"].device for node in inputs}
    named = " and ".join(sorted(map(str, devices)))
    if len(devices) != 1:
        raise UserError(
            f"its inputs are on {named or 'no device'}; move the model and its inputs to one device"
        )
    (device,) = devices
    if device.type not in MAKERS:
        raise UserError(f"its inputs are on {named}; programs run on {' and '.join(MAKERS)}")
    return device.type


def _placeholders(part: Any) -> list[Any]:
    return [node for node in part.graph.nodes if node.op == "placeholder"]


def _tensors_of(part: Any) -> list[Any]:
    """The placeholders that are tensors, and no symbols."""
    return [node for node in _placeholders(part) if not is_symbol(node.meta["val"])]


def _weights_of(graph_module: Any) -> set[str]:
    """The names of the inputs that are the same tensors at each call: parameters and constants."""
    context = import_module("torch._guards").TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    static = () if metadata is None else metadata.static_input_indices
    placeholders = _placeholders(graph_module)
    constants = {node.name for node in graph_module.graph.find_nodes(op="get_attr")}
    return {placeholders[at].name for at in static if at < len(placeholders)} | constants
