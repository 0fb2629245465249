"""Mappings as isl relations: does every iteration run exactly once?

A ``te.iteration`` states a relation from the numbers of threads (and blocks) and the variables of
the loops of a step to the indices of an iteration; the variables of all other loops around it are
parameters.  It is right if it is a bijection onto the box of the iterations, for all parameters.
All of it is quasi-affine, so that isl decides each part, and has a point where one does not hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import islpy as isl
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.tensor_types import source_values
from mugraph.passes.texpr.analysis.domains import (
    Domain,
    domain_of,
    first_point,
    isl_context,
    isl_set,
    isl_text,
)
from mugraph.passes.texpr.analysis.evaluate import expanded, variables_of


@dataclass(frozen=True)
class MappingError:
    """What is wrong with a mapping: a sentence with a witness, and the operator it is about."""

    op: Operation
    message: str


@dataclass(frozen=True)
class Relation:
    """The relation that a ``te.iteration`` states."""

    op: te.IterationOp
    step: te.StepOp | None
    domain: Domain
    mapped: tuple[te.LoopOp, ...]
    """The loops whose variables say together which iteration runs."""

    @property
    def fixed(self) -> list[te.LoopOp]:
        """The loops around that the iterations are all run in."""
        return [loop for loop in self.domain.loops if loop not in self.mapped]

    @property
    def fixed_names(self) -> dict[SSAValue, str]:
        """Names for the variables of those loops, and for sizes that a call says."""
        values = [*(loop.variable for loop in self.fixed), *self.domain.sizes]
        return {value: f"p{place}" for place, value in enumerate(values)}

    @property
    def title(self) -> str:
        """What is mapped, in words."""
        return "the blocks" if self.step is None else f"'{self.step.title.data}'"

    @cached_property
    def map(self) -> isl.Map:
        """The relation in isl, the variables of other loops its parameters."""
        fixed = self.fixed_names
        own = self.names("a")
        found, constraints = self.indices(fixed | own)
        indices = [f"x{place}" for place in range(len(found))]
        constraints += [f"{x} = {text}" for x, text in zip(indices, found, strict=True)]
        return isl.Map(
            f"[{', '.join(fixed.values())}] -> {{ [{', '.join(own.values())}] -> "
            f"[{', '.join(indices)}] : {' and '.join(constraints) or 'true'} }}",
            isl_context(),
        )

    def names(self, prefix: str) -> dict[SSAValue, str]:
        """Names for the variables of the mapped loops."""
        return {loop.variable: f"{prefix}{place}" for place, loop in enumerate(self.mapped)}

    def indices(self, name: Mapping[SSAValue, str]) -> tuple[list[str], list[str]]:
        """The indices as isl expressions, and the constraints on the variables."""
        found, variables = expanded(self.op.map.data.results, list(self.op.indices))
        names = [name[value] for value in variables]
        return [isl_text(one, names) for one in found], self.domain.constraints(name)


def relation_of(op: te.IterationOp) -> Relation:
    """The relation that an operator states."""
    step = enclosing(op, te.StepOp)
    domain = domain_of(op)
    mapped = tuple(
        loop
        for loop in domain.loops
        if (isinstance(loop, te.SeqOp) and step is not None and step.is_ancestor(loop))
        or isinstance(loop, te.ThreadsOp)
        or (isinstance(loop, te.KernelOp) and (step is None or op.is_over_grid))
    )
    return Relation(op, step, domain, mapped)


def mapping_errors(kernel: te.KernelOp) -> Iterator[MappingError]:
    """What is wrong with the mappings of a kernel; nothing where each is a bijection."""
    for op in kernel.walk():
        if isinstance(op, te.StepOp):
            stated = [inner for inner in op.walk() if isinstance(inner, te.IterationOp)]
            if len(stated) != 1:
                yield MappingError(
                    op,
                    f"step '{op.title.data}' has {len(stated)} 'te.iteration'; one says which "
                    "iteration a thread runs, so that it can be proved that each runs once",
                )
        elif isinstance(op, te.IterationOp):
            error = mapping_error(relation_of(op))
            if error is not None:
                yield MappingError(op, error)


def mapping_error(relation: Relation) -> str | None:
    """A sentence on what keeps a relation from being a bijection, with a witness."""
    return _twice(relation) or _outside(relation) or _never(relation) or _not_together(relation)


def _pair(relation: Relation) -> tuple[list[str], list[dict[SSAValue, str]], list[list[str]]]:
    """Names and constraints of two points with the same parameters, and the indices of both."""
    fixed = relation.fixed_names
    names = [fixed | relation.names(prefix) for prefix in "ab"]
    indices: list[list[str]] = []
    constraints: list[str] = []
    for name in names:
        found, bounds = relation.indices(name)
        indices.append(found)
        constraints += bounds
    return list(dict.fromkeys(constraints)), names, indices


def _twice(relation: Relation) -> str | None:
    if relation.map.is_injective():
        return None
    constraints, names, (first, second) = _pair(relation)
    own = [list(relation.names(prefix).values()) for prefix in "ab"]
    constraints += [f"{one} = {other}" for one, other in zip(first, second, strict=True)]
    constraints.append(f"({' or '.join(f'{a} < {b}' for a, b in zip(*own, strict=True))})")
    dimensions = list(dict.fromkeys([*names[0].values(), *names[1].values()]))
    point = first_point(isl_set(dimensions, [], constraints))
    assert point is not None
    value = dict(zip(dimensions, point, strict=True))
    one, other = ({loop: value[name[loop]] for loop in name} for name in names)
    return (
        f"{relation.title}: iteration {_indices(relation, one)} runs twice: "
        f"{_where(relation, one)}, and {_where(relation, other)}"
    )


def _outside(relation: Relation) -> str | None:
    fixed = relation.fixed_names
    name = fixed | relation.names("a")
    found, constraints = relation.indices(name)
    outside = [
        text
        for index, extent in zip(found, relation.op.box, strict=True)
        for text in (f"{index} < 0", f"{index} >= {extent}")
    ]
    if not outside:
        return None
    set_ = isl_set(list(name.values()), [], [*constraints, f"({' or '.join(outside)})"])
    point = first_point(set_)
    if point is None:
        return None
    at = dict(zip(name, point, strict=True))
    return (
        f"{relation.title}: {_where(relation, at)}, iteration {_indices(relation, at)} runs, which "
        f"is not in the box {_box(relation)}"
    )


def _never(relation: Relation) -> str | None:
    if _covers(relation):
        return None
    indices = [f"x{place}" for place in range(len(relation.op.box))]
    bounds = [f"0 <= {x} < {extent}" for x, extent in zip(indices, relation.op.box, strict=True)]
    fixed = relation.fixed_names
    outer = Domain(tuple(relation.fixed), tuple(_outer_conditions(relation)))
    text = " and ".join([*bounds, *outer.constraints(fixed)]) or "true"
    box = isl.Set(
        f"[{', '.join(fixed.values())}] -> {{ [{', '.join(indices)}] : {text} }}", isl_context()
    )
    left = box.subtract(relation.map.range())
    if left.is_empty():
        return None
    count = len(fixed)
    whole = left.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count)
    point = first_point(whole)
    assert point is not None
    where = source_values(
        {loop.variable: v for loop, v in zip(relation.fixed, point, strict=False)}
    )
    index = ", ".join(map(str, point[count:]))
    return f"{relation.title}: no thread runs iteration [{index}] of the box {_box(relation)}" + (
        f" where {where}" if where else ""
    )


def _covers(relation: Relation) -> bool:
    """Whether counting shows that a relation comes to every iteration; ``False`` may mean nothing.

    It is injective and stays in the box, so that it comes to all of it where as many threads and
    steps run as the box has iterations.  That spares isl the complement of a projection.
    """
    own = relation.names("a")
    outer = _outer_conditions(relation)
    conditions = [one for one in relation.domain.conditions if one not in outer]
    if not all(set(variables_of(list(one.indices))) <= set(own) for one in conditions):
        return False
    constraints = Domain(relation.mapped, tuple(conditions)).constraints(own)
    count = isl_set(list(own.values()), [], constraints).count_val()
    return count.to_python() == math.prod(relation.op.box)


def _outer_conditions(relation: Relation) -> list[te.Conditional]:
    step = relation.step
    return (
        []
        if step is None
        else [one for one in relation.domain.conditions if not step.is_ancestor(one)]
    )


def _not_together(relation: Relation) -> str | None:
    alignment = relation.op.thread_alignment
    if alignment is None:
        return None
    constraints, names, (first, second) = _pair(relation)
    thread = next(loop for loop in relation.mapped if isinstance(loop, te.ThreadsOp)).variable
    others = [loop.variable for loop in relation.mapped if not isinstance(loop, te.ThreadsOp)]
    follows = [f"{one} = {other}" for one, other in zip(first[:-1], second[:-1], strict=True)]
    follows.append(f"{second[-1]} = {first[-1]} + 1")
    one, other = names
    apart = [f"{other[thread]} != {one[thread]} + 1"]
    apart += [f"{one[loop]} != {other[loop]}" for loop in others]
    dimensions = list(dict.fromkeys([*one.values(), *other.values()]))
    point = first_point(
        isl_set(dimensions, [], [*constraints, *follows, f"({' or '.join(apart)})"])
    )
    if point is not None:
        value = dict(zip(dimensions, point, strict=True))
        at, then = ({loop: value[name[loop]] for loop in name} for name in names)
        return (
            f"{relation.title}: iterations {_indices(relation, at)} and {_indices(relation, then)} "
            f"of a fully parallel loop are not on consecutive threads: {_where(relation, at)}, and "
            f"{_where(relation, then)}"
        )
    bounds = relation.indices(one)[1]
    off = f"({one[thread]} - {first[-1]}) mod {alignment} != 0"
    point = first_point(isl_set(list(one.values()), [], [*bounds, off]))
    if point is None:
        return None
    at = dict(zip(one, point, strict=True))
    return (
        f"{relation.title}: the iterations of a fully parallel loop begin at a thread that is no "
        f"multiple of {alignment}: {_where(relation, at)} runs {_indices(relation, at)}"
    )


def _indices(relation: Relation, value: Mapping[SSAValue, int]) -> str:
    found, variables = expanded(relation.op.map.data.results, list(relation.op.indices))
    numbers = [value[one] for one in variables]
    return f"[{', '.join(str(one.eval(numbers, [])) for one in found)}]"


def _where(relation: Relation, value: Mapping[SSAValue, int]) -> str:
    order = sorted(relation.mapped, key=lambda loop: not isinstance(loop, te.ThreadsOp))
    variables = [loop.variable for loop in (*order, *relation.fixed)]
    return f"where {source_values({one: value[one] for one in variables})}"


def _box(relation: Relation) -> str:
    return " x ".join(map(str, relation.op.box)) or "of one"
