"""``--retile``: other grids, blocks and for-loops for kernels that compute the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from mugraph.dialects.functions import mugraphs_of
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.kn.separate_phases import separate_phases
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.plan import TILE_PARTS, LaunchNext, Plan
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.costs.kernels import LAUNCH_NS
from mugraph.passes.mugraph.online_softmax.kernel import online_softmax
from mugraph.passes.mugraph.online_softmax.parts import online_softmax_of_parts
from mugraph.passes.mugraph.retile.apply_partition import apply_partition
from mugraph.passes.mugraph.retile.auto import (
    TileChoice,
    choose_least_time,
    in_one_iteration,
    why_kept,
)
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.inline import inline_products, product_of
from mugraph.passes.mugraph.retile.merge import merge
from mugraph.passes.mugraph.retile.outline import find_outlined, outline
from mugraph.passes.mugraph.retile.partition import (
    Request,
    choose_partition,
    partition_of,
    require_same_function,
)
from mugraph.passes.mugraph.retile.running_maxima import take_out_running_maxima
from mugraph.passes.mugraph.retile.split import split_loop
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

PART_TYPES = {"f32": f32, "f16": f16}
"""The types in which parts of sums may be stored."""


def retile(graph: CustomizedOp, request: Request, target: Target | None = None) -> None:
    """Repartitions a threadblock graph; a request for a split makes two of it.

    ``target`` is what is chosen for where the request leaves a choice.  Raises
    :class:`RetileError` where the result would be another function.
    """
    target = target or target_named(DEFAULT_TARGET)
    separate_phases(graph)
    had_maxima = take_out_running_maxima(graph)
    space = find_dimensions(graph)
    plan = graph.decided.without("online_softmax") if had_maxima else graph.decided
    if not request.auto:
        partition, splits = choose_partition(space, request), request.split
    else:
        choice = choose_least_time(space, target)
        present = TileChoice(partition_of(space), 1, 0.0, 0)
        partition, splits = (choice or present).partition, (choice or present).split
        if partition == present.partition and splits == 1:
            sentence = f"{op_label(graph)} stays as it is: {why_kept(space, target)}"
            print(f"--retile: note: {sentence}", file=sys.stderr)
    require_same_function(space, partition)
    apply_partition(space, partition)
    if splits > 1:
        graph, second = split_loop(graph, splits, PART_TYPES[request.parts])
        if second is not None:
            second.decided = cut_so(plan).without(*LOOP_PARTS)
            if request.spread:
                spread(second, target)
    graph.decided = cut_so(plan)
    if had_maxima:
        online_softmax(graph)
        online_softmax_of_parts(graph)


LAUNCHES_LONG = 4
"""Launches that a kernel must last to be long."""
LOOP_PARTS = ("loads", "stages", "swap_ab", "persistent", "ping_pong", "pdl")
"""The parts of a plan that are about its kernel's loop, and not the kernel that adds up parts."""


def cut_so(plan: Plan) -> Plan:
    """The plan of a kernel that is cut as its plan said; it stays so."""
    left = plan.without(*TILE_PARTS)
    return replace(left, tiles="written") if left != plan else plan


def outlined_start(time: float) -> LaunchNext:
    """When what follows an outlined kernel of so many nanoseconds may start.

    Early where that hides its launch; beside a short kernel its blocks are only in the way.
    Source: ``benchmarks/results/h200_plans.md``, of two kernels.
    """
    return "early" if time > LAUNCHES_LONG * LAUNCH_NS else "late"


