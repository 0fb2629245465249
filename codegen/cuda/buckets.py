"""Which bucket of a function with named extents a call takes."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp

from mugraph.codegen.cuda.cpp import Writer
from mugraph.codegen.cuda.host import EXECUTE, execute_head
from mugraph.dialects.named_extents import argument_names, named_extents


def print_choice(buckets: Mapping[str, FuncOp], writer: Writer) -> None:
    """Prints the function that calls the first bucket which holds the values of a call.

    ``buckets`` has the C++ function of each, small ones first; the last has the largest values.
    """
    *_, whole = buckets.values()
    largest = named_extents(whole)
    writer.line()
    writer.open(execute_head(EXECUTE))
    variables: dict[str, str] = {}
    for index, argument in enumerate(whole.args):
        if isinstance(argument.type, IndexType):
            (name,) = argument_names(whole, index)
            variables[name] = f"extent_{name}"
            writer.line(
                f"int64_t const extent_{name} = *(int64_t const*)input_tensors.at({index});"
            )
    for name, variable in variables.items():
        extent = largest[name]
        writer.line(
            f'mugraph::check_extent("{name}", {variable}, {extent.largest}, {extent.multiple});'
        )
    writer.line(f"if ({' || '.join(f'{each} == 0' for each in variables.values())}) return;")
    for function, bucket in buckets.items():
        extents = named_extents(bucket)
        holds = [f"{variables[name]} <= {extent.largest}" for name, extent in extents.items()]
        writer.line(
            f"if ({' && '.join(holds)}) return {function}(input_tensors, output_tensors, buf, "
            "stream);"
        )
    writer.close()
