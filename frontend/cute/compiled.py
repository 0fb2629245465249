"""``cute.compile``: a function that launches a kernel, as one that runs it on arrays or tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import mugraph
from mugraph.cute.errors import KernelError, reported
from mugraph.cute.kernel import launches_of
from mugraph.cute.tensors import order_in_memory
from mugraph.dialects import te
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.runtime.cuda import only_function


@dataclass(frozen=True)
class CompiledFunction:
    """A function whose tensors may be others of the same types, extents and strides."""

    name: str
    call: Callable[..., Any]
    orders: Sequence[tuple[int, ...]]
    """Of each of its tensors the dimensions in the order in which they lie in memory."""
    inputs: Sequence[int]
    """Which of its tensors the kernel takes, in the order of its parameters."""
    outputs: Sequence[int]
    """Which of them it writes."""

    def __call__(self, *tensors: Any) -> None:
        """Runs the kernel, which writes some of the tensors; arguments of other kinds are kept.

        Raises KernelError where there are more or fewer of them, or other ones.
        """
        count = len(self.orders)
        with reported():
            if len(tensors) != count:
                raise KernelError(f"{self.name} takes {count} tensors, got {len(tensors)}")
            lying = [_lying(one, order) for one, order in zip(tensors, self.orders, strict=True)]
            out = [lying[place] for place in self.outputs]
            inputs = [lying[place] for place in self.inputs]
            self.call(*inputs, out=out[0] if len(out) == 1 else tuple(out))


def _lying(tensor: Any, order: tuple[int, ...]) -> Any:
    """A tensor with its dimensions in another order; what is no such tensor as it is."""
    if getattr(tensor, "ndim", None) != len(order):
        return tensor
    return tensor.permute(order) if hasattr(tensor, "permute") else tensor.transpose(order)


def compile(
    function: Callable[..., Any], *arguments: Any, arch: str = "native"
) -> CompiledFunction:
    """The compiled kernel that a function of ``cute.jit`` launches on these arguments.

    Tensors among the arguments are numpy's, PyTorch's, or ``make_fake_tensor``; others, such as
    numbers, are known when the kernel is recorded.  ``arch`` is as that of ``mugraph.compile``:
    ``native`` is this machine's GPU, or the interpreter where it has none.
    Raises KernelError where the function launches no kernel, or several, or one that writes
    nothing, or that is on a tensor that is none of the arguments.
    """
    # Tensors are known again by what they are: of one that is given twice are two.
    arguments = tuple(
        copy(one) if any(one is other for other in arguments[:place]) else one
        for place, one in enumerate(arguments)
    )
    with reported():
        launches = launches_of(function, arguments)
        if len(launches) != 1:
            raise KernelError(
                f"compile: {getattr(function, '__name__', function)} launches {len(launches)} "
                "kernels; a function of 'cute.jit' that launches one is compiled"
            )
        (launch,) = launches
        layouts = {one.name: one.layout for one in launch.call.parameters}
        given = {name: launch.call.arguments[name] for name in layouts}
        known = [one for one in arguments if any(one is other for other in given.values())]
        places: dict[str, int] = {}
        for name, tensor in given.items():
            found = [place for place, one in enumerate(known) if one is tensor]
            if not found:
                raise KernelError(
                    f"compile: '{name}' of kernel '{launch.name}' is none of the arguments; "
                    "launch kernels on tensors as they are given, and take parts in the kernel"
                )
            places[name] = found[0]
        module = launch.trace(arch if arch.startswith("sm_") else DEFAULT_TARGET)
        kernel = only_function(module)
        names, written = te.parameter_names(kernel), te.written_parameters(kernel)
        if not written:
            raise KernelError(f"compile: kernel '{launch.name}' writes none of its tensors")
        orders = {
            places[name]: tuple(reversed(order_in_memory(layout)))
            for name, layout in layouts.items()
        }
        return CompiledFunction(
            launch.name,
            mugraph.compile(module, arch),
            [orders[place] for place in range(len(known))],
            [places[names[position]] for position in te.input_parameters(kernel)],
            [places[names[position]] for position in written],
        )
