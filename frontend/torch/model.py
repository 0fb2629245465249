"""``mugraph.compile(model, example_inputs)``: a model as a callable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from mugraph.errors import UserError
from mugraph.torch.backend import backend
from mugraph.torch.operator import import_torch


def compile_model(model: Any, example_inputs: Any) -> Callable[..., Any]:
    """A model of torch, or an exported program, compiled for inputs like these, which it runs on.

    ``example_inputs`` are a tuple of positional arguments, or a dict of keyword arguments.  The
    result takes the model's arguments and records no gradients; inputs of other extents compile it
    again.  Raises ``UserError`` without example inputs, for a model in training mode, for a model
    on another device than its inputs, for inputs that an exported program does not take, and for
    what is neither a module nor an exported program.
    """
    torch = import_torch()
    is_exported = isinstance(model, torch.export.ExportedProgram)
    if is_exported:
        module = model.module()
    elif isinstance(model, torch.jit.ScriptModule):
        raise UserError(
            "the model was made by torch.jit, whose code torch.compile does not take; compile the "
            "torch.nn.Module that it was made of."
        )
    elif not isinstance(model, torch.nn.Module):
        raise UserError(
            f"a {type(model).__name__} is no model of PyTorch; expected a torch.nn.Module or what "
            "torch.export.export gives."
        )
    elif model.training:
        raise UserError(
            "the model is in training mode, and mugraph compiles models for inference; call "
            "model.eval() first."
        )
    else:
        module = model
    named: dict[str, Any] = {}
    given: tuple[Any, ...] = ()
    if isinstance(example_inputs, dict):
        named = cast(dict[str, Any], example_inputs)
    elif isinstance(example_inputs, (tuple, list)):
        given = tuple(cast(Sequence[Any], example_inputs))
    else:
        raise UserError(
            "a PyTorch model is compiled for inputs like those of its calls; give a tuple of them: "
            "mugraph.compile(model, (x,)), or a dict of keyword arguments."
        )
    _require_one_device(module, (*given, *named.values()))
    compiled = torch.compile(module, backend=backend, dynamic=False)

    def call(*inputs: Any, **others: Any) -> Any:
        """What the model gives for these inputs."""
        with torch.no_grad():
            return compiled(*inputs, **others)

    try:
        call(*given, **named)
    except AssertionError as error:
        if not is_exported:
            raise
        raise UserError(
            f"the program was exported for other inputs ({str(error).splitlines()[0]}); export it "
            "for inputs like these."
        ) from error
    return call


def _require_one_device(module: Any, inputs: Any) -> None:
    """Raises ``UserError`` where a model's weights, and inputs with dimensions, are on several."""
    torch = import_torch()
    own = {str(each.device) for each in (*module.parameters(), *module.buffers())}
    given = {str(x.device) for x in inputs if isinstance(x, torch.Tensor) and x.dim()}
    if "meta" in own:
        raise UserError(
            "the model has weights on the meta device, which are not there; load them first, or "
            "call model.to_empty(device=...)."
        )
    if own and given - own:
        raise UserError(
            f"the model is on {', '.join(sorted(own))} and inputs are on "
            f"{', '.join(sorted(given - own))}; move one to the other with .to(...)."
        )
