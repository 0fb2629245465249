"""``mg-tune``: measures plans of kernels, or sizes of a `.te` file, on this machine's GPU."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mugraph.errors import first_line
from mugraph.tools.diagnostics import ArgumentParser, ToolError, add_size_argument, run_tool

if TYPE_CHECKING:
    from mugraph.tune.sizes import SizedProgram


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="mg-tune",
        description="Measures plans of each kernel of a program on this machine's GPU, and keeps "
        "the fastest in a plan database, for mugraph.compile(graph, tune=True) and --use-plans; of "
        "a .te file finds the sizes at which it is the fastest.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "input", help="the program or µGraph as MLIR text (- is stdin), or a .te file"
    )
    add_size_argument(parser)
    parser.add_argument(
        "--try",
        dest="tried",
        action="append",
        default=[],
        metavar="TM=64,128",
        help="values of a size of a .te file that are tried, once for each size",
    )
    parser.add_argument(
        "--arch", default="native", help="the architecture or GPU to plan for (default: native)"
    )
    parser.add_argument(
        "--plans",
        type=Path,
        metavar="FILE",
        help="the database (default: MUGRAPH_PLANS, or a file in mugraph's cache)",
    )
    parser.add_argument(
        "--candidates", type=int, metavar="N", help="plans to begin with (default: 48)"
    )
    parser.add_argument(
        "--limit",
        type=float,
        metavar="SECONDS",
        help="how long the search for a kernel takes, about (default: 60)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="builds at a time (default: cores)",
    )
    parser.add_argument("--again", action="store_true", help="also kernels that the file knows")
    parser.add_argument(
        "--no-fuse",
        dest="fuse",
        action="store_false",
        help="leave operators that are not in a custom kernel as they are written",
    )
    parser.add_argument(
        "--list", action="store_true", help="print kernels and candidates, and measure nothing"
    )
    return parser


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ToolError(sentence)


def _main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    count, limit = options.candidates, options.limit
    _require(count is None or count >= 1, f"--candidates {count} must be at least 1.")
    _require(options.jobs >= 1, f"--jobs {options.jobs} must be at least 1.")
    _require(limit is None or limit > 0, f"--limit {limit} must be more than 0 seconds.")
    is_te = options.input.endswith(".te")
    _require(
        is_te or not (options.size or options.tried), "--size and --try are of sizes of a .te file."
    )
    # After the arguments are known to be right: the dialects take a while to load.
    from mugraph.codegen.architecture import choose_architecture
    from mugraph.dialects.locations import reported_within
    from mugraph.passes.mugraph.known_plans.database import plan_text
    from mugraph.passes.targets import DEFAULT_TARGET, default_targets, target_named
    from mugraph.reading import make_context, read_module
    from mugraph.runtime.toolchain import device_architecture
    from mugraph.tune import (
        CANDIDATES,
        SECONDS,
        Options,
        database_path,
        gpu_here,
        tunable_kernels,
        tune_program,
    )
    from mugraph.tune.sizes import tune_sizes

    count = count or CANDIDATES
    device, gpu = device_architecture(), gpu_here()
    arch = options.arch
    if arch == "native":
        native = None if device is None else choose_architecture(device, [*default_targets()])
        arch = native or DEFAULT_TARGET
    target = target_named(arch)
    path = options.plans or database_path()
    settings = Options(path, gpu or "", count, limit or SECONDS, options.jobs, options.again)
    if is_te:
        program = _sized_program(options, arch)
        if options.list:
            _list_sizes(program, count)
            return 0
        _require_gpu(target.arch, device)
        outcome = tune_sizes(program, settings)
        print(f"{options.input}: {outcome.before:.2f} -> {outcome.microseconds:.2f} µs")
        if outcome.plan.values:
            print(f"--size {outcome.plan}")
        return 0
    context = make_context()
    module = read_module(options.input, context)
    with reported_within(module):
        kernels, left = tunable_kernels(module, context, arch, fuse=options.fuse)
    if options.list:
        for sentence in left:
            print(sentence, file=sys.stderr)
        if not kernels:
            print("no kernel of the program has a plan: there is nothing to tune.", file=sys.stderr)
        for kernel in kernels:
            print(f"{kernel.name} {kernel.structure}")
            for plan in kernel.candidates(count):
                print(f"    plan <{plan_text(plan)}>")
        return 0
    _require_gpu(target.arch, device)
    with reported_within(module):
        tuned = tune_program(module, context, arch, settings, fuse=options.fuse)
    for entry in tuned:
        print(f"{entry.kernel}: {entry.before:.2f} -> {entry.microseconds:.2f} µs")
    if not kernels:
        print("the program has no kernel whose plan can be tuned.", file=sys.stderr)
    return 0 if len(tuned) == len(kernels) else 1


def _sized_program(options: argparse.Namespace, target: str) -> SizedProgram:
    """The program of a .te file and what is tried; it is read at the sizes that it has."""
    from mugraph.reading import parse_sizes
    from mugraph.reading.modules import read_text
    from mugraph.texpr.open_sizes import open_sizes
    from mugraph.texpr.read import choose_sizes
    from mugraph.tune.sizes import SizedProgram, tried_values
    from mugraph.tune.workbench import Sizes

    given, text = parse_sizes(options.size), read_text(options.input)
    name = os.path.basename(options.input)
    values = open_sizes(text, name, given)
    tried = {**values, **tried_values(options.tried)}
    _require(
        bool(tried),
        "a .te file has no plans: say values of its sizes that are to be tried, --try TM=64,128, "
        "or in its text, size TM = 64 | 128.",
    )
    if options.list:
        given |= {size: several[0] for size, several in values.items()}
    elif values:
        given |= choose_sizes(text, name, given, values, target)
    program = SizedProgram(text, name, target, (*given.items(),), (*tried.items(),))
    program.module(Sizes())
    if options.tried:
        program.module(program.candidates(1)[0])
    return program


def _list_sizes(program: SizedProgram, count: int) -> None:
    """Prints the sizes that would be tried, the fastest by estimate first, and their estimates."""
    from mugraph.texpr.open_sizes import in_order

    found, refused = in_order(program.candidates(count), program.estimate)
    for sizes, problem in refused:
        print(f"{sizes}: {first_line(problem)}", file=sys.stderr)
    for estimate in found:
        print(estimate)


def _require_gpu(arch: str, device: str | None) -> None:
    """Raises ``ToolError`` where what is compiled for an architecture cannot run here."""
    from mugraph.codegen.architecture import Architecture
    from mugraph.runtime.toolchain import find_toolchain

    if device is None:
        raise ToolError(
            "mg-tune measures on an NVIDIA GPU, and there is none here; --list shows what it would "
            "measure."
        )
    _require(
        Architecture(arch).runs_on(Architecture(device)),
        f"code for {arch} does not run on the GPU of this machine, which is {device}.",
    )
    find_toolchain()  # what is missing is said before the passes run


def main() -> int:
    """The ``mg-tune`` command; returns its exit code."""
    return run_tool("mg-tune", lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
