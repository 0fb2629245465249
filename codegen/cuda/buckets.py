"""Which bucket of a function with named extents a call takes."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp

from mugraph.codegen.cuda.cpp import Writer
from mugraph.codegen.cuda.execute import EXECUTE, execute_head
from mugraph.dialects.named_extents import argument_names, named_extents


def extent_checks(function: FuncOp, places: Mapping[str, str]) -> list[str]:
    """What a call does first with the values of extents, which ``places`` point to.

    It reads each as ``extent_NAME``, and returns where one is 0 that is no bound.
    """
    extents = named_extents(function)
    lines = [f"int64_t const extent_{name} = *(int64_t const*){at};" for name, at in places.items()]
    lines += [
        f'mugraph::check_extent("{name}", extent_{name}, {extents[name].largest}, '
        f"{extents[name].multiple});"
        for name in places
    ]
    empty = " || ".join(f"extent_{name} == 0" for name in places if extents[name].held is None)
    return [*lines, f"if ({empty}) return;"] if empty else lines


def print_choice(buckets: Mapping[str, FuncOp], writer: Writer) -> None:
    """Prints the function that calls the first bucket which holds the values of a call.

    ``buckets`` has the C++ function of each, small ones first; the last has the largest values.
    """
    *_, whole = buckets.values()
    writer.line()
    writer.open(execute_head(EXECUTE))
    places = {
        argument_names(whole, index)[0]: f"input_tensors.at({index})"
        for index, argument in enumerate(whole.args)
        if isinstance(argument.type, IndexType)
    }
    variables = {name: f"extent_{name}" for name in places}
    writer.lines(extent_checks(whole, places))
    for function, bucket in buckets.items():
        extents = named_extents(bucket)
        holds = [f"{variables[name]} <= {extent.largest}" for name, extent in extents.items()]
        writer.line(
            f"if ({' && '.join(holds)}) return {function}(input_tensors, output_tensors, buf, "
            "stream);"
        )
    writer.close()
