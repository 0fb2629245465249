"""``@cute.kernel``: Python functions on tensors as kernels."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from io import StringIO
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.cute.branches import with_branches
from mugraph.cute.carried import carried_variable
from mugraph.cute.errors import KernelError, reported, short_path
from mugraph.cute.indices import Index, Numeric
from mugraph.cute.numbers import RecordedEngine, element_of
from mugraph.cute.parameters import Parameter, is_of_torch, parameter_of
from mugraph.cute.recorder import Recorder
from mugraph.cute.recording import Recording
from mugraph.cute.sizes import Size, at_most
from mugraph.cute.states import States
from mugraph.cute.tensors import whole_tensor
from mugraph.dialects import te
from mugraph.dialects.cute.machines import current_machine, running_on
from mugraph.dialects.cute.tensor import Tensor
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES
from mugraph.dialects.locations import file_location, place_of
from mugraph.dialects.named_extents import EXTENT, set_named_extents
from mugraph.dialects.programming_model import MAX_THREADS
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.passes.texpr.requirements import require_target

Extents = Sequence[Numeric]
"""Numbers, and extents of tensors that a call says, divided and rounded up."""


_LAUNCHES_RUN: ContextVar[bool] = ContextVar("_LAUNCHES_RUN", default=False)
"""Whether a function of :func:`jit` is called, outside of kernels."""
_LAUNCHES: ContextVar[list[Launch] | None] = ContextVar("_LAUNCHES", default=None)
"""What a function launches that is compiled: instead of running it."""
_MOST_ROUNDS = 8
"""How often a kernel is recorded at most: once more than loops that advance states are nested."""


class Kernel:
    """A Python function on tensors; a call binds its arguments."""

    def __init__(self, function: Callable[..., None], results: Sequence[str] = ()) -> None:
        functools.update_wrapper(self, function)
        self.function = with_branches(function)
        self.results = tuple(results)
        names = inspect.signature(function).parameters
        unknown = [name for name in results if name not in names]
        if unknown:
            raise KernelError(
                f"kernel '{function.__name__}' has no parameter {', '.join(unknown)}, which "
                "'results' names"
            )
        carried = carried_variable(function)
        if carried is not None:
            name, line = carried
            raise KernelError(
                f"{short_path(inspect.getfile(function))}:{line}: '{name}' is read and bound anew "
                "in a loop of the kernel, which is recorded once; compute it from the "
                "loop's variable, or keep it in a tensor"
            )

    def __call__(self, *arguments: Any, **named: Any) -> KernelCall:
        """Binds arguments: arrays, tensors over arrays or :func:`make_fake_tensor`, and others.

        What is no tensor is known when the kernel is recorded: sizes, layouts, tilings.
        """
        with reported():
            try:
                bound = inspect.signature(self.function).bind(*arguments, **named)
            except TypeError as error:
                raise KernelError(f"kernel '{self.function.__name__}': {error}") from None
            bound.apply_defaults()
            return KernelCall(self, dict(bound.arguments))


class KernelCall:
    """A kernel and its arguments."""

    def __init__(self, kernel: Kernel, arguments: dict[str, Any]) -> None:
        self.kernel = kernel
        self.arguments = arguments
        found = [parameter_of(name, value) for name, value in arguments.items()]
        self.parameters = [one for one in found if one is not None]

    def launch(
        self, grid: Extents, block: Extents, *, cluster: Extents = (1,), smem: int | None = None
    ) -> Launch:
        """The kernel on so many blocks and threads: not yet run, nor recorded.

        ``smem`` says nothing: shared memory is what the kernel allocates.  Raises KernelError for
        clusters of several blocks, which kernels do not have.
        """
        del smem
        with reported():
            threads = _three("block", block)
            if prod(threads) > MAX_THREADS:
                raise KernelError(
                    f"a block has at most {MAX_THREADS} threads, not {prod(threads)} ({block})"
                )
            if prod(_three("cluster", cluster)) > 1:
                raise KernelError(f"kernels have no clusters of several blocks, such as {cluster}")
            made = Launch(self, _three("grid", grid), threads)
        launches = _LAUNCHES.get()
        if launches is not None:
            launches.append(made)
        elif _LAUNCHES_RUN.get():
            if all(one.storage is not None for one in self.parameters):
                made.run()
            elif any(is_of_torch(one) for one in self.arguments.values()):
                with reported():
                    raise KernelError(
                        f"'{made.name}' is launched on tensors of PyTorch; compile the function "
                        "that launches it by cute.compile, and call what that gives"
                    )
        return made


@dataclass(frozen=True)
class Launch:
    """A kernel with arguments, blocks and threads."""

    call: KernelCall
    grid: tuple[Numeric, Numeric, Numeric]
    block: tuple[int, int, int]

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.call.kernel.function.__name__

    def _call(self, tensors: dict[str, Tensor]) -> None:
        with reported():
            self.call.kernel.function(**{**self.call.arguments, **tensors})

    def run(self) -> None:
        """Runs the recorded kernel by the interpreter, which writes the arrays of the call.

        Raises KernelError where a tensor has no contents, or where it is written and is an array
        that cannot be, or two that share memory.
        """
        from mugraph.runtime.interpreter.texpr import run_texpr

        for one in self.call.parameters:
            if one.storage is None:
                raise KernelError(f"{one.name} has no contents; run the kernel on arrays")
        function = cast("FuncOp", self.trace().body.block.first_op)
        inputs = [one for one in self.call.parameters if one.name not in self.call.kernel.results]
        _require_apart([self.call.parameters[at] for at in te.written_parameters(function)])
        outputs = run_texpr(function, [one.storage for one in inputs], seed=None).outputs
        for one in self.call.parameters:
            if one.name in outputs:
                one.storage[...] = outputs[one.name].reshape(-1)

    def trace(self, arch: str = DEFAULT_TARGET) -> ModuleOp:
        """Records the kernel: a module of one function, whose parameters are the tensors.

        Its operators have the lines of Python for locations.  ``arch`` is the GPU whose shared
        memory must suffice, and which must have the instructions that the kernel names.  Raises
        KernelError with the line that cannot be recorded, UserError for an instruction or shared
        memory that the GPU lacks.
        """
        parameters = self.call.parameters
        sizes = list(dict.fromkeys(size for one in parameters for size in one.sizes if size))
        with reported():
            _require_names(sizes)
            types = [te.BufferType.of(one.shape, element_of(one.dtype)) for one in parameters]
            body = Block(arg_types=[*types, *(IndexType() for _one in sizes)])
        recording = self._recorded(body, sizes)
        with reported():
            body.add_ops([recording.finish(), ReturnOp()])
        for size, argument in zip(sizes, body.args[len(parameters) :], strict=True):
            argument.name_hint = size.name
            size.value.replace_all_uses_with(argument)
        written = self.call.kernel.results
        attributes: list[DictionaryAttr] = []
        for one in parameters:
            entry: dict[str, Attribute] = {te.RESULT: UnitAttr()} if one.name in written else {}
            if one.sizes:
                names = [size.name if size else "" for size in one.sizes]
                entry[EXTENT] = ArrayAttr(map(StringAttr, names))
            attributes.append(DictionaryAttr(entry))
        attributes += [DictionaryAttr({EXTENT: StringAttr(size.name)}) for size in sizes]
        function = FuncOp(
            self.name,
            ([argument.type for argument in body.args], []),
            Region(body),
            arg_attrs=ArrayAttr(attributes),
        )
        function.attributes[WORKSPACE_BYTES] = IntegerAttr(0, i64)
        if sizes:
            set_named_extents(function, {size.name: size.named for size in sizes})
        module = ModuleOp([function])
        _verify(module)
        require_target(module, arch)
        if recording.may_leave_buffers:
            _require_within_bounds(function)
        return module

    def _recorded(self, body: Block, sizes: Sequence[Size]) -> Recording:
        """The kernel on the arguments of a block, recorded until loops know what they advance."""
        parameters, states = self.call.parameters, States({})
        code = self.call.kernel.function.__code__
        place = file_location(short_path(code.co_filename), code.co_firstlineno, 1)
        for _round in range(_MOST_ROUNDS):
            values = [size.value for size in sizes]
            with reported():
                recording = Recording(self.name, self.grid, self.block, values, len(parameters))
            recording.kernel.location = place
            tensors: dict[str, Tensor] = {}
            for one, argument in zip(parameters, body.args, strict=False):
                argument.name_hint = one.name
                engine = RecordedEngine(recording, argument, one.dtype, sizes=one.sizes)
                tensors[one.name] = whole_tensor(engine, one.layout)
            recorder, is_right = Recorder(recording, states), True
            try:
                with running_on(recorder):
                    self._call(tensors)
                is_right = states.is_right()
            finally:
                for one in recorder.said if is_right else ():
                    one()
            if is_right:
                return recording
            recording.kernel.erase(safe_erase=False)
            states = States(states.found)
        with reported():
            raise KernelError(
                f"kernel '{self.name}': how often loops advance the states of pipelines depends on "
                "these states; advance them equally often in each iteration"
            )

    def text(self, arch: str = DEFAULT_TARGET) -> str:
        """The recorded kernel as text, with the lines of Python in it: what ``mg-opt`` reads."""
        stream = StringIO()
        Printer(stream=stream, print_debuginfo=True).print_op(self.trace(arch))
        return f"{stream.getvalue()}\n"


def _require_within_bounds(function: FuncOp) -> None:
    from mugraph.passes.texpr.analysis.bounds import find_out_of_bounds
    from mugraph.passes.texpr.te_check import out_of_bounds_message

    if (out := find_out_of_bounds(function)) is not None:
        raise KernelError(
            f"{place_of(out.op)}: {out_of_bounds_message(out)}; where tiles do not divide a "
            "tensor, copy by copy_if with predicates of elem_less"
        )


def _verify(module: ModuleOp) -> None:
    """Raises KernelError where an operator is not as it must be, with the line that recorded it."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            raise KernelError(f"{place_of(op) or op.name}: {error}") from None


