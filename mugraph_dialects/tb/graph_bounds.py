"""Which elements exist of the tiles of a whole threadblock graph."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.ragged import Bounds
from mugraph.dialects.tb.memory import InputOp, OutputOp
from mugraph.dialects.tb.ragged import check_bounds, says_which_exist
from mugraph.dialects.tensor_types import op_label, value_label


def bounds_of_graph(body: Block) -> dict[SSAValue, Bounds]:
    """Which elements exist of every tile of a threadblock graph.

    Raises ``VerifyException`` where operands or outputs do not go together.
    """
    bounds: dict[SSAValue, Bounds] = {}
    for op in body.ops:
        if isinstance(op, InputOp):
            bounds[op.result] = op.bounds()
        elif isinstance(op, OutputOp):
            stored, exist = op.bounds(), bounds[op.stensor]
            for dim, (wanted, bound) in enumerate(zip(stored, exist, strict=True)):
                if wanted != bound:
                    raise VerifyException(
                        f"{op_label(op)}: dimension {dim} of {value_label(op.stensor)} is "
                        f"{says_which_exist(bound)}, but the tiles of the result are "
                        f"{says_which_exist(wanted)} there; each must have the elements that it "
                        "stores"
                    )
        elif op.results:
            of_results = check_bounds(op, [bounds[value] for value in op.operands])
            for result in op.results:
                bounds[result] = of_results
    return bounds
