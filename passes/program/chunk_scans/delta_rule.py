"""Writes a recurrence whose matrices are products of keys and rows as products within chunks."""

from __future__ import annotations

from functools import cached_property, reduce

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.chunk_scans.analysis import Removed
from mugraph.passes.program.chunk_scans.rewrite import ChunkWriter, Decays

UNARY, BINARY = (tuple(each.values()) for each in (kn.UNARY_OPERATORS, kn.BINARY_OPERATORS))

PARTS = 4
"""Blocks that are joined at once, where their number allows."""


def _fewest_parts(count: int) -> int:
    """Into how many equal parts so many blocks fall at least, or :data:`PARTS`."""
    return PARTS if count % PARTS == 0 else next(n for n in range(2, count + 1) if count % n == 0)


class DeltaRuleWriter(ChunkWriter):
    """Writes h_t = a_t h_(t-1) + k_t (v_t + c_t w_t h_(t-1)), read by queries q_t, in chunks.

    What the step adds to the keys, r_t = v_t + c_t w_t h_(t-1), depends on those before it.  With G
    the sums so far of the logarithms of a, N_ij = c_i exp(G_(i-1) - G_j) w_i k_j where j < i, and
    h the state before the chunk::

        r = v + N r + c exp(G_(i-1)) w h = (1 - N)^-1 (v + c exp(G_(i-1)) w h) = u + s h
        o = (q kT * exp(G_i - G_j) where j <= i) r + exp(G) q h
        h = exp(E) h + (kT * exp(E - G)) r

    (the UT transform of arXiv:2406.06484, gated as in arXiv:2412.06464).  Both are linear in h, so
    that all products but those with h are made for all chunks at once; what is left is a
    recurrence over chunks, whose matrices are (kT * exp(E - G)) s.
    """

    def write(self) -> SSAValue:
        """What :class:`Recurrence` calls y, of its type."""
        found, removed = self.found, self.found.removed
        assert removed is not None  # or it is no such recurrence
        decays = None if found.scan.decay is None else Decays(self, found.scan.decay)
        values = self.product_of(found.values, found.width, found.scale)
        keys = self.turned(self.product_of(found.keys, found.depth))
        queries = self.product_of(self.turned_queries(), found.depth)
        read = self.product_of(removed.rows, (len(shape_of(found.scan.input.type)) - 1,))
        # What steps of a chunk remove from one another.
        own = self.matmul(read, keys)
        own = (
            self.masked(own, apart=1) if decays is None else self.times(own, decays.between_earlier)
        )
        inverse = self.rounded(self.inverse(self.rated(own, removed)))
        if decays is not None:
            read = self.times(read, self.exp(decays.earlier))
        added = self.rounded(self.matmul(inverse, values))
        read = self.rounded(self.matmul(inverse, self.rated(read, removed)))
        # What the states before the chunk become, and what they are read by.
        scores = self.matmul(queries, keys)
        kept = keys
        if decays is None:
            scores = self.masked(scores)
        else:
            scores = self.times(scores, decays.between)
            kept = self.times(keys, decays.to_the_end)
            queries = self.times(queries, decays.up_to_each)
        scores, kept = self.rounded(scores), self.rounded(kept)
        decay = None if decays is None else decays.of_chunk
        before = self.states(added, read, kept, decay)
        queries = self.parts.apply("add", queries, self.matmul(scores, read))
        later = self.matmul(queries, before)
        return self.as_result(self.parts, self.matmul(scores, added), later)

    def states(
        self, added: SSAValue, read: SSAValue, kept: SSAValue, decay: SSAValue | None
    ) -> SSAValue:
        """The states before each chunk, as they are multiplied.

        Of those that are deeper than a chunk is long the loop multiplies by both factors of its
        matrices: these would be larger.
        """
        dim, columns = len(self.batch), kept
        if shape_of(kept.type)[-2] <= self.size:
            added, read = (self.rounded(self.matmul(kept, each)) for each in (added, read))
            columns = None
        shape = (*shape_of(kept.type)[:-1], shape_of(added.type)[-1])
        type_ = TensorType(self.factor_type, shape)
        return self.parts.add(
            kn.RecurrenceOp(added, dim, type_, read, decay, columns, exclusive=True)
        )

    def times(self, one: SSAValue, other: SSAValue) -> SSAValue:
        """The product of elements."""
        return self.parts.apply("mul", one, other)

    def exp(self, value: SSAValue) -> SSAValue:
        """The exponential of elements."""
        return self.parts.apply("exp", value)

    def rated(self, rows: SSAValue, removed: Removed) -> SSAValue:
        """Rows, each times the rate of its step."""
        if removed.rates:
            rates = reduce(self.times, map(self.of_steps, removed.rates))
            if removed.scale != 1.0:
                rates = self.parts.apply("mul_scalar", rates, constants=(removed.scale,))
            return self.times(rows, rates)
        return self.parts.apply("mul_scalar", rows, constants=(removed.scale,))

    def of_steps(self, value: SSAValue) -> SSAValue:
        """A number of each step, as a column.

        What is computed of such numbers is computed in chunks, with all else that they have.
        """
        op = value.owner
        is_function = isinstance(op, kn.ElementwiseOp) and not op.computes_integers
        if not is_function or not isinstance(op, (*UNARY, *BINARY)):
            return self.rows(value, ())
        operands = map(self.of_steps, op.operands)
        return self.parts.apply(op.FUNCTION, *operands, constants=op.function.constants)

    def inverse(self, lower: SSAValue) -> SSAValue:
        """(1 - N)^-1 of a matrix that is 0 at its diagonal and above, in f32.

        Of small blocks along the diagonal first, then of larger ones: with T the inverse of blocks
        and L what joins some of them, (1 - D - L)^-1 = (1 - T L)^-1 T, and T L to the power of
        their number is 0.  Powers of few blocks stay as small as the inverse is; those of all of N
        may not: of equal keys they grow as binomial coefficients do, and cancel.
        """
        size, inverse = 1, self.one
        while size < self.size:
            count = _fewest_parts(self.size // size)
            joined = lower if size == 1 and count == self.size else self.joining(lower, size, count)
            step = joined if size == 1 else self.product(inverse, joined)
            powers = self.sum_of_powers(step, count)
            inverse = powers if size == 1 else self.product(powers, inverse)
            size *= count
        return inverse

    def sum_of_powers(self, step: SSAValue, count: int) -> SSAValue:
        """1 + M + M^2 + ... below M^count, which is 0: (1 + M)(1 + M^2)(1 + M^4)...."""
        total, power, reach = self.parts.apply("add", step, self.one), step, 2
        while reach < count:
            power = self.product(power, power)
            total = self.parts.apply("add", total, self.product(total, power))
            reach *= 2
        return total

    def joining(self, lower: SSAValue, size: int, count: int) -> SSAValue:
        """What of a matrix is in blocks of ``count`` times a size, and in none of that size."""
        outer = self.one_in_blocks(size * count)
        if size > 1:
            outer = self.parts.apply("sub", outer, self.one_in_blocks(size))
        return self.times(lower, self.rounded(outer))

    def one_in_blocks(self, size: int) -> SSAValue:
        """1 in the blocks along the diagonal, else 0."""
        count, ones = self.size // size, self.constant(1.0)
        if count == 1:
            return ones
        apart = self.reshaped(ones, [count, size, count, size])
        same = [LinearForm((sign, 0, -sign, 0), 0) for sign in (1, -1)]
        return self.reshaped(self.parts.add(kn.MaskOp(apart, same, 0.0)), shape_of(ones.type))

    @cached_property
    def one(self) -> SSAValue:
        """The matrix that is 1 at its diagonal, else 0."""
        return self.rounded(self.masked(self.masked(self.constant(1.0)), upper=True))
