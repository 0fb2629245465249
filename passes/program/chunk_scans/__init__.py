"""``--chunk-scans``: scans become products of matrices within chunks."""

from __future__ import annotations

import math

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce

from mugraph.dialects import kn
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.kn.composite import Expansion
from mugraph.dialects.kn.customized import match_arguments
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    op_label,
    shape_of,
)
from mugraph.passes.each import FunctionPass
from mugraph.passes.program.chunk_scans.analysis import (
    CHUNK,
    NotCutError,
    Recurrence,
    Scan,
    recurrence_of,
    scans_of,
)
from mugraph.passes.program.chunk_scans.delta_rule import DeltaRuleWriter
from mugraph.passes.program.chunk_scans.rewrite import ChunkWriter


def _numbers(function: FuncOp, found: Recurrence) -> SSAValue:
    """An argument that gives a matrix of constants its extents."""
    for argument in function.args:
        plain = layout_of(argument.type) is None and not is_integer(element_type_of(argument.type))
        if plain and math.prod(shape_of(argument.type)) >= found.chunk:
            return argument
    raise NotCutError(
        f"no argument is as large as a chunk of {op_label(found.scan)}, {found.chunk} elements"
    )


def chunk_scans(function: FuncOp, kind: type[Scan] | None = None, wanted: int = CHUNK) -> list[str]:
    """Writes the scans of a function in chunks of ``wanted`` elements, or about as many.

    Returns why others stay sequential.
    """
    reasons: list[str] = []
    scans = scans_of([*function.body.block.ops], kind)
    if any(isinstance(scan, kn.RecurrenceOp) for scan in scans):
        cse(function.body)  # so that keys are the same value wherever they are written
    for scan in scans:
        try:
            found = recurrence_of(scan, wanted)
            numbers = _numbers(function, found)
        except NotCutError as error:
            reasons.append(str(error))
            continue
        parts = Expansion()
        writer = ChunkWriter if found.removed is None else DeltaRuleWriter
        result = writer(found, parts, numbers).write()
        result.name_hint = found.last.results[0].name_hint
        Rewriter.replace_op(found.last, parts.operations, [result])
        match_arguments(result)
    region_dce(function.body)
    function.update_function_type()
    return reasons


class ChunkScansPass(FunctionPass):
    """Cuts ``kn.scan`` into chunks: matrix products within chunks, and a scan over chunks.

    Take h_t = a_t h_(t-1) + x_t. Within a chunk, h is the product of x with the triangular matrix
    of the decays between elements, exp(G_i - G_j), where G are the prefix sums of the logarithms of
    the decays. The state before each chunk is a scan over the sums of chunks. If h is used only in
    a sum over one dimension, and x is a product of a factor with that dimension and one without it,
    the sums are exchanged and h is never stored: this is linear attention in its chunked form.

    A scan stays unchanged if its decays are not known to be positive, if its runs do not share
    decays, or if its extent does not divide into equal chunks. Logarithms of decays must be finite.

    Before::

        %h = kn.scan %x decay %a dim 1 : (tensor<2x128x64xf16>, tensor<2x128x1xf32>)
            -> tensor<2x128x64xf32>

    After::

        %inside = kn.matmul %between, %x_chunks : (tensor<2x2x64x64xf16>, tensor<2x2x64x64xf16>)
            -> tensor<2x2x64x64xf32>
        %before = kn.scan %left decay %of_chunk exclusive dim 1
            : (tensor<2x2x1x64xf32>, tensor<2x2x1x1xf32>) -> tensor<2x2x1x64xf32>
        %later = kn.mul %before, %up_to_each : (tensor<2x2x1x64xf32>, tensor<2x2x64x1xf32>) -> ...
        %y = kn.add %inside, %later : ...
    """

    name = "chunk-scans"

    def run(self, function: FuncOp) -> None:
        """Cuts in a µGraph."""
        chunk_scans(function)


__all__ = ["ChunkScansPass", "chunk_scans"]
