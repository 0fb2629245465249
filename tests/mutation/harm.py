"""Which mutants are harmful: those that the interpreter of addresses computes differently.

A mutant is harmful if some kernel gives another result than the unmutated schedule under one of
these runs: the warps of a block forward, reversed, or in one of 16 seeded random orders between
barriers, each with asynchronous copies landing as late or as early as they can.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from mutants import Mutant
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects import sched
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import ExecutionError
from mugraph.runtime.interpreter.address_kernel import (
    FORWARD,
    REVERSED,
    TOGETHER,
    AddressLevel,
    KernelRun,
    run_kernel_by_address,
)
from mugraph.runtime.interpreter.address_launches import AddressLauncher
from mugraph.runtime.interpreter.address_level import Landing
from mugraph.runtime.interpreter.address_plans import Plans
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Precision
from mugraph.runtime.interpreter.run import evaluate_function
from mugraph.runtime.interpreter.schedule import run_kernel

Array = npt.NDArray[Any]

SEEDS = 16
RUNS: list[tuple[str | int, Landing]] = [
    (order, landing)
    for order in (FORWARD, REVERSED, *range(SEEDS))
    for landing in (Landing.LATEST, Landing.EARLIEST)
]
"""The orders of warps and the landings of copies under which a schedule must be right."""


@dataclass(frozen=True)
class Evidence:
    """The run under which a mutant went wrong, and how."""

    order: str | int
    landing: str
    what: str

    def __str__(self) -> str:
        return f"warps {self.order}, copies landing {self.landing}: {self.what}"


class _Recorder(AddressLauncher):
    """Runs launches on logical values, and keeps what each kernel was given."""

    def __init__(self) -> None:
        super().__init__(AddressLevel())
        self.given: dict[str, list[Array]] = {}

    def launch(
        self, op: sched.LaunchOp, inputs: Sequence[Array], arithmetic: Arithmetic, module: ModuleOp
    ) -> tuple[Array, ...]:
        self.given[op.kernel.string_value()] = list(inputs)
        return run_kernel(op, inputs, arithmetic, module)


def _launch_of(module: ModuleOp, kernel: str) -> sched.LaunchOp:
    return next(
        op
        for op in module.walk()
        if isinstance(op, sched.LaunchOp) and op.kernel.string_value() == kernel
    )


@dataclass
class Judge:
    """A right schedule, inputs of its function, and what its kernels give on them.

    ``blocks`` of each kernel run; they do the same in the same order, so a few are enough.
    ``tolerance`` is how far results may be off: products of all rows at once and of a warp's are
    not rounded alike. ``runs`` are those under which a mutant must be right.
    """

    module: ModuleOp
    inputs: Sequence[Array]
    blocks: int = 2
    tolerance: float = 0.0
    runs: Sequence[tuple[str | int, Landing]] = tuple(RUNS)
    _given: dict[str, list[Array]] = field(init=False)
    _expected: dict[str, KernelRun] = field(init=False)

    def __post_init__(self) -> None:
        recorder = _Recorder()
        function = only_function(self.module)
        arithmetic = Arithmetic(Precision.STORAGE)
        evaluate_function(self.module, function, self.inputs, arithmetic, recorder)
        self._given = recorder.given
        self._expected = {
            kernel: self._run(self.module, kernel, TOGETHER, Landing.LATEST, Plans())
            for kernel in self._given
        }
        for kernel, run in self._expected.items():
            for result, written in zip(run.results, run.written, strict=True):
                if not np.isfinite(result[written]).all():
                    raise ValueError(f"@{kernel}: the results are not finite; use other inputs")

    def _run(
        self, module: ModuleOp, kernel: str, order: str | int, landing: Landing, plans: Plans
    ) -> KernelRun:
        level = AddressLevel(order, landing, self.blocks)
        launch = _launch_of(module, kernel)
        with np.errstate(all="ignore"):
            return run_kernel_by_address(launch, self._given[kernel], level, module, plans)

    def _difference(
        self, module: ModuleOp, kernel: str | None, order: str | int, landing: Landing, plans: Plans
    ) -> str | None:
        if kernel is None:
            return self._function_difference(module)
        try:
            run = self._run(module, kernel, order, landing, plans)
        except ExecutionError as error:
            return str(error)
        expected = self._expected[kernel]
        for index, (one, other) in enumerate(zip(run.results, expected.results, strict=True)):
            # NaN is poison, or what nobody wrote.
            near = np.abs(one.astype(np.float64) - other.astype(np.float64)) <= self.tolerance
            different = ~near & (one != other) & ~(np.isnan(one) & np.isnan(other))
            if different.any():
                at = tuple(int(i) for i in np.argwhere(different)[0])
                return (
                    f"result {index} of @{kernel} is {one[at]} at {list(at)}, not {other[at]}; "
                    f"{int(different.sum())} elements differ"
                )
        return None

    def _function_difference(self, module: ModuleOp) -> str | None:
        """How the function goes wrong, its kernels at the level of logical values."""
        arithmetic = Arithmetic(Precision.STORAGE)
        try:
            evaluate_function(module, only_function(module), self.inputs, arithmetic)
        except ExecutionError as error:
            return str(error)
        return None

    def difference(self, mutant: Mutant, order: str | int, landing: Landing) -> str | None:
        """How a mutant goes wrong in one run; ``None`` where it does not."""
        return self._difference(mutant.module, mutant.kernel, order, landing, Plans())

    def evidence(self, mutant: Mutant) -> Evidence | None:
        """The first run under which a mutant gives another result; ``None`` if none does."""
        plans = Plans()
        for order, landing in self.runs:
            what = self._difference(mutant.module, mutant.kernel, order, landing, plans)
            if what is not None:
                return Evidence(order, landing, what)
        return None

    def harmful(self, mutant: Mutant) -> bool:
        """Whether a mutant gives another result under one of the runs."""
        return self.evidence(mutant) is not None

    def unmutated(self) -> Iterator[Evidence]:
        """Runs under which the schedule itself gives another result; there must be none."""
        for kernel in self._given:
            plans = Plans()
            for order, landing in self.runs:
                what = self._difference(self.module, kernel, order, landing, plans)
                if what is not None:
                    yield Evidence(order, landing, what)
