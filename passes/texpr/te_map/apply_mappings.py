"""Applies mappings: kernels around bands, and loops over digits in their place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType, IntegerAttr, UnitAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.targets import Target
from mugraph.passes.texpr.analysis.numbers import is_number, sink_numbers
from mugraph.passes.texpr.te_inline import fold_sections, inline_calls
from mugraph.passes.texpr.te_map.bands import (
    Band,
    band_at,
    bands_in,
    cluster_blocks,
    deal_to_lanes,
    grid_depth,
    has_par,
    warp_bands_in,
)
from mugraph.passes.texpr.te_map.choice import candidates_of, choose
from mugraph.passes.texpr.te_map.clusters import (
    bands_of_blocks,
    blocks_at_once,
    check_buffers_of_clusters,
    deal_to_blocks,
    is_of_whole_grid,
)
from mugraph.passes.texpr.te_map.grid_buffers import buffers_of_grid, place_buffer
from mugraph.passes.texpr.te_map.program import Program
from mugraph.passes.texpr.te_map.steps import (
    apply,
    band_step,
    digits_of,
    move,
    stated,
)
from mugraph.passes.texpr.unrolling import write_out

DEFAULT_THREADS = 256
_OF_BLOCKS = (te.Level.GRID, te.Level.CLUSTER)
MOST_LAUNCHES = 64
"""The iterations of loops around kernels that are written out."""


def map_function(function: FuncOp, target: Target, threads: int = 0) -> None:
    """Makes kernels of a function; raises ``PassFailedException`` for what cannot be mapped."""
    inline_calls(function)
    fold_sections(function)
    check_buffers_of_clusters(function)
    if not write_out(function.body.block, _is_around_blocks, MOST_LAUNCHES):
        raise PassFailedException(
            f"--te-map: {op_label(function)}: a loop in order around loops at level grid is "
            f"written out, a kernel for each iteration, and {MOST_LAUNCHES} are the most; write "
            "'fully par' for them, which is one kernel, or call the function as often from the host"
        )
    _Mapper(function, target, threads).run()


def _is_around_blocks(op: Operation) -> bool:
    """Whether loops over blocks stand in an operator, by their level or as they are large.

    Not where all are over the whole grid at once, in one kernel.
    Where they share a buffer in shared memory, or there are too many launches, large loops without
    a level are those of one block.
    """
    if is_of_whole_grid(op):
        return False
    inner = list(op.walk())
    if any(isinstance(one, te.ParOp) and one.scope in _OF_BLOCKS for one in inner):
        return True
    if any(
        isinstance(one, te.NewOp) and one.result.type.memory_space is te.Space.SHARED
        for one in inner
    ):
        return False
    launches = math.prod(
        one.iterations for one in inner if isinstance(one, te.SeqOp) and has_par(one)
    )
    return launches <= MOST_LAUNCHES and any(
        band.loops[0].scope is None and math.prod(band.extents) > te.MAX_THREADS
        for band in bands_in(op)
    )


def _share_a_kernel(statements: Sequence[Operation], op: Operation) -> bool:
    """Whether an operator goes on with a kernel: of one block, or of the same whole grid."""
    if not statements:
        return True
    if not is_of_whole_grid(op) or not is_of_whole_grid(statements[0]):
        return is_of_whole_grid(op) is is_of_whole_grid(statements[0])
    first, second = (bands_of_blocks([one], te.Level.GRID) for one in (statements[0], op))
    return blocks_at_once(first, te.Level.GRID) == blocks_at_once(second, te.Level.GRID)


@dataclass
class _Mapper:
    function: FuncOp
    target: Target
    threads: int
    kernels: int = 0

    def run(self) -> None:
        """Makes a kernel of each top-level loop, and of what stands between them."""
        block = self.function.body.block
        statements: list[Operation] = []
        for op in list(block.ops):
            if isinstance(op, te.NewOp) or is_number(op):
                continue
            if isinstance(op, te.KernelOp):
                raise PassFailedException(
                    f"--te-map: {op_label(self.function)} has kernels already ('{op.symbol.data}');"
                    " map it once, and whole"
                )
            loop = op if isinstance(op, te.ParOp) and not op.is_whole_grid else None
            if loop or isinstance(op, ReturnOp) or not _share_a_kernel(statements, op):
                self.kernel_of(statements)
                statements = []
            if loop:
                self.kernel(loop)
            else:
                statements.append(op)
        sink_numbers(block)

    def symbol(self) -> str:
        """A name for the next kernel."""
        name = self.function.sym_name.data
        self.kernels += 1
        return name if self.kernels == 1 else f"{name}_{self.kernels}"

    def kernel_of(self, statements: Sequence[Operation]) -> None:
        """A kernel of the whole grid, or of one block for what no loop over blocks stands in."""
        if not statements:
            return
        kernel = self.new_kernel(statements[0])
        for op in statements:
            op.detach()
            kernel.threads.body.block.add_op(op)
        self.finish(kernel, [])

    def kernel(self, loop: te.ParOp) -> None:
        """The kernel of a top-level parallel loop."""
        band = band_at(loop)
        depth = grid_depth(band)
        rest = band.loops[depth:]
        if rest or not bands_of_blocks(band.body.ops, te.Level.CLUSTER):
            refuse_blocks_in(band.loops[-1], "stands beside other statements")
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
            move(band.body, body)
        self.finish(kernel, grid)
        if grid:
            Rewriter.erase_op(loop, safe_erase=False)

    def new_kernel(self, before: Operation) -> te.KernelOp:
        """An empty kernel of one thread, in front of an operator."""
        body, outer = (Block(arg_types=[IndexType()]) for _ in range(2))
        body.args[0].name_hint = "thread"
        outer.args[0].name_hint = "block"
        outer.add_op(te.ThreadsOp(1, body))
        kernel = te.KernelOp(self.symbol(), 1, outer)
        Rewriter.insert_op(kernel, InsertPoint.before(before))
        return kernel

    def finish(self, kernel: te.KernelOp, grid: Sequence[te.ParOp]) -> None:
        """Makes the grid of loops around a block's program, and deals its bands to threads."""
        holder = kernel.threads
        level = te.Level.CLUSTER if grid else te.Level.GRID
        bands = bands_of_blocks(holder.body.block.ops, level)
        for band in bands if level is te.Level.GRID else ():
            refuse_blocks_in(band.loops[-1], "stands in one over the whole grid")
        blocks = blocks_at_once(bands, level) if bands else cluster_blocks(grid)
        # Behind the loops over clusters comes the number of a block in its cluster.
        extents = [*(one.iterations for one in grid), *([blocks] if bands and blocks else [])]
        indices: list[SSAValue] = []
        for place, expression in enumerate(digits_of(extents)):
            name = grid[place].variable.name_hint if place < len(grid) else "rank"
            index = apply(expression, [kernel.variable], name)
            Rewriter.insert_op(index, InsertPoint.before(holder))
            if place < len(grid):
                grid[place].variable.replace_all_uses_with(index.result)
            indices.append(index.result)
        Rewriter.insert_op(stated(indices, extents, grid=True), InsertPoint.before(holder))
        kernel.extent = IntegerAttr(math.prod(extents), i64)
        if level is te.Level.CLUSTER and blocks is not None:
            self.check_cluster(blocks)
            kernel.cluster = IntegerAttr(blocks, i64)
        buffers = buffers_of_grid(kernel) if level is te.Level.GRID and bands else []
        if bands:
            deal_to_blocks(holder, bands, indices[-1], level)
        if bands and level is te.Level.GRID:
            kernel.cooperative = UnitAttr()
        for new in buffers:
            place_buffer(new, kernel)
        deal_to_lanes(holder, (self.threads or DEFAULT_THREADS) // WARP)
        threads = self.block_threads(bands_in(holder), warp_bands_in(holder))
        program = Program(holder.variable, threads)
        program.choose(holder, self.spaces, self.target.shared_memory_per_block // 2)
        program.rewrite(list(holder.body.block.ops))
        holder.extent = IntegerAttr(threads, i64)

    def check_cluster(self, blocks: int) -> None:
        """Raises ``PassFailedException`` where clusters cannot have so many blocks."""
        limit = self.target.blocks_per_cluster
        if blocks > limit:
            raise PassFailedException(
                f"--te-map: {blocks} iterations of loops at level cluster are as many blocks of "
                f"one cluster; {self.target.arch} "
                + (f"has clusters of up to {limit} blocks" if limit > 1 else "has no clusters")
            )

    def block_threads(self, bands: Sequence[Band], warp_bands: Sequence[Band]) -> int:
        """The threads of a block: what fully parallel loops and warps need, or else up to 256."""
        if self.threads:
            return self.threads
        for band in bands:
            if band.is_fully and band.group > te.MAX_THREADS:
                raise PassFailedException(
                    f"--te-map: '{band.title}' needs {band.group} threads of a block at once; a "
                    f"block has up to {te.MAX_THREADS}: deal parts of it to blocks by a loop "
                    "around it, as par 4 |b| #grid { fully par 1024 t #block { ... } }"
                )
        fully = [math.prod(band.extents[:-1]) * band.group for band in bands if band.is_fully]
        warps = [1 if band.is_of_lanes else math.prod(band.extents) for band in warp_bands]
        if warps and max(warps) * WARP <= te.MAX_THREADS:
            fully.append(max(warps) * WARP)
        if fully:
            group = max([WARP, *(band.group for band in bands if band.is_fully)])
            wanted = max(fully)
            while wanted > te.MAX_THREADS and wanted % 2 == 0 and wanted // 2 % group == 0:
                wanted //= 2
            return -(-min(wanted, te.MAX_THREADS) // WARP) * WARP
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
        numbers = iter(digits_of([radix for each in radices for radix in reversed(each)]))
        steps = [[(next(numbers), [kernel.variable]) for _ in each][::-1] for each in radices]
        holder.body.block.add_op(band_step(band, mapping, holder.variable, steps))
        Rewriter.erase_op(band.loops[0], safe_erase=False)
        holder.extent = IntegerAttr(threads, i64)
        kernel.extent = IntegerAttr(mapping.steps, i64)

    def spaces(self, root: Operation) -> dict[SSAValue, te.Space]:
        """Where buffers are taken to be: undecided ones in registers."""
        spaces: dict[SSAValue, te.Space] = dict.fromkeys(
            self.function.body.block.args, te.Space.GLOBAL
        )
        for op in self.function.body.block.ops:
            if isinstance(op, te.NewOp):
                spaces[op.result] = te.Space.GLOBAL
        for op in root.walk():
            if isinstance(op, te.NewOp):
                spaces.setdefault(op.result, op.result.type.memory_space or te.Space.REGISTER)
        return spaces


def refuse_blocks_in(op: Operation, where: str) -> None:
    """Refuses loops over blocks in an operator's regions.

    Raises:
        PassFailedException: There is one: which, and what to do.
    """
    for inner in op.walk():
        if inner is op or not isinstance(inner, te.ParOp):
            continue
        if inner.scope in _OF_BLOCKS:
            raise PassFailedException(
                f"--te-map: the loop over {inner.variable.name_hint or 'blocks'} is at level "
                f"{inner.scope}, but {where}: loops over blocks are the outermost ones, one "
                "directly in the other"
            )