def retile_if_possible(graph: CustomizedOp, request: Request, target: Target) -> RetileError | None:
    """As :func:`retile`; where that fails the graph stays as it is, and why is returned."""
    block = Block(arg_types=[value.type for value in graph.inputs])
    for argument, value in zip(block.args, graph.inputs, strict=True):
        argument.name_hint = value.name_hint
    copy = graph.clone(dict(zip(graph.inputs, block.args, strict=True)))
    end = ReturnOp(*copy.results)
    block.add_ops([copy, end])
    try:
        retile(copy, request, target)
    except RetileError as error:
        block.erase()
        return error
    results = end.operands
    end.detach()
    Rewriter.inline_block(block, InsertPoint.before(graph), graph.inputs)
    for old, new in zip(graph.results, results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    end.erase()
    Rewriter.erase_op(graph)
    return None


def spread(graph: CustomizedOp, target: Target) -> float:
    """Gives a kernel that combines parts the grid and block of least estimated time; says which.

    All parts of a tile are loaded at once where they fit: with one part an iteration, every
    iteration waits at the barriers of its few operators.
    """
    space = find_dimensions(graph)
    choice = choose_least_time(space, target, split=False)
    partition = partition_of(space) if choice is None else choice.partition
    apply_partition(space, in_one_iteration(space, partition, target) or partition)
    return 0.0 if choice is None else choice.time


def retile_as_planned(graph: CustomizedOp, target: Target) -> None:
    """Cuts a kernel as its plan says."""
    plan = graph.decided
    if plan.outline:
        before, graph = outline(graph)
        for kernel in before:
            time = spread(kernel, target)
            start = "none" if plan.pdl == "none" else outlined_start(time)
            kernel.decided = Plan(tiles="written", pdl=start)
        graph.decided = plan
    if plan != cut_so(plan):
        retile(graph, Request.of_plan(plan), target)


def inline_all(graphs: Sequence[CustomizedOp]) -> list[CustomizedOp]:
    """Inlines products into every kernel of several that loads tiles of one.

    Raises :class:`RetileError` where none does.
    """
    loads = [any(product_of(value) is not None for value in graph.inputs) for graph in graphs]
    if not any(loads):
        return [inline_products(graphs[0])]
    return [
        inline_products(graph) if has_product else graph
        for graph, has_product in zip(graphs, loads, strict=True)
    ]


def outline_all(graphs: Sequence[CustomizedOp], target: Target) -> list[CustomizedOp]:
    """Outlines what blocks compute alike from every kernel of several that has such operators.

    The new kernels are partitioned for the target; what is left of the old ones is returned.
    Raises :class:`RetileError` where none has any.
    """
    if not any(find_outlined(graph) for graph in graphs):
        outline(graphs[0])
    left: list[CustomizedOp] = []
    for graph in graphs:
        if not find_outlined(graph):
            left.append(graph)
            continue
        before, rest = outline(graph)
        for kernel in before:
            spread(kernel, target)
        left.append(rest)
    return left


def merge_all(graphs: Sequence[CustomizedOp]) -> list[CustomizedOp]:
    """Merges every kernel of several that can be merged with its consumer; what is left of them.

    Raises :class:`RetileError`, why the first cannot be, where none can.
    """
    left: list[CustomizedOp] = []
    failures: list[RetileError] = []
    merges = 0
    pending = list(graphs)
    while pending:
        graph = pending.pop(0)
        if graph.parent is None:
            continue
        failure = why_not_merged(graph)
        if failure is None:
            pending.insert(0, merge(graph))
            merges += 1
        else:
            left.append(graph)
            failures.append(failure)
    if not merges:
        raise failures[0]
    return left


def why_not_merged(graph: CustomizedOp) -> RetileError | None:
    """Why a kernel cannot be merged with its consumer, ``None`` where it can."""
    function = graph.parent_op()
    assert function is not None
    place = _kernels_in(function).index(graph)
    try:
        merge(_kernels_in(function.clone())[place])
    except RetileError as error:
        return error
    return None


def _kernels_in(function: Operation) -> list[CustomizedOp]:
    return [op for op in function.walk() if isinstance(op, CustomizedOp)]


def chosen_graphs(
    module: ModuleOp, function: str, kernel: int, pass_name: str = "retile"
) -> Sequence[CustomizedOp]:
    """The custom kernels of one function, or of all, and of them one, or all.

    Raises :class:`RetileError` where there is no such function or kernel.
    """
    functions = [op for op in mugraphs_of(module) if function in ("", op.sym_name.data)]
    if not functions:
        raise RetileError(f"--{pass_name}: the module has no µGraph @{function}")
    chosen: list[CustomizedOp] = []
    for op in functions:
        graphs = _kernels_in(op)
        if kernel >= len(graphs):
            raise RetileError(
                f"--{pass_name}: @{op.sym_name.data} has {len(graphs)} custom kernels; there is no "
                f"kernel {kernel}, counted from 0"
            )
        chosen += graphs if kernel < 0 else [graphs[kernel]]
    return chosen


@dataclass(frozen=True)
class RetilePass(ModulePass):
    """Repartitions custom kernels along their maps; what they compute stays the same.

    ``grid`` is the new number of blocks along x, y and z.  An axis keeps the dimension that it
    cuts; one that has cut nothing so far is given one by ``along``, which says for each axis the
    dimension of the kernel's first result that it cuts, -1 where that stays.  ``forloop`` is the
    new number of iterations: tiles become longer or shorter.  Where nothing was cut by the loop it
    cuts the longest dimension that is summed over.  ``block`` is the new number of threads.

    Which dimensions may be cut follows from what each operator says of its indices: parallel ones
    by the grid, those that are summed over, and whose parts reach an accumulator through linear
    operators only, by the loop.  What would change the function is an error.

    ``split`` divides the for-loop over that many blocks along one more axis of the grid, after the
    other changes: ``forloop`` counts the iterations of all of them.  Each stores what it has
    accumulated, in fp32 unless ``parts=f16``, and a second kernel adds the parts up and does what
    came after the loop; it is partitioned anew for the target unless ``spread=false``.
    ``--online-softmax`` may stand before or after: running maxima are taken
    out and put back, and blocks store theirs with their parts.

    ``merge`` first makes one kernel of this one and the one that uses its results, where that adds
    up what blocks along one axis have stored: the inverse of a split, also of those in saved
    µGraphs.  Of several kernels all are merged that can be.

    ``auto`` chooses grid, loop, block and split of least estimated time on the target ``arch``, by
    a model of its memory, multiprocessors and instructions; what is asked for besides is ignored.
    A note names each kernel that stays as it is, and says why.

    Without options, each kernel is cut as its plan says, which ``--plan`` fills.

    ``inline`` first computes tiles of a ``kn.matmul`` in the custom kernels that load them, where
    nothing else uses the product.

    ``outline`` first moves to kernels of their own, which run before, what several blocks compute
    alike of one tile of the loop each, such as its norm, and stores it.

    ``function`` and ``kernel`` (counted from 0 in each function) choose one; default is all.
    Pre-condition: tiles have no layouts, so it stands before ``--resolve-layout``.

    Before, with ``grid=4 forloop=4``::

        %o = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 8 {
          %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : ... -> !tb.stensor<16x32xf16>
          %sw = tb.input %dw imap [1, -1, -1] fordim 0 : ... -> !tb.stensor<32x64xf16>
          %m = tb.matmul %sx, %sw : ... -> !tb.stensor<16x64xf16>
          %a = tb.forloop_accum none %m : ...

    After::

        %o = kn.customized %x, %w grid [4, 1, 1] block [128, 1, 1] forloop 4 {
          %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : ... -> !tb.stensor<16x64xf16>
          %sw = tb.input %dw imap [1, -1, -1] fordim 0 : ... -> !tb.stensor<64x32xf16>
          %m = tb.matmul %sx, %sw : ... -> !tb.stensor<16x32xf16>
          %a = tb.forloop_accum none %m : ...
    """

    name = "retile"

    grid: tuple[int, ...] | None = None
    along: tuple[int, ...] | None = None
    forloop: int | None = None
    block: tuple[int, ...] | None = None
    inline: bool = False
    outline: bool = False
    merge: bool = False
    split: int = 1
    parts: str = "f32"
    spread: bool = True
    auto: bool = False
    arch: str = DEFAULT_TARGET
    function: str = ""
    kernel: int = -1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Repartitions the chosen kernels."""
        if self.parts not in PART_TYPES:
            raise RetileError(
                f"--retile: unknown type '{self.parts}' of parts; expected one of "
                f"{', '.join(PART_TYPES)}"
            )
        for option, extents in (("grid", self.grid), ("block", self.block)):
            if extents is not None and (len(extents) > len(AXES) or min(extents, default=0) < 1):
                raise RetileError(
                    f"--retile: {option}={','.join(map(str, extents))} must be one to three "
                    "extents of at least 1"
                )
        for option, count in (("forloop", self.forloop), ("split", self.split)):
            if count is not None and count < 1:
                raise RetileError(f"--retile: {option}={count} must be at least 1")
        request = Request(
            grid=self.grid,
            along=self.along,
            forloop=self.forloop,
            block=self.block,
            split=self.split,
            parts=self.parts,
            spread=self.spread,
            auto=self.auto,
        )
        target = target_named(self.arch)
        graphs = chosen_graphs(op, self.function, self.kernel)
        asks = self.inline or self.outline or self.merge or request != Request(parts=self.parts)
        if not graphs and asks and not self.auto:
            raise RetileError(
                f"--{self.name}: there is no custom kernel ('kn.customized') to repartition; other "
                "operators of 'kn' have no grid and no for-loop"
            )
        if self.inline:
            graphs = inline_all(graphs)
        if self.outline:
            graphs = outline_all(graphs, target)
        if self.merge:
            graphs = merge_all(graphs)
        for graph in graphs:
            if not asks:
                retile_as_planned(graph, target)
            elif not self.auto:
                retile(graph, request, target)
            elif (failure := retile_if_possible(graph, request, target)) is not None:
                sentence = f"{op_label(graph)} stays as it is: {failure}"
                print(f"--{self.name}: note: {sentence}", file=sys.stderr)
