"""From a file of ``torch.export`` to a program that says which of its arguments are weights."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects.constant import mark_constant
from mugraph.dialects.model_arguments import ModelArguments, State, mark_model_arguments
from mugraph.errors import UserError
from mugraph.runtime.cuda import only_function
from mugraph.torch.aten import NotConverted
from mugraph.torch.attention import keep_attention_whole, leave_out_known_masks
from mugraph.torch.complex_numbers import make_pairs
from mugraph.torch.decompositions import decompositions
from mugraph.torch.islands import fold_constants
from mugraph.torch.operator import import_torch
from mugraph.torch.result_types import import_result_types
from mugraph.torch.symbols import names_of
from mugraph.torch.translation import Refusals, tensor_like, translate
from mugraph.torch.whole_numbers import simplify_whole_numbers

WEIGHTS = "weights.safetensors"
"""The file of the parameters and buffers that a model's ``state_dict`` has."""
CONSTANTS = "constants.safetensors"
"""The file of what else it has: other buffers, and what was computed ahead."""

_SHOWN = 8


@dataclass(frozen=True)
class ExportedModel:
    """A model's program, and the tensors that it takes by name."""

    module: ModuleOp
    """One function, whose arguments say which weights and which state they are."""
    weights: Mapping[str, Any]
    constants: Mapping[str, Any]

    def save(self, folder: Path, *, weights: bool = True) -> list[Path]:
        """Writes the tensors as safetensors files; a file is there as a whole or not at all.

        Without ``weights``, constants alone.  Raises ``UserError`` where they cannot be written.
        """
        files = {CONSTANTS: self.constants} | ({WEIGHTS: self.weights} if weights else {})
        return [_save(tensors, folder / name) for name, tensors in files.items() if tensors]


def _save(tensors: Mapping[str, Any], path: Path) -> Path:
    try:
        writer = import_module("safetensors.torch")
    except ImportError as error:
        raise UserError(
            "files of weights need the package safetensors: pip install safetensors."
        ) from error
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        writer.save_file(own, str(partial))
        partial.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}.") from error
    finally:
        partial.unlink(missing_ok=True)
    return path


def read_exported(path: Path, name: str = "model") -> ExportedModel:
    """The model in a file that ``torch.export.save`` wrote; its function is called ``name``.

    Raises ``UserError`` where that is no such file, and as :func:`program_of`.
    """
    torch = import_torch()
    try:
        path.stat()
        if not is_zipfile(path):
            raise UserError(
                f"{path} is no exported program; expected a file that torch.export.save wrote."
            )
        import_result_types(path)
        with _quiet():
            exported = torch.export.load(str(path))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    except UserError:
        raise
    except Exception as error:
        # The first sentence: what follows speaks of warnings.
        said = str(error).partition(". ")[0].splitlines()
        reason = said[0] if said else type(error).__name__
        raise UserError(
            f"{path} is no exported program of this PyTorch ({torch.__version__}): "
            f"{reason.rstrip('.')}. Expected a file that torch.export.save wrote."
        ) from error
    return program_of(exported, name)


def program_of(exported: Any, name: str = "model") -> ExportedModel:
    """The program of a ``torch.export.ExportedProgram``, all of whose operators are mugraph's.

    Results are the model's, and then the new value of each state.  A buffer that the model writes
    is a state.  Raises ``UserError`` where an operator has no conversion, and for extents that are
    known only when a model runs.
    """
    torch = import_torch()
    keep_attention_whole(exported.graph_module)
    try:
        with torch.no_grad(), _quiet():
            exported = exported.run_decompositions(decompositions())
    except AssertionError as error:
        raise UserError(
            "the exported program cannot be made functional; where it writes to tensors that are "
            "kept, register them as buffers and export with strict=True."
        ) from error
    return _Program(exported).model(name)


