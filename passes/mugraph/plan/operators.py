"""What operators of a kernel compute, in each iteration of a loop or once, for an estimate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.cute.atoms import warpgroup_family
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.interfaces import HasTileIndices, IndexKind
from mugraph.dialects.programming_model import GROUP_COLUMNS, GROUP_ROWS
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.costs.products import (
    FEWEST_CONVERTED_ROWS,
    MOST_SWAPPED_ROWS,
    RUNS_OF_LANES,
)
from mugraph.passes.costs.work import (
    CONVERSION_ISSUES,
    INSTRUCTION,
    SINGLE_CONVERSION_ISSUES,
)
from mugraph.passes.mugraph.fuse_threadblock import fused_chain
from mugraph.passes.mugraph.plan.narrow import (
    adds_scaled,
    is_converted,
    is_narrow,
    is_on_the_way,
    is_read_in_place,
    is_read_singly,
    summed_products,
)
from mugraph.passes.mugraph.retile.dimensions import TileSpace, is_of_product, product_index

WHOLE_STEPS = 3
"""Steps of an operator on whole rows, as a norm."""


MOST_ROWS_OF_WARPS = 32
"""Rows of a tile that warp groups have with swapped operands, at least one more: a gated MLP of 40
x 8960 x 1536 took 16.5 us on an H200 in such tiles of 64 columns, and 20.3 in the tiles that were
estimated to be the fastest where warps counted for all (``shapes_candidates_h200.md``)."""
MAXIMUM_EXCHANGES = 2
"""Times that numbers go to other threads where a running maximum of a product is written: decode of
200 x 8192 keys took 120 us on an H200 with scores and their maximum in a kernel of their own, which
were estimated at 46 without, and 97.5 as one kernel."""
RUNNING_MAXIMUM_STEPS, RUNNING_MAXIMUM_EXCHANGES = 2, 4
"""What a running maximum of loaded tiles takes in an iteration beside the exponential.

Steps of an element: the maximum and the difference; times that numbers go to other threads.
"""


def _makes_whole_rows(op: Operation) -> bool:
    """Whether an operator makes of whole rows tiles of the same extents, as a norm."""
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.ElementwiseOp):
        return False
    return any(
        index.kind is IndexKind.WHOLE and index.result is not None for index in op.tile_indices()
    )


def special_of(op: Operation) -> int:
    """The instructions of special function units that an operator takes for an element.

    A divisor of many elements, such as one of a row, is inverted once
    (``passes/schedule/promote_registers/divisors.py``).  Estimates of kernels with products were
    fitted without that.  There a guarded quotient counts as one that is not, so that it gets the
    same plan.
    """
    if not isinstance(op, tb.ElementwiseOp):
        return 0
    guarded = _is_guarded_quotient(op)
    if guarded or _divides_rows(op):
        block = op.parent
        if block is not None and all(product_index(other) is None for other in block.ops):
            return 0
    return guarded + sum(one.special for one in (op.function, *tb.epilogue_of(op).functions))


def _divides_rows(op: Operation) -> bool:
    """Whether an operator divides several elements by the same one."""
    if not isinstance(op, tb.DivOp):
        return False
    return shape_of(op.operands[1].type) != shape_of(op.results[0].type)


def _is_guarded_quotient(op: Operation) -> bool:
    """Whether an operator multiplies by 1 over numbers, or by 0 where they are 0."""
    factors = op.operands if isinstance(op, tb.MulOp) else ()
    return any(
        isinstance(one.owner, tb.UnaryOp) and one.owner.FUNCTION == "reciprocal_or_zero"
        for one in factors
    )


def matrices_of(op: Operation) -> Sequence[tuple[SSAValue, SSAValue]]:
    """The pairs of matrices whose products an operator adds up."""
    if isinstance(op, tb.ConcatThenMatmulOp):
        return op.products()
    lhs, rhs = op.operands
    return [(lhs, rhs)]


class Factor(NamedTuple):
    """A left matrix of a product, and how warp groups could multiply it."""

    lhs: SSAValue
    fits_groups: bool
    """Whether they could, as both matrices are."""
    element: str
    """The type whose rate they then have."""
    promoted: bool
    """Whether they hold the sums of an iteration beside those of the loop."""
    converted: bool
    """Whether they could convert the right matrix, with swapped operands."""
    loaded: bool
    """Whether both matrices are loaded, so that their operands can be swapped as they are."""
    step: int
    """The depth of which theirs are whole multiples then: an instruction's."""

    @classmethod
    def of(cls, lhs: SSAValue, rhs: SSAValue, phases: LoopPhases) -> Factor:
        """The left one of two matrices.  F32 counts as f16, which it is not multiplied as."""
        family = warpgroup_family(*operand_names(lhs, rhs))
        element = INSTRUCTION.a_type if family is None else family.a_type
        fits = _is_for_groups(lhs, rhs, phases)
        promotes = fits and family is not None and family.sum_bits is not None and phases.promotes
        loaded = all(isinstance(value.owner, tb.InputOp) for value in (lhs, rhs))
        step = 1 if family is None else family.depth
        return cls(lhs, fits, element, promotes, is_converted(rhs, lhs), loaded, step)

    def is_whole(self, columns: int, depth: int) -> bool:
        """Whether warp groups could multiply tiles of so many columns and such a depth.

        384 matrices of 352 queries and keys took 89 us on an H200 in tiles of 88 keys.
        """
        return self.fits_groups and columns % GROUP_COLUMNS == 0 and depth % self.step == 0

    def swaps(self, rows: int, columns: int, depth: int, matrices: int) -> bool:
        """Whether warp groups have the product of so many tiles with swapped operands.

        Of few rows warps have it mostly, whose cycles count; whole 64 need no swap.
        """
        if rows % GROUP_COLUMNS or depth % self.step:
            return False
        if self.converted:
            return rows >= FEWEST_CONVERTED_ROWS
        return (
            self.loaded
            and matrices == 1
            and rows > MOST_ROWS_OF_WARPS
            and rows % GROUP_ROWS > 0
            and columns % GROUP_ROWS == 0
        )


