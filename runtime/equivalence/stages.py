"""Do passes keep what a module computes?

The module is evaluated on random inputs before the first pass and after each, in float64 and as the
generated code rounds.  Over the real numbers its functions must stay the same: values in float64
may differ by the rounding of float64 only.  And at every stage the rounded results must be within
the error that their own operators can make; a planned schedule is run on bytes and addresses too.
Both budgets are derived for every element by running error analysis
(``mugraph.runtime.interpreter.bounds``).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.dialects import kn, sched, te
from mugraph.dialects.functions import mugraphs_of
from mugraph.dialects.likeness import Likeness, likeness_of
from mugraph.dialects.sharding import is_per_device
from mugraph.dialects.tensor_types import op_label
from mugraph.runtime.equivalence.errors import CheckError
from mugraph.runtime.equivalence.float64 import SCALES, RandomInputs
from mugraph.runtime.equivalence.subject import (
    Array,
    Subject,
    expect_same_signature,
    first_place,
)
from mugraph.runtime.equivalence.texpr import TexprWatch
from mugraph.runtime.interpreter.bounded_arithmetic import BoundedArithmetic
from mugraph.runtime.interpreter.bounds import BoundedArray
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.rounding import FLOAT64, STORAGE
from mugraph.runtime.interpreter.run import run_function

ARITHMETIC = BoundedArithmetic(models=(STORAGE, FLOAT64))


@dataclass
class FunctionWatch:
    """One function as it was before the passes, and how it fared since."""

    original: Subject
    inputs: RandomInputs
    arrays: list[Array]
    expected: list[BoundedArray]
    stages: int = 0
    """How many passes have been checked."""
    largest_share: float = 0.0
    """The largest rounding error, in parts of its budget."""
    unbounded: int = 0
    """Elements of all stages for which no budget can be derived, which are not checked."""


@dataclass
class SemanticsWatch:
    """Checks a module again and again against what it was when the watch began."""

    seed: int = 0
    functions: dict[str, FunctionWatch] = field(default_factory=dict[str, FunctionWatch])
    texprs: dict[str, TexprWatch] = field(default_factory=dict[str, TexprWatch])
    foreign: list[str] = field(default_factory=list[str])
    """Functions of other dialects beside µGraphs, which are not executed."""
    checked: Likeness = ()
    """The module that was executed last."""

    @classmethod
    def begin(cls, module: ModuleOp, seed: int = 0) -> SemanticsWatch:
        """Evaluates every µGraph of a module that returns something.

        Raises ``CheckError`` where one cannot be executed, or where its results are off already.
        """
        watch = cls(seed, checked=likeness_of(module))
        original = module.clone()
        to_run = mugraphs_of(original)
        for function in to_run:
            if te.is_texpr(function):
                watch.texprs[function.sym_name.data] = TexprWatch.begin(function, seed)
        for name, function in _functions(original).items():
            if function not in to_run:
                watch.foreign.append(name)
                continue
            watch.functions[name] = _begin(function, seed)
            _check(watch.functions[name], watch.functions[name].original, "before any pass")
        return watch

    def check(self, module: ModuleOp, pass_name: str) -> None:
        """Raises ``CheckError`` unless all functions compute what they did.

        ``pass_name`` is the pass that has just run.  A module that it has left as it was is not
        executed again.
        """
        when = f"after --{pass_name}"
        before, self.checked = self.checked, likeness_of(module)
        if self.checked == before:
            for watch in (*self.texprs.values(), *self.functions.values()):
                watch.stages += 1
            return
        for function in mugraphs_of(module):
            if function.sym_name.data in self.texprs:
                self.texprs[function.sym_name.data].check(function, when)
        present = _functions(module)
        for name, watch in self.functions.items():
            if name not in present:
                raise CheckError(f"--{pass_name} removed the function @{name}.")
            subject = Subject(module, present[name])
            try:
                expect_same_signature(subject, watch.original)
            except CheckError as error:
                raise CheckError(f"{when} {error}") from error
            _check(watch, subject, when)
            watch.stages += 1

    def summary(self) -> list[str]:
        """What was checked, in a sentence for each function."""
        lines = [f"@{name} is of other dialects and was not checked" for name in self.foreign]
        for name, texpr in self.texprs.items():
            lines.append(
                f"@{name} computes the same after each of {texpr.stages} passes, in float64"
            )
        for name, watch in self.functions.items():
            left_out = (
                f"; {watch.unbounded} elements have no budget and were not checked"
                if watch.unbounded
                else ""
            )
            lines.append(
                f"@{name} computes the same after each of {watch.stages} passes ({watch.inputs}); "
                f"rounding took at most {watch.largest_share:.0%} of its derived budget{left_out}"
            )
        return lines


def _functions(module: ModuleOp) -> dict[str, FuncOp]:
    """The functions that compute something, by name."""
    return {
        op.sym_name.data: op
        for op in module.ops
        if isinstance(op, FuncOp) and not op.is_declaration and op.function_type.outputs.data
    }


def _module_of(function: FuncOp) -> ModuleOp:
    module = function.parent_op()
    assert isinstance(module, ModuleOp)  # as it was found there
    return module


def _begin(function: FuncOp, seed: int) -> FunctionWatch:
    """The function on the largest inputs for which every element has a budget, if there are any."""
    subject = Subject(_module_of(function), function)
    best: tuple[int, FunctionWatch] | None = None
    for positive in (False, True):
        for scale in SCALES:
            inputs = RandomInputs(seed, scale, positive)
            try:
                arrays = inputs.arrays(subject)
                results = _bounded(subject, arrays)
            except (ExecutionError, AttributeError) as error:
                raise CheckError(
                    f"--verify-semantics needs functions that the interpreter can execute, and "
                    f"{op_label(function)} is none: {error}"
                ) from error
            unbounded = sum(int(np.count_nonzero(~_has_budget(result))) for result in results)
            if best is None or unbounded < best[0]:
                best = (unbounded, FunctionWatch(subject, inputs, arrays, results))
            if not unbounded:
                return best[1]
    assert best is not None  # SCALES is not empty
    return best[1]


def _bounded(subject: Subject, arrays: list[Array]) -> list[BoundedArray]:
    return subject.evaluate([ARITHMETIC.exact(array) for array in arrays], ARITHMETIC)


def _has_budget(result: BoundedArray) -> Array:
    return (
        np.isfinite(result.value)
        & np.isfinite(result.bound(STORAGE))
        & np.isfinite(result.bound(FLOAT64))
    )


def _check(watch: FunctionWatch, subject: Subject, when: str) -> None:
    name = subject.function.sym_name.data
    try:
        results = _bounded(subject, watch.arrays)
        runs = {"": run_function(subject.module, name, watch.arrays)}
        if _is_planned(subject.module) and not is_per_device(subject.function):
            on_bytes = run_function(subject.module, name, watch.arrays, level="address")
            runs[", run on bytes and addresses,"] = on_bytes
    except ExecutionError as error:
        raise CheckError(f"{when} @{name} cannot be executed: {error}") from error
    for number, (result, expected) in enumerate(zip(results, watch.expected, strict=True)):
        with np.errstate(all="ignore"):
            room = result.bound(FLOAT64) + expected.bound(FLOAT64)
            budget = result.bound(STORAGE) + result.bound(FLOAT64)
        known = np.isfinite(expected.value) & np.isfinite(expected.bound(FLOAT64))
        watch.unbounded += int(np.count_nonzero(~known | ~np.isfinite(budget)))
        _expect_within(
            known,
            (result.value, expected.value),
            room,
            f"{when} @{name} is another function ({watch.inputs}): element {{place}} of result "
            f"{number} is {{one}} in float64 and was {{other}} before the passes; rounding in "
            "float64 explains {room}.",
        )
        for how, stored in runs.items():
            share = _expect_within(
                np.isfinite(result.value) & np.isfinite(budget),
                (stored[number].astype(np.float64), result.value),
                budget,
                f"{when} @{name}{how} rounds more than its operators explain ({watch.inputs}): "
                f"element {{place}} of result {number} is {{one}} and would be {{other}} in "
                "float64; the budget derived from the operators is {room}.",
            )
            watch.largest_share = max(watch.largest_share, share)


def _is_planned(module: ModuleOp) -> bool:
    """Whether the module's kernels are scheduled, with a place for every buffer."""
    buffers = [op for op in module.walk() if isinstance(op, sched.AllocOp)]
    graphs = any(isinstance(op, kn.CustomizedOp) for op in module.walk())
    return bool(buffers) and not graphs and all(op.byte_offset is not None for op in buffers)


def _expect_within(known: Array, pair: tuple[Array, Array], room: Array, message: str) -> float:
    """The largest part of ``room`` that a difference takes; ``CheckError`` where it is over 1.

    Where the second number is ``known`` the first must be finite, whatever the room.
    """
    one, other = pair
    with np.errstate(all="ignore"):
        difference = np.abs(one - other)
        wrong = known & (~np.isfinite(one) | (difference > room))
        shares = np.where(known & np.isfinite(room) & (room > 0), difference / room, 0.0)
    if wrong.any():
        place = first_place(wrong)
        raise CheckError(
            message.format(
                place=list(place),
                one=f"{one[place]:.9g}",
                other=f"{other[place]:.9g}",
                room=f"{room[place]:.2g}",
            )
        )
    return float(shares.max(initial=0.0))
