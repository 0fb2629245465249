"""Compiles, checks and times saved µGraphs on a GPU.

    python -m benchmarks.saved_mugraphs FOLDER --graphs 3 --output benchmarks/results/NAME

``FOLDER`` holds Mirage's JSON files, named as Mirage's ``saved_mugraphs`` are.  Of each file
the first ``--graphs`` graphs (or all of them) are imported, transpiled, compiled with nvcc, run on
poisoned outputs and compared with the function that the file's name stands for, in float64 and
independent of the interpreter.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdsl.passes import PassPipeline

from benchmarks import references
from benchmarks.cases import OURS, Built, Case, Comparison, error_against, parser, run
from benchmarks.cute_kernels import built_module, launched
from benchmarks.h200.measure import random_inputs
from benchmarks.h200.statistics import set_count
from mugraph.codegen.c_abi import CTensor
from mugraph.errors import UserError
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context
from mugraph.runtime.compare import TOLERANCE
from mugraph.tools.import_mirage import import_mirage


@dataclass(frozen=True)
class Workload:
    """What the graphs of a file compute, and the scale of each random input."""

    function: Callable[..., Any]
    """One of :mod:`benchmarks.references`."""
    scales: tuple[float, ...]


WORKLOADS: dict[str, Workload] = {
    "rmsnorm": Workload(references.rms_norm_linear, (1.0, 1 / 64)),
    "gated_mlp": Workload(references.gated_mlp, (1.0, 1 / 64, 1 / 64)),
    "lora": Workload(references.lora, (1.0, 1 / 16, 1 / 16, 1 / 16)),
    "gqa": Workload(references.attention, (0.25, 0.25, 1.0)),
    "mqa": Workload(references.attention, (0.25, 0.25, 1.0)),
    "mha": Workload(references.attention, (0.25, 0.25, 1.0)),
}


def workload_of(file: Path) -> Workload:
    """The workload whose name the file's stem holds; ``UserError`` where none does."""
    for name, workload in WORKLOADS.items():
        if name in file.stem:
            return workload
    raise UserError(f"{file.name} stands for no known function; known are {', '.join(WORKLOADS)}")


def count_graphs(file: Path) -> int:
    """How many graphs a file holds."""
    content = json.loads(file.read_text())
    return len(content) if content and isinstance(content[0], list) else 1


@dataclass(frozen=True)
class Saved(Case):
    """One graph of a file."""

    file: Path
    index: int

    @property
    def name(self) -> str:
        """The file and the graph's number."""
        return f"{self.file.stem} {self.index}"

    def build(self, arch: str) -> Built:
        """Imports, transpiles and compiles the graph."""
        document = self.file.read_text(encoding="utf-8")
        module = import_mirage(document, self.index, symbol=self.file.stem)[0]
        PassPipeline((TranspilePass(arch=arch),)).apply(make_context(), module)
        module.verify()
        return built_module(module, arch)

    def comparison(self, built: Built) -> Comparison:
        """The graph alone, on random inputs."""
        import torch

        workload, interface = workload_of(self.file), built.interface
        drawn = random_inputs(interface.inputs, workload.scales)
        expected = workload.function(torch, *(each.double() for each in drawn))
        (output,) = interface.outputs

        def laid_out(tensor: CTensor) -> Any:
            options: dict[str, Any] = {"dtype": drawn[0].dtype, "device": drawn[0].device}
            return torch.empty_strided(tensor.shape, tensor.strides, **options)

        total = sum(each.span for each in interface.tensors)
        sets = [
            (
                *(laid_out(to).copy_(one) for to, one in zip(interface.inputs, drawn, strict=True)),
                laid_out(output),
            )
            for _ in range(set_count(total))
        ]
        return Comparison(
            sets, {OURS: launched(built)}, error_against(expected), TOLERANCE, float(total)
        )


def graphs_of(folder: Path, most: int | None) -> list[Case]:
    """The first graphs of each file; ``UserError`` where there is none."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise UserError(f"{folder} holds no .json files")
    return [
        Saved(file, index)
        for file in files
        for index in range(min(most or sys.maxsize, count_graphs(file)))
    ]


def main() -> int:
    """Runs the command; 1 where a graph is not right."""
    found = parser(__doc__, output="build/saved_mugraphs")
    found.add_argument("folder", type=Path)
    found.add_argument("--graphs", type=int, help="how many of each file (default: all)")
    options = found.parse_args()
    try:
        cases = graphs_of(options.folder, options.graphs)
    except UserError as error:
        found.error(str(error))
    return run("Saved µGraphs", cases, options)


if __name__ == "__main__":
    raise SystemExit(main())
