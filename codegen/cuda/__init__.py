"""The CUDA target: ``-t cuda`` prints a scheduled module as one CUDA C++ file.

The file has the shape of those that Mirage prints: the headers of ``mugraph.runtime``, a
``__global__`` function a custom kernel, and ``_execute_mugraph``.  The printer decides nothing;
what it prints stands in the IR.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.target import Target

from mugraph.codegen.cuda import host_kernels, host_products
from mugraph.codegen.cuda.buckets import print_choice
from mugraph.codegen.cuda.channels import map_parameters
from mugraph.codegen.cuda.collectives import HEADER as COLLECTIVES
from mugraph.codegen.cuda.collectives import communicators_of
from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.execute import EXECUTE, print_execute, print_init
from mugraph.codegen.cuda.host import (
    HostPrinter,
    Joined,
    alignment_checks,
    find_places,
    workspace_bytes,
)
from mugraph.codegen.cuda.kernel import KernelKind, print_joined_kernel, print_kernel
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.tasks import HEADER as TASKS
from mugraph.codegen.cuda.tasks import print_program, print_program_launch
from mugraph.codegen.cuda.warpgroup import print_warpgroup_atoms
from mugraph.dialects import sched, te
from mugraph.dialects.functions import is_foreign, mugraphs_of
from mugraph.dialects.kn.overlap import LARGEST_CARVEOUT, launches_of
from mugraph.dialects.named_extents import buckets_of, named_extents
from mugraph.dialects.sched.programs import is_task, persistent_programs
from mugraph.dialects.tensor_types import op_label

__all__ = [
    "CodegenError",
    "CudaTarget",
    "communicators_of",
    "find_function",
    "host_kernels",
    "host_products",
    "print_module",
    "require_kernels",
    "workspace_bytes",
]


def find_function(module: ModuleOp, name: str | None = None) -> FuncOp:
    """The function to print: the one of that name, or the only µGraph.

    Raises :class:`CodegenError` naming those there are.
    """
    functions = mugraphs_of(module)
    listed = ", ".join(f"@{function.sym_name.data}" for function in functions) or "none"
    if name is None:
        if len(functions) != 1:
            raise CodegenError(
                f"the module has {len(functions)} functions ({listed}); the CUDA target prints "
                "one, say which with -t 'cuda{function=NAME}'"
            )
        return functions[0]
    for function in functions:
        if function.sym_name.data == name:
            return function
    raise CodegenError(f"the module has no function @{name}; it has {listed}")


def require_kernels(function: FuncOp) -> None:
    """Raises :class:`CodegenError` where a function has nothing of a µGraph."""
    if is_foreign(function):
        raise CodegenError(
            f"{op_label(function)} has no operators of 'kn' or 'sched', so no kernels; "
            "--convert-linalg-to-kn makes such of 'linalg'"
        )


def print_module(module: ModuleOp, function: str | None = None, *, line_info: bool = False) -> str:
    """The CUDA C++ text of a scheduled and planned module; ends with a newline.

    With ``line_info``, ``#line`` says of each line of a kernel where its operator comes from.
    """
    func = find_function(module, function)
    writer = Writer(line_info=line_info)
    if te.is_texpr(func):
        # What only tensor expressions need takes a while to load.
        from mugraph.codegen.cuda.texpr import print_texpr

        return print_texpr(func, writer)
    buckets = buckets_of(module, func)
    for bucket in buckets:
        require_kernels(bucket)
    launched = [op for bucket in buckets for op in bucket.walk() if isinstance(op, sched.LaunchOp)]
    kernels = [launch.resolve() for launch in launched]
    in_clusters = any(launch.cluster is not None for launch in launched)
    has_channels = in_clusters or any(map(map_parameters, kernels))
    has_custom_operators = any(
        isinstance(op, sched.CustomOp) for one in kernels for op in one.walk()
    )
    writer.lines(
        [
            "#define NUM_GPUS 1",
            "#define USE_NVSHMEM 0",
            '#include "runtime.h"',
            *(['#include "channels.h"'] if has_channels else []),
            *(['#include "last_block.h"'] if any(op.last for op in launched) else []),
            *([f'#include "{TASKS}"'] if any(map(is_task, launched)) else []),
            *(['#include "te.h"'] if has_custom_operators else []),
            *([f'#include "{COLLECTIVES}"'] if communicators_of(func) else []),
            "using namespace cute;",
            "",
        ]
    )
    names = Names()
    kernel_names: dict[str, str] = {}
    print_warpgroup_atoms(kernels, writer)
    swizzles = any(isinstance(op, sched.BulkCopyOp) for kernel in kernels for op in kernel.walk())
    joined_names: dict[Joined, str] = {}

    def print_once(kernel: sched.KernelOp, known: dict[str, str], kind: KernelKind) -> str:
        symbol = kernel.sym_name.data
        if symbol not in known:
            known[symbol] = names.fresh(symbol if kind == "kernel" else f"{symbol}_{kind}")
            with writer.of_operation(kernel):
                print_kernel(kernel, known[symbol], writer, swizzles_addresses=swizzles, kind=kind)
        return known[symbol]

    part_names: dict[str, str] = {}
    task_names: dict[str, str] = {}
    program_launches: dict[Operation, Callable[[HostPrinter], None]] = {}
    for bucket in buckets:
        for launch in launches_of(bucket.body.block.ops):
            of_kernels = [op for op in launch if isinstance(op, sched.LaunchOp) and not is_task(op)]
            if len(of_kernels) == 1:
                print_once(of_kernels[0].resolve(), kernel_names, "kernel")
            if len(of_kernels) < 2 or (joined := Joined.of(of_kernels)) in joined_names:
                continue
            parts = [print_once(op.resolve(), part_names, "part") for op in of_kernels]
            joined_names[joined] = names.fresh(f"{joined.kernels[0]}_joined")
            print_joined_kernel(
                of_kernels, parts, joined_names[joined], writer, swizzles_addresses=swizzles
            )
        for program in persistent_programs(bucket.body.block.ops):
            for kernel in program.kernels:
                print_once(kernel, task_names, "task")
            printed = print_program(program, task_names, names, writer)
            program_launches[program.ops[0]] = partial(print_program_launch, printed)
    executes = [names.fresh(f"execute_{bucket.sym_name.data}") for bucket in buckets]
    if not named_extents(func):
        executes = [EXECUTE]
    print_init(writer)
    for bucket, name in zip(buckets, executes, strict=True):
        printer = HostPrinter(
            writer,
            names,
            kernel_names,
            find_places(bucket),
            joined_names=joined_names,
            largest_carveout=LARGEST_CARVEOUT in bucket.attributes,
            program_launches=program_launches,
        )
        print_execute(bucket, printer, alignment_checks(bucket, printer.places), name)
    if executes != [EXECUTE]:
        print_choice(dict(zip(executes, buckets, strict=True)), writer)
    return writer.text()


@dataclass(frozen=True)
class CudaTarget(Target):
    """CUDA C++ against the headers of ``mugraph.runtime``; ``function`` picks one of several.

    ``line-info=true`` says of each line of a kernel, by ``#line``, which line of the input its
    operator comes from: compile with ``nvcc -lineinfo``, and profilers show that line.
    """

    name = "cuda"

    function: str | None = None
    line_info: bool = False

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Prints the module."""
        output.write(print_module(module, self.function, line_info=self.line_info))
