"""The kernels that a program becomes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects.interfaces import HasTileIndices
from mugraph.dialects.kn import CustomizedOp, MaskOp, MatmulOp
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import (
    EXTENTS,
    LENGTHS,
    argument_names,
    is_one_of_buckets,
)
from mugraph.dialects.tb import ReductionMaxOp
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.mugraph.online_softmax.masked import LEAST, is_passed_on, least_of
from mugraph.passes.program.fuse_kernels.atoms import Atoms, SplitProducts
from mugraph.passes.program.fuse_kernels.attempts import Attempt, Known, Tried
from mugraph.passes.program.fuse_kernels.certificates import certify
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.groups import Group, bits
from mugraph.passes.program.fuse_kernels.indices import label
from mugraph.passes.program.fuse_kernels.kernel import KernelBuilder
from mugraph.passes.program.fuse_kernels.part import Part
from mugraph.passes.program.fuse_kernels.places import places_of
from mugraph.passes.program.fuse_kernels.regroup import is_view, part_of
from mugraph.passes.program.fuse_kernels.roles import Roles, in_roles, once_for_each_use
from mugraph.passes.program.fuse_kernels.search import Search
from mugraph.passes.program.fuse_kernels.segments import in_segments
from mugraph.passes.program.fuse_kernels.structures import Structure, Structures
from mugraph.passes.program.fuse_kernels.times import (
    beats_library,
    in_a_program,
    is_slow_in_library,
    least_time,
    library_time,
    product_time,
    scan_time,
    sent_time,
    time_as_written,
    time_of_kernel,
    time_of_sender,
)
from mugraph.passes.program.fuse_kernels.workers import Workers, usual_count
from mugraph.passes.targets import Target

MOST_BUILDERS = 256
"""Of kernels that are not built yet; a best way has fewer, and older ones may never be built."""
MOST_BY_ITSELF = 48
"""Operators of a program that is searched by one process alone."""


@dataclass
class Fusion:
    """Chooses which operators of a function share kernels."""

    function: FuncOp
    target: Target
    certificates: bool = False
    """Whether each kernel keeps what it was found for."""
    apart: bool = False
    """Whether no two operators are searched as one."""
    attempts: dict[Group, Attempt] = field(default_factory=dict[Group, Attempt])
    known: Known = field(default_factory=Known)
    """What was found of groups that are alike, perhaps by an earlier search of a like program."""
    impossible: list[Group] = field(default_factory=list[Group])
    """Groups that no kernel has, whatever else it has."""

    looked_at: int = 0
    """Ways from one prefix of the program to a longer one that were looked at."""
    least: float | None = None
    """Nanoseconds of the best way at least, where the search ended before that was known."""

    def __post_init__(self) -> None:
        self.operators = [op for op in self.function.body.block.ops if op.results]
        self.program = in_segments(self.operators, apart=self.apart)
        self.structures = Structures(self.program, self.known.numbers)
        self.products = SplitProducts(self.operators)
        self.is_bucket = any(each in self.function.attributes for each in (EXTENTS, LENGTHS))
        """Whether extents follow from a call: then operators alone become kernels, too."""

    @property
    def is_worth_a_search(self) -> bool:
        """Whether there is anything to fuse, or an operator alone that becomes a kernel."""
        alone = any(is_of_tiles(op) or isinstance(op, MatmulOp) for op in self.operators)
        return len(self.operators) > 1 or self.is_bucket or alone

    def bound(self, group: Group) -> float:
        """What a group adds to a program at least; infinite where it cannot be one kernel."""
        members = self.program.members(group)
        if len(members) == 1:
            return time_as_written(members[0], self.target)
        if not self.program.may_share(group):
            return math.inf
        loaded, stored = self.program.loaded(group), self.program.stored(group)
        if self.products.refuse(members, stored) and not self.is_side_by_side(group):
            return math.inf
        time = least_time(loaded, stored, self.target)
        bounds = [time, product_time(members, self.target), scan_time(members, self.target)]
        bounds.append(sent_time(members))
        return in_a_program(max(bounds), self.target)

    def sharper_bound(self, group: Group) -> float:
        """Another bound, which takes longer: what a block of the kernel does."""
        if group.bit_count() == 1:
            return 0.0
        structure, known = self.structures.of(group).structure, self.known
        if structure not in known.bounds:
            try:
                part, builder = self.builder_of(group)
            except NotFusedError as error:
                known.attempts[structure] = Attempt(math.inf, None, (str(error),))
                known.bounds[structure] = math.inf
                self.blame(group, self._has_no_places)
            else:
                time = builder.limits.least_time(self.target)
                known.bounds[structure] = in_a_program(time, self.target)
                known.builders[structure] = part, builder
                if len(known.builders) > MOST_BUILDERS:
                    del known.builders[next(iter(known.builders))]
        self.rule_out(group)
        return known.bounds[structure]

    def blame(self, group: Group, is_no_kernel: Callable[[Group], bool]) -> None:
        """Finds what of a group, which is no kernel, is to blame, for all that are alike."""
        structure, ordered, *_ = self.structures.of(group)
        core = self.core(group, is_no_kernel)
        self.known.cores[structure] = [
            place for place, number in enumerate(ordered) if core >> number & 1
        ]

    def rule_out(self, group: Group) -> None:
        """Rules out what has the operators of a group that are to blame for its being no kernel."""
        structure, ordered, *_ = self.structures.of(group)
        if structure in self.known.cores:
            core = sum(1 << ordered[place] for place in self.known.cores[structure])
            if core not in self.impossible:
                self.impossible.append(core)

    def core(self, group: Group, is_no_kernel: Callable[[Group], bool]) -> Group:
        """A part of a group, which is no kernel, that is to blame.

        What has it besides others is no kernel either.
        """
        count = group.bit_count()
        while count > 1:
            # Many operators are left out at once first: few are to blame.
            count = (count + 1) // 2
            numbers = list(bits(group))[::-1]
            for start in range(0, len(numbers), count):
                rest = group & ~sum(1 << number for number in numbers[start : start + count])
                rest = self.program.without_loose_views(rest)
                if is_no_kernel(rest):
                    group = rest
        return group

    def _has_no_places(self, group: Group) -> bool:
        """Whether the views of a group do not go together.

        With more operators tensors are numbered together in more ways.
        """
        operators = self.program.members(group)
        if not any(map(is_view, operators)) or _go_together(operators):
            return False
        return self._in_roles(group) is None

    def _in_roles(self, group: Group) -> Roles | None:
        """A group that loads tensors more than once, where that makes its views go together."""
        _, _, loaded, stored = self.structures.of(group)
        members = self.program.members(group)
        roles = in_roles(members, loaded, stored)
        if roles is None or not _go_together(roles.operators):
            apart = once_for_each_use(members, loaded, stored)
            roles = None if apart is None else in_roles(apart.operators, apart.loaded, apart.stored)
        return roles if roles is not None and _go_together(roles.operators) else None

    def _is_part_of_none(self, group: Group) -> bool:
        """Whether no kernel has the operators of a group, though its views go together."""
        if self.program.size(group) < 2:
            return False
        known, structure = self.known.parts_of_none, self.structures.of(group).structure
        if structure not in known:
            try:
                _, builder = self.builder_of(group)
            except NotFusedError:
                known[structure] = False
            else:
                known[structure] = builder.is_part_of_none(self.target)
        return known[structure]

    def builder_of(self, group: Group) -> tuple[Part, KernelBuilder]:
        """What writes a group as a kernel, with its operators alone.

        Raises :class:`NotFusedError` where its views do not go together.
        """
        _, _, loaded, stored = self.structures.of(group)
        try:
            return _builder(self.program.members(group), loaded, stored)
        except NotFusedError:
            roles = self._in_roles(group)
            if roles is None:
                raise
        part, builder = _builder(roles.operators, roles.loaded, roles.stored)
        part.sources = roles.sources
        return part, builder

    def is_side_by_side(self, group: Group) -> bool:
        """Whether results of a group may be computed side by side, each of products of its own.

        Where what else could be computed of a result is left out, that is not worth a try.
        """
        members = self.program.members(group)
        of_products: set[SSAValue] = set()
        for op in members:
            if isinstance(op, MatmulOp) or not of_products.isdisjoint(op.operands):
                of_products.update(op.results)
        stored = self.program.stored(group)
        return of_products.issuperset(stored) and not any(
            self.program.could_follow(op, group)
            for value in stored
            for op in self.program.users_of(value)
        )

    def cost(self, group: Group) -> float:
        """Nanoseconds that a group adds to a program.

        A kernel as it is written has any extents; what its launch hides pays for that.
        """
        found = self.attempted(group)
        return found.time if found.write is None else in_a_program(found.time, self.target)

    def time(self, group: Group) -> float:
        """Nanoseconds that a group takes; infinite where it is not one kernel."""
        return self.attempted(group).time

    def attempted(self, group: Group) -> Attempt:
        """What :meth:`attempt` finds of a group, found once."""
        if group not in self.attempts:
            self.attempts[group] = self.attempt(group)
        return self.attempts[group]

    def attempt(self, group: Group) -> Attempt:
        """The fastest kernel of a group; an operator alone stays as it is written."""
        members = self.program.members(group)
        if len(members) > 1:
            return self.like_others(group)
        (op,) = members
        time = time_as_written(op, self.target)
        if isinstance(op, CustomizedOp):
            # It stays, also where the estimate, which gives each tile a place of its own, has none.
            estimated = time_of_kernel(op, self.target)
            return Attempt(time if estimated == math.inf else estimated)
        if self.may_be_kernel(group):
            # A product takes what a custom kernel would, but where a library is known to be faster.
            as_kernel = self.like_others(group)
            if as_kernel.write is not None and not self.may_call_library(op):
                return as_kernel
            if as_kernel.write is not None:
                assert isinstance(op, MatmulOp)  # a library has nothing else
                by_library = library_time(op, self.target)
                if beats_library(op, as_kernel.time, by_library) and not self.is_bucket:
                    return as_kernel
                is_slow = by_library < math.inf and is_slow_in_library(op)
                time = max(time, by_library if is_slow else min(as_kernel.time, by_library))
        return Attempt(time)

    def may_be_kernel(self, group: Group) -> bool:
        """Whether a kernel is tried for a group."""
        members = self.program.members(group)
        if len(members) > 1:
            return True
        (op,) = members
        if isinstance(op, MatmulOp) or is_of_tiles(op):
            return True
        in_bucket = self.is_bucket and not isinstance(op, CustomizedOp)
        return in_bucket and self.program.may_share(group)

    def may_call_library(self, op: Operation) -> bool:
        """Whether an operator is a product that cuBLAS has as it is written.

        Where a call says extents only of rows, of more than one bucket: cuBLAS adds up in an order
        that depends on how many there are.
        """
        if not isinstance(op, MatmulOp) or not op.is_in_library_type:
            return False
        if not self.is_bucket:
            return True
        of_matrices = len(shape_of(op.result.type)) == 2
        return of_matrices and self.is_one_of_buckets and op.rhs not in self.of_call

    @cached_property
    def is_one_of_buckets(self) -> bool:
        """Whether the function is one of several for extents that calls say, and memory none."""
        return is_one_of_buckets(self.function) and LENGTHS not in self.function.attributes

    @cached_property
    def of_call(self) -> set[SSAValue]:
        """The tensors that may have an extent that a call says."""
        found: set[SSAValue] = {
            argument
            for index, argument in enumerate(self.function.args)
            if any(argument_names(self.function, index))
        }
        for op in self.operators:
            if not found.isdisjoint(op.operands):
                found.update(op.results)
        return found

    def like_others(self, group: Group) -> Attempt:
        """The fastest kernel of some operators, found once for all that are alike."""
        structure, known = self.structures.of(group).structure, self.known.attempts
        if structure not in known:
            known[structure] = self.fastest(group)
        self.rule_out(group)
        return known[structure]

    def try_at_once(self, groups: Iterable[Group], workers: Workers[Group, Tried]) -> None:
        """Tries the kernels of groups, of those that are alike one, in other processes."""
        known = self.known
        new: dict[Structure, Group] = {}
        for group in groups:
            structure = self.structures.of(group).structure
            if structure not in known.attempts and self.may_be_kernel(group):
                new.setdefault(structure, group)
        if len(new) < 2:
            return
        for (structure, group), tried in zip(
            new.items(), workers.results([*new.values()]), strict=True
        ):
            if tried is None:
                continue  # it is tried here when it is asked for
            known.builders.pop(structure, None)
            write = partial(self.written, group, tried.looped) if tried.is_kernel else None
            known.attempts[structure] = Attempt(tried.time, write, tried.reasons, tried.looped)
            if tried.core is not None:
                known.cores[structure] = tried.core

    def tried(self, group: Group) -> Tried:
        """The fastest kernel of some operators, as another process is told of it."""
        found = self.like_others(group)
        core = self.known.cores.get(self.structures.of(group).structure)
        return Tried(found.time, found.write is not None, found.looped, found.reasons, core)

    def written(self, group: Group, looped: int | None) -> Part:
        """The kernel of some operators whose loop walks along an index."""
        part, builder = self.builder_of(group)
        self.put(builder.build(looped), part)
        return part

    def put(self, kernel: CustomizedOp, part: Part) -> None:
        """Puts a kernel in the place of the operators that it is of."""
        if self.certificates:
            certify(kernel, part.operators, part.stored)
        part.replace(kernel)

    def fastest(self, group: Group) -> Attempt:
        """The fastest kernel of some operators."""
        reasons: list[str] = []
        structure = self.structures.of(group).structure
        try:
            part, builder = self.known.builders.pop(structure, None) or self.builder_of(group)
        except NotFusedError as error:
            return Attempt(math.inf, None, (str(error),))
        best: tuple[float, CustomizedOp | None, int | None] = (math.inf, None, None)
        for looped in builder.loops():
            along = (
                "without a loop" if looped is None else f"along {label(builder.indices, looped)}"
            )
            if not builder.limits.fit(looped, self.target):
                reasons.append(f"{along}: no tiles fit a block")
                continue
            try:
                kernel = builder.build(looped)
            except NotFusedError as error:
                reasons.append(f"{along}: {error}")
                continue
            sent = sent_time(self.program.members(group))
            time = (
                time_of_sender(kernel, sent, self.target)
                if sent
                else time_of_kernel(kernel, self.target, best[0])
            )
            if time < best[0]:
                best = time, kernel, looped
            elif time == math.inf:
                reasons.append(f"{along}: no tiles fit a block")
        time, kernel, looped = best
        if kernel is None:
            if self.program.size(group) > 1:
                self.known.parts_of_none[structure] = builder.is_part_of_none(self.target)
            if self._is_part_of_none(group):
                self.blame(group, self._is_part_of_none)
            return Attempt(math.inf, None, tuple(reasons))
        self.put(kernel, part)
        return Attempt(time, lambda: part, tuple(reasons), looped)

    def choose(self) -> list[Group]:
        """The groups of least estimated time, in an order in which they can run.

        Raises :class:`NoKernelError` where two operators that are searched as one are no kernel.
        """
        if not self.program.units:
            return []  # views alone
        known = self.known
        before = len(known.attempts) + len(known.bounds)
        search = Search(
            self.program,
            self.bound,
            self.sharper_bound,
            self.cost,
            self.products.parts,
            lambda group: self.structures.of(group).structure,
            self.structures.kinds_of,
            lambda: len(known.attempts) + len(known.bounds) - before,
            self.impossible,
        )
        is_large = len(self.operators) > MOST_BY_ITSELF
        with Workers(self.tried, usual_count() if is_large else 0) as workers:
            if workers:
                search.try_at_once = partial(self.try_at_once, workers=workers)
            groups = search.run()
        self.looked_at, self.least = search.looked_at, search.least
        for group in groups:
            _ = self.attempted(group).part  # written while operators stand as they were searched
        return groups

    def apply(self, groups: Sequence[Group]) -> None:
        """Puts the kernels of groups in the place of their operators."""
        end = self.function.body.block.last_op
        assert end is not None
        point = InsertPoint.before(end)
        placed: dict[SSAValue, SSAValue] = {}
        for group in groups:
            members = self.program.members(group)
            part = self.attempted(group).part
            if part is not None:
                _, _, loaded, stored = self.structures.of(group)
                loaded = [placed.get(value, value) for value in loaded]
                placed.update(zip(stored, part.insert(loaded, stored, point), strict=True))
                continue
            for op in members:
                op.detach()
                Rewriter.insert_op(op, point)
        for group in reversed(groups):
            if self.attempted(group).part is not None:
                for op in reversed(self.program.members(group)):
                    Rewriter.erase_op(op)
        for op in self.function.walk():
            if isinstance(op, ReductionMaxOp) and op.start is None:
                # Also of scores that another kernel has masked.
                op.least = LEAST if is_passed_on(op) else least_of(op.input)


def _go_together(operators: Sequence[Operation]) -> bool:
    """Whether the views of operators go together: each tensor has one place for each dimension."""
    try:
        places_of(operators, Atoms.of(operators))
    except NotFusedError:
        return False
    return True


def is_of_tiles(op: Operation) -> bool:
    """Whether only kernels of tiles compute an operator: a mask with a length for each place."""
    return isinstance(op, MaskOp) and max(op.dims_of_lengths, default=-1) >= 0


def _builder(
    operators: Sequence[Operation], loaded: Sequence[SSAValue], stored: Sequence[SSAValue]
) -> tuple[Part, KernelBuilder]:
    """What writes operators as a kernel, and those alone."""
    part = part_of(operators, loaded, stored)
    own = [op for op in part.operators if isinstance(op, HasTileIndices)]
    return part, KernelBuilder(own, part.stored)