def _is_for_groups(lhs: SSAValue, rhs: SSAValue, phases: LoopPhases) -> bool:
    """Whether warp groups could multiply two matrices as they are.

    They read a right matrix from shared memory, as it is loaded.  The left one is loaded, too, or
    is in registers: what another product gives, or what is computed once, before the loop.
    """
    return isinstance(rhs.owner, tb.InputOp) and (
        isinstance(lhs.owner, tb.InputOp) or is_of_product(lhs) or lhs in phases.same
    )


def summed_by_product(op: tb.AccumulatorOp) -> bool:
    """Whether an accumulator keeps what a product adds up anyway."""
    source = op.operands[0].owner
    is_product = isinstance(source, Operation) and product_index(source) is not None
    return is_product and op.adds and not op.reduces_last()


def _is_rescaled(op: tb.AccumulatorOp) -> bool:
    """Whether ``--online-softmax`` scales sums of products again in each iteration.

    Their left matrices are exponentials of what another product gives.
    """
    source = op.operands[0].owner
    value = source.operands[0] if isinstance(source, Operation) and source.operands else None
    while value is not None and isinstance(value.owner, tb.ElementwiseOp):
        made = value.owner
        if isinstance(made, tb.UnaryOp) and made.FUNCTION == "exp":
            return follows_product(made.operands[0])
        value = made.operands[0]
    return False


def _is_exchanged(factor: SSAValue, phases: LoopPhases) -> bool:
    """Whether a factor of a product is computed, element by element, of tiles of the loop.

    Threads themselves make what they multiply of numbers of few bits.
    """
    if isinstance(factor.owner, tb.InputOp) or factor in phases.same or is_read_in_place(factor):
        return False
    return not follows_product(factor) and not is_narrow(factor)


def _joins_state(op: Operation, phases: LoopPhases) -> bool:
    """Whether an iteration makes a new state of a product: it meets the threads that have the old.

    Of 12 cuts of a loop that carries states of linear attention by four warps, d 64 and 128, the
    estimate is so 0.67 to 1.18 of what they took on an H200, and 0.49 to 0.83 without
    (``benchmarks/results/recurrences_h200.md``).
    """
    users = [use.operation for use in op.results[0].uses if use.operation in phases.loop]
    return any(
        isinstance(user, tb.ElementwiseOp)
        and any(isinstance(use.operation, tb.CarryOp) for use in user.results[0].uses)
        for user in users
    )