class _Program:
    """An exported program of functional operators, on its way to one of mugraph's."""

    def __init__(self, exported: Any) -> None:
        torch = import_torch()
        self._kinds = torch.export.graph_signature.InputKind
        self._results = torch.export.graph_signature.OutputKind
        self._signature = exported.graph_signature
        self._exported = exported
        self._graph_module = exported.graph_module
        self._folded: dict[str, Any] = {}
        self._first_names = _first_names(exported.state_dict)

    def model(self, name: str) -> ExportedModel:
        """The program, and the values of its weights."""
        graph = self._graph_module.graph
        for node in graph.nodes:
            if str(node.target).startswith("aten._assert_") and not node.users:
                graph.erase_node(node)
        make_pairs(self._graph_module)
        fold_constants(self._graph_module)
        leave_out_known_masks(self._graph_module)
        simplify_whole_numbers(self._graph_module)
        self._lift_constants()
        self._merge_tied()
        targets = self._order_results()
        self._drop_unused_inputs()
        tf32 = bool(import_torch().backends.cuda.matmul.allow_tf32)
        self._refuse(Refusals(tf32=tf32))
        placeholders = list(graph.find_nodes(op="placeholder"))
        written = {target for target in targets if target is not None}
        names = [self._name(node) for node in placeholders]
        stored = [kept is not None for kept in map(self._kept, placeholders)]
        for node, is_stored in zip(placeholders, stored, strict=True):
            if is_stored:  # as files have it
                node.meta["val"] = node.meta["val"].contiguous()
        constant = [
            is_stored and each not in written for each, is_stored in zip(names, stored, strict=True)
        ]
        module = translate(self._graph_module, name, constant, tf32=tf32, names=names).module()
        return self._with_roles(module, placeholders, names, constant, targets)

    def _with_roles(
        self, module: ModuleOp, placeholders: list[Any], names: list[str], constant: list[bool],
        targets: list[str | None],
    ) -> ExportedModel:  # fmt: skip
        weights: dict[int, str] = {}
        states: list[State] = []
        own: dict[str, Any] = {}
        others: dict[str, Any] = {}
        state_dict = self._exported.state_dict
        for at, (node, name) in enumerate(zip(placeholders, names, strict=True)):
            value = self._kept(node)
            if value is None:
                continue
            zeros = False
            if constant[at]:
                weights[at] = name
            else:
                zeros = not bool(value.any())
                states.append(State(name, at, targets.index(name), zeros))
            if not zeros:
                (own if name in state_dict else others)[name] = value
        function = only_function(module)
        mark_constant(function, {*weights})
        mark_model_arguments(function, ModelArguments(weights, tuple(states)))
        return ExportedModel(module, own, others)

    def _spec(self, node: Any) -> Any:
        """What the exported program says of an input of its own."""
        specs = self._signature.input_specs
        return next(each for each in specs if getattr(each.arg, "name", None) == node.name)

    def _name(self, node: Any) -> str:
        """What an input is called: a weight by its name in files."""
        if node.name in self._folded:
            return f"mugraph.{node.name}"
        spec = self._spec(node)
        own = str(node.name if spec.kind is self._kinds.USER_INPUT else spec.target)
        return self._first_names.get(own, own)

    def _kept(self, node: Any) -> Any:
        """The value of an input that a caller does not give, or ``None``."""
        if node.name in self._folded:
            return self._folded[node.name]
        spec = self._spec(node)
        if spec.kind is self._kinds.USER_INPUT:
            return None
        if spec.target in self._exported.state_dict:
            return self._exported.state_dict[spec.target]
        return self._exported.constants[spec.target]

    def _lift_constants(self) -> None:
        """Makes inputs of what was computed ahead."""
        graph = self._graph_module.graph
        first = next(iter(graph.nodes))
        for node in list(graph.find_nodes(op="get_attr")):
            value = getattr(self._graph_module, node.target)
            with graph.inserting_before(first):
                made = graph.placeholder(f"folded_{len(self._folded)}")
            made.meta["val"] = value
            self._folded[made.name] = value
            node.replace_all_uses_with(made)
            graph.erase_node(node)

    def _merge_tied(self) -> None:
        """Makes one input of weights that are the same tensor."""
        inputs: dict[str, Any] = {}
        for node in self._graph_module.graph.find_nodes(op="placeholder"):
            first = inputs.setdefault(self._name(node), node)
            if first is not node:
                node.replace_all_uses_with(first)

    def _order_results(self) -> list[str | None]:
        """Puts a model's own results first; returns what each is the new value of, or ``None``.

        Results without elements, such as a ``None``, are left out.
        """
        kept = (self._results.BUFFER_MUTATION, self._results.USER_INPUT_MUTATION)
        output = self._graph_module.graph.output_node()
        results = list(zip(self._signature.output_specs, output.args[0], strict=True))
        own = [node for spec, node in results
               if spec.kind not in kept and hasattr(node, "meta")]  # fmt: skip
        new = [(spec.target, node) for spec, node in results if spec.kind in kept]
        output.args = ((*own, *(node for _, node in new)),)
        return [*(None for _ in own), *(target for target, _ in new)]

    def _drop_unused_inputs(self) -> None:
        """Drops weights, and arguments that are no tensors, that nothing reads."""
        graph = self._graph_module.graph
        for node in list(graph.find_nodes(op="placeholder")):
            is_tensor = hasattr(node.meta.get("val"), "dtype")
            if not node.users and (not is_tensor or self._kept(node) is not None):
                graph.erase_node(node)

    def _refuse(self, refusals: Refusals) -> None:
        """Raises ``UserError`` for what no program has: inputs, and then calls."""
        graph = self._graph_module.graph
        for node in graph.find_nodes(op="placeholder"):
            try:
                if names_of(tensor_like(node.meta["val"]).shape):
                    raise NotConverted("a tensor with an extent that is known only at run time")
            except NotConverted as error:
                raise UserError(
                    f"input '{self._name(node)}' of the model is {error}; export it with inputs "
                    "of fixed extents, in types that mugraph has."
                ) from error
        reasons: dict[str, None] = {}
        for node in graph.nodes:
            if node.op not in ("placeholder", "output") and (reason := refusals(node)) is not None:
                reasons[f"  {node.target}: {reason}"] = None
        if reasons:
            raise UserError(
                "the whole model must be mugraph's in a library, but these have no conversion:\n"
                + "\n".join(list(reasons)[:_SHOWN])
            )


def _first_names(tensors: Mapping[str, Any]) -> dict[str, str]:
    """Of tensors that are one under several names, the first of these, which files have."""
    firsts: dict[object, str] = {}
    return {
        name: firsts.setdefault((each.data_ptr(), each.shape, each.stride(), each.dtype), name)
        for name, each in tensors.items()
        if each.numel()
    }


@contextmanager
def _quiet() -> Generator[None]:
    """Without warnings that torch gives of its own code, and of files that it cannot read."""
    log = logging.getLogger("torch.export")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
