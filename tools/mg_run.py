"""``mg-run``: runs a µGraph on numpy or on a GPU, checks it and times it."""

from __future__ import annotations

import argparse
import math
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mugraph.codegen.architecture import choose_architecture
from mugraph.dialects.functions import result_types
from mugraph.dialects.locations import place_of, reported_within
from mugraph.dialects.named_extents import named_extents
from mugraph.dialects.sharding import is_per_device
from mugraph.dialects.tensor_types import dims, op_label
from mugraph.reading import make_context, parse_sizes, read_module
from mugraph.runtime.compare import Comparison, Reference, compare, make_reference
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.execute import CudaModule, DeviceError
from mugraph.runtime.interpreter import Execution, execute_by_address, run_function
from mugraph.runtime.interpreter.address_kernel import TOGETHER
from mugraph.runtime.interpreter.address_level import Landing
from mugraph.runtime.toolchain import device_architecture, find_toolchain
from mugraph.tools.array_files import read_inputs, sizes_for, write_outputs
from mugraph.tools.diagnostics import ArgumentParser, ToolError, add_size_argument, run_tool
from mugraph.tools.each_kernel import kernels_alone
from mugraph.tools.random_inputs import is_finite, largest_inputs, overflows, random_inputs

Array = npt.NDArray[Any]

REPEATS = 3
"""How often the GPU runs; the results must be the same to the bit."""
LONG_SECONDS = 5.0
"""How long the interpreter computes before a line says so."""


def _load_on_gpu(
    module: ModuleOp, context: Context, arch: str | None, *, fast_math: bool
) -> tuple[CudaModule, str]:
    """The module, compiled and loaded, and the architecture that it was compiled for."""
    from mugraph.passes.targets import default_targets

    device = device_architecture()
    if device is None:
        raise DeviceError(
            "--backend=cuda needs an NVIDIA GPU and its driver, and there is none here; "
            "--backend=interpreter runs on the CPU."
        )
    find_toolchain()  # what is missing is said before the passes run
    chosen = arch or choose_architecture(device, [*default_targets()])
    return generate_cuda(module, context, chosen).load(fast_math=fast_math), chosen


def _run_repeatedly(module: CudaModule, inputs: Sequence[Array]) -> tuple[list[Array], str]:
    """The outputs of the first of three runs, and what differs in the others ('' if nothing)."""
    first = module.run(inputs)
    for repeat in range(1, REPEATS):
        again = module.run(inputs)
        for index, (one, other) in enumerate(zip(first, again, strict=True)):
            bits = np.dtype(f"u{one.itemsize}")
            different = int(np.count_nonzero(one.view(bits) != other.view(bits)))
            if different:
                return first, (
                    f"run {repeat + 1} differs from run 1 in {different} of {one.size} elements of "
                    f"output {index}"
                )
    return first, ""


