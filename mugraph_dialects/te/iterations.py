"""What mapping states of itself: which iteration a thread runs, and that each is run once."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AffineMapAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import is_given, number_if_given
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.te.indices import IndexList, verify_indices
from mugraph.dialects.te.mapped import ApplyOp


@irdl_op_definition
class IterationOp(IRDLOperation):
    """A thread runs this iteration here: ``te.iteration [%i, %j] of [64, 128]``.

    It is the certificate of a mapping: with the values of all loops outside the step the same, the
    threads of a block and the loops of the step around it come here exactly once with each index in
    the box.  With ``grid`` the blocks count too: all blocks and threads together come once with
    each.  Directly in a ``te.kernel`` it says the same of the blocks alone.  ``fully align 32``:
    the last index runs over consecutive threads, from a multiple of the alignment.
    ``--te-check-mapping`` proves it; nothing else depends on it, and no code comes of it.
    """

    name = "te.iteration"

    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    extents = prop_def(DenseArrayBase.constr(i64))
    grid = opt_prop_def(UnitAttr)
    alignment = opt_prop_def(IntegerAttr.constr(type=i64))
    custom_directives = (IndexList,)
    assembly_format = (
        "` ` custom<IndexList>($indices, $map) `of` $extents (`grid` $grid^)? "
        "(`fully` `align` $alignment^)? attr-dict"
    )

    def __init__(
        self,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
        extents: Sequence[int],
        *,
        grid: bool = False,
        alignment: int | None = None,
    ) -> None:
        super().__init__(
            operands=[indices],
            properties={
                "map": map_,
                "extents": integer_array(extents),
                "grid": UnitAttr() if grid else None,
                "alignment": None if alignment is None else IntegerAttr(alignment, i64),
            },
        )

    @property
    def box(self) -> tuple[int, ...]:
        """How many values each index has."""
        return tuple(int(extent) for extent in self.extents.get_values())

    is_over_grid = is_given("grid")
    """Whether the iterations are dealt to all blocks together."""

    thread_alignment = number_if_given("alignment")
    """What the first thread of the last index is a multiple of, where threads follow it."""

    def verify_(self) -> None:
        """Checks the number of indices and the extents."""
        verify_indices("'te.iteration'", self.map.data, self.indices)
        if len(self.map.data.results) != len(self.box):
            raise VerifyException(
                f"'te.iteration' has {len(self.map.data.results)} indices and {len(self.box)} "
                "extents; expected one extent an index"
            )
        if any(extent < 1 for extent in self.box):
            raise VerifyException("'te.iteration': each extent is at least 1")
        if self.thread_alignment is not None and (self.thread_alignment < 1 or not self.box):
            raise VerifyException(
                "'te.iteration': consecutive threads have an index, and an alignment of at least 1"
            )


def is_only_stated(value: SSAValue) -> bool:
    """Whether an index is used in ``te.iteration`` alone, so that nothing needs its value."""
    return bool(value.first_use) and all(
        isinstance(use.operation, IterationOp)
        or (isinstance(use.operation, ApplyOp) and is_only_stated(use.operation.result))
        for use in value.uses
    )
