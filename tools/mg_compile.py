"""``mg-compile``: a µGraph ahead of time into a C header, libraries and packages."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects.locations import reported_within
from mugraph.reading import (
    make_context,
    parse_text,
    read_module,
    read_text,
    refuse_sizes,
)
from mugraph.tools.diagnostics import ArgumentParser, ToolError, add_size_argument, run_tool


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="mg-compile",
        description="Compiles a µGraph into a C header, a static and a shared library with code "
        "for each architecture, a CMake package, a pkg-config file and a manifest.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "input",
        help="the µGraph as MLIR text (- is stdin), a .te file, or a model that torch.export.save "
        "wrote (.pt2)",
    )
    add_size_argument(parser)
    parser.add_argument(
        "--arch",
        default="sm_90a",
        metavar="A[,B]",
        help="architectures or GPUs, such as sm_80,h100 (default: sm_90a)",
    )
    parser.add_argument("--name", help="starts every name of the interface (default: the function)")
    parser.add_argument(
        "-o", "--output", required=True, type=Path, metavar="FOLDER", help="write into this folder"
    )
    parser.add_argument(
        "--nvcc-flag", action="append", default=[], metavar="FLAG", help="a further option of nvcc"
    )
    parser.add_argument(
        "--no-fuse",
        dest="fuse",
        action="store_false",
        help="leave operators that are not in a custom kernel as they are written",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="of a program on several devices of one host: they read one another's memory, whose "
        "addresses a call takes, and need no NCCL",
    )
    parser.add_argument(
        "--no-weights",
        dest="weights",
        action="store_false",
        help="of a model: write no file of its weights; the library reads those of a checkpoint",
    )
    parser.add_argument(
        "--sources-only", action="store_true", help="write the texts and compile nothing"
    )
    return parser


def _read(
    path: str, sizes: Sequence[str], name: str | None, context: Context
) -> tuple[ModuleOp, str, Any]:
    """The module of an input, the text that it is known by, and its model where it is one."""
    if path.endswith(".te"):
        text = read_text(path) + "".join(f"-- --size {size}\n" for size in sizes)
        return read_module(path, context, sizes), text, None
    refuse_sizes(sizes)
    if path.endswith(".pt2"):
        exported = import_module("mugraph.torch.exported")
        model = exported.read_exported(Path(path), name or Path(path).stem)
        return model.module, str(model.module), model
    text = read_text(path)
    return parse_text(context, text, "stdin" if path == "-" else path), text, None


def _main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    architectures = [arch.strip() for arch in options.arch.split(",") if arch.strip()]
    if not architectures:
        raise ToolError("--arch names no architecture; expected for instance sm_80,sm_90a.")
    if options.output.exists() and not options.output.is_dir():
        raise ToolError(f"cannot write into {options.output}: it is not a folder.")

    # After the arguments are known to be right: the dialects take a while to load.
    from mugraph.passes.targets import target_named
    from mugraph.runtime.ahead_of_time import build, write_sources
    from mugraph.runtime.library_sources import generate_sources

    for arch in architectures:
        target_named(arch)
    context = make_context()
    module, text, model = _read(options.input, options.size, options.name, context)
    with reported_within(module):
        module.verify()
        sources = generate_sources(
            *(module, context, architectures, options.name),
            fuse=options.fuse,
            peers=options.peers,
        )
    if options.sources_only:
        written = write_sources(sources, options.output)
    else:
        written = build(sources, options.output, text, flags=options.nvcc_flag)
    if model is not None:
        folder = options.output / "share" / sources.interface.name
        written += model.save(folder, weights=options.weights)
    for path in written:
        print(path)
    return 0


def main() -> int:
    """The ``mg-compile`` command; returns its exit code."""
    return run_tool("mg-compile", lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