@contextmanager
def _said_when_long(what: str) -> Generator[None]:
    """Says on stderr what is computed, once it has taken a while."""
    text = f"mg-run: the interpreter is computing {what}; smaller sizes take less time"
    timer = threading.Timer(LONG_SECONDS, print, (text,), {"file": sys.stderr, "flush": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _check(
    outputs: Sequence[Array],
    reference: Reference,
    tolerance: float | None,
    written: Sequence[npt.NDArray[np.bool_]] | None,
) -> bool:
    """Print how far each output is from the reference; whether all are within the tolerance."""
    succeeded = True
    known = reference.known
    if written is not None:
        known = [one & other for one, other in zip(known, written, strict=True)]
    for index, comparison in enumerate(compare(outputs, reference.outputs, known)):
        label = f"output {index}, {dims(outputs[index].shape)} {outputs[index].dtype}"
        allowed = reference.tolerances[index] if tolerance is None else tolerance
        unbounded = int(np.count_nonzero(~reference.known[index]))
        holds = comparison.holds(allowed) and unbounded < max(outputs[index].size, 1)
        print(f"check: {label}: {_verdict(comparison, allowed, unbounded, holds=holds)}")
        succeeded = succeeded and holds
    return succeeded


def _say_own_rounding(own: Sequence[Array], reference: Reference) -> None:
    """Says so where a µGraph's types alone round farther than results may be off.

    ``own`` are its results in the interpreter.
    """
    compared = compare(own, reference.outputs, reference.known)
    errors = [
        f"{comparison.relative_error:.2e}"
        for comparison, allowed in zip(compared, reference.tolerances, strict=True)
        if not comparison.holds(allowed) and not comparison.missing
    ]
    if errors:
        print(
            f"check: the types of the µGraph alone round to {' and '.join(errors)} with these "
            "inputs; compute in f32 (dtype=) what is sensitive, take smaller inputs (--scale), or "
            "set another limit (--tolerance)"
        )


def _verdict(comparison: Comparison, allowed: float, unbounded: int, *, holds: bool) -> str:
    if comparison.reference_missing:
        return (
            f"FAILED: {comparison.reference_missing} elements of the float64 reference are not "
            "finite; use smaller inputs (--scale)"
        )
    if comparison.missing:
        return f"FAILED: {comparison.missing} elements are not finite (overflown, or never written)"
    left_out = f" ({unbounded} elements have no budget and are left out)" if unbounded else ""
    return f"relative error {comparison.relative_error:.2e} against float64, " + (
        f"within {allowed:g}{left_out}" if holds else f"FAILED: over {allowed:g}{left_out}"
    )


def _run_by_address(
    module: ModuleOp, function: str, inputs: Sequence[Array], options: argparse.Namespace
) -> Execution:
    """Run on bytes and addresses; prints which blocks ran, where that is a sample."""
    execution = execute_by_address(
        module,
        function,
        inputs,
        blocks=options.blocks,
        order=options.order,
        landing=options.landing,
    )
    if options.blocks is not None:
        for kernel, blocks in execution.blocks.items():
            listed = " ".join(str(list(block)) for block in blocks)
            print(f"blocks: {len(blocks)} of @{kernel} ran: {listed}")
    return execution


def _order(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _scales(text: str) -> list[float]:
    try:
        scales = [float(part) for part in text.split(",")]
    except ValueError:
        scales = [math.nan]
    if not all(math.isfinite(scale) for scale in scales):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers, such as 0.25,1")
    return scales


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; expected an integer of at least 0")
    return int(text)


def _tolerance(text: str) -> float:
    try:
        tolerance = float(text)
    except ValueError:
        tolerance = math.nan
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no tolerance, such as 2e-3")
    return tolerance


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="mg-run",
        description="Runs a µGraph, at any stage of compilation, on numpy or on a GPU.",
        allow_abbrev=False,
    )
    parser.add_argument("input_file", nargs="?", default="-", help="IR text (- is stdin)")
    parser.add_argument(
        "--backend",
        choices=("interpreter", "cuda"),
        default="interpreter",
        help="numpy on the CPU (default), or generated CUDA on a GPU",
    )
    parser.add_argument(
        "--level",
        choices=("logical", "address"),
        default="logical",
        help="of the interpreter: values of tensors (default), or bytes of shared memory, for "
        "which --transpile comes first",
    )
    parser.add_argument(
        "--blocks",
        type=int,
        metavar="N",
        help="with --level=address: run N blocks of each grid; elements of others are NaN",
    )
    parser.add_argument(
        "--order",
        type=_order,
        default=TOGETHER,
        metavar="ORDER",
        help="with --level=address: the order of a block's warps between two barriers: together "
        "(default), forward, reversed, or the seed of random orders",
    )
    parser.add_argument(
        "--landing",
        choices=tuple(str(landing) for landing in Landing),
        default=str(Landing.LATEST),
        help="with --level=address: when asynchronous copies land (default latest)",
    )
    parser.add_argument("--inputs", nargs="+", metavar="X.npy", help="one file an argument")
    parser.add_argument("--outputs", nargs="+", metavar="Y.npy", help="one file a result")
    parser.add_argument("--seed", type=_seed, default=0, help="of random inputs (default 0)")
    parser.add_argument(
        "--scale",
        type=_scales,
        metavar="S[,S...]",
        help="standard deviation of random inputs, for all or one an input (default 1; with "
        "--check less where the µGraph overflows)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare with the µGraph evaluated in float64, and on a GPU also three runs with each "
        "other; exit code 1 if they differ",
    )
    parser.add_argument(
        "--each-kernel",
        action="store_true",
        help="run and check each kernel of a program alone, after --fuse-kernels for instance: "
        "which of them is wrong",
    )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        help="largest relative error, in the Frobenius norm (default: by the coarsest "
        "floating-point type that is rounded to, 2e-3 for f16; to integers and f8 float64 is "
        "rounded as well, and what that makes of rounding errors is derived)",
    )
    parser.add_argument("--time", action="store_true", help="print how long one call takes")
    parser.add_argument(
        "--fast-math",
        action="store_true",
        help="with --backend=cuda: compile with -use_fast_math, which rounds and divides less "
        "exactly and takes small numbers for 0",
    )
    add_size_argument(parser, of_call=True)
    parser.add_argument(
        "--arch", help="compile for this architecture or GPU, such as h100 (default: this one)"
    )
    return parser


def _main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    context = make_context()
    is_te = options.input_file.endswith(".te")
    module = read_module(options.input_file, context, options.size if is_te else (), of_call=True)
    with reported_within(module):
        if options.each_kernel:
            return _run_each_kernel(module, context, options)
        return _run(module, context, options)


def _run_each_kernel(module: ModuleOp, context: Context, options: argparse.Namespace) -> int:
    """Checks the kernels of a program one after another; 1 if one of them is wrong."""
    if options.inputs is not None or options.outputs is not None or options.size:
        raise ToolError("--each-kernel draws inputs; leave out --inputs, --outputs and --size.")
    options.check = True
    wrong = 0
    for kernel in kernels_alone(only_function(module)):
        times = "" if kernel.times == 1 else f", {kernel.times} times"
        print(f"{place_of(kernel.operator)}: {op_label(kernel.operator)}{times}")
        wrong += _run(kernel.module, context, options)
    return 1 if wrong else 0


def _run(module: ModuleOp, context: Context, options: argparse.Namespace) -> int:
    function = only_function(module)
    given = parse_sizes(options.size, least=0)
    if options.input_file.endswith(".te"):
        given = {name: size for name, size in given.items() if name in named_extents(function)}
    sizes = sizes_for(function, given)
    result_count = len(result_types(function))
    if options.outputs is not None and len(options.outputs) != result_count:
        raise ToolError(
            f"--outputs has {len(options.outputs)} files, but @{function.sym_name.data} has "
            f"{result_count} results."
        )
    if options.inputs is not None:
        inputs = read_inputs(function, options.inputs, sizes)
    else:
        inputs = random_inputs(function, options.scale or [1.0], options.seed, sizes=sizes)

    by_address = options.level == "address"
    is_default = (options.blocks, options.order, options.landing) == (None, TOGETHER, "latest")
    if not is_default and not by_address:
        raise ToolError("--blocks, --order and --landing need --level=address.")
    if options.fast_math and options.backend != "cuda":
        raise ToolError("--fast-math is for generated CUDA; add --backend=cuda.")
    if options.arch is not None and options.backend != "cuda":
        raise ToolError("--arch is for generated CUDA; add --backend=cuda.")
    if by_address and options.backend == "cuda":
        raise ToolError("--level=address is of the interpreter; leave out --backend=cuda.")

    if is_per_device(function) and (by_address or options.backend == "cuda"):
        raise ToolError(
            f"@{function.sym_name.data} is the program of each of several devices; mg-run runs "
            "them side by side at level 'logical' of the interpreter, mugraph.compile on GPUs."
        )

    name = function.sym_name.data
    succeeded = True
    written: Sequence[npt.NDArray[np.bool_]] | None = None
    loaded: CudaModule | None = None
    arch = ""
    if options.backend == "cuda":
        # The passes change the module, and the check is against what the user wrote.
        loaded, arch = _load_on_gpu(
            module.clone(), context, options.arch, fast_math=options.fast_math
        )

    def run(inputs: Sequence[Array]) -> list[Array]:
        nonlocal succeeded, written
        if loaded is not None:
            outputs, difference = _run_repeatedly(loaded, inputs)
            if options.check:
                succeeded = succeeded and not difference
                print(f"check: {REPEATS} runs: {difference or 'the same bits'}")
            return outputs
        if by_address:
            execution = _run_by_address(module, name, inputs, options)
            written = execution.written
            return execution.outputs
        with _said_when_long(f"@{name} on {', '.join(dims(one.shape) for one in inputs)}"):
            return run_function(module, name, inputs)

    start = time.perf_counter()
    outputs = run(inputs)
    if options.time and loaded is not None:
        timing = loaded.time(inputs)
        print(
            f"time: {timing.median:.2f} µs a call on {arch} (median of {len(timing.samples)} "
            f"samples from {min(timing.samples):.2f} to {max(timing.samples):.2f}; tensors not "
            "in the L2 cache)"
        )
    elif options.time:
        print(f"time: {time.perf_counter() - start:.3f} s in the interpreter")

    if options.check:
        if not is_finite(outputs, written) and overflows(module, name, inputs):
            found = largest_inputs(module, function, options.seed, sizes)
            is_random = options.inputs is None and options.scale is None
            size = "at all sizes" if found is None else f"but not with {found[0]}"
            print(
                f"check: the µGraph itself overflows, or is undefined, with these inputs, {size}"
                + (", which is checked" if found is not None and is_random else "")
            )
            if found is not None and is_random:
                inputs = found[1]
                outputs = run(inputs)
        with _said_when_long(f"the reference of @{name} in float64"):
            reference = make_reference(module, name, inputs)
        right = _check(outputs, reference, options.tolerance, written)
        if not right and options.tolerance is None:
            _say_own_rounding(run_function(module, name, inputs), reference)
        succeeded = succeeded and right
    if options.outputs is not None:
        write_outputs(options.outputs, outputs)
    elif not (options.check or options.time):
        for index, output in enumerate(outputs):
            print(f"output {index}, {dims(output.shape)} {output.dtype}:\n{output}")
    return 0 if succeeded else 1


def main() -> int:
    """The ``mg-run`` command; returns its exit code."""
    return run_tool("mg-run", lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
