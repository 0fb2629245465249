"""Plans of one kernel on the GPU: built on all cores, measured in a process of its own.

A kernel may hang, or leave CUDA in an error that only a new process gets rid of.  So one process
measures; when a step takes too long or fails it is ended, and another is started for the next
kernel.  Several searches may go on at a time: their processes measure one after another.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from threading import Lock
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
from mugraph.errors import UserError, first_line
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.known_plans import UsePlansPass
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import architecture_named
from mugraph.passes.transpile import LEVEL_ENDS, transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.batch import MOST_TOGETHER, batch_source
from mugraph.runtime.compare import relative_distance, tolerance_for
from mugraph.runtime.compile import compile_kernel
from mugraph.runtime.cuda import only_function, signature_of
from mugraph.runtime.execute import CudaModule, Signature, TimedCalls
from mugraph.runtime.interpreter.arithmetic import is_whole, storage_dtype
from mugraph.runtime.interpreter.run import naming_rows, random_elements
from mugraph.tune.children import Answer, Child, ChildError, Children
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
class Generated:
    """CUDA text of a kernel or a program, and what it takes."""

    source: str
    signature: Signature
    arch: str

    @property
    def code(self) -> str:
        """A digest of the text."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Compiled:
    """A shared object, what it takes, and what tells its code from another's."""

    library: Path
    signature: Signature
    code: str
    member: int | None = None
    """Its number in the shared object, where that has several."""


def generate_plan(text: str, plan: Plan, *, target: str) -> Generated:
    """The text of the one kernel of a module under a plan; raises what passes raise.

    All of ``--transpile`` runs, the proof that no threads race included.
    """
    context = make_context()
    module = parse_text(context, text, "<kernel>")
    for graph in custom_kernels(module):
        graph.decided = graph.decided.over(plan)
    return generated(module, context, transpile_pipeline(target), target)


def compile_program(text: str, target: str, fuse: bool, known: UsePlansPass | None) -> Compiled:
    """Compiles a program as ``mugraph.compile`` does, its kernels under the plans of a database."""
    context = make_context()
    module = parse_text(context, text, "<program>")
    steps = compile_pipeline(target, fuse=fuse, known_plans=known)
    return compiled(generated(module, context, steps, target))


def generated(
    module: ModuleOp, context: Context, steps: Sequence[ModulePass], target: str
) -> Generated:
    """The text of what passes make of a module."""
    verifying(steps, LEVEL_ENDS).apply(context, module)
    source = StringIO()
    CudaTarget().emit(context, module, source)
    signature = signature_of(only_function(module))
    return Generated(source.getvalue(), signature, architecture_named(target))


def compiled(text: Generated) -> Compiled:
    """Compiles a text; raises what nvcc raises."""
    return Compiled(compile_kernel(text.source, text.arch), text.signature, text.code)


def compile_together(texts: Sequence[Generated]) -> list[Compiled | str]:
    """Compiles texts of one architecture; of each that nvcc refuses it returns the first error."""
    try:
        if len(texts) == 1:
            return [compiled(texts[0])]
        source = batch_source([text.source for text in texts])
        library = compile_kernel(source, texts[0].arch)
    except UserError as error:
        if len(texts) > 1:
            return [each for text in texts for each in compile_together([text])]
        return [first_line(error)]
    return [
        Compiled(library, text.signature, text.code, member) for member, text in enumerate(texts)
    ]


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
        self._calls: TimedCalls | None = None

    def module(self, compiled: Compiled) -> CudaModule:
        """A kernel, loaded."""
        if compiled.code not in self._loaded:
            self._loaded[compiled.code] = CudaModule(
                compiled.library, compiled.signature, member=compiled.member
            )
        return self._loaded[compiled.code]

    def calls_of(self, module: CudaModule) -> TimedCalls:
        """Tensors to time a kernel with, the same for all that take and give such."""
        if self._calls is None or not self._calls.suit(module.signature):
            if self._calls is not None:
                self._calls.memory.free()
            self._calls = module.timed_calls(self.inputs)
        return self._calls


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
    module = gpu.module(compiled)
    return list(module.time_calls(gpu.calls_of(module), samples).samples)


_ON_THE_GPU = Lock()
"""Held while a kernel runs: of several searches one measures."""


def call_on_gpu(child: Child, function: Callable[..., Answer], *arguments: Any) -> Answer:
    """A step of a measuring process, beside which no other one measures."""
    with _ON_THE_GPU:
        return child.call(function, *arguments, seconds=STEP_SECONDS)


