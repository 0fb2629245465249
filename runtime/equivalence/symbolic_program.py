"""What the elements of a µGraph's results are, as normal forms in the elements of its inputs.

Symbolic execution of ``kn`` and ``tb``: a value is a normal form of one element, whose place is a
free variable for each digit of each dimension.  Grids, loops and tiles add variables; nothing
depends on how large extents are.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import (
    op_label,
    shape_of,
)
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.functions import (
    candidates,
    largest,
)
from mugraph.runtime.equivalence.scans import scanned
from mugraph.runtime.equivalence.symbolic import (
    ThreadblockExecution,
    require_one_length,
)
from mugraph.runtime.equivalence.symbolic_views import concatenated, seen_as, seen_through
from mugraph.runtime.equivalence.tensors import Symbolic, SymbolicTensor

LARGEST, LARGEST_PLACE = "largest of a run", "place of the largest"
"""The functions that give the largest elements of a run, and their places."""


def results_of(function: FuncOp, symbolic: Symbolic) -> list[SymbolicTensor]:
    """The results of a function; raises ``NoProofError`` at an operator without a normal form."""
    arguments = [
        symbolic.input(number, shape_of(argument.type))
        for number, argument in enumerate(function.args)
    ]
    return _results(function.body.block, arguments, symbolic)


def _results(
    block: Block, arguments: Sequence[SymbolicTensor], symbolic: Symbolic
) -> list[SymbolicTensor]:
    values: dict[SSAValue, SymbolicTensor] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[operand] for operand in op.operands]
        match op:
            case ReturnOp():
                return operands
            case kn.CustomizedOp():
                results = ThreadblockExecution(symbolic, op, operands).run()
            case kn.ElementwiseOp():
                shape = shape_of(op.result.type)
                results = [symbolic.elementwise(shape, op.function, *operands)]
            case kn.MatmulOp():
                depth = shape_of(op.lhs.type)[-1]
                results = [symbolic.matmul(shape_of(op.result.type), depth, *operands)]
            case kn.MaskOp():
                shape = shape_of(op.result.type)
                require_one_length(op, op.dims_of_lengths)
                held = zip(operands[1:], op.largest, strict=True)
                lengths = [symbolic.length(each, largest) for each, largest in held]
                masked = symbolic.masked(
                    shape, op.forms(), op.constant, operands[0], lengths=lengths
                )
                results = [masked]
            case kn.GatherOp():
                shape, (table, rows) = shape_of(op.result.type), operands
                count = shape_of(op.table.type)[0]
                results = [symbolic.rows(shape, op.row_rank, count, table, rows)]
            case kn.WindowsOp():
                results = [seen_through(op.windows, symbolic, op.input, operands[0])]
            case kn.ScatterOp():
                shape, name = shape_of(op.result.type), f"rows put along {op.row_dim}"
                results = [symbolic.unknown(shape, name, op.operands, operands)]
            case kn.ArgMaxOp():
                shape, dim = shape_of(op.result.type), op.reduced_dim
                if shape[dim] == 1:
                    found = symbolic.of_runs(shape, LARGEST_PLACE, dim, op.input, *operands)
                else:
                    name = f"{LARGEST_PLACE} along {dim} to {shape[dim]}"
                    found = symbolic.unknown(shape, name, op.operands, operands)
                results = [found]
            case kn.RandomOp():
                shape, name = shape_of(op.result.type), f"random {op.distribution.data}"
                results = [symbolic.random(shape, name, *operands)]
            case kn.TopKOp():
                # What stands where does not depend on how many there are.
                results = [
                    symbolic.of_runs(
                        shape_of(result.type), name, op.reduced_dim, op.input, *operands
                    )
                    for result, name in ((op.values, LARGEST), (op.places, LARGEST_PLACE))
                ]
            case kn.GroupTilesOp() | kn.SortGroupsOp():
                # Each table is a function of the whole list, and of how many rows a tile has.
                size = op.rows_of_a_tile if isinstance(op, kn.GroupTilesOp) else ""
                how = f"{op.name} {size} of {[shape_of(each.type) for each in op.results]}:"
                results = [
                    symbolic.unknown(shape_of(result.type), f"{how} {place}", op.operands, operands)
                    for place, result in enumerate(op.results)
                ]
            case kn.InvertPlacesOp():
                shape, name = shape_of(op.rows.type), f"rows at {shape_of(op.rows.type)}"
                results = [symbolic.unknown(shape, name, op.operands, operands)]
                symbolic.inverted[op.rows] = operands[0]
            case kn.ScanOp():
                shape = shape_of(op.result.type)
                results = [
                    scanned(
                        symbolic, shape, op.reduced_dim, *operands, is_exclusive=op.is_exclusive
                    )
                ]
            case kn.ReductionOp():
                shape, is_sum = shape_of(op.result.type), op.combination is Combiner.SUM
                (summands,) = operands if is_sum else [symbolic.map(candidates, *operands)]
                total = symbolic.reduction(shape, op.reduced_dim, op.groups(), summands)
                results = [total if is_sum else symbolic.map(largest, total)]
            case kn.CompositeOp():
                results = _results(op.expanded(), operands, symbolic)
            case kn.CopyOp():
                results = operands
            case kn.ViewOp():
                results = [seen_as(op, symbolic, *operands)]
            case kn.ConcatOp():
                results = [concatenated(op, symbolic, operands)]
            case kn.SliceOp() | kn.PartsOp():
                results = [
                    symbolic.part(shape_of(part.type), start, *operands)
                    for _, part, start in op.moves()
                ]
            case _:
                raise NoProofError(f"{op_label(op)} has no normal form")
        # Places are whole numbers already.
        if isinstance(op, kn.KernelOp) and not isinstance(op, kn.CompositeOp | kn.ArgMaxOp):
            results = [symbolic.rounded(op.results[0].type, op.operands, *results)]
        values |= zip(op.results, results, strict=True)
    raise NoProofError("the function has no func.return")
