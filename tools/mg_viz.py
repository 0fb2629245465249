"""mg-viz: pictures of layouts, atoms, swizzles, bank conflicts, memory and schedules.

::

    mg-viz layout '(4,(2,2)):(2,(1,8))' -o layout.svg
    mg-viz tv '((4,8),(2,2)):((32,1),(16,8))' '(16,8)' -o tv.svg
    mg-viz mma SM80_16x8x16_F32F16F16F32_TN -o mma.svg
    mg-viz copy SM75_U32x4_LDSM_N -o copy.tex
    mg-viz swizzle 'S<3,3,3> o (8,64):(64,1)' -o swizzle.svg
    mg-viz banks 'S<3,3,3> o (8,64):(64,1)' '(8,8):(1,8)' -o banks.svg
    mg-viz memory examples/rmsnorm_linear.mlir -o plan.svg
    mg-viz schedule examples/rmsnorm_linear.mlir -o schedule.svg
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from types import NoneType
from typing import Any

from mugraph.dialects.cute import pictures
from mugraph.dialects.cute.atoms import copy_atom, mma_atom, umma_atom
from mugraph.dialects.cute.errors import LayoutError, NotationError
from mugraph.dialects.cute.int_tuple import flatten, is_tuple, product_each, size
from mugraph.dialects.cute.layout import is_layout
from mugraph.dialects.cute.pictures import Picture
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tiled import TiledMma, make_tiled_copy
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.tools.diagnostics import ArgumentParser, run_tool
from mugraph.tools.mg_layout import evaluate


def _layout(text: str) -> Any:
    """A layout from its notation or from an expression of mg-layout."""
    value = evaluate(text)
    if isinstance(value, int) or (is_tuple(value) and all(isinstance(i, int) for i in value)):
        from mugraph.dialects.cute import Layout

        return Layout(value)
    if not (is_layout(value) or isinstance(value, ComposedLayout)):
        raise NotationError("Expected a layout", text, 0)
    return value


def _plain(text: str) -> Any:
    value = _layout(text)
    if not is_layout(value):
        raise NotationError("Expected a layout without a swizzle", text, 0)
    return value


def _shape(text: str) -> tuple[int, ...]:
    """A flat tuple of extents from its notation."""
    value = evaluate(text)
    if isinstance(value, int):
        value = (value,)
    if not is_tuple(value) or not all(isinstance(i, int) and i > 0 for i in flatten(value)):
        raise NotationError("Expected extents such as '(16,8)'", text, 0)
    return product_each(value)


def _permutation(text: str) -> tuple[Any, ...]:
    """A permutation of M, N and K from its notation."""
    value = evaluate(text)
    if not is_tuple(value) or not all(
        is_layout(part) or isinstance(part, (int, NoneType)) for part in value
    ):
        raise NotationError("Expected a permutation such as '<(8,2):(2,1),_,_>'", text, 0)
    return value


def _layout_command(options: argparse.Namespace) -> Picture:
    return pictures.layout_picture(_layout(options.layout), options.color, options.bits)


def _tv_command(options: argparse.Namespace) -> Picture:
    extents = _shape(options.tile)
    shape = (extents[0], size(extents[1:])) if len(extents) > 1 else (1, size(extents))
    return pictures.tv_picture(_plain(options.layout), shape)


def _mma_command(options: argparse.Namespace) -> Picture:
    permutation = _permutation(options.permutation) if options.permutation else ()
    is_umma = options.atom.startswith("SM100")
    atom = umma_atom(options.atom) if is_umma else mma_atom(options.atom)
    mma = TiledMma(atom, _shape(options.atoms), permutation)
    return pictures.mma_picture(mma)


def _copy_command(options: argparse.Namespace) -> Picture:
    if options.threads:
        values = _plain(options.values or "1")
        tiled = make_tiled_copy(options.atom, options.bits, _plain(options.threads), values)
        return pictures.tiled_copy_picture(tiled)
    return pictures.copy_picture(copy_atom(options.atom), options.bits)


def _swizzle_command(options: argparse.Namespace) -> Picture:
    layout = _layout(options.layout)
    if not isinstance(layout, ComposedLayout):
        raise NotationError("Expected a swizzled layout, 'S<3,3,3> o ...'", options.layout, 0)
    return pictures.swizzle_picture(layout, options.bits)


def _banks_command(options: argparse.Namespace) -> Picture:
    return pictures.banks_picture(_layout(options.layout), _plain(options.access), options.bits)


class _ModulePicture:
    """Pictures of a module's kernels; drawn as SVG only."""

    def __init__(self, what: str, svg: str) -> None:
        self.what = what
        self.svg = svg

    def to_svg(self) -> str:
        """The picture as an SVG document."""
        return self.svg

    def to_latex(self) -> str:
        """Raises LayoutError."""
        raise LayoutError(f"{self.what} are drawn as SVG only: give a file that ends in .svg.")