def _require_names(sizes: Sequence[Size]) -> None:
    """Raises KernelError where two sizes have one name."""
    names = [size.name for size in sizes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise KernelError(f"two sizes are called '{twice}'; make one 'sym_int', and use it twice")


def _require_apart(written: Sequence[Parameter]) -> None:
    """Raises KernelError where not all can be written, each without the others."""
    for at, one in enumerate(written):
        if not one.storage.flags.writeable:
            raise KernelError(f"the kernel writes {one.name}, whose array is read-only")
        for other in written[:at]:
            if np.shares_memory(one.storage, other.storage):
                raise KernelError(
                    f"the kernel writes {other.name} and {one.name}, which share memory; give "
                    "arrays of their own, or one parameter for both"
                )


def _three(what: str, extents: Sequence[Any]) -> tuple[Any, Any, Any]:
    given = tuple(extents) if isinstance(extents, tuple | list) else ()
    are_whole = all(isinstance(one, int | Index) for one in given)
    if not are_whole or not 1 <= len(given) <= 3 or any(at_most(one) < 1 for one in given):
        raise KernelError(f"the {what} has 1 to 3 extents, integers of at least 1, not {extents}")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that kernels call, or one that launches them.

    Its ``if`` is that of kernels.  What it launches on arrays outside of kernels is run.
    """
    found = with_branches(function)

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        if current_machine() is not None:
            return found(*arguments, **named)
        before = _LAUNCHES_RUN.set(True)
        try:
            return found(*arguments, **named)
        finally:
            _LAUNCHES_RUN.reset(before)

    return called


def launches_of(function: Callable[..., Any], arguments: Sequence[Any]) -> list[Launch]:
    """What a function launches on arguments; nothing is run."""
    found: list[Launch] = []
    before = _LAUNCHES.set(found)
    try:
        function(*arguments)
    finally:
        _LAUNCHES.reset(before)
    return found


def kernel(function: Callable[..., None] | None = None, *, results: Sequence[str] = ()) -> Any:
    """Makes a kernel of a Python function on tensors.

    ``results`` names the parameters that the kernel writes in whole: they hold nothing before.
    """
    if function is None:
        return functools.partial(Kernel, results=results)
    return Kernel(function, results)
