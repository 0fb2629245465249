"""Along which dimensions of its parameters a function can be cut into equal functions of parts.

A function whose parallel loops over ``i`` are all that index a dimension of its parameters, each
access there by ``i`` itself, computes of a part of the rows what it computes of all, row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import FunctionType, IntegerAttr, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.utils.disjoint_set import DisjointSet

from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.accesses import AccessKind, AccessOp, NewOp
from mugraph.dialects.te.calls import AsmOp, CallOp
from mugraph.dialects.te.loops import IfOp, LoopOp, ParOp, enclosing_loops
from mugraph.dialects.te.sections import SectionOp
from mugraph.dialects.te.types import BufferType
from mugraph.dialects.te.values import IndexValueOp

Place = tuple[SSAValue, int]
"""A dimension of a buffer."""
Node = Place | LoopOp


@dataclass(frozen=True)
class Cut:
    """Dimensions that can be cut together: ``places`` by parameter, all of one extent.

    ``loops`` run over them, by their number among the loops of the function, and ``buffers`` are
    dimensions of the function's own buffers, by their number.
    """

    places: Mapping[int, int]
    loops: tuple[int, ...]
    buffers: tuple[tuple[int, int], ...]


class _Classes(DisjointSet[Node]):
    """What is indexed by the same loops; ``whole`` are nodes whose classes cannot be cut."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        super().__init__(nodes)
        self.whole: set[Node] = set()


def find_cuts(function: FuncOp) -> list[Cut]:
    """The dimensions along which a function can be cut; none where it calls others."""
    ops = list(function.walk())
    if any(isinstance(op, (CallOp, SectionOp, AsmOp)) for op in ops):
        return []
    loops = [op for op in ops if isinstance(op, LoopOp)]
    buffers: list[SSAValue] = [op.result for op in ops if isinstance(op, NewOp)]
    arguments = list(function.body.block.args)
    places = [
        (value, dim)
        for value in (*arguments, *buffers)
        for dim in range(len(cast(BufferType, value.type).get_shape()))
    ]
    nodes: list[Node] = [*places, *loops]
    classes = _Classes(nodes)
    classes.whole.update(loop for loop in loops if not isinstance(loop, ParOp))
    for op in ops:
        if isinstance(op, (IfOp, IndexValueOp)):
            classes.whole.update(_loops_of(op.indices))
        elif isinstance(op, AccessOp):
            _follow(op, classes)
    _refuse_nests(loops, classes)
    members: dict[Node, list[Node]] = {}
    for node in nodes:
        members.setdefault(classes.find(node), []).append(node)
    found = [
        _cut_of(nodes, arguments, buffers, loops)
        for nodes in members.values()
        if classes.whole.isdisjoint(nodes)
    ]
    return [cut for cut in found if cut is not None]


def _loops_of(operands: Iterable[SSAValue]) -> list[LoopOp]:
    owners = [value.owner for value in operands]
    parents = [owner if isinstance(owner, Operation) else owner.parent_op() for owner in owners]
    return [parent for parent in parents if isinstance(parent, LoopOp)]


def _follow(op: AccessOp, classes: _Classes) -> None:
    """Joins the loops of an access with the dimensions that they index."""
    shape, results = op.buffer_type.get_shape(), op.index_map.results
    operands = list(op.indices)
    if len(results) != len(shape):
        classes.whole.update((op.buffer, dim) for dim in range(len(shape)))
        classes.whole.update(_loops_of(operands))
        return
    indexing: list[LoopOp] = []
    for dim, expression in enumerate(results):
        place = (op.buffer, dim)
        used = [
            operands[part.position] for part in expression.dfs() if isinstance(part, AffineDimExpr)
        ]
        (loop,) = _loops_of(used) if isinstance(expression, AffineDimExpr) else (None,)
        if loop is None or loop.iterations != shape[dim]:
            classes.whole.update([place, *_loops_of(used)])
            continue
        classes.union(loop, place)
        indexing.append(loop)
    if op.kind is AccessKind.READ:
        return
    # What several iterations write to in common holds something of all of them.
    home = op.buffer.owner
    for loop in enclosing_loops(op):
        if isinstance(home, NewOp) and loop.is_ancestor(home):
            return
        if loop not in indexing:
            classes.whole.add(loop)


def _refuse_nests(loops: Sequence[LoopOp], classes: _Classes) -> None:
    """Two loops of a class, one in the other, bring its elements together."""
    for loop in loops:
        if any(classes.connected(outer, loop) for outer in enclosing_loops(loop)):
            classes.whole.add(loop)


def _cut_of(
    nodes: Sequence[Node],
    arguments: Sequence[SSAValue],
    buffers: Sequence[SSAValue],
    loops: Sequence[LoopOp],
) -> Cut | None:
    places: dict[int, int] = {}
    own: list[tuple[int, int]] = []
    numbers: list[int] = []
    for node in nodes:
        if isinstance(node, LoopOp):
            numbers.append(loops.index(node))
            continue
        value, dim = node
        if value in arguments:
            place = arguments.index(value)
            if place in places:
                return None
            places[place] = dim
        else:
            own.append((buffers.index(value), dim))
    if not places or not numbers:
        return None
    return Cut(places, tuple(sorted(numbers)), tuple(sorted(own)))


def cut_function(function: FuncOp, cut: Cut, extent: int, symbol: str) -> FuncOp:
    """The function of parts of that extent, as a copy named ``symbol``."""
    twin = function.clone()
    loops = [op for op in twin.walk() if isinstance(op, LoopOp)]
    buffers = [op for op in twin.walk() if isinstance(op, NewOp)]
    for number in cut.loops:
        loops[number].extent = IntegerAttr(extent, i64)
    values = [(twin.body.block.args[place], dim) for place, dim in cut.places.items()]
    values += [(buffers[number].result, dim) for number, dim in cut.buffers]
    for value, dim in values:
        type_ = cast(BufferType, value.type)
        shape = [extent if d == dim else old for d, old in enumerate(type_.get_shape())]
        part = BufferType.of(shape, type_.element_type, None, type_.memory_space)
        Rewriter.replace_value_with_new_type(value, part)
    types = [argument.type for argument in twin.body.block.args]
    twin.function_type = FunctionType.from_lists(types, twin.function_type.outputs.data)
    twin.sym_name = StringAttr(symbol)
    return twin
