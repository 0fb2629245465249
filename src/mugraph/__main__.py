"""``python -m mugraph``: where the headers are, and fetching those of CUTLASS."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence

import mugraph
from mugraph.errors import UserError
from mugraph.runtime import toolchain


def print_includes() -> None:
    """Print the include options of a compiler on one line, and on stderr what was not found."""
    paths = list(toolchain.runtime_include_paths())
    try:
        paths.append(toolchain.find_cutlass())
    except toolchain.ToolchainError as error:
        print(f"mugraph: warning: {error}", file=sys.stderr)
    try:
        found = toolchain.cuda_include_paths()
    except toolchain.ToolchainError as error:
        print(f"mugraph: warning: {error}", file=sys.stderr)
    else:
        paths += found
    print(" ".join(shlex.quote(f"-I{path}") for path in paths))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m mugraph", description=mugraph.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--version", action="version", version=f"mugraph {mugraph.__version__}")
    parser.add_argument(
        "--includes", action="store_true", help="print the include options of a compiler"
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser(
        "fetch-cutlass",
        help=f"download the headers of CUTLASS {toolchain.CUTLASS_VERSION} into the cache",
    )
    options = parser.parse_args(arguments)
    if options.command == "fetch-cutlass":
        print(toolchain.fetch_cutlass())
    elif options.includes:
        print_includes()
    else:
        parser.print_help()
    return 0


def run() -> int:
    """The command with an error as one message on stderr."""
    try:
        return main()
    except UserError as error:
        print(f"mugraph: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(run())
