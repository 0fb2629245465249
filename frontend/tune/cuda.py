"""Plans of one kernel on the GPU: built on all cores, measured in a process of its own.

A kernel may hang, or leave CUDA in an error that only a new process gets rid of.  So one process
measures; when a step takes too long or fails it is ended, and another is started for the next
kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Generic

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mugraph.codegen.cuda import CudaTarget
from mugraph.dialects.functions import argument_types
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.known_plans import UsePlansPass
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import architecture_named
from mugraph.passes.transpile import LEVEL_ENDS, transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.compare import relative_distance, tolerance_for
from mugraph.runtime.compile import compile_kernel
from mugraph.runtime.cuda import only_function, signature_of
from mugraph.runtime.execute import CudaModule, Signature
from mugraph.runtime.interpreter.arithmetic import is_whole, storage_dtype
from mugraph.runtime.interpreter.run import naming_rows, random_elements
from mugraph.tune.children import Child, ChildError, Children
from mugraph.tune.kernels import TunedKernel
from mugraph.tune.search import DUEL_SAMPLES, DUELS
from mugraph.tune.workbench import AnyPlan, Built, MeasureError, is_default

Array = npt.NDArray[Any]

SEED = 22
SCALE, WHOLE_SCALE = 0.25, 16
"""Of random inputs: small enough that no exponential overflows; and of integers."""
INPUT_SECONDS, STEP_SECONDS = 120.0, 20.0
"""How long inputs may take to be made, and a kernel to be checked, or measured."""


@dataclass(frozen=True)
class Compiled:
    """A shared object, what it takes, and what tells its code from another's."""

    library: Path
    signature: Signature
    code: str


def compile_plan(text: str, plan: Plan, *, target: str) -> Compiled:
    """Compiles the one kernel of a module under a plan; raises what passes and nvcc raise.

    All of ``--transpile`` runs, the proof that no threads race included.
    """
    context = make_context()
    module = parse_text(context, text, "<kernel>")
    for graph in custom_kernels(module):
        graph.decided = graph.decided.over(plan)
    return compiled(module, context, transpile_pipeline(target), target)


def compile_program(text: str, target: str, fuse: bool, known: UsePlansPass | None) -> Compiled:
    """Compiles a program as ``mugraph.compile`` does, its kernels under the plans of a database."""
    context = make_context()
    module = parse_text(context, text, "<program>")
    steps = compile_pipeline(target, fuse=fuse, known_plans=known)
    return compiled(module, context, steps, target)


def compiled(
    module: ModuleOp, context: Context, steps: Sequence[ModulePass], target: str
) -> Compiled:
    """Runs passes on a module, and compiles what they make of it."""
    verifying(steps, LEVEL_ENDS).apply(context, module)
    source = StringIO()
    CudaTarget().emit(context, module, source)
    arch = architecture_named(target)
    code = hashlib.sha256(source.getvalue().encode()).hexdigest()[:16]
    library = compile_kernel(source.getvalue(), arch)
    return Compiled(library, signature_of(only_function(module)), code)


def inputs_of(function: FuncOp) -> list[Array]:
    """Random inputs of a function, in its element types."""
    generator = np.random.default_rng(SEED)
    arrays: list[Array] = []
    for type_ in argument_types(function):
        dtype = storage_dtype(element_type_of(type_))
        size = WHOLE_SCALE if is_whole(dtype) else SCALE
        numbers = generator.standard_normal(shape_of(type_), np.float32) * size
        arrays.append(random_elements(numbers, dtype))
    return naming_rows(function, arrays)


def differing(outputs: Sequence[Array], expected: Sequence[Array]) -> str:
    """How results differ from those of the kernel that ``--plan`` makes; empty where they agree.

    Both may be wrong by the tolerance.
    """
    for index, (output, other) in enumerate(zip(outputs, expected, strict=True)):
        wide, reference = output.astype(np.float64), other.astype(np.float64)
        where = np.isfinite(reference)
        if (np.isfinite(wide) != where).any():
            return f"result {index} is finite at other places than that of the estimate's plan"
        if is_whole(output.dtype):
            if not np.array_equal(output, other):
                return f"result {index} has other whole numbers than that of the estimate's plan"
            continue
        apart = relative_distance(wide[where] - reference[where], reference[where])
        if apart > 2 * tolerance_for([output.dtype]):
            return f"result {index} is {apart:.1e} away from that of the estimate's plan"
    return ""


class _Gpu:
    """What the measuring process keeps: inputs, what is expected of them, loaded kernels."""

    def __init__(self, text: str) -> None:
        self.inputs = inputs_of(only_function(parse_text(make_context(), text, "<kernel>")))
        self.expected: list[Array] | None = None
        self._loaded: dict[str, CudaModule] = {}

    def module(self, compiled: Compiled) -> CudaModule:
        """A kernel, loaded."""
        if compiled.code not in self._loaded:
            self._loaded[compiled.code] = CudaModule(compiled.library, compiled.signature)
        return self._loaded[compiled.code]


