"""``mg-translate``: reads other programs' formats as µGraph IR, and writes them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mugraph.reading import read_text
from mugraph.tools.diagnostics import ArgumentParser, ToolError, atomic_output, run_tool

if TYPE_CHECKING:
    from mugraph.dialects.sharding import Mesh


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="mg-translate",
        description="Reads another program's format and prints it as µGraph IR, or the reverse.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--import-mirage",
        metavar="FILE",
        help="read a Mirage µGraph or a list of them, as JSON (- is stdin)",
    )
    parser.add_argument(
        "--export-mirage",
        metavar="FILE",
        help="read a µGraph as text and print Mirage's JSON of it (- is stdin)",
    )
    parser.add_argument(
        "--index", type=int, metavar="N", help="which graph of a list, counted from 0"
    )
    parser.add_argument(
        "--generation",
        type=int,
        choices=(1, 2, 3),
        help="the file's generation, where its data types do not tell, or the one to write "
        "(default 3): 1 was written until February 2025, 2 until June 2025, 3 since",
    )
    parser.add_argument(
        "--mesh",
        metavar="N",
        help="how many GPUs an imported graph is for, such as 4 or 2x2: Mirage does not write it",
    )
    parser.add_argument("-o", "--output-file", metavar="FILE", help="write here, not to stdout")
    return parser


def _main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    path: str | None = options.import_mirage
    if options.export_mirage is not None:
        if path is not None or options.index is not None or options.mesh is not None:
            raise ToolError("--export-mirage goes with none of --import-mirage, --index, --mesh.")
        _write(_export(options.export_mirage, options.generation), options.output_file)
        return 0
    if path is None:
        raise ToolError("nothing to translate: give --import-mirage FILE or --export-mirage FILE.")

    # After the arguments are known to be right: the dialects take a while to load.
    from mugraph.tools.import_mirage import import_mirage

    name = "<stdin>" if path == "-" else path
    symbol = "mugraph" if path == "-" else os.path.splitext(os.path.basename(path))[0]
    text = read_text(path)
    module, notes = import_mirage(
        text,
        options.index,
        options.generation,
        file_name=name,
        symbol=symbol,
        mesh=None if options.mesh is None else _mesh(options.mesh),
    )
    for note in notes:
        print(f"mg-translate: note: {note}", file=sys.stderr)
    _write(str(module) + "\n", options.output_file)
    return 0


def _mesh(given: str) -> Mesh:
    """The GPUs that are given as numbers with an x between them."""
    from mugraph.dialects.sharding import Mesh

    extents = given.split("x")
    if len(extents) > 3 or not all(each.isdecimal() and int(each) > 0 for each in extents):
        raise ToolError(f"--mesh {given} is no number of GPUs; write 4, or 2x2 for two axes.")
    return Mesh(tuple(map(int, extents)))


def _export(path: str, generation: int | None) -> str:
    """The JSON text of the µGraph in a file."""
    from mugraph.reading import make_context
    from mugraph.tools.export_mirage import export_mirage, write_mirage
    from mugraph.tools.import_mirage.generations import LATEST
    from mugraph.tools.mugraph_files import read_mugraphs

    module = read_mugraphs(path, make_context(), "Mirage's format has µGraphs.")
    return write_mirage(export_mirage(module, generation or LATEST))


def _write(text: str, path: str | None) -> None:
    if path in (None, "-"):
        sys.stdout.write(text)
    else:
        with atomic_output(path) as stream:
            stream.write(text)


def main() -> int:
    """The ``mg-translate`` command; returns its exit code."""
    return run_tool("mg-translate", lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
