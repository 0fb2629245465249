"""The kernels of functions: of scans as they are written or in chunks, of buckets all alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.likeness import likeness_of
from mugraph.dialects.named_extents import EXTENTS, LENGTHS
from mugraph.passes.program.chunk_scans import chunk_scans
from mugraph.passes.program.chunk_scans.analysis import LONG_CHUNK, MATRIX_CHUNK, scans_of
from mugraph.passes.program.decompose_program import decompose_program
from mugraph.passes.program.fold_leading import fold_leading, leaves_no_axis
from mugraph.passes.program.fuse_kernels.attempts import Known
from mugraph.passes.program.fuse_kernels.concatenations import take_concatenations_apart
from mugraph.passes.program.fuse_kernels.copied import is_free
from mugraph.passes.program.fuse_kernels.errors import NoKernelError
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.groups import Group
from mugraph.passes.program.fuse_kernels.heads import join_heads, repeat_heads
from mugraph.passes.program.fuse_kernels.long_rows import divide_rows
from mugraph.passes.program.fuse_kernels.merging import merged
from mugraph.passes.program.fuse_kernels.packed_products import (
    has_packed_products,
    unpack_products,
)
from mugraph.passes.program.fuse_kernels.parts_of_sums import divide_sums
from mugraph.passes.program.fuse_kernels.recompute import recompute
from mugraph.passes.program.fuse_kernels.row_clusters import parts_in_clusters, share_clusters
from mugraph.passes.program.fuse_kernels.simplify import simplify_program, write_results_again
from mugraph.passes.program.fuse_kernels.stacks import join_stacks
from mugraph.passes.program.fuse_kernels.times import time_as_written
from mugraph.passes.program.fuse_kernels.views import hoist_views
from mugraph.passes.targets import Target

MOST_SEARCHED_AGAIN = 48
"""Operators of a program; a whole model is searched once (the encoder of SAM would take 96 s of
processor instead of 49, for the same kernels)."""
WORTH_KERNELS = 0.6
"""What a program in chunks may take of its time as it is written, with more kernels than operators.

65,536 rows of 16 columns took 54.4 us on an H200 as one scan (``recurrences_h200.md``)."""
UNPACKED = 0.85
"""A program with products taken apart must take less than this share of its estimated time.

