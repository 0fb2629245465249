"""The access streams of ``sched`` operators against the header library itself.

Every operator is printed by the CUDA target and compiled by a C++ compiler that calls back at each
load and store; each thread then runs on its own, and what it touched must be what the operator
declares: the same bytes, by the same instruction, in the same order.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from access_cases import CASES, Case, copy, device, elementwise, parse, product, shared
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from mugraph.codegen.cuda.cpp import Writer, stored_type
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.operations import KernelPrinter, print_operation
from mugraph.codegen.cuda.stages import Iteration
from mugraph.dialects import sched
from mugraph.dialects.sched import (
    AccessKind,
    HasThreadAccesses,
    Proxy,
    StageReference,
    ThreadAccess,
)
from mugraph.dialects.tensor_types import resolved_layout_of
from mugraph.runtime.toolchain import (
    ToolchainError,
    cuda_include_paths,
    find_cutlass,
    runtime_include_paths,
)

HERE = Path(__file__).parent
RECORDER = HERE / "access_recorder"
ITERATION = 1
"""The iteration of the loop in which the operators of a loop run here."""


IntArray = npt.NDArray[np.int64]
Key = tuple[int, bool, int, int]
"""Region, whether it writes, instruction as the recorder numbers it, and bytes."""


def accessing_operations(module: ModuleOp) -> list[HasThreadAccesses]:
    return [op for op in module.walk() if isinstance(op, HasThreadAccesses)]


class Program:
    """One C++ function an operator, and which buffer is which region of the recorder."""

    def __init__(self, modules: list[ModuleOp]) -> None:
        self.operations = [op for module in modules for op in accessing_operations(module)]
        self.regions: dict[SSAValue, int] = {}
        functions = [self.function(index, op) for index, op in enumerate(self.operations)]
        threads = [sched.enclosing_kernel(op).threads for op in self.operations]
        calls = [
            f"  for (int t = 0; t < {count}; ++t) {{ recorder::operation = {index}; "
            f"recorder::thread = t; operation_{index}(t); }}"
            for index, count in enumerate(threads)
        ]
        self.text = "\n".join(
            [
                '#include "recorder.h"',
                "#include <mugraph/runtime.h>",
                "using namespace cute;",
                "using namespace mugraph;",
                *functions,
                "int main(int, char** arguments) {",
                f"  recorder::reserve({len(self.regions)});",
                *calls,
                "  return recorder::write(arguments[1]);",
                "}",
                "",
            ]
        )

    def function(self, index: int, op: HasThreadAccesses) -> str:
        writer, names = Writer(), Names(sched.registers_of)
        kernel = sched.enclosing_kernel(op)
        iteration = Iteration(ITERATION if sched.enclosing_loop(op) is not None else 0)
        printer = KernelPrinter(writer, names, kernel, iteration)
        writer.open(f"static void operation_{index}([[maybe_unused]] int thread) {{")
        for value in dict.fromkeys(map(sched.registers_of, op.operands)):
            if isinstance(value.type, sched.TileType):
                assert isinstance(value.owner, Operation)
                print_operation(value.owner, printer)
                # Arithmetic on what the stack happens to hold may be slow; there is none on zeros.
                writer.line(f"for (auto& value : {names.of(value)}) value = 0;")
                continue
            region = self.regions.setdefault(value, len(self.regions))
            type_ = stored_type(value)
            writer.line(f"{type_}* const {names.of(value)} = recorder::region<{type_}>({region});")
        print_operation(op, printer)
        writer.close()
        return writer.text()

    def record(self, folder: Path) -> IntArray:
        """Compiles and runs; a row is a ``Record`` of ``recorder.h``."""
        compiler = shutil.which(os.environ.get("CXX", "g++"))
        if compiler is None:
            pytest.skip("no g++ here: the access streams were not compared with headers")
        try:
            system_paths = (find_cutlass(), *cuda_include_paths())
        except ToolchainError as error:
            pytest.skip(f"the access streams were not compared with the headers: {error}")
        source = folder / "accesses.cpp"
        source.write_text(self.text)
        compile_ = [compiler, "-std=c++17", "-O0", "-fsanitize=thread", "-c", str(source)]
        compile_ += ["-include", str(RECORDER / "recorder.h"), "-o", str(folder / "accesses.o")]
        compile_ += [f"-I{path}" for path in (RECORDER, *runtime_include_paths())]
        for path in system_paths:
            compile_ += ["-isystem", str(path)]
        link = [compiler, str(folder / "accesses.o"), "-o", str(folder / "accesses")]
        for command in (compile_, link, [str(folder / "accesses"), str(folder / "records")]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr[-4000:]
        return np.fromfile(folder / "records", dtype=np.int32).reshape(-1, 7).astype(np.int64)


def recorded_accesses(records: IntArray) -> dict[Key, list[list[int]]]:
    """For every kind of access of one operator, the byte offsets of each thread in order."""
    found: dict[Key, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for _, thread, region, writes, instruction, offset, size in records.tolist():
        found[region, bool(writes), instruction, size][thread].append(offset)
    return {key: [by_thread[t] for t in sorted(by_thread)] for key, by_thread in found.items()}


def instruction_number(access: ThreadAccess) -> int:
    if access.proxy is Proxy.ASYNC_COPY:
        return 1
    return int(access.instruction[len("ldmatrix.x")]) if access.warp_collective else 0


def first_byte(access: ThreadAccess) -> int:
    """Where the stage or tile starts, counted as the recorder does: buffers start at 0."""
    owner = access.value.owner
    iteration = 0 if access.stage.every_stage else access.stage.iteration_at(ITERATION)
    start = sched.start_bytes(access.value, iteration)
    return start - (owner.byte_offset or 0) if isinstance(owner, sched.AllocOp) else start


def declared_accesses(
    op: HasThreadAccesses, regions: dict[SSAValue, int]
) -> dict[Key, list[list[int]]]:
    """As :func:`recorded_accesses`, from what the operator says."""
    rows: dict[Key, list[IntArray]] = defaultdict(list)
    for access in op.thread_accesses():
        writes = access.kind is AccessKind.WRITE
        key = (regions[access.value], writes, instruction_number(access), access.access_bytes)
        scaled = first_byte(access) + access.offsets * access.element_bytes
        exists = access.active() & existing_vectors(op, access)
        rows[key].append(np.where(exists, scaled, -1))
    result: dict[Key, list[list[int]]] = {}
    for key, parts in rows.items():
        columns = np.concatenate(parts).T.tolist()
        threads = [[offset for offset in column if offset >= 0] for column in columns]
        result[key] = [offsets for offsets in threads if offsets]
    return result


def existing_vectors(op: HasThreadAccesses, access: ThreadAccess) -> npt.NDArray[np.bool_]:
    """Which vectors exist in block 0; a store does not read from shared memory for the others."""
    predicates = [access.predicate]
    if access.kind is AccessKind.READ:
        predicates += [other.predicate for other in op.thread_accesses()]
    for predicate in predicates:
        if predicate is not None:
            existing = predicate.existing((0, 0, 0), access.stage.iteration_at(ITERATION))
            counts = predicate.counts(existing, access.width)
            assert np.isin(counts, (0, access.width)).all(), "no vector of the cases is cut"
            return counts > 0
    return np.ones(access.offsets.shape, np.bool_)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> tuple[Program, IntArray]:
    modules = [parse("\n".join(case.kernel() for case in CASES)), parse(PIPELINE), parse(RAGGED)]
    program = Program(modules)
    return program, program.record(tmp_path_factory.mktemp("accesses"))


RAGGED = """
sched.kernel @ragged inputs 1 grid [2, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<8x36xf16, (8,36):(40,1)>, %o: !sched.global<8x36xf16, (8,36):(40,1)>, %y: !sched.global<36x6xf16, (36,6):(6,1)>):
  %xt = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<8x36xf16, (8,36):(40,1)> -> !sched.global<4x8xf16, (4,8):(40,1)>
  %ot = sched.local_tile %o map [0, -1, -1] fordim 1 : !sched.global<8x36xf16, (8,36):(40,1)> -> !sched.global<4x8xf16, (4,8):(40,1)>
  %yt = sched.local_tile %y map [-1, -1, -1] fordim 0 : !sched.global<36x6xf16, (36,6):(6,1)> -> !sched.global<8x6xf16, (8,6):(6,1)>
  %s = sched.alloc offset 0 : !sched.shared<4x8xf16, (4,8):(8,1)>
  %r = sched.alloc offset 1024 : !sched.shared<8x6xf16, (8,6):(8,1)>
  %f = sched.empty : !sched.tile<8x6xf32, #sched.linear<32, vector 2, order [1, 0]>>
  sched.prologue {
    sched.copy async %xt to %s by <32, vector 4, order [1, 0]> iteration 4 within [1] : !sched.global<4x8xf16, (4,8):(40,1)> to !sched.shared<4x8xf16, (4,8):(8,1)>
    sched.copy %xt to %s by <32, vector 4, order [1, 0]> iteration 4 within [1] : !sched.global<4x8xf16, (4,8):(40,1)> to !sched.shared<4x8xf16, (4,8):(8,1)>
    sched.copy %s to %ot by <32, vector 4, order [1, 0]> iteration 4 within [1] : !sched.shared<4x8xf16, (4,8):(8,1)> to !sched.global<4x8xf16, (4,8):(40,1)>
    sched.copy %yt to %r by <32, vector 1, order [0, 1]> iteration 4 within [0] : !sched.global<8x6xf16, (8,6):(6,1)> to !sched.shared<8x6xf16, (8,6):(8,1)>
  }
  %f_1 = sched.forloop 5 carrying %f : !sched.tile<8x6xf32, #sched.linear<32, vector 2, order [1, 0]>> {
  ^bb0(%f_2: !sched.tile<8x6xf32, #sched.linear<32, vector 2, order [1, 0]>>):
    sched.copy async %xt to %s by <32, vector 4, order [1, 0]> within [1] : !sched.global<4x8xf16, (4,8):(40,1)> to !sched.shared<4x8xf16, (4,8):(8,1)>
    sched.copy %xt to %s by <32, vector 4, order [1, 0]> within [1] : !sched.global<4x8xf16, (4,8):(40,1)> to !sched.shared<4x8xf16, (4,8):(8,1)>
    sched.copy %s to %ot by <32, vector 4, order [1, 0]> within [1] : !sched.shared<4x8xf16, (4,8):(8,1)> to !sched.global<4x8xf16, (4,8):(40,1)>
    %f_3 = sched.mask %r to %f_2 with 0.0 outside [#tb.ragged<dim 0, extent 36, step 36, blocks [1, 1, 1], tile 8, loop>] then [accum] by <32, vector 2, order [1, 0]> : !sched.shared<8x6xf16, (8,6):(8,1)> to !sched.tile<8x6xf32, #sched.linear<32, vector 2, order [1, 0]>>
    sched.mask %r to %r with 0.0 outside [#tb.ragged<dim 0, extent 36, step 36, blocks [1, 1, 1], tile 8, loop>] by <32, vector 2, order [1, 0]> : !sched.shared<8x6xf16, (8,6):(8,1)> to !sched.shared<8x6xf16, (8,6):(8,1)>
    sched.yield %f_3 : !sched.tile<8x6xf32, #sched.linear<32, vector 2, order [1, 0]>>
  }
}
"""  # noqa: E501

PIPELINE = """
sched.kernel @pipeline inputs 1 grid [4, 1, 1] block [32, 1, 1] {
^bb0(%x: !sched.global<16x128xf16, (16,128):(128,1)>, %o: !sched.global<16x128xf16, (16,128):(128,1)>):
  %xt = sched.local_tile %x map [0, -1, -1] fordim 1 : !sched.global<16x128xf16, (16,128):(128,1)> -> !sched.global<4x32xf16, (4,32):(128,1)>
  %ot = sched.local_tile %o map [0, -1, -1] fordim 1 : !sched.global<16x128xf16, (16,128):(128,1)> -> !sched.global<4x32xf16, (4,32):(128,1)>
  %s = sched.alloc stages 3 offset 256 : !sched.shared<4x32xf16, (4,32):(40,1)>
  %r = sched.alloc offset 2048 : !sched.shared<4x32xf16, (4,32):(32,1)>
  sched.prologue {
    sched.copy async %xt to %s by <32, vector 4, order [1, 0]> iteration 0 : !sched.global<4x32xf16, (4,32):(128,1)> to !sched.shared<4x32xf16, (4,32):(40,1)>
    sched.copy async %xt to %s by <32, vector 4, order [1, 0]> iteration 1 : !sched.global<4x32xf16, (4,32):(128,1)> to !sched.shared<4x32xf16, (4,32):(40,1)>
    sched.fill %s with 0.0 : !sched.shared<4x32xf16, (4,32):(40,1)>
  }
  sched.forloop 4 {
    sched.copy async %xt to %s by <32, vector 4, order [1, 0]> ahead 2 : !sched.global<4x32xf16, (4,32):(128,1)> to !sched.shared<4x32xf16, (4,32):(40,1)>
    sched.map exp %s to %r by <32, vector 4, order [1, 0]> : !sched.shared<4x32xf16, (4,32):(40,1)> to !sched.shared<4x32xf16, (4,32):(32,1)>
    sched.copy %r to %ot by <32, vector 4, order [1, 0]> : !sched.shared<4x32xf16, (4,32):(32,1)> to !sched.global<4x32xf16, (4,32):(128,1)>
  }
  sched.epilogue {
    sched.map exp %s to %s then [accum] by <32, vector 4, order [1, 0]> : !sched.shared<4x32xf16, (4,32):(40,1)> to !sched.shared<4x32xf16, (4,32):(40,1)>
  }
}
"""  # noqa: E501


def test_streams_are_what_the_headers_do(comparison: tuple[Program, IntArray]) -> None:
    program, records = comparison
    for index, op in enumerate(program.operations):
        recorded = recorded_accesses(records[records[:, 0] == index])
        declared = declared_accesses(op, program.regions)
        label = f"{sched.enclosing_kernel(op).sym_name.data}: {op.name}"
        assert declared.keys() == recorded.keys(), label
        for key, threads in declared.items():
            ours, theirs = threads, recorded[key]
            if not has_order(op, key, program.regions):
                ours, theirs = ([sorted(thread) for thread in side] for side in (ours, theirs))
            assert ours == theirs, f"{label}, {key}"


def has_order(op: HasThreadAccesses, key: Key, regions: dict[SSAValue, int]) -> bool:
    """Whether the order is that of one stream: not that of C++ arguments, or of two operands."""
    region, writes, instruction, _ = key
    if isinstance(op, sched.MmaOp) and instruction == 0:
        return False
    if isinstance(op, sched.ReduceOp) and op.drops_dim and not writes:
        # Declared part by part, read round by round.
        return False
    return writes or [regions.get(value) for value in op.operands].count(region) == 1


def accesses_of(case: Case) -> list[ThreadAccess]:
    (op,) = accessing_operations(parse(case.kernel()))
    return list(op.thread_accesses())


PRODUCTS = [case for case in CASES if case.name.startswith("mma_")]


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda case: case.name)
def test_significant_elements_are_those_of_the_matrices(case: Case) -> None:
    for operand in (0, 1):
        accesses = [access for access in accesses_of(case) if access.operand == operand]
        layout = resolved_layout_of(accesses[0].value)
        touched = {int(e) for access in accesses for e in access.significant_elements().flat}
        assert touched - {-1} == {layout(index) for index in range(layout.size())}
        for access in accesses:
            counted = access.active() if access.significant is None else access.significant > 0
            assert (access.active() | ~counted).all()


def test_idle_threads_and_padding() -> None:
    (tails,) = [case for case in PRODUCTS if case.name == "mma_tails"]
    lhs = next(access for access in accesses_of(tails) if access.operand == 0)
    assert lhs.significant is not None and lhs.offsets.shape == (2, 128)
    # Rows of 21 are read in lines of 8: of the last, 5 elements count; rows past 20 do not.
    assert sorted(np.unique(lhs.significant)) == [0, 5, 8]
    (tiny,) = [case for case in PRODUCTS if case.name == "mma_tiny"]
    assert all(not access.active()[:, 32:].any() for access in accesses_of(tiny))


def test_stage_references() -> None:
    operations = accessing_operations(parse(PIPELINE))
    stages = [access.stage for op in operations for access in op.thread_accesses()]
    assert stages[0] == StageReference(iteration=0)
    assert stages[2] == StageReference(iteration=1)
    assert stages[4] == StageReference(iteration=0, every_stage=True)
    ahead = stages[5]
    assert ahead == StageReference(ahead=2)
    assert [ahead.happens_at(it, 4) for it in range(4)] == [True, True, False, False]
    assert [ahead.stage_at(it, 3) for it in range(4)] == [2, 0, 1, 2]
    assert stages[7] == StageReference()
    assert stages[-1] == StageReference(iteration=0)


def test_start_of_tiles_and_stages() -> None:
    operations = accessing_operations(parse(PIPELINE))
    tile, buffer = operations[0].operands
    assert sched.start_bytes(tile, 3, (2, 0, 0)) == 2 * (3 * 32 + 2 * 4 * 128)
    assert sched.start_bytes(buffer, 0) == 256
    assert sched.start_bytes(buffer, 5) == 256 + 2 * 384
    fill = operations[2].thread_accesses()[0]
    assert int(fill.elements().max()) + 1 == 3 * 384 // 2


@pytest.mark.parametrize(
    ("case", "message"),
    [
        pytest.param(
            copy("gather", 32, "32, vector 4, order [1, 0]", device("16x64xf16", "(16,64):(1,16)"),
                 shared("16x64xf16", "(16,64):(64,1)"), "async"),
            "cp.async needs vectors of 4 contiguous, aligned elements along dimension 1, which %a",
            id="asynchronous gather",
        ),
        pytest.param(
            elementwise("uneven", 32, "32, vector 4, order [1, 0]", "exp",
                        shared("5x6xf16", "(5,6):(6,1)"), shared("5x6xf16", "(5,6):(6,1)")),
            "%a: 30 elements cannot be dealt out in vectors of 4; use vectors of 1",
            id="uneven vectors",
        ),
        pytest.param(
            product("unaligned", 32, "1,1", shared("16x16xf16", "(16,16):(20,1)"),
                    shared("16x8xf16", "(16,8):(8,1)"), "16x8xf32"),
            "%a: ldmatrix needs rows or k contiguous, and every other stride",
            id="unaligned lines",
        ),
    ],
)  # fmt: skip
def test_what_the_headers_refuse(case: Case, message: str) -> None:
    with pytest.raises(sched.AccessError) as error:
        accesses_of(case)
    assert message in str(error.value)
