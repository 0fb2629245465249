"""Registration of a compiled µGraph with PyTorch's dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from mugraph.codegen.c_abi import CInterface
from mugraph.dialects.named_extents import sized
from mugraph.errors import UserError
from mugraph.jit import Graph, Kernel, compile
from mugraph.jit.arguments import ELEMENT_TYPES

_NAMESPACE = "mugraph"

_libraries: list[Any] = []
"""An operator lives as long as its library object."""


def op(
    graph: Graph | Kernel, name: str | None = None, *, arch: str = "native"
) -> Callable[..., Any]:
    """Registers a µGraph as ``torch.ops.mugraph.NAME`` and returns that operator.

    It is functional: it takes the inputs and returns the outputs, newly allocated with the planned
    strides.  A fake kernel gives shapes, strides and element types, so that ``torch.compile`` and
    ``torch.export`` take it without looking inside.  It has no gradient: autograd says so when one
    is asked for.  ``graph`` may be a kernel that is compiled already; ``name`` defaults to the
    function's.  Raises ``UserError`` for a name that is taken or no identifier, and as
    :func:`mugraph.compile`.
    """
    torch = import_torch()
    kernel = graph if isinstance(graph, Kernel) else compile(graph, arch)
    name = kernel.name if name is None else name
    if not name.isidentifier():
        raise UserError(f"{name!r} cannot name an operator; use letters, digits and '_'.")
    if hasattr(getattr(torch.ops, _NAMESPACE), name):
        raise UserError(f"torch.ops.{_NAMESPACE}.{name} is registered already; give another name.")
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    library.define(name + schema(kernel.interface))
    library.impl(name, kernel, "CPU" if kernel.arch == "cpu" else "CUDA")
    torch.library.register_fake(f"{_NAMESPACE}::{name}", _fake(kernel.interface), lib=library)
    _libraries.append(library)
    return getattr(getattr(torch.ops, _NAMESPACE), name)


def define(name: str, schema: str, run: Callable[..., Any], fake: Callable[..., Any]) -> Any:
    """Registers ``torch.ops.mugraph.NAME``, an operator that conversions know, on all devices.

    ``run`` is what torch does where it stays in torch, and ``fake`` gives tensors without numbers.
    """
    torch = import_torch()
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    library.define(name + schema)
    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::{name}", fake, lib=library)
    _libraries.append(library)
    return getattr(getattr(torch.ops, _NAMESPACE), name).default


def import_torch() -> Any:
    """The module; raises ``UserError`` where there is none."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise UserError(
            f"mugraph.torch needs PyTorch, which cannot be imported: {error}; "
            "pip install 'mugraph[torch]' brings it."
        ) from error


def schema(interface: CInterface) -> str:
    """The operator's signature as PyTorch writes it: ``(Tensor x, Tensor w) -> Tensor``."""
    inputs = ", ".join(f"Tensor {tensor.name}" for tensor in interface.inputs)
    outputs = ", ".join("Tensor" for _ in interface.outputs)
    return f"({inputs}) -> {outputs if len(interface.outputs) == 1 else f'({outputs})'}"


def _fake(interface: CInterface) -> Callable[..., Any]:
    """What the operator returns but for the numbers: empty tensors."""
    torch = import_torch()

    def fake(*inputs: Any) -> Any:
        # Extents of fake tensors may be symbols.
        sizes: dict[str, Any] = {
            name: array.shape[dim]
            for tensor, array in zip(interface.inputs, inputs, strict=True)
            for dim, name in enumerate(tensor.names)
        }
        made: tuple[Any, ...] = tuple(
            torch.empty_strided(
                sized(tensor.names, tensor.shape, sizes),
                tensor.strides,
                dtype=getattr(torch, ELEMENT_TYPES[tensor.element_type]),
                device=inputs[0].device,
            )
            for tensor in interface.outputs
        )
        return made[0] if len(made) == 1 else made

    return fake
