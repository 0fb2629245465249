"""Applies mappings: kernels around bands, and loops over digits in their place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.te import (
    MOST_THREADS,
    WARP,
    AccessOp,
    AnchorOp,
    ApplyOp,
    AsmOp,
    AtomicOp,
    BindOp,
    IfOp,
    IterationOp,
    KernelOp,
    Level,
    NewOp,
    ParOp,
    RedOp,
    SectionOp,
    SeqOp,
    Space,
    StepOp,
    ThreadsOp,
    ViewOp,
)
from mugraph.passes.targets import Target
from mugraph.passes.te_inline import fold_sections, inline_calls
from mugraph.passes.te_map.bands import (
    Band,
    band_at,
    bands_in,
    cluster_blocks,
    grid_depth,
    has_par,
    is_block_scalar,
    writes_outside,
)
from mugraph.passes.te_map.choice import candidates_of, choose, place_type, swizzled_layout
from mugraph.passes.te_map.family import BandMapping, identity
from mugraph.passes.te_map.reductions import after_band, before_band
from mugraph.passes.te_map.types import retype

DEFAULT_THREADS = 256


def map_function(function: FuncOp, target: Target, threads: int = 0) -> None:
    """Makes kernels of a function; raises ``PassFailedException`` for what cannot be mapped."""
    inline_calls(function)
    fold_sections(function)
    _Mapper(function, target, threads).run()


@dataclass
class _Mapper:
    function: FuncOp
    target: Target
    threads: int
    kernels: int = 0

    def run(self) -> None:
        """Makes a kernel of each top-level loop, and of what stands between them."""
        block = self.function.body.block
        serial: list[Operation] = []
        for op in list(block.ops):
            if isinstance(op, ParOp):
                self.serial_kernel(serial)
                serial = []
                self.kernel(op)
            elif isinstance(op, ReturnOp):
                self.serial_kernel(serial)
            elif isinstance(op, NewOp) or _is_number(op):
                continue
            else:
                serial.append(op)
        _sink_numbers(block)

    def symbol(self) -> str:
        """A name for the next kernel."""
        name = self.function.sym_name.data
        self.kernels += 1
        return name if self.kernels == 1 else f"{name}_{self.kernels}"

    def serial_kernel(self, ops: list[Operation]) -> None:
        """A kernel of one block for statements outside parallel loops."""
        if not ops:
            return
        kernel = self.new_kernel(ops[0])
        for op in ops:
            op.detach()
            kernel.threads.body.block.add_op(op)
        self.finish(kernel, [])

    def kernel(self, loop: ParOp) -> None:
        """The kernel of a top-level parallel loop."""
        band = band_at(loop)
        depth = grid_depth(band)
        for inner in band.loops[-1].body.walk():
            if isinstance(inner, ParOp) and inner.scope in (Level.GRID, Level.CLUSTER):
                raise PassFailedException(
                    f"--te-map: the loop over {inner.variable.name_hint or 'blocks'} is at level "
                    f"{inner.scope}, but stands beside other statements: loops over blocks are the "
                    "outermost ones, one directly in the other"
                )
        rest = band.loops[depth:]
        if depth == 0 and rest[0].scope is None and not band.is_fully:
            self.flat_kernel(band)
            return
        grid = band.loops[:depth]
        kernel = self.new_kernel(loop)
        body = kernel.threads.body.block
        if rest:
            rest[0].detach()
            body.add_op(rest[0])
        else:
            _move(band.body, body)
        self.finish(kernel, grid)
        if grid:
            Rewriter.erase_op(loop, safe_erase=False)

    def new_kernel(self, before: Operation) -> KernelOp:
        """An empty kernel of one thread, in front of an operator."""
        body, outer = (Block(arg_types=[IndexType()]) for _ in range(2))
        body.args[0].name_hint = "thread"
        outer.args[0].name_hint = "block"
        outer.add_op(ThreadsOp(1, body))
        kernel = KernelOp(self.symbol(), 1, outer)
        Rewriter.insert_op(kernel, InsertPoint.before(before))
        return kernel

    def finish(self, kernel: KernelOp, grid: Sequence[ParOp]) -> None:
        """Makes the grid of loops around a block's program, and deals its bands to threads."""
        holder = kernel.threads
        block = kernel.variable
        numbers = _digits([one.iterations for one in grid])
        indices: list[SSAValue] = []
        for one, expression in zip(grid, numbers, strict=True):
            index = apply(expression, [block], one.variable.name_hint)
            Rewriter.insert_op(index, InsertPoint.before(holder))
            one.variable.replace_all_uses_with(index.result)
            indices.append(index.result)
        certificate = stated(indices, [one.iterations for one in grid], grid=True)
        Rewriter.insert_op(certificate, InsertPoint.before(holder))
        kernel.extent = IntegerAttr(math.prod(one.iterations for one in grid), i64)
        if (blocks := cluster_blocks(grid)) is not None:
            self.check_cluster(blocks)
            kernel.cluster = IntegerAttr(blocks, i64)
        threads = self.block_threads(bands_in(holder))
        program = _Program(self, holder.variable, threads)
        program.choose(holder)
        program.rewrite(holder.body.block)
        holder.extent = IntegerAttr(threads, i64)

    def check_cluster(self, blocks: int) -> None:
        """Raises ``PassFailedException`` where clusters cannot have so many blocks."""
        limit = self.target.blocks_per_cluster
        if blocks > limit:
            raise PassFailedException(
                f"--te-map: {blocks} iterations of loops at level cluster are as many blocks of one "
                f"cluster; {self.target.name} "
                + (f"has clusters of up to {limit} blocks" if limit > 1 else "has no clusters")
            )

    def block_threads(self, bands: Sequence[Band]) -> int:
        """The threads of a block: what fully parallel loops need, or else up to 256."""
        if self.threads:
            return self.threads
        fully = [math.prod(band.extents[:-1]) * band.group for band in bands if band.is_fully]
        if fully:
            group = max(band.group for band in bands if band.is_fully)
            wanted = max(fully)
            while wanted > MOST_THREADS and wanted % 2 == 0 and wanted // 2 % group == 0:
                wanted //= 2
            return -(-min(wanted, MOST_THREADS) // WARP) * WARP
        items = max([math.prod(band.extents) for band in bands], default=1)
        return min(DEFAULT_THREADS, -(-items // WARP) * WARP)

    def flat_kernel(self, band: Band) -> None:
        """The kernel of a band whose iterations are dealt to blocks and threads alike."""
        threads = self.threads or DEFAULT_THREADS
        items = math.prod(band.extents)
        threads = min(threads, -(-items // WARP) * WARP)
        spaces = self.spaces(self.function)
        enough = threads * self.target.multiprocessors
        candidates = candidates_of([band], threads, spaces, enough)
        (mapping,) = choose([[band]], [candidates], spaces).mappings
        kernel = self.new_kernel(band.loops[0])
        holder = kernel.threads
        # The last dimension's blocks are neighbours, and in each the slowest digit comes first.
        radices = [mapping.step_radices(dimension) for dimension in range(len(band.loops))]
        numbers = iter(_digits([radix for each in radices for radix in reversed(each)]))
        steps = [[(next(numbers), [kernel.variable]) for _ in each][::-1] for each in radices]
        holder.body.block.add_op(band_step(band, mapping, holder.variable, steps))
        Rewriter.erase_op(band.loops[0], safe_erase=False)
        holder.extent = IntegerAttr(threads, i64)
        kernel.extent = IntegerAttr(mapping.steps, i64)

    def spaces(self, root: Operation) -> dict[SSAValue, Space]:
        """Where buffers are taken to be: undecided ones in registers."""
        spaces: dict[SSAValue, Space] = dict.fromkeys(self.function.body.block.args, Space.GLOBAL)
        for op in self.function.body.block.ops:
            if isinstance(op, NewOp):
                spaces[op.result] = Space.GLOBAL
        for op in root.walk():
            if isinstance(op, NewOp):
                spaces.setdefault(op.result, op.result.type.memory_space or Space.REGISTER)
        return spaces


@dataclass
class _Program:
    """The program of a block while its bands are dealt to threads."""

    mapper: _Mapper
    thread: SSAValue
    threads: int

    def choose(self, root: ThreadsOp) -> None:
        """Chooses mappings and swizzles; bands that touch a common undecided buffer have one."""
        self.scalars: set[SSAValue] = {
            op.result for op in root.walk() if isinstance(op, NewOp) and is_block_scalar(op)
        }
        bands = bands_in(root)
        groups = _tied(bands, self.scalars)
        spaces = self.mapper.spaces(root)
        candidates = [
            [identity(group[0].extents, self.threads, group[0].group)]
            if group[0].is_fully
            else candidates_of(group, self.threads, spaces, None)
            for group in groups
        ]
        choice = choose(groups, candidates, spaces)
        self.mappings: dict[ParOp, BandMapping] = {
            band.loops[0]: mapping
            for group, mapping in zip(groups, choice.mappings, strict=True)
            for band in group
        }
        for buffer, swizzle in choice.swizzles.items():
            if swizzle is not None:
                type_ = place_type(buffer)
                retype(buffer, type_.with_layout(LayoutAttr(swizzled_layout(type_, swizzle))))

    def rewrite(self, block: Block) -> None:
        """Deals the bands of a block's program, and what stands between them, to threads."""
        for op in list(block.ops):
            if isinstance(op, ParOp):
                self.band(op)
            elif isinstance(op, (SeqOp, IfOp)) and has_par(op):
                self.rewrite(op.body.block)
            elif isinstance(op, (NewOp, SectionOp, ApplyOp, ViewOp)) or _is_number(op):
                continue
            elif writes_outside(op, self.scalars):
                self.one_thread(op)

    def one_thread(self, op: Operation) -> None:
        """What one thread does for all."""
        if any(result.first_use for result in op.results):
            raise PassFailedException(
                f"--te-map: '{op.name}' stands outside parallel loops of a block, and its result "
                "is used: all threads would need it from one"
            )
        inner = Block([stated([], [])])
        test = AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0),)))
        step = StepOp("one thread", Block([IfOp([self.thread], test, [True], inner)]))
        Rewriter.insert_op(step, InsertPoint.before(op))
        op.detach()
        inner.add_op(op)
        for loop in list(op.walk()):
            if isinstance(loop, ParOp):
                _serialise(loop)

    def band(self, loop: ParOp) -> None:
        """One band: reductions of its threads before and after it."""
        band = band_at(loop)
        mapping = self.mappings[loop]
        for inner in band.body.walk():
            if isinstance(inner, ParOp) and inner.is_fully:
                raise PassFailedException(
                    "--te-map: a fully parallel loop in a block must be the only statement of the "
                    f"loops around it, up to those over blocks; that over "
                    f"{inner.variable.name_hint or 'lanes'} is not"
                )
        reds = [
            op for op in band.body.walk() if isinstance(op, RedOp) and op.buffer in self.scalars
        ]
        partials = before_band(reds, InsertPoint.before(loop))
        step = band_step(band, mapping, self.thread, [None] * len(band.extents))
        Rewriter.insert_op(step, InsertPoint.before(loop))
        Rewriter.erase_op(loop, safe_erase=False)
        after_band(partials, InsertPoint.after(step))


def band_step(
    band: Band,
    mapping: BandMapping,
    thread: SSAValue,
    steps: Sequence[Sequence[tuple[AffineExpr, list[SSAValue]]] | None],
) -> StepOp:
    """What one thread does of a band; its body is moved.

    ``steps`` has the step digits of each dimension, ``None`` for a loop over each.
    """
    body = Block()
    step = StepOp(band.title, body)
    block = body
    if mapping.busy_threads < mapping.threads:
        block = _under(block, [thread], [AffineExpr.dimension(0) * -1 + (mapping.busy_threads - 1)])
    bases: list[SSAValue] = []
    along = mapping.vector_dimension
    found: list[Sequence[tuple[AffineExpr, list[SSAValue]]]] = []
    for dimension, loop in enumerate(band.loops):
        given = steps[dimension]
        if given is None:
            given, block = _step_loops(mapping.step_radices(dimension), loop, block)
        found.append(given)
    for dimension, loop in enumerate(band.loops):
        operands = [thread]
        digits: list[AffineExpr] = []
        for expression, variables in found[dimension]:
            places = [AffineExpr.dimension(len(operands) + n) for n in range(len(variables))]
            digits.append(expression.replace_dims_and_symbols(places, []))
            operands += variables
        index = mapping.index(dimension, AffineExpr.dimension(0), digits, AffineExpr.constant(0))
        name = loop.variable.name_hint or "i"
        is_vector = dimension == along
        base = apply(index, operands, f"{name}_first" if is_vector else name)
        block.add_op(base)
        bases.append(base.result)
    for dimension, base in enumerate(bases):
        if mapping.is_ragged(dimension):
            limit = mapping.extents[dimension] - mapping.digits[dimension].vector
            block = _under(block, [base], [AffineExpr.dimension(0) * -1 + limit])
    if along is not None:
        inner = Block(arg_types=[IndexType()])
        name = band.loops[along].variable.name_hint or "i"
        inner.args[0].name_hint = f"{name}_next"
        block.add_op(SeqOp(mapping.digits[along].vector, inner))
        block = inner
        total = AffineExpr.dimension(0) + AffineExpr.dimension(1)
        index = apply(total, [bases[along], inner.args[0]], name)
        block.add_op(index)
        bases[along] = index.result
    for loop, base in zip(band.loops, bases, strict=True):
        loop.variable.replace_all_uses_with(base)
    alignment = band.loops[-1].thread_alignment if band.is_fully else None
    over_grid = any(one is not None for one in steps)
    block.add_op(stated(bases, mapping.extents, grid=over_grid, alignment=alignment))
    _move(band.body, block)
    for inner_op in list(block.walk()):
        if isinstance(inner_op, ParOp):
            _serialise(inner_op)
    return step


def _step_loops(
    radices: Sequence[int], loop: ParOp, block: Block
) -> tuple[list[tuple[AffineExpr, list[SSAValue]]], Block]:
    """A loop for each step digit, the slowest outermost; the digits, and the innermost body."""
    found: list[tuple[AffineExpr, list[SSAValue]]] = []
    for radix in reversed(radices):
        inner = Block(arg_types=[IndexType()])
        inner.args[0].name_hint = f"{loop.variable.name_hint or 'i'}_step"
        block.add_op(SeqOp(radix, inner))
        found.insert(0, (AffineExpr.dimension(0), [inner.args[0]]))
        block = inner
    return found, block


def stated(
    indices: Sequence[SSAValue],
    extents: Sequence[int],
    *,
    grid: bool = False,
    alignment: int | None = None,
) -> IterationOp:
    """The certificate that these indices come up once each."""
    distinct = list(dict.fromkeys(indices))
    places = [AffineExpr.dimension(distinct.index(one)) for one in indices]
    map_ = AffineMapAttr(AffineMap(len(distinct), 0, tuple(places)))
    return IterationOp(distinct, map_, extents, grid=grid, alignment=alignment)


def apply(expression: AffineExpr, operands: Sequence[SSAValue], name: str | None) -> ApplyOp:
    """A ``te.apply`` of the operands that the expression uses."""
    used = sorted({part.position for part in expression.dfs() if isinstance(part, AffineDimExpr)})
    place = [AffineExpr.constant(0)] * len(operands)
    for position, dimension in enumerate(used):
        place[dimension] = AffineExpr.dimension(position)
    compact = expression.replace_dims_and_symbols(place, [])
    kept = [operands[dimension] for dimension in used]
    op = ApplyOp(kept, AffineMapAttr(AffineMap(len(kept), 0, (compact,))))
    op.result.name_hint = name
    return op


def _under(block: Block, operands: list[SSAValue], conditions: list[AffineExpr]) -> Block:
    inner = Block()
    map_ = AffineMapAttr(AffineMap(len(operands), 0, tuple(conditions)))
    block.add_op(IfOp(operands, map_, [False] * len(conditions), inner))
    return inner


def _digits(extents: Sequence[int]) -> list[AffineExpr]:
    """The digits of a number, the last one fastest."""
    found: list[AffineExpr] = []
    stride = math.prod(extents)
    total = stride
    for extent in extents:
        stride //= extent
        digit = AffineExpr.dimension(0)
        if extent == 1:
            digit = AffineExpr.constant(0)
        else:
            digit = digit if stride == 1 else digit // stride
            digit = digit if stride * extent == total else digit % extent
        found.append(digit)
    return found


def _move(source: Block, target: Block) -> None:
    for op in list(source.ops):
        op.detach()
        target.add_op(op)


def _serialise(loop: ParOp) -> None:
    """A parallel loop within a thread runs its iterations in order."""
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = loop.variable.name_hint
    loop.variable.replace_all_uses_with(body.args[0])
    _move(loop.body.block, body)
    Rewriter.replace_op(loop, SeqOp(loop.iterations, body), [])


def _is_number(op: Operation) -> bool:
    """Whether an operator only computes numbers of numbers."""
    return not op.regions and not isinstance(
        op, (AccessOp, AnchorOp, AsmOp, AtomicOp, BindOp, NewOp, ReturnOp, SectionOp)
    )


def _sink_numbers(block: Block) -> None:
    """Computes numbers of the function in each kernel that uses them."""
    for op in reversed([one for one in block.ops if _is_number(one)]):
        for use in [use for result in op.results for use in list(result.uses)]:
            copy = op.clone()
            Rewriter.insert_op(copy, InsertPoint.before(use.operation))
            use.operation.operands[use.index] = copy.results[0]
        Rewriter.erase_op(op)


def _tied(bands: Sequence[Band], scalars: set[SSAValue]) -> list[list[Band]]:
    """Bands of equal extents that touch a common buffer whose place is open, together."""
    groups: list[tuple[list[Band], set[SSAValue]]] = []
    for band in bands:
        touched = set(_undecided(band, scalars))
        mine: tuple[list[Band], set[SSAValue]] = ([band], touched)
        kept: list[tuple[list[Band], set[SSAValue]]] = []
        for group in groups:
            other = group[0][0]
            same = other.extents == band.extents and other.is_fully == band.is_fully
            if same and group[1] & touched:
                mine = ([*group[0], *mine[0]], group[1] | mine[1])
            else:
                kept.append(group)
        groups = [*kept, mine]
    return [group for group, _ in groups]


def _undecided(band: Band, scalars: set[SSAValue]) -> Iterator[SSAValue]:
    for op in band.body.walk():
        if isinstance(op, AccessOp) and isinstance(new := op.buffer.owner, NewOp):
            inside = band.loops[0].is_ancestor(new)
            space = new.result.type.memory_space
            if not inside and op.buffer not in scalars and space in (None, Space.REGISTER):
                yield op.buffer
