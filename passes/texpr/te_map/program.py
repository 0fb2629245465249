"""The program of a block: its bands dealt to threads, and what stands between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AffineMapAttr, UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te.mapped import OF_EACH_THREAD
from mugraph.passes.connected import connected
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.analysis.numbers import is_number
from mugraph.passes.texpr.te_map.bands import (
    Band,
    band_at,
    bands_in,
    block_band_at,
    has_par,
    is_block_scalar,
    is_warp_program,
    warp_bands_in,
    writes_outside,
)
from mugraph.passes.texpr.te_map.choice import (
    Swizzles,
    candidates_of,
    choose,
    only,
    place_type,
    swizzled_layout,
)
from mugraph.passes.texpr.te_map.exchanged import exchanged_buffers
from mugraph.passes.texpr.te_map.family import BandMapping
from mugraph.passes.texpr.te_map.handover import set_up_mbarriers, swizzle_boxes
from mugraph.passes.texpr.te_map.reductions import after_band, before_band
from mugraph.passes.texpr.te_map.search import consecutive
from mugraph.passes.texpr.te_map.steps import (
    Warps,
    apply,
    band_step,
    digits_of,
    serialise,
    stated,
    under,
)
from mugraph.passes.texpr.te_map.types import make_private, retype

Spaces = Callable[[Operation], dict[SSAValue, te.Space]]


@dataclass
class Program:
    """A program while its bands are dealt to threads: those of a block, or the lanes of its warps.

    ``thread`` is the number among ``threads``; ``warps`` says which iteration a warp has.
    """

    thread: SSAValue
    threads: int
    warps: Warps | None = None
    scalars: set[SSAValue] = field(default_factory=set[SSAValue])
    mappings: dict[te.ParOp, BandMapping] = field(default_factory=dict[te.ParOp, BandMapping])

    def choose(self, root: te.ThreadsOp, spaces_of: Spaces, most_bytes: int = 0) -> None:
        """Chooses mappings and swizzles; bands that touch a common undecided buffer have one.

        Where threads then exchange elements of an undecided buffer, of up to ``most_bytes``, it is
        in shared memory, and it is chosen again with what that costs.
        """
        swizzle_boxes(root)
        self.scalars = {
            op.result for op in root.walk() if isinstance(op, te.NewOp) and is_block_scalar(op)
        }
        for band in warp_bands_in(root):
            self.make_private(band)
        chosen = self.choose_mappings(root, spaces_of)
        dealt = {band.loops[0]: (band, self.mappings[band.loops[0]]) for band in bands_in(root)}
        exchanged = exchanged_buffers(root, dealt, self.scalars, most_bytes)
        if exchanged:
            for new in exchanged:
                retype(new.result, new.result.type.with_space(te.Space.SHARED))
            chosen = self.choose_mappings(root, spaces_of)
        for buffer, swizzle in chosen.items():
            if swizzle is not None:
                type_ = place_type(buffer)
                retype(buffer, type_.with_layout(LayoutAttr(swizzled_layout(type_, swizzle))))

    def choose_mappings(self, root: te.ThreadsOp, spaces_of: Spaces) -> Swizzles:
        """Chooses the mapping of each band, and gives the swizzles of shared buffers with them."""
        groups = [(group, self.threads) for group in _tied(bands_in(root), self.scalars)]
        for band in warp_bands_in(root):
            inner = [one for one in _lane_bands(band) if one.group <= WARP or not one.is_fully]
            groups += [(group, WARP) for group in _tied(inner, self.scalars)]
        spaces = spaces_of(root)
        candidates = [
            only(consecutive(group[0].extents, threads, group[0].group))
            if group[0].is_fully
            else candidates_of(group, threads, spaces, None)
            for group, threads in groups
        ]
        choice = choose([group for group, _ in groups], candidates, spaces)
        self.mappings = {
            band.loops[0]: mapping
            for (group, _), mapping in zip(groups, choice.mappings, strict=True)
            for band in group
        }
        return choice.swizzles

    def make_private(self, band: Band) -> None:
        """Gives each iteration that a warp has buffers of its own, numbers in registers."""
        if band.is_of_lanes:
            return
        for new in [op for op in band.body.walk() if isinstance(op, te.NewOp)]:
            if enclosing(new, te.ParOp) is not band.loops[-1]:
                continue
            if new.result in self.scalars:
                self.scalars.remove(new.result)
                retype(new.result, new.result.type.with_space(te.Space.REGISTER))
                self.scalars.add(new.result)
                new.attributes[OF_EACH_THREAD] = UnitAttr()
            else:
                make_private(new.result, band.extents, [loop.variable for loop in band.loops])

    def rewrite(self, ops: Sequence[Operation]) -> None:
        """Deals the bands of a program, and what stands between them, to threads."""
        for op in ops:
            if isinstance(op, te.ParOp):
                self.band(op)
            elif isinstance(op, te.NewMbarriersOp):
                set_up_mbarriers(op, self.thread)
            elif isinstance(op, (te.SeqOp, te.IfOp)) and has_par(op):
                if self.warps and isinstance(op, te.IfOp):
                    self.check_condition(op)
                self.rewrite(list(op.body.block.ops))
            elif isinstance(op, te.WhenOp) and has_par(op):
                raise PassFailedException(
                    "--te-map: an 'if' on numbers stands around loops that are dealt to threads; "
                    "put the condition into those loops"
                )
            elif isinstance(op, (te.NewOp, te.SectionOp, te.ApplyOp, te.ViewOp)) or is_number(op):
                continue
            elif writes_outside(op, self.scalars):
                self.one_thread(op)

    def check_condition(self, op: te.IfOp) -> None:
        """Raises ``PassFailedException`` where warps would part."""
        assert self.warps is not None
        if self.warps.thread in variables_of(list(op.indices)):
            raise PassFailedException(
                "--te-map: an 'if' around loops at level warp depends on which iteration the warp "
                "has; put the condition into those loops"
            )

    def one_thread(self, op: Operation) -> None:
        """What one thread does for all."""
        if any(result.first_use for result in op.results):
            raise PassFailedException(
                f"--te-map: '{op.name}' stands outside parallel loops of a block, and its result "
                "is used: all threads would need it from one"
            )
        warps = self.warps
        certificate = stated(warps.indices, warps.extents) if warps else stated([], [])
        inner = Block([certificate])
        test = AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0),)))
        body = Block()
        outer = under(body, [warps.thread], [warps.limit]) if warps and warps.are_idle else body
        outer.add_op(te.IfOp([self.thread], test, [True], inner))
        step = te.StepOp("one thread" if warps is None else "one lane", body)
        Rewriter.insert_op(step, InsertPoint.before(op))
        op.detach()
        inner.add_op(op)
        for loop in list(op.walk()):
            if isinstance(loop, te.ParOp):
                serialise(loop)

    def band(self, loop: te.ParOp) -> None:
        """One band: reductions of its threads before and after it."""
        if self.warps is None and is_warp_program(block_band_at(loop)):
            self.warp_program(block_band_at(loop))
            return
        band = band_at(loop)
        mapping = self.mappings[loop]
        partials = before_band(self._reductions(loop), InsertPoint.before(loop))
        step = band_step(band, mapping, self.thread, [None] * len(band.extents), self.warps)
        Rewriter.insert_op(step, InsertPoint.before(loop))
        Rewriter.erase_op(loop, safe_erase=False)
        after_band(partials, InsertPoint.after(step), of_warp=self.warps is not None)

    def warp_program(self, band: Band) -> None:
        """Deals the iterations of a band to warps, and runs its body as the program of each."""
        first = band.loops[0]
        outer = () if band.is_of_lanes else band.loops
        extents = [loop.iterations for loop in outer]
        count, total = math.prod(extents), self.threads // WARP
        if count > total:
            raise PassFailedException(
                f"--te-map: '{band.title}' holds loops at level warp, so that each of its {count} "
                f"iterations takes a warp, and a block has {total}; put a loop over blocks, or a "
                "'seq', around"
            )
        for inner in _lane_bands(band):
            if inner.is_fully and inner.group > WARP:
                raise PassFailedException(
                    f"--te-map: '{inner.title}' takes {inner.group} threads at once, but stands "
                    f"beside other statements in '{band.title}', whose iterations are each run by "
                    "a warp"
                )
        before = InsertPoint.before(first)
        lane = apply(AffineExpr.dimension(0) % WARP, [self.thread], "lane")
        Rewriter.insert_op(lane, before)
        indices: list[SSAValue] = []
        for loop, digit in zip(outer, digits_of(extents), strict=True):
            warp = digit.replace_dims_and_symbols([AffineExpr.dimension(0) // WARP], [])
            if count < total:
                warp = warp % loop.iterations
            index = apply(warp, [self.thread], loop.variable.name_hint)
            Rewriter.insert_op(index, before)
            loop.variable.replace_all_uses_with(index.result)
            indices.append(index.result)
        # A number of the whole block gets the parts of all lanes when all warps are done.
        partials = before_band(self._reductions(first), before)
        warps = Warps(self.thread, tuple(indices), tuple(extents), total)
        program = Program(lane.result, WARP, warps, self.scalars, self.mappings)
        if band.is_of_lanes:
            marker = apply(AffineExpr.constant(0), [], None)
            Rewriter.insert_op_after(marker, first)
            program.band(first)
            after_band(partials, InsertPoint.before(marker))
            Rewriter.erase_op(marker)
            return
        body = list(band.body.ops)
        for op in body:
            op.detach()
            Rewriter.insert_op(op, before)
        program.rewrite(body)
        after_band(partials, before)
        Rewriter.erase_op(first, safe_erase=False)

    def _reductions(self, loop: te.ParOp) -> list[te.RedOp]:
        """The reductions in a loop into numbers from outside of it, which its iterations share."""
        return [
            op
            for op in loop.walk()
            if isinstance(op, te.RedOp)
            and op.buffer in self.scalars
            and not loop.is_ancestor(op.buffer.owner)
        ]


def _lane_bands(band: Band) -> list[Band]:
    """The bands of the program that each warp runs."""
    if band.is_of_lanes:
        return [band]
    found: list[Band] = []
    waiting = list(band.body.ops)
    while waiting:
        op = waiting.pop(0)
        if isinstance(op, te.ParOp):
            found.append(band_at(op))
        else:
            waiting = [one for region in op.regions for one in region.block.ops] + waiting
    return found


def _tied(bands: Sequence[Band], scalars: set[SSAValue]) -> list[list[Band]]:
    """Bands of equal extents that touch a common buffer whose place is open, together."""
    return connected(
        bands,
        lambda band: [(one, band.extents, band.is_fully) for one in _undecided(band, scalars)],
    )


def _undecided(band: Band, scalars: set[SSAValue]) -> Iterator[SSAValue]:
    for op in band.body.walk():
        if isinstance(op, te.AccessOp) and isinstance(new := op.buffer.owner, te.NewOp):
            inside = band.loops[0].is_ancestor(new)
            space = new.result.type.memory_space
            if not inside and op.buffer not in scalars and space in (None, te.Space.REGISTER):
                yield op.buffer
