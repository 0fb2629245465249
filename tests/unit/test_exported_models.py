"""``mg-compile model.pt2``, and ``examples/cpp_generate``: tokens without Python are PyTorch's."""

from __future__ import annotations

import json
import logging
import os
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from emulated_libraries import emulated_library

from mugraph.dialects.model_arguments import model_arguments
from mugraph.errors import UserError
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.library_sources import generate_sources
from mugraph.tools import mg_compile
from mugraph.torch import result_types
from mugraph.torch.result_types import import_result_types

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
_pytree: Any = pytest.importorskip("torch.utils._pytree", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
exported: Any = import_module("mugraph.torch.exported")

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp_generate"
PROMPT, COUNT = [5, 17, 42], 8

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


class Counter(torch.nn.Module):
    """A linear layer with tied and transposed weights, a constant, and a sum over calls."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(16, 16, bias=False)
        self.second = torch.nn.Linear(16, 16)
        self.second.weight = self.first.weight
        self.wide = torch.nn.Parameter(torch.randn(16, 8).t())
        self.register_buffer("total", torch.ones(4, 16))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Any, unused: Any = None) -> Any:
        y = self.second(self.first(x).tanh()) * torch.arange(16).float().sqrt()
        self.total.add_(y)
        self.calls.add_(1)
        return y @ self.wide.t(), self.total * 2


def read(module: Any, inputs: tuple[Any, ...], path: Path, **options: Any) -> Any:
    with torch.no_grad():
        torch.export.save(torch.export.export(module.eval(), inputs, **options), path)
    return exported.read_exported(path)


@pytest.mark.parametrize("strict", [False, True])
def test_a_program_knows_its_weights_and_its_state(tmp_path: Path, strict: bool) -> None:
    module, x = Counter(), torch.randn(4, 16)
    model = read(module, (x,), tmp_path / "counter.pt2", strict=strict)
    roles = model_arguments(only_function(model.module))
    folded = "mugraph.folded_0"
    assert {*roles.weights.values()} == {"first.weight", "second.bias", "wide", folded}
    assert {*model.weights} == {"first.weight", "second.bias", "wide", "total"}
    assert [(each.name, each.zeros) for each in roles.states] == [("total", False), ("calls", True)]
    torch.testing.assert_close(model.constants[folded], torch.arange(16).float().sqrt())
    written = model.save(tmp_path / "share")
    assert [path.name for path in written] == [exported.CONSTANTS, exported.WEIGHTS]
    load_file = import_module("safetensors.numpy").load_file
    files = {name: each for path in written for name, each in load_file(path).items()}
    arguments: list[Any] = [None] * len(only_function(model.module).args)
    for at, name in roles.weights.items():
        arguments[at] = files[name]
    for state in roles.states:
        arguments[state.argument] = np.zeros(1, np.int64) if state.zeros else files[state.name]
    (given,) = (at for at, each in enumerate(arguments) if each is None)
    for call in range(3):
        arguments[given] = (x + call).numpy()
        results = run_function(model.module, None, arguments)
        with torch.no_grad():
            for ours, eager in zip(results[:2], module(x + call), strict=True):
                np.testing.assert_allclose(ours, eager.numpy(), atol=2e-5)
        for state in roles.states:
            arguments[state.argument] = results[state.result]
    assert arguments[roles.states[1].argument] == 3


def test_a_program_without_python_generates_the_tokens_of_pytorch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed")
    example = runpy.run_path(str(EXAMPLE / "export.py"))
    monkeypatch.setitem(example["SIZES"]["tiny"], "num_hidden_layers", 1)
    path = tmp_path / "decode.pt2"
    expected = example["main"]([str(path), "--expect", str(COUNT), *map(str, PROMPT)])
    assert len({*expected}) > 2
    model = exported.read_exported(path, "decode")
    sources = generate_sources(model.module, make_context(), ["sm_90a"])
    # The cache is written where it lies; its length, a number, is copied back.
    in_place = {state.name: state.result in sources.interface.in_place
                for state in sources.interface.model.states}  # fmt: skip
    assert in_place == {
        "cache_0_keys": True, "cache_0_values": True, "cache_0_cumulative_length": False
    }  # fmt: skip
    program = emulated_library(sources, tmp_path, EXAMPLE / "main.cpp")
    command = [str(program), "--no-graph", "--tokens", str(COUNT)]
    for file in model.save(tmp_path / "share"):
        command += ["--weights", str(file)]
    clean = {name: each for name, each in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run([*command, *map(str, PROMPT)], capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr
    assert [int(each) for each in done.stdout.split()] == expected


def test_mg_compile_takes_a_file_of_torch_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = tmp_path / "counter.pt2", tmp_path / "compiled"
    with torch.no_grad():
        exporting = torch.export.export(Counter().eval(), (torch.randn(4, 16),))
        torch.export.save(exporting, path)
    command = ["mg-compile", str(path), "--sources-only", "--no-weights", "-o", str(output)]
    monkeypatch.setattr("sys.argv", command)
    assert mg_compile.main() == 0
    said = capsys.readouterr().out
    written = {str(each.relative_to(output)) for each in map(Path, said.split())}
    assert {"include/counter.h", "share/counter/constants.safetensors"} <= written
    assert not (output / "share/counter/weights.safetensors").exists()
    header = (output / "include/counter.h").read_text()
    assert "first_weight: first.weight" in header and "int counter_new_state(" in header


class Sorts(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.sort(x)[0] + torch.cumprod(x, 0)


def test_what_has_no_conversion_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read(Sorts(), (torch.randn(4, 4),), tmp_path / "sorts.pt2")
    lines = str(error.value).splitlines()
    assert "these have no conversion" in lines[0]
    assert "aten.sort.default: mugraph has no conversion of it" in str(error.value)


def test_extents_of_calls_are_refused(tmp_path: Path) -> None:
    rows = {0: torch.export.Dim("rows", min=2, max=64)}
    inputs = (torch.randn(4, 16),)
    with pytest.raises(UserError, match="input 'input' of the model is a tensor with an extent"):
        read(torch.nn.Linear(16, 4), inputs, tmp_path / "rows.pt2", dynamic_shapes=(rows,))


@pytest.mark.parametrize("content", [None, b"no archive"])
def test_a_file_that_is_no_model(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "wrong.pt2"
    says = "cannot be read: No such file"
    if content is not None:
        path.write_bytes(content)
        says = "is no exported program"
    with pytest.raises(UserError, match=says):
        exported.read_exported(path)


def test_classes_of_results_are_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of transformers are registered with torch where they are defined."""
    (tmp_path / "drawn_results.py").write_text("class Logits: pass")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    types = [{"type": "drawn_results.Logits"}, {"type": "not_installed.Logits"}, {"type": None}]
    with ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/models/model.json", json.dumps({"out": json.dumps([1, types])}))
    import_result_types(tmp_path / "model.pt2")
    assert sys.modules.pop("drawn_results")


@pytest.mark.parametrize("body", ["raise OSError('no driver')", "raise SystemExit('no driver')"])
def test_classes_of_results_whose_import_fails(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What failed is said, and of which class, not that the file is none of torch's."""
    (tmp_path / "broken_results.py").write_text(body)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    path = tmp_path / "model.pt2"
    with ZipFile(path, "w") as archive:
        archive.writestr("model/models/model.json", json.dumps({"type": "broken_results.Logits"}))
    said = r"results of broken_results\.Logits, but importing broken_results failed: \w+: no driver"
    with pytest.raises(UserError, match=said):
        exported.read_exported(path)


def test_classes_that_torch_knows_need_no_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_types, "import_module", {"torch.utils._pytree": _pytree}.__getitem__)
    with ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/models/model.json", json.dumps({"type": "builtins.tuple"}))
    import_result_types(tmp_path / "model.pt2")


def test_an_archive_that_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wrong.pt2"
    with ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    logged: list[logging.LogRecord] = []
    monkeypatch.setattr(logging.getLogger("torch.export"), "handle", logged.append)
    with pytest.raises(UserError, match="is no exported program of this PyTorch") as error:
        exported.read_exported(path)
    assert "warnings above" not in str(error.value) and not logged
