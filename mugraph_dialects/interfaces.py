"""What passes ask of operators.

Each interface is an abstract base class that an operator inherits; a pass finds it by
``isinstance`` and never lists operators.  An operator of another dialect takes part in layout
resolution or swizzle planning by implementing them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, opt_prop_def

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr
from mugraph.dialects.ragged import Bounds, Padding
from mugraph.dialects.tensor_types import shape_of

if TYPE_CHECKING:
    from mugraph.dialects.cute import ComposedLayout, Layout
    from mugraph.dialects.layout_problem import LayoutProblem

    AnyLayout = Layout | ComposedLayout


class HasLayoutConstraints(Operation, Abstract):
    """An operator that takes any layouts of the tensors it touches, restricts them, or pays."""

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Adds the operator's hard constraints and soft costs to ``problem``: by default none.

        What its accesses to memory take is charged without it.
        """


class SharedAccess(NamedTuple):
    """How an operator touches one shared-memory tensor, as far as swizzling must know.

    ``walk`` is the dimension along which neighbouring threads (or the rows of one ``ldmatrix``)
    step.  ``chunk`` is the number of elements along the innermost dimension that must stay
    contiguous and in order.
    """

    value: SSAValue
    walk: int
    chunk: int


class HasSharedAccesses(Operation, Abstract):
    """An operator of a µGraph, which reads or writes tiles; those of schedules say it by thread."""

    @abstractmethod
    def shared_accesses(self) -> Sequence[SharedAccess]:
        """The operator's accesses; layouts of all its tensors must have been resolved."""


class RestrictsSharedLayouts(Operation, Abstract):
    """An operator that can work only with some layouts of a buffer in shared memory."""

    @abstractmethod
    def possible_layouts(self, value: SSAValue) -> Sequence[AnyLayout]:
        """The layouts of one of its buffers that it can work with, the most likely one first."""


class HasBufferEffects(Operation, Abstract):
    """An operator of a schedule: which of its buffers it reads and which it overwrites."""

    @abstractmethod
    def buffers_read(self) -> Sequence[SSAValue]:
        """Buffers and fragments whose old contents matter."""

    @abstractmethod
    def buffers_written(self) -> Sequence[SSAValue]:
        """Buffers and fragments that change; those not read as well are written whole."""

    def reads_before_it_writes(self, operand: SSAValue, result: SSAValue) -> bool:
        """Whether a thread has read of ``operand`` what lies where it writes to ``result``.

        That is, if both began at the same byte, and each thread wrote only where it reads.
        """
        return True


def read_by(op: Operation) -> Sequence[SSAValue]:
    """Buffers and fragments whose old contents matter to an operator; none of one without any."""
    return op.buffers_read() if isinstance(op, HasBufferEffects) else ()


def written_by(op: Operation) -> Sequence[SSAValue]:
    """Buffers and fragments that an operator changes."""
    return op.buffers_written() if isinstance(op, HasBufferEffects) else ()


def touched_by(op: Operation) -> Sequence[SSAValue]:
    """Buffers and fragments that an operator reads or changes, each once, those read first."""
    return tuple(dict.fromkeys((*read_by(op), *written_by(op))))


def writers_of(value: SSAValue) -> list[Operation]:
    """The operators that change a buffer or a fragment, among those that it is an operand of."""
    users = dict.fromkeys(use.operation for use in value.uses)
    return [op for op in users if value in written_by(op)]


class HasRaggedTiles(Operation, Abstract):
    """An operator on tiles of which some elements may not exist; see ``docs/semantics.md``.

    An operator that does not implement it works on whole tiles only.
    """

    @abstractmethod
    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """Which elements of the result exist, before its epilogue.

        Raises ``VerifyException`` where the operands' elements do not go together.
        """

    def identities(self, operand: int, bounds: Bounds) -> Padding:
        """What must stand where no element of an operand exists, so that no result changes.

        By dimension: those over which the operator combines elements.
        """
        return {}

    def result_padding(self, operands: Sequence[Padding]) -> Padding:
        """What the operator writes where no element of its result exists, as far as is known.

        ``operands`` is the same of each operand, for the dimensions that are ragged in it.
        """
        return {}


