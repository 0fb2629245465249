"""``cute.compile``: a function that launches a kernel, as one that runs it on arrays or tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mugraph
from mugraph.cute.errors import KernelError, reported
from mugraph.cute.kernel import Launch, launches_of
from mugraph.dialects import te
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter.texpr.run import parameter_names


@dataclass(frozen=True)
class CompiledFunction:
    """A function whose tensors may be others of the same types, extents and strides."""

    name: str
    call: Callable[..., Any]
    tensors: int
    inputs: Sequence[int]
    """Which of its tensors the kernel takes, in the order of its parameters."""
    outputs: Sequence[int]
    """Which of them it writes."""

    def __call__(self, *tensors: Any) -> None:
        """Runs the kernel, which writes some of the tensors; arguments of other kinds are kept.

        Raises KernelError where there are more or fewer of them.
        """
        with reported():
            if len(tensors) != self.tensors:
                raise KernelError(f"{self.name} takes {self.tensors} tensors, got {len(tensors)}")
        out = [tensors[place] for place in self.outputs]
        inputs = [tensors[place] for place in self.inputs]
        self.call(*inputs, out=out[0] if len(out) == 1 else tuple(out))


def compile(
    function: Callable[..., Any], *arguments: Any, arch: str = "native"
) -> CompiledFunction:
    """The compiled kernel that a function of ``cute.jit`` launches on these arguments.

    Tensors among the arguments are numpy's, PyTorch's, or ``make_fake_tensor``; others, such as
    numbers, are known when the kernel is recorded.  ``arch`` is as that of ``mugraph.compile``:
    ``native`` is this machine's GPU, or the interpreter where it has none.
    Raises KernelError where the function launches no kernel, or several, or one on a tensor that is
    none of its arguments.
    """
    with reported():
        launch = _only_launch(function, arguments)
    module = launch.trace(arch if arch.startswith("sm_") else DEFAULT_TARGET)
    with reported():
        call, of_kernel = launch.call, {one.name for one in launch.call.parameters}
        given = [call.arguments[name] for name in call.arguments if name in of_kernel]
        known = [one for one in arguments if any(one is other for other in given)]
        places: dict[str, int] = {}
        for name in of_kernel:
            found = [place for place, one in enumerate(known) if one is call.arguments[name]]
            if not found:
                raise KernelError(
                    f"compile: '{name}' of kernel '{launch.name}' is none of the arguments; "
                    "launch kernels on tensors as they are given, and take parts in the kernel"
                )
            places[name] = found[0]
    kernel = only_function(module)
    names = parameter_names(kernel)
    return CompiledFunction(
        launch.name,
        mugraph.compile(module, arch),
        len(known),
        [places[names[position]] for position in te.input_parameters(kernel)],
        [places[names[position]] for position in te.written_parameters(kernel)],
    )


def _only_launch(function: Callable[..., Any], arguments: Sequence[Any]) -> Launch:
    found = launches_of(function, arguments)
    if len(found) != 1:
        raise KernelError(
            f"compile: {getattr(function, '__name__', function)} launches {len(found)} kernels; a "
            "function of 'cute.jit' that launches one is compiled"
        )
    return found[0]