Seven programs for which that holds took 0.72 to 1.04 of their time on an H200, 0.89 in the mean;
two at 0.87 and 0.88 took 1.01 and 1.11 (``benchmarks/results/packed_products_h200.md``).
"""


def take_apart(function: FuncOp) -> list[str]:
    """Takes operators apart that are made of others; returns what stays sequential, and why.

    Recurrences of matrices are cut into chunks wherever they can be: step by step they are loops
    of products of few rows.
    """
    reasons = chunk_scans(function, kn.RecurrenceOp, MATRIX_CHUNK)
    decompose_program(function, kernels=True, views=False)
    return reasons


def prepare_program(function: FuncOp, *, repeat: bool = False) -> None:
    """Takes operators apart, and moves views up to the arguments.

    With ``repeat`` heads of several rows that share a matrix get a copy of it each.
    """
    take_apart(function)
    take_concatenations_apart(function)
    simplify_program(function)
    if repeat:
        repeat_heads(function)
    join_heads(function)
    hoist_views(function)
    simplify_program(function)
    join_stacks(function)
    write_results_again(function)


def with_an_axis(written: FuncOp, prepared: FuncOp) -> Iterator[FuncOp]:
    """Copies of a program, prepared so that leading dimensions of products leave an axis for rows.

    One has some of the dimensions as one; one has no groups of heads that share a matrix.  Where a
    call says extents or lengths heads share it: copies are of all that there is room for.
    """
    folded = prepared.clone()
    if fold_leading(folded):
        simplify_program(folded)
        yield folded
    if EXTENTS in written.attributes or LENGTHS in written.attributes:
        return
    repeated = written.clone()
    prepare_program(repeated, repeat=True)
    if likeness_of(repeated) != likeness_of(prepared):
        yield repeated


@dataclass
class Found:
    """The kernels found for a program."""

    fusion: Fusion
    groups: Sequence[Group]
    sequential: Sequence[str] = ()
    """Why scans of the program are not cut into chunks."""

    @classmethod
    def of(cls, function: FuncOp, target: Target, *, certificates: bool = False) -> Found:
        """The kernels of least estimated time of a function as it is written.

        Where leading dimensions leave no axis for rows, also of what ``with_an_axis`` makes of it.
        """
        written = function.clone()
        prepare_program(function)
        best = found = cls.of_prepared(function, target, certificates=certificates)
        for other in with_an_axis(written, function) if leaves_no_axis(function) else ():
            known = found.fusion.known
            made = cls.of_prepared(other, target, certificates=certificates, known=known)
            best = min(best, made, key=lambda found: found.time)
        return best if best is found else _moved(best, function)

    @classmethod
    def of_prepared(
        cls, function: FuncOp, target: Target, *, certificates: bool, known: Known | None = None
    ) -> Found:
        """The same of a function that is prepared, whose operators stay as they are.

        ``known`` is what a search of another function has found for the target.
        """
        known = known or Known()
        fusion = Fusion(function, target, certificates, known=known)
        if not fusion.is_worth_a_search:
            return cls(fusion, [])
        try:
            return cls(fusion, fusion.choose())
        except NoKernelError:
            # Each operator may be a kernel of its own.
            fusion = Fusion(function, target, certificates, apart=True, known=known)
            return cls(fusion, fusion.choose())

    def again(self, function: FuncOp) -> Found | None:
        """The same groups of operators of the program at other extents, or larger ones.

        ``None`` where that is another graph, or where one of them is no kernel; the function stays
        as it is then.
        """
        prepared = function.clone()
        prepare_program(prepared)
        for each in chain([prepared], with_an_axis(function, prepared)):
            found = self._groups_in(each)
            if self.is_like(found):
                return None if found.time == math.inf else _moved(found.joined(), function)
        return None

    def _groups_in(self, function: FuncOp) -> Found:
        """The same groups of the operators of a prepared function."""
        return Found(Fusion(function, self.fusion.target, self.fusion.certificates), self.groups)

    def is_like(self, other: Found) -> bool:
        """Whether operators of another program have the numbers that they have in this one."""
        return _graph(self.fusion) == _graph(other.fusion)

    def joined(self) -> Found:
        """The same, with two kernels as one as long as that takes less time."""
        return Found(self.fusion, merged(self.fusion, self.groups), self.sequential)

    @property
    def time(self) -> float:
        """Nanoseconds, by estimate; of operators as they are written where nothing was searched."""
        if not self.groups:
            target = self.fusion.target
            return sum(time_as_written(op, target) for op in self.fusion.operators)
        return sum(map(self.fusion.cost, self.groups))

    @property
    def kernels(self) -> list[Group]:
        """The groups that are no views."""
        members = self.fusion.program.members
        return [group for group in self.groups if not all(map(is_free, members(group)))]


def _graph(fusion: Fusion) -> list[tuple[object, ...]]:
    """The operators of a function, and what each uses, whatever extents that has."""
    made = [result for op in fusion.operators for result in op.results]
    values: list[SSAValue] = [*fusion.function.args, *made]
    numbers = {value: number for number, value in enumerate(values)}
    return [
        (op.name, len(op.results), *(numbers[value] for value in op.operands))
        for op in fusion.operators
    ]


def find_kernels(function: FuncOp, target: Target, *, certificates: bool = False) -> Found:
    """The kernels of least estimated time; the function's operators are prepared for them.

    Scans are cut into chunks, or into longer ones, where that takes less time: much less where it
    takes more kernels than there are operators.
    """
    steps = take_apart(function)
    scans = len(scans_of([*function.body.block.ops]))
    if not scans:
        found = _found(function, target, certificates=certificates)
        found.sequential = steps
        return found
    in_chunks, in_long_chunks, in_parts = (function.clone() for _ in range(3))
    written = Found.of(function, target, certificates=certificates)
    count = sum(not is_free(op) for op in written.fusion.operators)
    cut = chunk_scans(in_chunks)
    reasons = [*steps, *cut]
    programs = [in_parts] if divide_sums(in_parts, target) else []
    if scans_of([*in_chunks.body.block.ops]) and len(cut) < scans:
        programs.append(in_chunks)
        chunk_scans(in_long_chunks, wanted=LONG_CHUNK)
        if likeness_of(in_chunks) != likeness_of(in_long_chunks):
            programs.append(in_long_chunks)
    if not programs:
        written.sequential = reasons
        return written
    found = [Found.of(each, target, certificates=certificates) for each in programs]
    chunked = min(found, key=lambda found: found.time)
    worth = WORTH_KERNELS if len(chunked.kernels) > count else 1.0
    if chunked.time >= worth * written.time:
        times = f"{chunked.time / 1000:.2f} µs and {len(chunked.kernels)} kernels"
        written.sequential = [*reasons, f"in chunks they would take {times}"]
        return written
    chunked.sequential = reasons
    return _moved(chunked, function)


def _found(function: FuncOp, target: Target, *, certificates: bool) -> Found:
    """The kernels of a program without scans.

    Small programs are searched again, as copies that compute again what takes longer to load, that
    divide long rows, among blocks or in clusters, or that take packed products apart.
    """
    unpacked = function.clone() if has_packed_products(function) else None
    written = Found.of(function, target, certificates=certificates)
    members = written.fusion.program.members
    kernel_of = {op: number for number, group in enumerate(written.groups) for op in members(group)}
    operators = [op for op in function.body.block.ops if not isinstance(op, ReturnOp)]
    if len(operators) > MOST_SEARCHED_AGAIN or not all(op in kernel_of for op in operators):
        return written
    copies = [function.clone(), function.clone()]
    changed = [recompute(copies[0], [kernel_of[op] for op in operators]), divide_rows(copies[1])]
    known = written.fusion.known
    best = written
    for copy, is_other in zip(copies, changed, strict=True):
        if is_other:
            other = Found.of_prepared(copy, target, certificates=certificates, known=known)
            best = min(best, other, key=lambda found: found.time)
    in_clusters = function.clone()
    if divide_rows(in_clusters, partial(parts_in_clusters, target)):
        other = Found.of_prepared(in_clusters, target, certificates=certificates, known=known)
        if share_clusters(other.fusion, other.groups, target) and other.time < best.time:
            best = other
    if unpacked is not None and unpack_products(unpacked):
        prepare_program(unpacked)
        other = Found.of_prepared(unpacked, target, certificates=certificates, known=known)
        best = other if other.time < UNPACKED * best.time else best
    return best if best is written else _moved(best, function)


def _moved(found: Found, function: FuncOp) -> Found:
    """What was found for a copy of a function, whose body becomes the function's."""
    move_body(found.fusion.function, function)
    found.fusion.function = function
    return found


def move_body(copy: FuncOp, function: FuncOp) -> None:
    """Gives a function the body of another one."""
    function.body.detach_block(0).erase(safe_erase=False)
    function.body.add_block(copy.body.detach_block(0))
    function.update_function_type()


def find_in_buckets(
    buckets: Sequence[FuncOp], target: Target, *, certificates: bool = False
) -> list[Found]:
    """The kernels of a program's buckets, small ones first, which are searched for once.

    Groups of operators that are found for the largest extents serve the others too.  In each bucket
    two are joined where that takes less time, also ones that segments of the search keep apart, and
    kernels have tiles and plans of their own.
    """
    *smaller, largest = buckets
    found = find_kernels(largest, target, certificates=certificates)
    others = [
        found.again(bucket) or find_kernels(bucket, target, certificates=certificates)
        for bucket in smaller
    ]
    return [*others, found.joined() if others else found]
