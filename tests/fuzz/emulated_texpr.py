"""Runs CUDA of tensor expressions on the CPU, by the emulator of :mod:`fuzz.emulated`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline

from fuzz.emulated import (
    DRIVER,
    build_program,
    main_of,
    run_program,
    with_clusters,
    with_emulated_memory,
)
from fuzz.emulated_ptx import INCLUDES, with_emulated_instructions
from mugraph.codegen.cuda import print_module, workspace_bytes
from mugraph.dialects.functions import given_names, got_names
from mugraph.dialects.named_extents import named_extents, sized, sizes_of_call
from mugraph.dialects.te import BufferType, input_parameters, written_parameters
from mugraph.dialects.te.sizes import size_arguments
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.runtime.interpreter.arithmetic import storage_dtype

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TexprProgram:
    """A lowered tensor expression, and what it is called with."""

    module: ModuleOp
    inputs: Sequence[Array]

    @property
    def function(self) -> FuncOp:
        """The function of the module."""
        return cast(FuncOp, self.module.body.block.first_op)

    def sizes(self) -> dict[str, int]:
        """The sizes that the call says, by its inputs."""
        extents = tuple(named_extents(self.function).values())
        shapes = [one.shape for one in self.inputs]
        return sizes_of_call(extents, given_names(self.function), shapes) if extents else {}

    def types(self, positions: Sequence[int]) -> list[BufferType]:
        """The types of some parameters."""
        types = self.function.function_type.inputs.data
        return [cast(BufferType, types[position]) for position in positions]


def lowered(module: ModuleOp, threads: int = 0) -> ModuleOp:
    """A copy of a module with kernels, verified after every pass."""
    copy = module.clone()
    PassPipeline((TeLowerPass(threads=threads),)).apply(Context(), copy)
    copy.verify()
    return copy


def texpr_program_of(programs: Sequence[TexprProgram]) -> str:
    """One C++ program that runs any of several functions: its arguments are number and folder."""
    parts = [
        '#include "emulator.h"',
        '#include "te.h"',
        '#include "arch/grid_barrier.h"',
        *INCLUDES,
        DRIVER,
    ]
    calls: list[str] = []
    for number, one in enumerate(programs):
        lines = with_emulated_instructions(print_module(one.module)).splitlines()
        text = "\n".join(line for line in lines if not line.startswith("#"))
        text = with_clusters(with_emulated_memory(text))
        parts.append(f"namespace program_{number} {{\n{text}\n}}")
        function = one.function
        placed = [
            ", ".join(
                f"{{{type_.elements * storage_dtype(type_.element_type).itemsize}u, 16u, false}}"
                for type_ in one.types(positions)
            )
            for positions in (input_parameters(function), written_parameters(function))
        ]
        placed[0] = ", ".join([placed[0], *["{8u, 16u, false}"] * len(size_arguments(function))])
        calls.append(
            f"    case {number}: return run(program_{number}::_execute_mugraph, {{{placed[0]}}}, "
            f"{{{placed[1]}}}, {workspace_bytes(function)}u, folder, orders);"
        )
    return "\n".join([*parts, *main_of(calls)]) + "\n"


def build_texpr(programs: Sequence[TexprProgram]) -> Path:
    """Compiles the functions for the emulator; raises ``PropertyError`` with the first errors."""
    return build_program(texpr_program_of(programs))


def emulate_texpr(
    executable: Path, number: int, program: TexprProgram, folder: Path, orders: int = 2
) -> list[list[Array]]:
    """What a function writes, with threads in rising, in falling and in other orders."""
    folder.mkdir(parents=True, exist_ok=True)
    function = program.function
    types = program.types(input_parameters(function))
    for index, (type_, values) in enumerate(zip(types, program.inputs, strict=True)):
        elements = values.astype(storage_dtype(type_.element_type)).tobytes()
        room = type_.elements * storage_dtype(type_.element_type).itemsize
        # Behind a tensor of fewer elements lies what none may read.
        (folder / f"input{index}").write_bytes(elements.ljust(room, b"\xff"))
    sizes = program.sizes()
    for index, size in enumerate(sizes.values(), len(types)):
        np.array([size], np.int64).tofile(folder / f"input{index}")
    run_program(executable, number, folder, orders)
    return [
        [
            np.fromfile(
                folder / f"output{order}_{index}",
                storage_dtype(type_.element_type),
                math.prod(sized(names, type_.get_shape(), sizes)),
            )
            for index, (type_, names) in enumerate(
                zip(program.types(written_parameters(function)), got_names(function), strict=True)
            )
        ]
        for order in range(orders)
    ]
