"""Which scans of a program can be cut into chunks, and what is then a product of matrices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of
from mugraph.passes.program.chunk_scans.logarithms import has_logarithm

CHUNK, LONG_CHUNK, MATRIX_CHUNK = 64, 128, 32
"""Elements of a chunk, where the extent is a multiple; else the divisor that is nearest.

Chunks of twice the length have half as many states, and products of twice the work within them;
where states are multiplied by matrices, a triangle of each chunk is inverted, which is more.  The
gated delta rule took 152 and 344 us on an H100 in chunks of 64 (d 64 and 128), and 112 and 187 of
32 (``benchmarks/results/recurrences_h200.md``).
"""
LEAST_CHUNK, MOST_CHUNK = 16, 128
LEAST_WIDTH = 16
"""Runs that share their decays, at least: columns of a product with the matrix of the decays."""


Scan = kn.ScanOp | kn.RecurrenceOp


class NotCutError(Exception):
    """A scan stays sequential; the message says why."""


@dataclass(frozen=True)
class Removed:
    """What the matrices of a ``kn.recurrence`` are: keys_t (rates_t rows_t), the keys being those
    of what is added.

    So h_t = a_t h_(t-1) + keys_t (values_t + rates_t rows_t h_(t-1)): the delta rule, where rows
    are the keys and rates less than 0.
    """

    rows: tuple[SSAValue, ...]
    """They have the depth as columns."""
    rates: tuple[SSAValue, ...]
    scale: float


@dataclass(frozen=True)
class Recurrence:
    """A scan, and the sum of products along other dimensions that its result alone is used for.

    ``y_t = sum over depth of queries_t h_t`` with ``h_t = a_t h_(t-1) + keys_t values_t``; without
    such a sum there are no queries, no keys and no depth, and y is h.  Keys and queries have no
    element along the width, values none along the depth.  Along the dimensions of the batch decays,
    keys or queries differ.
    """

    scan: Scan
    last: Operation
    """What computes y."""
    batch: tuple[int, ...]
    depth: tuple[int, ...]
    width: tuple[int, ...]
    queries: tuple[SSAValue, ...]
    keys: tuple[SSAValue, ...]
    values: tuple[SSAValue, ...]
    chunk: int
    scale: float = 1.0
    """A number that what is added is times, too."""
    removed: Removed | None = None

    @property
    def dim(self) -> int:
        """The dimension that is scanned."""
        return self.scan.reduced_dim

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return shape_of(self.scan.input.type)[self.dim] // self.chunk


def long_dims(value: SSAValue) -> set[int]:
    """The dimensions of more than one element."""
    return {dim for dim, extent in enumerate(shape_of(value.type)) if extent > 1}


def chunk_of(extent: int, wanted: int = CHUNK) -> int | None:
    """Elements of a chunk of so many: a divisor near what is wanted, of which there are two."""
    fitting = [
        size for size in range(LEAST_CHUNK, MOST_CHUNK + 1) if extent % size == 0 and size < extent
    ]
    return min(fitting, key=lambda size: abs(math.log(size / wanted)), default=None)


@dataclass(frozen=True)
class Factors:
    """Tensors of one rank, and a number, whose product, broadcast, is a tensor."""

    values: tuple[SSAValue, ...]
    scale: float = 1.0


def factors_of(value: SSAValue) -> Factors:
    """The factors that a tensor is the product of; itself where it is none."""
    op = value.owner
    if isinstance(op, (kn.CastOp, kn.BroadcastOp)) and is_integer(element_type_of(op.input.type)):
        return Factors((value,))
    scale = 1.0
    if isinstance(op, kn.MatmulOp):
        is_product = op.compute is None and shape_of(op.lhs.type)[-1] == 1
    elif isinstance(op, kn.ElementwiseOp) and op.FUNCTION == "mul_scalar":
        (scale,) = op.function.constants
        is_product = True
    else:
        is_product = isinstance(op, (kn.CastOp, kn.BroadcastOp))
        is_product |= isinstance(op, kn.ElementwiseOp) and op.FUNCTION == "mul"
    if not (is_product and isinstance(op, Operation)):
        return Factors((value,))
    parts = [factors_of(operand) for operand in op.operands]
    values = tuple(each for part in parts for each in part.values)
    return Factors(values, scale * math.prod(part.scale for part in parts))


@dataclass(frozen=True)
class _Contraction:
    """A sum of products of a scan's result and others along some of its dimensions."""

    last: Operation
    depth: tuple[int, ...]
    queries: tuple[SSAValue, ...]


def _only_user(value: SSAValue) -> Operation | None:
    users = {use.operation for use in value.uses}
    return users.pop() if len(users) == 1 else None


def _contraction(value: SSAValue, queries: tuple[SSAValue, ...] = ()) -> _Contraction | None:
    """The sum that a tensor is used for, through casts and products with others."""
    user = _only_user(value)
    if isinstance(user, kn.CastOp):
        return _contraction(user.result, queries)
    if isinstance(user, kn.ElementwiseOp) and user.FUNCTION == "mul":
        others = tuple(other for other in user.operands if other is not value)
        same = shape_of(user.result.type) == shape_of(value.type)
        return _contraction(user.result, (*queries, *others)) if same and others else None
    if isinstance(user, kn.ReductionOp) and queries:
        dim = user.reduced_dim
        if user.combination is Combiner.SUM and shape_of(user.result.type)[dim] == 1:
            return _Contraction(user, (dim,), queries)
    if isinstance(user, kn.MatmulOp) and user.compute is None:
        rank = len(shape_of(value.type))
        if value is user.rhs and value is not user.lhs and shape_of(user.lhs.type)[-2] == 1:
            return _Contraction(user, (rank - 2,), (*queries, user.lhs))
        if value is user.lhs and value is not user.rhs and shape_of(user.rhs.type)[-1] == 1:
            return _Contraction(user, (rank - 1,), (*queries, user.rhs))
    return None


