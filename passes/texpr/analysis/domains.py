"""Iteration domains and accesses of tensor expressions, in the notation of isl.

Everything is quasi-affine with constant extents, so that sets of iterations and elements are
Presburger sets, of which isl decides emptiness and finds points exactly.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import islpy as isl
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors
from mugraph.dialects.te.sizes import size_arguments, size_of
from mugraph.passes.texpr.analysis.evaluate import expanded


@cache
def isl_context() -> isl.Context:
    """The context that all our sets live in."""
    return isl.Context()


def isl_text(expression: AffineExpr, names: Sequence[str]) -> str:
    """An index expression as isl reads it."""
    match expression:
        case AffineConstantExpr():
            return str(expression.value)
        case AffineDimExpr():
            return names[expression.position]
        case AffineBinaryOpExpr():
            left, right = isl_text(expression.lhs, names), isl_text(expression.rhs, names)
            match expression.kind:
                case AffineBinaryOpKind.Add:
                    return f"({left} + {right})"
                case AffineBinaryOpKind.Mul:
                    return f"({right} * {left})"  # isl wants the constant first
                case AffineBinaryOpKind.FloorDiv:
                    return f"floor({left} / {right})"
                case AffineBinaryOpKind.CeilDiv:
                    return f"ceil({left} / {right})"
                case AffineBinaryOpKind.Mod:
                    return f"({left} mod {right})"
        case _:
            raise VerifyException("an index expression has no symbols")


@dataclass(frozen=True)
class Domain:
    """The loops around an operator, the outermost first, and the conditions that it is under."""

    loops: tuple[te.LoopOp, ...]
    conditions: tuple[te.Conditional, ...]
    sizes: tuple[SSAValue, ...] = ()
    """The sizes that a call says, which are the same for all accesses."""

    def of(self, touch: te.Touch) -> Domain:
        """Where an operator touches something: under conditions of its own, too."""
        if touch.only is None:
            return self
        return replace(self, conditions=(*self.conditions, touch.only))

    def named(self, prefix: str, shared: Container[te.LoopOp] = ()) -> dict[SSAValue, str]:
        """A name for each variable; those of ``shared`` loops have one whatever the prefix."""
        of_loops = {
            loop.variable: f"s{depth}" if loop in shared else f"{prefix}{depth}"
            for depth, loop in enumerate(self.loops)
        }
        return of_loops | {size: f"n{place}" for place, size in enumerate(self.sizes)}

    def constraints(self, name: Mapping[SSAValue, str]) -> list[str]:
        """What holds of the variables, under the names given."""
        bounds = [f"0 <= {name[loop.variable]} < {loop.iterations}" for loop in self.loops]
        for value, own in name.items():
            if (size := size_of(value)) is not None:
                bounds.append(f"1 <= {own} <= {size.largest}")  # of 0 nothing is launched
                bounds += [] if size.multiple == 1 else [f"{own} mod {size.multiple} = 0"]
        for condition in self.conditions:
            equalities = [equal for _, equal in condition.conditions()]
            found, variables = expanded(condition.map.data.results, list(condition.indices))
            names = [name[value] for value in variables]
            for expression, equal in zip(found, equalities, strict=True):
                bounds.append(f"{isl_text(expression, names)} {'=' if equal else '>='} 0")
        return bounds


def domain_of(op: Operation) -> Domain:
    """The domain of an operator."""
    around = [*ancestors(op)][::-1]
    function = next((one for one in around if isinstance(one, FuncOp)), None)
    sizes = () if function is None else tuple(size_arguments(function).values())
    return Domain(
        tuple(one for one in around if isinstance(one, te.LoopOp)),
        tuple(one for one in around if isinstance(one, te.IfOp)),
        sizes,
    )


@dataclass(frozen=True, kw_only=True)
class Access(te.Touch):
    """What an operator touches, by the variables of the loops around it."""

    op: Operation
    domain: Domain

    @property
    def is_in_memory(self) -> bool:
        """Whether other threads see what the access touches."""
        return self.type.memory_space is not te.Space.REGISTER

    def conflicts(self, other: Access) -> bool:
        """Whether the two may not be to the same element in two iterations of a parallel loop.

        Two reads may; so may two reductions, or two atomic operations, of the same kind.
        """
        if self.kind is te.AccessKind.READ and other.kind is te.AccessKind.READ:
            return False
        if self.kind is other.kind and self.kind in (te.AccessKind.RED, te.AccessKind.ATOMIC):
            return self.kind is te.AccessKind.RED and self.combines != other.combines
        return True

    def element(
        self, name: Mapping[SSAValue, str], prefix: str, flat: bool
    ) -> tuple[list[str], list[str], list[str]]:
        """The element as isl expressions: one a dimension, or one in row-major order.

        Beside them the variables that run over the box, whose names begin with ``prefix``, and
        their bounds.
        """
        names = [name[value] for value in self.indices]
        texts = [isl_text(expression, names) for expression in self.expressions]
        runs: list[str] = []
        bounds: list[str] = []
        for dimension, extent in enumerate(self.box):
            if extent > 1:
                run = f"{prefix}x{dimension}"
                runs.append(run)
                bounds.append(f"0 <= {run} < {extent}")
                step = 1 if self.steps is None else self.steps[dimension]
                texts[dimension] = f"({texts[dimension]} + {step} * {run})"
        if self.clipped:
            inside = zip(texts, self.extents, strict=True)
            bounds += [f"0 <= {text} < {extent}" for text, extent in inside]
        if flat and len(texts) > 1:
            terms: list[str] = []
            size = 1
            for text, extent in zip(reversed(texts), reversed(self.type.get_shape()), strict=True):
                terms.append(f"{size} * {text}")
                size *= extent
            texts = [" + ".join(terms)]
        return texts, runs, bounds


def accesses_of(root: Operation) -> list[Access]:
    """The accesses in an operator, calls inlined and sections folded before.

    Each register operand of inline PTX is an access to all of its elements.
    """
    accesses: list[Access] = []
    for op in root.walk():
        if isinstance(op, te.HasTouches):
            domain = domain_of(op)
            for touch in op.touches():
                found, variables = expanded(touch.expressions, touch.indices)
                made = replace(touch, expressions=found, indices=tuple(variables))
                accesses.append(Access(**vars(made), op=op, domain=domain.of(touch)))
    return accesses


def isl_set(
    dimensions: Sequence[str], exists: Sequence[str], constraints: Sequence[str]
) -> isl.Set:
    """``{ [dimensions] : exists exists : constraints }``."""
    formula = " and ".join(constraints) or "true"
    if exists:
        formula = f"exists ({', '.join(exists)} : {formula})"
    return _set_of(f"{{ [{', '.join(dimensions)}] : {formula} }}")


@lru_cache(1 << 12)
def _set_of(text: str) -> isl.Set:
    """The set of a text, which accesses that are alike ask for again; sets do not change."""
    return isl.Set(text, isl_context())


def first_point(set_: isl.Set) -> list[int] | None:
    """The lexicographically first point of a bounded set; ``None`` where it is empty.

    By bisection in one dimension after the other: isl's own search for it may take very long where
    deciding that there are points takes none.
    """
    if set_.is_empty():
        return None
    point: list[int] = []
    for position in range(set_.dim(isl.dim_type.set)):
        # A point gives an upper bound, doubling steps below it a lower one.
        high = _coordinate(set_, position)
        low, step = high, 1
        while not (below := _at_most(set_, position, low - 1)).is_empty():
            high = _coordinate(below, position)
            low, step = high - step, step * 2
        while low < high:
            middle = (low + high) // 2
            below = _at_most(set_, position, middle)
            if below.is_empty():
                low = middle + 1
            else:
                high = min(middle, _coordinate(below, position))
        point.append(high)
        set_ = set_.fix_val(isl.dim_type.set, position, high)
    return point


def _coordinate(set_: isl.Set, position: int) -> int:
    """One coordinate of some point."""
    return set_.sample_point().get_coordinate_val(isl.dim_type.set, position).to_python()


def _at_most(set_: isl.Set, position: int, bound: int) -> isl.Set:
    return set_.upper_bound_val(isl.dim_type.set, position, bound)