def follows_product(value: SSAValue) -> bool:
    """Whether a tile is computed, element by element, of a product and perhaps of other tiles."""
    op = value.owner
    if not isinstance(op, Operation) or product_index(op) is not None:
        return isinstance(op, Operation)
    return isinstance(op, tb.ElementwiseOp) and any(map(follows_product, op.operands))


def _has_running_maximum(op: Operation, phases: LoopPhases) -> bool:
    """Whether ``--online-softmax`` may put a running maximum of loaded tiles before an operator.

    By what states decay in a loop is no exponential of a softmax.
    """
    is_exponential = isinstance(op, tb.UnaryOp) and op.FUNCTION == "exp"
    if is_exponential and any(isinstance(other, tb.CarriedOp) for other in phases.loop):
        return False
    return is_exponential and op in phases.loop and not follows_product(op.operands[0])


def _reduced_dim(op: Operation) -> int | None:
    """Along which dimension an operator adds up elements of its operand; ``None`` for others."""
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.ElementwiseOp):
        return None
    if product_index(op) is not None or follows_product(op.operands[0]):
        return None
    summed = (index for index in op.tile_indices() if index.kind is IndexKind.SUMMED)
    return next((index.operands[0] for index in summed), None)


def _scales_a_product(op: Operation) -> bool:
    """Whether an operator multiplies a product by a number, as exponentials of it then do."""
    is_scale = isinstance(op, tb.UnaryOp) and op.FUNCTION == "mul_scalar"
    return is_scale and is_of_product(op.results[0])


class OperatorWork(NamedTuple):
    """What an estimate needs of an operator that computes, however its tiles are cut."""

    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    factors: tuple[Factor, ...]
    """Of products."""
    steps: int
    """For each element; 0 where a product adds up what an accumulator keeps, or what is done with
    its elements anyhow scales them."""
    special: int
    exchanged: int
    """Results, and factors of products, that pass through shared memory to other threads."""
    row_dims: tuple[int, ...]
    """Dimensions of the first operand, not of a product, along which its elements are combined."""
    conversion: float = 0.0
    """Instructions for each element that threads make of numbers of few bits to multiply it."""
    sums: bool = False
    """Whether it is a sum over a dimension, which of one element is nothing."""
    converts_runs: bool = False
    """Whether warps may read runs of what they convert, in a product of few rows."""
    sliced: bool = False
    """Whether different warps may have the products of its pairs of matrices."""
    adds_up: bool = False
    """Whether it is a product of which nothing is computed in an iteration but its sum."""
    transformed: bool = False
    """Whether it is a product of which functions are computed before its sum."""
    joins_state: bool = False
    """Whether it is a product that an iteration makes a new state of."""

    def reads_runs(self, rows: int, depth: int, matrices: int) -> bool:
        """Whether warps compute products of such extents with swapped operands."""
        is_sliced = self.sliced and matrices > 1
        few = rows <= MOST_SWAPPED_ROWS and depth % RUNS_OF_LANES == 0
        return self.converts_runs and is_sliced and few

    @classmethod
    def of(cls, op: Operation, phases: LoopPhases) -> OperatorWork:
        """An operator's part of a model."""
        factors: list[Factor] = []
        if product_index(op) is not None:
            factors = [Factor.of(lhs, rhs, phases) for lhs, rhs in matrices_of(op)]
        steps = WHOLE_STEPS if _makes_whole_rows(op) else 1
        if isinstance(op, tb.AccumulatorOp) and summed_by_product(op):
            steps = int(_is_rescaled(op))
        elif _scales_a_product(op):
            steps = 0
        if adds_scaled(op) or is_on_the_way(op) or all(map(is_read_in_place, op.results)):
            steps = 0
        if isinstance(op, tb.ReductionOp) and summed_products(op):
            steps = 0
        exchanged = int(steps > 1)
        joins_state = bool(factors) and _joins_state(op, phases)
        if factors:
            exchanged = sum(_is_exchanged(operand, phases) for operand in op.operands)
            exchanged += joins_state
        reduced = _reduced_dim(op)
        row_dims = () if reduced is None else (reduced,)
        if _has_running_maximum(op, phases):
            steps += RUNNING_MAXIMUM_STEPS
            exchanged += RUNNING_MAXIMUM_EXCHANGES
            row_dims = (len(shape_of(op.operands[0].type)) - 1,)
        if isinstance(op, tb.ReductionMaxOp):
            exchanged += MAXIMUM_EXCHANGES
            row_dims = () if follows_product(op.input) else (op.reduced_dim,)
        operands, results = (*op.operands,), (*op.results,)
        conversion, runs = 0.0, False
        if factors and is_narrow(op.operands[-1]):
            singly = is_read_singly(op.operands[-1])
            conversion = SINGLE_CONVERSION_ISSUES if singly else CONVERSION_ISSUES
            runs = not singly and factors[0].converted
        return cls(
            operands,
            results,
            tuple(factors),
            steps,
            special_of(op),
            exchanged,
            row_dims,
            conversion,
            isinstance(op, tb.ReductionOp),
            runs,
            op in phases.sliced,
            bool(factors) and not any(_computes(use.operation, phases) for use in results[0].uses),
            isinstance(op, tb.MatmulOp) and _sums_functions(op, phases),
            joins_state,
        )