def _memory_command(options: argparse.Namespace) -> _ModulePicture:
    from mugraph.tools.memory_picture import memory_charts, to_svg
    from mugraph.tools.memory_plans import planned_module, shared_memory_limit

    module = planned_module(options.input, options.arch)
    charts = memory_charts(module, shared_memory_limit(options.arch))
    return _ModulePicture("Memory plans", to_svg(charts))


def _schedule_command(options: argparse.Namespace) -> _ModulePicture:
    from mugraph.tools.memory_plans import kernels_of, planned_module
    from mugraph.tools.schedule_chart import schedule_chart
    from mugraph.tools.schedule_picture import to_svg

    kernels = kernels_of(planned_module(options.input, options.arch), options.kernel)
    return _ModulePicture("Schedules", to_svg([schedule_chart(kernel) for kernel in kernels]))


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="mg-viz",
        description="Pictures of CuTe layouts. Wherever a layout is asked for, an expression of "
        "mg-layout will do.",
    )
    commands = parser.add_subparsers(required=True, metavar="KIND")

    def command(name: str, function: Any, help_text: str) -> argparse.ArgumentParser:
        result = commands.add_parser(name, help=help_text, description=help_text)
        result.add_argument("-o", "--output", help="a file .svg or .tex; without it, SVG to stdout")
        result.set_defaults(function=function)
        return result

    def bits(result: argparse.ArgumentParser) -> None:
        result.add_argument("--bits", type=int, default=16, help="bits of an element (16)")

    result = command("layout", _layout_command, "the grid of a layout's indices")
    result.add_argument("layout")
    result.add_argument(
        "--color",
        choices=("run", "bank", "thread", "none"),
        default="run",
        help="by run of 8 indices, by bank, or by thread (the index)",
    )
    bits(result)
    result = command("tv", _tv_command, "the table of a thread-value layout over a tile")
    result.add_argument("layout", help="from (thread, value) to the tile's 1-D coordinate")
    result.add_argument("tile", help="the tile's shape, such as '(16,8)'")
    result = command("mma", _mma_command, "the operands of an MMA atom or a tiled MMA")
    result.add_argument("atom", help="such as SM80_16x8x16_F32F16F16F32_TN")
    result.add_argument("--atoms", default="(1,1,1)", help="atoms along M, N, K: '(2,2,1)'")
    result.add_argument("--permutation", help="of M, N, K: '<(8,2,2):(2,1,16),_,_>'")
    result = command("copy", _copy_command, "what the threads of a copy read and write")
    result.add_argument("atom", help="such as SM75_U32x4_LDSM_N")
    result.add_argument("--threads", help="a tiled copy: from (M,N) to threads, '(16,8):(8,1)'")
    result.add_argument("--values", help="from (M,N) to the values of a thread, '(1,8)'")
    bits(result)
    result = command("swizzle", _swizzle_command, "a layout before and after its swizzle")
    result.add_argument("layout")
    bits(result)
    result = command("banks", _banks_command, "the bank conflicts of a warp's access")
    result.add_argument("layout")
    result.add_argument("access", help="from (lane, value) to the layout's 1-D coordinate")
    bits(result)
    result = command("memory", _memory_command, "the memory plans of a module's kernels")
    result.add_argument("input", help="a .mlir file at any stage; what is missing is planned")
    result.add_argument("--arch", default=DEFAULT_TARGET, help=f"the GPU ({DEFAULT_TARGET})")
    result = command("schedule", _schedule_command, "what a module's kernels do in time")
    result.add_argument("input", help="a .mlir file at any stage; it is scheduled first")
    result.add_argument("--arch", default=DEFAULT_TARGET, help=f"the GPU ({DEFAULT_TARGET})")
    result.add_argument("--kernel", help="one kernel only, by its name")
    return parser


def _write(picture: Picture | _ModulePicture, output: str | None) -> None:
    if output is None:
        print(picture.to_svg())
        return
    path = Path(output)
    if path.suffix not in (".svg", ".tex"):
        raise LayoutError(f"{output}: the file must end in .svg or .tex.")
    path.write_text(picture.to_latex() if path.suffix == ".tex" else picture.to_svg())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 if the picture was drawn, 1 if not."""
    return run_tool("mg-viz", lambda: _run(_parser().parse_args(arguments)))


def _run(options: argparse.Namespace) -> int:
    try:
        if getattr(options, "bits", 1) < 1:
            raise LayoutError(f"The bits of an element must be at least 1, not {options.bits}.")
        _write(options.function(options), options.output)
    except LayoutError as error:
        print(f"mg-viz: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