def aligned(query: SSAValue, found: kn.MatmulOp | Operation) -> bool:
    """Whether a query has its depth in the dimension that the state has it in."""
    return not (isinstance(found, kn.MatmulOp) and query in (found.lhs, found.rhs))


def _dims_of_query(query: SSAValue, last: Operation) -> set[int]:
    """The long dimensions of a query; a product has them in the other order."""
    dims, rank = long_dims(query), len(shape_of(query.type))
    if aligned(query, last):
        return dims
    swapped = {rank - 1: rank - 2, rank - 2: rank - 1}
    return {swapped.get(dim, dim) for dim in dims}


def recurrence_of(scan: Scan, wanted: int = CHUNK) -> Recurrence:
    """Analysis: how a scan is cut; raises :class:`NotCutError` where it is not.

    ``wanted`` elements make a chunk, or about as many.
    """
    label, dim = op_label(scan), scan.reduced_dim
    shape = shape_of(scan.input.type)
    if scan.is_exclusive:
        raise NotCutError(f"{label} is exclusive")
    if isinstance(scan, kn.RecurrenceOp) and scan.columns is not None:
        raise NotCutError(f"{label} has columns of its own, several steps at once")
    if not all(map(kn.may_be_row_major, (*scan.operands, scan.result))):
        raise NotCutError(f"{label} has operands or a result that are not row-major")
    chunk = chunk_of(shape[dim], wanted)
    if chunk is None:
        raise NotCutError(
            f"{label} goes along {shape[dim]} elements, which are no two chunks or more of equal "
            f"size from {LEAST_CHUNK} to {MOST_CHUNK}"
        )
    decayed: set[int] = set()
    if scan.decay is not None:
        if not has_logarithm(scan.decay):
            raise NotCutError(
                f"the decays of {label} are not known to be positive; write them as an exponential "
                "or a sigmoid"
            )
        decayed = long_dims(scan.decay) - {dim}
    found = _with_contraction(scan, chunk, decayed)
    if found is not None:
        return found
    if isinstance(scan, kn.RecurrenceOp):
        raise NotCutError(
            f"{label} is no delta rule: that is read by sums over the rows of its states alone, "
            "decays all rows alike, and its matrices are the keys of what it adds times rows"
        )
    width = long_dims(scan.input) - {dim} - decayed
    if math.prod(shape[each] for each in width) < LEAST_WIDTH:
        raise NotCutError(f"fewer than {LEAST_WIDTH} runs of {label} have the same decays")
    batch, wide = tuple(sorted(decayed)), tuple(sorted(width))
    return Recurrence(scan, scan, batch, (), wide, (), (), (scan.input,), chunk)


def _removed(scan: kn.RecurrenceOp, keys: Sequence[SSAValue]) -> Removed | None:
    """The matrices of a recurrence as products of its keys and of rows, where they are."""
    rank = len(shape_of(scan.matrix.type))
    factors = factors_of(scan.matrix)
    columns = [each for each in factors.values if rank - 2 in long_dims(each)]
    rows = [each for each in factors.values if rank - 1 in long_dims(each)]
    rates = [each for each in factors.values if each not in columns and each not in rows]
    if not rows or Counter(columns) != Counter(keys) or not {*columns}.isdisjoint(rows):
        return None
    return Removed(tuple(rows), tuple(rates), factors.scale)


def _with_contraction(scan: Scan, chunk: int, decayed: set[int]) -> Recurrence | None:
    """The scan with the sum that it alone is used for, where its operand is a product."""
    sum_ = _contraction(scan.result)
    if sum_ is None or not kn.may_be_row_major(sum_.last.results[0]):
        return None
    depth, dims = {*sum_.depth}, long_dims(scan.input) - {scan.reduced_dim}
    factors = factors_of(scan.input)
    keys = [factor for factor in factors.values if long_dims(factor) & depth]
    values = [factor for factor in factors.values if not long_dims(factor) & depth]
    removed, batch = None, decayed.union(*map(long_dims, keys))
    if isinstance(scan, kn.RecurrenceOp):
        rank = len(shape_of(scan.input.type))
        removed = _removed(scan, keys)
        if removed is None or depth != {rank - 2}:
            return None
        batch = batch.union(*map(long_dims, (*removed.rows, *removed.rates))) - {rank - 1}
    batch |= set[int]().union(*(_dims_of_query(query, sum_.last) for query in sum_.queries))
    batch -= {scan.reduced_dim, *depth}
    width = dims - batch - depth
    if not (keys and width and depth <= dims) or depth & decayed:
        return None
    if set[int]().union(*map(long_dims, values)) < width:
        return None  # what no factor has along the width is the same there
    return Recurrence(
        *(scan, sum_.last, tuple(sorted(batch)), tuple(sorted(depth)), tuple(sorted(width))),
        *(sum_.queries, tuple(keys), tuple(values), chunk, factors.scale, removed),
    )


def scans_of(operators: Sequence[Operation], kind: type[Scan] | None = None) -> list[Scan]:
    """The scans among operators, or those of one kind."""
    return [
        op for op in operators if isinstance(op, Scan) and (kind is None or isinstance(op, kind))
    ]
