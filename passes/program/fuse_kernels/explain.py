"""``--explain-fusion``: what kernels of a fused program save, and why others are not fused."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mugraph.dialects.functions import mugraphs_in
from mugraph.dialects.named_extents import buckets_of, is_smaller_bucket
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.each import TargetPass
from mugraph.passes.program.fuse_kernels.choice import Found, find_in_buckets
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.groups import Group, bits
from mugraph.passes.program.fuse_kernels.times import least_time


def explanation(function: FuncOp, found: Found) -> str:
    """The kernels of a function in order, and each pair that hand tensors over and stay two."""
    fusion, kernels = found.fusion, found.kernels
    if not kernels:
        return (
            f"@{function.sym_name.data}: nothing to fuse; kernels that are written, or that "
            "--fuse-kernels has made, stay as they are\n"
        )
    times = [fusion.cost(group) for group in kernels]
    lines = [
        f"@{function.sym_name.data}: {len(kernels)} kernels, {microseconds(sum(times))}; "
        f"{_tried(fusion)}",
        *kernel_lines(found),
    ]
    for first, second in _handed_over(fusion, kernels):
        lines.append(f"  kernels {first} and {second} stay two:")
        lines += [f"    {why}" for why in _why(fusion, kernels[first], kernels[second])]
    lines += [f"  a scan is not cut into chunks: {reason}" for reason in found.sequential]
    return "\n".join([*lines, ""])


def kernel_lines(found: Found) -> list[str]:
    """Of each kernel its operators, its time, and what it saves."""
    fusion = found.fusion
    lines: list[str] = []
    for number, group in enumerate(found.kernels):
        members, time = fusion.program.members(group), fusion.cost(group)
        lines.append(f"  kernel {number}: {_names(members)}: {microseconds(time)}")
        if len(members) > 1:
            alone = sum(fusion.cost(1 << place) for place in bits(group))
            lines.append(f"    {microseconds(alone - time)} less than {len(members)} kernels")
    return lines


def _tried(fusion: Fusion) -> str:
    tried = f"{len(fusion.attempts)} groups of operators tried"
    if fusion.least is not None:
        tried += f", and nothing can take less than {microseconds(fusion.least)}"
    if fusion.program.is_exact:
        return tried
    results = fusion.function.get_return_op()
    assert results is not None
    least = least_time(fusion.function.args, results.operands, fusion.target)
    return f"{tried}, in some orders only; memory alone takes {microseconds(least)}"


def microseconds(time: float) -> str:
    """A time in ns."""
    return f"{time / 1000:.2f} µs"


def _names(members: Sequence[Operation]) -> str:
    counts = Counter(op.name for op in members)
    return ", ".join(f"{count} {name}" if count > 1 else name for name, count in counts.items())


def _handed_over(fusion: Fusion, kernels: Sequence[Group]) -> list[tuple[int, int]]:
    """The kernels one of which uses what the other one stores."""
    found: list[tuple[int, int]] = []
    for first, group in enumerate(kernels):
        stored = {*fusion.program.stored(group)}
        found += [
            (first, second)
            for second, other in enumerate(kernels)
            if not stored.isdisjoint(fusion.program.loaded(other))
        ]
    return found


def _why(fusion: Fusion, first: Group, second: Group) -> list[str]:
    """Why two kernels are not one."""
    both = first | second
    if not fusion.program.is_convex(both):
        return ["another kernel needs the first one's result, and the second one needs its result"]
    if not fusion.program.may_share(both):
        alone = fusion.program.obstacles(both)
        return [
            f"{op_label(op)} cannot share a kernel with the operators beside it" for op in alone
        ]
    if fusion.bound(both) == math.inf:
        return ["a view splits a product into several matrices, and not all results are split so"]
    time, apart = fusion.cost(both), fusion.cost(first) + fusion.cost(second)
    # Once more, so that they name these tensors and not those of a group that is like it.
    attempt = fusion.fastest(both)
    reasons = list(attempt.reasons)
    if time < math.inf:
        reasons.append(f"one kernel adds {microseconds(time)}, two {microseconds(apart)}")
    return reasons


class ExplainFusionPass(TargetPass):
    """Prints what ``--fuse-kernels`` would do with each µGraph, to standard error.

    It prints, for each kernel, its operators, what it adds to the estimated time of the program,
    and what it saves. For two kernels of which one uses the other's result, it prints why they were
    not fused: for each dimension along which a loop was tried, the obstacle, or how much longer one
    kernel takes. If a program has too many orders to try all of them, it also prints a lower bound,
    the time of its arguments and results alone. The module stays unchanged.

    ``arch`` is the target.
    """

    name = "explain-fusion"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Prints a paragraph a function."""
        target = self.target
        module = op.clone()
        for function in mugraphs_in(module):
            if not is_smaller_bucket(function):
                buckets = buckets_of(module, function)
                for bucket, found in zip(buckets, find_in_buckets(buckets, target), strict=True):
                    print(explanation(bucket, found), end="", file=sys.stderr)