class IndexKind(Enum):
    """What an operator does along one of its indices."""

    PARALLEL = "parallel"
    """An element of the result depends on the operands' elements of the same index only."""
    SUMMED = "summed"
    """Elements along it are added up, or their squares: it does not matter in what portions."""
    WHOLE = "whole"
    """Anything else: the elements of a whole tile belong together."""


class TileIndex(NamedTuple):
    """One index that an operator runs through, as in Einstein's notation.

    ``operands`` holds the dimension of each operand that it numbers, ``None`` where it numbers
    none; ``result`` that of every result.  An index that ``broadcasts`` passes over operands whose
    tensor has one element there.  One that is summed with a ``period`` adds up elements that are
    ``period`` apart, so that tiles along it must be multiples of that.
    """

    kind: IndexKind
    operands: tuple[int | None, ...]
    result: int | None = None
    broadcasts: bool = False
    period: int = 1


class HasTileIndices(Operation, Abstract):
    """An operator that says how its tiles may be cut; others need the tiles that they have.

    ``--retile`` derives from it which dimensions a grid and a for-loop may cut, and how.
    """

    @abstractmethod
    def tile_indices(self) -> Sequence[TileIndex]:
        """The indices; dimensions of results that none of them numbers keep their extents."""

    def places(self, index: TileIndex) -> list[tuple[SSAValue, int]]:
        """The dimensions that an index numbers, of operands and results of several elements."""
        found = [*zip(self.operands, index.operands, strict=True)]
        found += [(result, index.result) for result in self.results]
        return [
            (value, dim)
            for value, dim in found
            if dim is not None and shape_of(value.type)[dim] > 1
        ]

    def linear_in(self) -> Sequence[frozenset[int]]:
        """Sets of operands, by number, in all of which together the operator is linear.

        Of sums in these operands it computes the sum of what it computes of the summands.  Its
        epilogue does not count.
        """
        return ()


class CarriesState(Operation, Abstract):
    """An operator whose results depend on the iterations before, in their order.

    A loop with one is a recurrence: its iterations may not be divided over blocks, joined, cut
    anew or left out by who knows no more of it.
    """


class AdaptsToTiles(Operation, Abstract):
    """An operator that holds something of the extents of its tiles beside their types."""

    @abstractmethod
    def adapt_to_tiles(self) -> None:
        """Adapts to tiles whose extents are others now, along indices that may be cut."""


class HasEpilogue(IRDLOperation, Abstract):
    """An operator that can apply an epilogue to every element of its first result."""

    epilogue = opt_prop_def(EpilogueAttr)


class FusesWithProducer(Operation, Abstract):
    """An operator that can become a step of the epilogue of the operator before it."""

    @abstractmethod
    def fused_onto(self, epilogue: Epilogue) -> Epilogue | None:
        """``epilogue`` followed by this operator; ``None`` where it cannot be a step."""


class SharesMemory(Operation, Abstract):
    """An operator whose results lie in the memory of operands: no kernel writes them."""

    @abstractmethod
    def memory_of(self, result: SSAValue) -> SSAValue:
        """The operand in whose memory a result lies."""

    def bytes_before(self, result: SSAValue) -> int:
        """The bytes between the first element of that operand and the result's."""
        return 0


class HasWorkspace(Operation, Abstract):
    """An operator that writes tensors to device memory.

    Its ``workspace`` property holds a byte offset a result; -1 for a result that lives in an
    output of the function instead.
    """

    @abstractmethod
    def workspace_offsets(self) -> Sequence[int] | None:
        """The planned offsets in bytes, one a result, or ``None`` before planning."""

    @abstractmethod
    def set_workspace_offsets(self, offsets: Sequence[int]) -> None:
        """Records the plan."""