def _sums_functions(op: tb.MatmulOp, phases: LoopPhases) -> bool:
    """Whether functions of a product are accumulated: of one iteration, where they are stored."""
    epilogue, user = fused_chain(op)
    is_stored = isinstance(user, tb.OutputOp) and not phases.loop
    return bool(epilogue.functions) and (epilogue.accumulates or is_stored)


def _computes(op: Operation, phases: LoopPhases) -> bool:
    """Whether an operator computes something in each iteration, and sums nothing up."""
    return op in phases.loop and not isinstance(op, tb.AccumulatorOp)


class LoopPhases(NamedTuple):
    """What a loop along some dimensions computes in each iteration, and what once."""

    loop: tuple[Operation, ...]
    after: tuple[Operation, ...]
    """Also what is computed once, before the loop."""
    same: frozenset[SSAValue]
    """Tiles that are the same in each iteration."""
    sums: tuple[SSAValue, ...]
    """What is kept over all iterations."""
    promotes: bool
    """Whether sums of few bits are added up in f32, iteration by iteration."""
    sliced: frozenset[Operation]
    """Products whose pairs of matrices different warps may have."""

    @classmethod
    def of(cls, space: TileSpace, looped: frozenset[int]) -> LoopPhases:
        """Of the loop that a graph has, or of one along other dimensions that it may be given.

        In a graph whose loop moves no tile, what is summed along these dimensions is not
        accumulated yet; it is where a sum over one of them is.
        """
        ops = [op for op in space.graph.body.block.ops if op.results]
        inputs = [op for op in ops if isinstance(op, tb.InputOp)]
        is_written = any(op.loop_dim >= 0 for op in inputs)
        same: set[SSAValue] = set()
        same.update(op.result for op in inputs if not _has_one_of(space, op.results, looped))
        late: set[SSAValue] = set()
        loop: list[Operation] = []
        after: list[Operation] = []
        sums: list[SSAValue] = []
        for op in ops:
            if isinstance(op, tb.InputOp):
                continue
            accumulates = isinstance(op, tb.AccumulatorOp)
            if not accumulates and same.issuperset(op.operands) and op.operands:
                same.update(op.results)
                after.append(op)
            elif not late.isdisjoint(op.operands):
                late.update(op.results)
                after.append(op)
            else:
                loop.append(op)
                if accumulates or not (is_written or _has_one_of(space, op.results, looped)):
                    late.update(op.results)
                    sums += op.results[:1]
        promotes = space.graph.decided.promote is not False
        reductions = (op for op in ops if isinstance(op, tb.ReductionOp))
        sliced = frozenset(product for op in reductions for product in summed_products(op))
        return cls(tuple(loop), tuple(after), frozenset(same), tuple(sums), promotes, sliced)


def _has_one_of(space: TileSpace, values: Iterable[SSAValue], numbers: frozenset[int]) -> bool:
    return any(not numbers.isdisjoint(space.numbers[value]) for value in values)


def computing(operators: Iterable[Operation], phases: LoopPhases) -> tuple[OperatorWork, ...]:
    """The work of the operators that have any."""
    return tuple(OperatorWork.of(op, phases) for op in operators if isinstance(op, HasTileIndices))