_gpus: list[_Gpu] = []
"""The one of a measuring process."""


def begin(text: str) -> None:
    """Makes the inputs of the kernel of a module, in a measuring process."""
    _gpus[:] = [_Gpu(text)]


def check(compiled: Compiled) -> str:
    """Why a kernel is wrong; the first one that is checked is what others must agree with."""
    (gpu,) = _gpus
    outputs = gpu.module(compiled).run(gpu.inputs)
    if gpu.expected is None:
        gpu.expected = outputs
    return differing(outputs, gpu.expected)


def times(compiled: Compiled, samples: int) -> list[float]:
    """Microseconds of a call, so many times."""
    (gpu,) = _gpus
    return list(gpu.module(compiled).time(gpu.inputs, samples).samples)


class CudaWorkbench(Generic[AnyPlan]):
    """Builds and measures a kernel on this machine's GPU; a context manager.

    ``text`` is a module with the kernel's function, whose inputs are drawn.  ``compile_plan`` is
    called in processes of its own.
    """

    def __init__(
        self, text: str, compile_plan: Callable[[AnyPlan], Compiled], builders: Children
    ) -> None:
        self._text = text
        self._compile_plan = compile_plan
        self._builders = builders
        self._pool = ThreadPoolExecutor(builders.count)
        self._gpu = Child()
        self._compiled: dict[AnyPlan, Compiled] = {}
        self._right: set[str] = set()

    def __enter__(self) -> CudaWorkbench[AnyPlan]:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._gpu.end()

    def _compile(self, plan: AnyPlan) -> Compiled:
        return self._builders.call(self._compile_plan, plan)

    def build(self, plans: Sequence[AnyPlan]) -> Iterator[Built[AnyPlan]]:
        """Each plan's kernel, in the order in which nvcc is done."""
        futures = {self._pool.submit(self._compile, plan): plan for plan in plans}
        try:
            for future in as_completed(futures):
                plan = futures[future]
                try:
                    compiled = self._compiled[plan] = future.result()
                except ChildError as error:  # a plan that this kernel cannot have
                    yield Built(plan, problem=str(error))
                else:
                    yield Built(plan, compiled.code)
        finally:
            for future in futures:
                future.cancel()

    def times(self, built: Built[AnyPlan], samples: int) -> list[float]:
        """Microseconds of a call; a kernel is checked before it is measured."""
        try:
            if built.plan not in self._compiled:
                self._compiled[built.plan] = self._compile(built.plan)
            compiled = self._compiled[built.plan]
            if not self._gpu.is_alive:
                self._begin()
            if compiled.code not in self._right:
                problem = self._gpu.call(check, compiled, seconds=STEP_SECONDS)
                if problem:
                    raise MeasureError(problem)
                self._right.add(compiled.code)
            return self._gpu.call(times, compiled, samples, seconds=STEP_SECONDS)
        except ChildError as error:
            self._gpu.end()  # a kernel may have left an error that stays
            raise MeasureError(str(error)) from error

    def _begin(self) -> None:
        """Starts a measuring process, which knows what results are to be."""
        self._gpu.call(begin, self._text, seconds=INPUT_SECONDS)
        for plan, default in self._compiled.items():
            if is_default(plan):  # others must agree with it
                self._gpu.call(check, default, seconds=STEP_SECONDS)


def bench_of(kernel: TunedKernel, builders: Children) -> CudaWorkbench[Plan]:
    """Where the plans of a kernel are built and measured."""
    text = str(kernel.module)
    return CudaWorkbench(text, partial(compile_plan, text, target=kernel.target), builders)


def time_programs(
    text: str, target: str, fuse: bool, known: UsePlansPass
) -> tuple[list[float], list[float]]:
    """Microseconds of a program without measured plans, and with them, one after the other.

    Raises :class:`MeasureError` where it cannot be measured.
    """
    builders, gpu = (Child(), Child()), Child()

    def built(child: Child, plans: UsePlansPass | None) -> Compiled:
        return child.call(compile_program, text, target, fuse, plans)

    try:
        with ThreadPoolExecutor(len(builders)) as pool:
            before, after = pool.map(built, builders, (None, known))
        gpu.call(begin, text, seconds=INPUT_SECONDS)
        gpu.call(check, before, seconds=STEP_SECONDS)
        problem = gpu.call(check, after, seconds=STEP_SECONDS)
        if problem:
            raise MeasureError(problem)
        found: dict[str, list[float]] = {before.code: [], after.code: []}
        for turn in range(DUELS):
            for one in (before, after) if turn % 2 else (after, before):
                found[one.code] += gpu.call(times, one, DUEL_SAMPLES, seconds=STEP_SECONDS)
        return found[before.code], found[after.code]
    except ChildError as error:
        raise MeasureError(str(error)) from error
    finally:
        for child in (*builders, gpu):
            child.end()
