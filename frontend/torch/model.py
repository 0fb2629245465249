"""``mugraph.compile(model, example_inputs)`` and ``mugraph.torch.explain(model, inputs)``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mugraph.errors import UserError, first_line
from mugraph.torch.backend import backend
from mugraph.torch.breaks import graph_breaks
from mugraph.torch.operator import import_torch
from mugraph.torch.report import Report


def compile_model(model: Any, example_inputs: Any) -> Callable[..., Any]:
    """A model of torch, or an exported program, compiled for inputs like these, which it runs on.

    ``example_inputs`` are a tuple of positional arguments, or a dict of keyword arguments.  The
    result takes the model's arguments and records no gradients; inputs of other extents compile it
    again.  Raises ``UserError`` without example inputs, for a model in training mode, for a model
    on another device than its inputs, for inputs that the model does not take, and for what is
    neither a module nor an exported program.
    """
    torch = import_torch()
    module = _module_of(model)
    if not isinstance(example_inputs, (tuple, list, Mapping)):
        raise UserError(
            "a PyTorch model is compiled for inputs like those of its calls; give a tuple of them: "
            "mugraph.compile(model, (x,)), or a dict of keyword arguments."
        )
    inputs = _inputs_of(example_inputs)
    inputs.require(module)
    compiled = torch.compile(module, backend=backend, dynamic=False)

    def call(*given: Any, **named: Any) -> Any:
        """What the model gives for these inputs."""
        with torch.no_grad():
            return compiled(*given, **named)

    inputs.run(call, is_exported=module is not model)
    return call


def explain(model: Any, *inputs: Any, **named: Any) -> Report:
    """Compiles a model for these inputs, runs it once, and says what became which kernel.

    The inputs are those of :func:`compile_model`, ``explain(model, (x, y))`` or a dict by name, or
    those of a call, ``explain(model, x, y)``; the model may be a function.  The report also says
    what stayed in torch, and why, and what ``torch.compile`` itself left out.  Times are estimates;
    on a GPU each kernel is measured, too, and programs run some times more.  On a CPU torch runs
    the model, and times are for the default target.  Raises as :func:`compile_model`.
    """
    torch = import_torch()
    module = model if inspect.isroutine(model) else _module_of(model)
    is_container = len(inputs) == 1 and not named and isinstance(inputs[0], (tuple, list, Mapping))
    given = _inputs_of(inputs[0]) if is_container else Inputs(inputs, named)
    if not given.values:
        raise UserError(
            "a model is explained for inputs like those of its calls; give a tuple of them: "
            "mugraph.torch.explain(model, (x,)), or a dict of keyword arguments."
        )
    given.require(module)
    report = Report(explains=True)
    torch._dynamo.reset()

    def reporting(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return backend(graph_module, example_inputs, report=report)

    with torch.no_grad():
        compiled = torch.compile(module, backend=reporting, dynamic=False)
        with graph_breaks() as report.breaks:
            given.run(compiled, is_exported=module is not model)
        report.measure()
    return report


def _module_of(model: Any) -> Any:
    """The module of a model that is to be compiled; raises ``UserError`` for what has none."""
    torch = import_torch()
    if isinstance(model, torch.export.ExportedProgram):
        return model.module()
    if isinstance(model, torch.jit.ScriptModule):
        raise UserError(
            "the model was made by torch.jit, whose code torch.compile does not take; compile the "
            "torch.nn.Module that it was made of."
        )
    if not isinstance(model, torch.nn.Module):
        raise UserError(
            f"a {type(model).__name__} is no model of PyTorch; expected a torch.nn.Module or what "
            "torch.export.export gives."
        )
    if model.training:
        raise UserError(
            "the model is in training mode, and mugraph compiles models for inference; call "
            "model.eval() first."
        )
    return model


@dataclass(frozen=True)
class Inputs:
    """Arguments of a call of a model."""

    given: tuple[Any, ...]
    named: dict[str, Any]

    @property
    def values(self) -> tuple[Any, ...]:
        """All of them."""
        return (*self.given, *self.named.values())

    def require(self, module: Any) -> None:
        """Raises ``UserError`` where a model takes other arguments, or is on another device."""
        try:
            inspect.signature(getattr(module, "forward", module)).bind(*self.given, **self.named)
        except TypeError as error:
            raise UserError(f"the model does not take these inputs: {error}.") from error
        except ValueError:
            pass  # A builtin has no signature.
        if isinstance(module, import_torch().nn.Module):
            _require_one_device(module, self.values)

    def run(self, compiled: Callable[..., Any], *, is_exported: bool) -> None:
        """Calls a compiled model; raises ``UserError`` where its operators refuse the inputs."""
        try:
            compiled(*self.given, **self.named)
        except AssertionError as error:
            if not is_exported:
                raise
            raise UserError(
                f"the program was exported for other inputs ({first_line(error)}); export "
                "it for inputs like these."
            ) from error
        except (TypeError, RuntimeError) as error:
            # Operators raise RuntimeError itself; others derive from it, such as out of memory.
            if type(error) not in (TypeError, RuntimeError, _while_tracing()):
                raise
            cause: BaseException = error
            while (before := cause.__cause__ or cause.__context__) is not None:
                cause = before
            reason = first_line(cause)
            raise UserError(f"the model does not run on these inputs: {reason}") from error


def _while_tracing() -> type[Exception]:
    """What torch raises where an operator refuses the inputs that it is traced with."""
    return import_torch()._dynamo.exc.TorchRuntimeError


def _inputs_of(inputs: Any) -> Inputs:
    """A tuple of positional arguments, or keyword arguments, as a tokenizer gives them."""
    if isinstance(inputs, Mapping):
        return Inputs((), dict(cast(Mapping[str, Any], inputs)))
    return Inputs(tuple(cast(Iterable[Any], inputs)), {})


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