class CudaWorkbench(Generic[AnyPlan]):
    """Builds and measures a kernel on this machine's GPU; a context manager.

    ``text`` is a module with the kernel's function, whose inputs are drawn.  ``generate`` is
    called in processes of its own.
    """

    def __init__(
        self, text: str, generate: Callable[[AnyPlan], Generated], builders: Children
    ) -> None:
        self._text = text
        self._generate = generate
        self._builders = builders
        self._pool = ThreadPoolExecutor(builders.count)
        self._gpu = Child()
        self._beginning: Future[None] | None = None
        self._compiled: dict[AnyPlan, Compiled] = {}
        self._known: dict[str, Compiled] = {}
        """By code."""
        self._measured: set[str] = set()
        self._right: set[str] = set()

    def __enter__(self) -> CudaWorkbench[AnyPlan]:
        # Inputs are made while kernels are built.
        self._beginning = self._pool.submit(self._make_inputs)
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._gpu.end()

    def _make_inputs(self) -> None:
        self._gpu.call(begin, self._text, seconds=INPUT_SECONDS)

    def build(self, plans: Sequence[AnyPlan]) -> Iterator[Built[AnyPlan]]:
        """Each plan's kernel, in the order in which nvcc is done."""
        texts = {
            self._pool.submit(self._builders.call, self._generate, plan): plan for plan in plans
        }
        libraries: dict[Future[list[Compiled | str]], list[str]] = {}
        try:
            found: dict[str, Generated] = {}
            wanted: dict[str, list[AnyPlan]] = {}
            for future in as_completed(texts):
                plan = texts[future]
                try:
                    text = future.result()
                except ChildError as error:  # a plan that this kernel cannot have
                    yield Built(plan, problem=str(error))
                    continue
                if text.code in self._known:
                    self._compiled[plan] = self._known[text.code]
                    yield Built(plan, text.code)
                    continue
                found[text.code] = text
                wanted.setdefault(text.code, []).append(plan)
            # The default is among the first that are done: all others are compared with it.  An
            # interrupted search finds the files of others again, which hold the same plans.
            place = {plan: number for number, plan in enumerate(plans)}
            ordered = sorted(
                found,
                key=lambda code: (
                    not any(map(is_default, wanted[code])),
                    min(place[plan] for plan in wanted[code]),
                ),
            )
            for codes in evenly(ordered, self._builders.share):
                call = partial(compile_together, [found[code] for code in codes])
                libraries[self._pool.submit(self._builders.call, call)] = codes
            for future in as_completed(libraries):
                codes = libraries[future]
                try:
                    done = future.result()
                except ChildError as error:
                    done = [str(error)] * len(codes)
                for code, library in zip(codes, done, strict=True):
                    for plan in wanted[code]:
                        if isinstance(library, str):
                            yield Built(plan, problem=library)
                        else:
                            self._known[code] = self._compiled[plan] = library
                            yield Built(plan, code)
        finally:
            for future in (*texts, *libraries):
                future.cancel()

    def times(self, built: Built[AnyPlan], samples: int) -> list[float]:
        """Microseconds of a call; a kernel is checked before it is measured again."""
        try:
            if built.plan not in self._compiled:
                text = self._builders.call(self._generate, built.plan)
                (library,) = self._builders.call(compile_together, [text])
                if isinstance(library, str):
                    raise MeasureError(library)
                self._compiled[built.plan] = library
            kernel = self._compiled[built.plan]
            self._begin()
            if kernel.code in self._measured and kernel.code not in self._right:
                problem = call_on_gpu(self._gpu, check, kernel)
                if problem:
                    raise MeasureError(problem)
                self._right.add(kernel.code)
            found = call_on_gpu(self._gpu, times, kernel, samples)
            self._measured.add(kernel.code)
            return found
        except ChildError as error:
            self._gpu.end()  # a kernel may have left an error that stays
            raise MeasureError(str(error)) from error

    def _begin(self) -> None:
        """Starts a measuring process where there is none, and computes the results to expect."""
        if self._beginning is not None:
            beginning, self._beginning = self._beginning, None
            beginning.result()
        elif self._gpu.is_alive:
            return
        else:
            self._make_inputs()
        for plan, default in self._compiled.items():
            if is_default(plan):  # others must agree with it
                call_on_gpu(self._gpu, check, default)


def evenly(codes: Sequence[str], share: int) -> list[list[str]]:
    """What is to be compiled in parts of about one size, for so many processes at a time."""
    parts = max(min(len(codes), share), math.ceil(len(codes) / MOST_TOGETHER))
    return [[*codes[part::parts]] for part in range(parts)]


def bench_of(kernel: TunedKernel, builders: Children) -> CudaWorkbench[Plan]:
    """Where the plans of a kernel are built and measured."""
    text = str(kernel.module)
    return CudaWorkbench(text, partial(generate_plan, text, target=kernel.target), builders)


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
        call_on_gpu(gpu, check, before)
        problem = call_on_gpu(gpu, check, after)
        if problem:
            raise MeasureError(problem)
        found: dict[str, list[float]] = {before.code: [], after.code: []}
        for turn in range(DUELS):
            for one in (before, after) if turn % 2 else (after, before):
                found[one.code] += call_on_gpu(gpu, times, one, DUEL_SAMPLES)
        return found[before.code], found[after.code]
    except ChildError as error:
        raise MeasureError(str(error)) from error
    finally:
        for child in (*builders, gpu):
            child.end()
