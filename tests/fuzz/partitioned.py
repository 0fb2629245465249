"""Random programs on random meshes: ``python -m fuzz.partitioned -n 2000 --seed 1``.

What ``--partition`` makes of a program must verify, give the same numbers on simulated devices, and
be proved to be the same function.  With ``--mutants`` collectives are left out, or made along
another axis or dimension: what then computes something else must be reported.  With ``--peers``
collectives of few bytes are loads from other devices, whose order is checked, and which also run in
a random order of arrival with memory that is late.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from fuzz.late import check_mutants, late
from fuzz.late_devices import LateDevices
from fuzz.programs import draw_program
from mugraph.dialects import kn
from mugraph.dialects.reductions import Combiner, CombinerAttr
from mugraph.dialects.sharding import (
    MESH,
    DeviceProgram,
    Mesh,
    Sharding,
    mesh_attribute,
    with_shardings,
)
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.overlap import Way
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.partition.orders import check_order
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.budget import Budget
from mugraph.runtime.equivalence.errors import BudgetError
from mugraph.runtime.equivalence.extents import static_pairs
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import ExecutionError, run_function
from mugraph.runtime.interpreter.functions import part_of

Array = npt.NDArray[Any]

PROOF_SECONDS = 1.0
"""Of processor time for one proof; programs in which sums of sums are cut many times take more."""
LONG_PROOF_SECONDS = 30.0
"""For what seems to be harmless."""
FLAG_MUTANTS = 12
"""Of the flags of one program."""
FINE = 1e-10
"""How far results of a mutant may be apart: norms of one element hide most of what differs."""
MESHES = ((2,), (3,), (4,), (8,), (2, 2), (2, 4), (3, 2))


class PartitionError(AssertionError):
    """What is wrong with a partitioned program."""


def draw_sharding(
    random: np.random.Generator, shape: tuple[int, ...], mesh: Mesh, chance: float
) -> Sharding:
    """Some axes on dimensions whose extents they divide."""
    split: list[tuple[int, ...]] = [()] * len(shape)
    for axis in random.permutation(len(mesh.shape)):
        if random.random() > chance:
            continue
        dim = int(random.integers(len(shape)))
        axes = (*split[dim], int(axis))
        if shape[dim] % mesh.size(axes) == 0:
            split[dim] = axes
    return Sharding(tuple(split))


def draw_partitioned(seed: int, number: int) -> ModuleOp:
    """A random program with a mesh, and shardings of its arguments and some results."""
    random = np.random.default_rng([seed, number, 1])
    module = draw_program(seed, number)
    function = only_function(module)
    mesh = Mesh(MESHES[int(random.integers(len(MESHES)))])
    function.attributes[MESH] = mesh_attribute(mesh)
    types = function.function_type
    arguments = [draw_sharding(random, shape_of(t), mesh, 0.8) for t in types.inputs.data]
    function.arg_attrs = with_shardings(function.arg_attrs, arguments)
    if random.random() < 0.6:
        chance = 0.0 if random.random() < 0.5 else 0.7
        results = [draw_sharding(random, shape_of(t), mesh, chance) for t in types.outputs.data]
        function.res_attrs = with_shardings(function.res_attrs, results)
    module.verify()
    return module


def inputs_of(module: ModuleOp, size: float = 1.0) -> list[Array]:
    """Random inputs of a program of one device, about as large as ``size``."""
    random = np.random.default_rng(7)
    shapes = [shape_of(argument.type) for argument in only_function(module).args]
    return [(size * random.standard_normal(shape)).astype(np.float16) for shape in shapes]


def differs(
    module: ModuleOp, inputs: list[Array], expected: list[Array], tolerance: float = 1e-6
) -> str | None:
    """What is wrong with the numbers of a program of devices; ``None`` where nothing is."""
    try:
        found = run_function(module, None, inputs, "float64")
    except ExecutionError as error:
        return str(error)
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        if not np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"result {number} differs by {float(np.nanmax(np.abs(one - other))):.2g}"
    return None


def proof_of(module: ModuleOp, whole: ModuleOp, seconds: float = PROOF_SECONDS) -> str:
    """``proved``, or why there is no proof."""
    for _, one, other in static_pairs(module, whole):
        try:
            proof = prove(only_function(one), only_function(other), Budget(seconds))
        except BudgetError as error:
            return str(error)
        if not proof.holds:
            return proof.reason
    return "proved"


def check_partitioned(whole: ModuleOp, *, fused: bool = False) -> tuple[ModuleOp, str]:
    """Partitions a program, checks what comes out, and says how it was shown to be the same.

    With ``fused`` the operators between collectives share kernels.  Raises
    :class:`PartitionError`.
    """
    module = whole.clone()
    PartitionPass().apply(make_context(), module)
    module.verify()
    if fused:
        fuse_program(only_function(module), target_named("h200"))
        module.verify()
    inputs = inputs_of(whole)
    wrong = differs(module, inputs, run_function(whole, None, inputs, "float64"))
    if wrong is not None:
        raise PartitionError(wrong)
    return module, proof_of(module, whole)


def check_peers(module: ModuleOp, whole: ModuleOp, seed: int) -> None:
    """The same with loads from other devices, late, and in an order of arrival that is drawn.

    By the seed products are computed in parts that overlap with collectives, or sums and gathers
    exchanged in one of the other ways.  Raises :class:`PartitionError`.
    """
    ways = (None, None, Way.PUSHED, Way.ADDED)
    one = late(module, overlap=seed % len(ways) > 0, way=ways[seed % len(ways)])
    # Functions hand on what they make in 16 bits, in which an exponential of a square is infinite.
    inputs = inputs_of(whole, 0.25)
    expected = run_function(whole, None, inputs, "float64")
    wrong = differs(module, inputs, expected)
    if wrong is not None:
        raise PartitionError(f"with peers: {wrong}")
    program, returned = one.program, one.returned
    faults = check_order(one.steps, returned, program.mesh)
    if faults:
        raise PartitionError(faults[0])
    if not one.is_of_loads:
        return
    random = np.random.default_rng(seed)
    devices = LateDevices(program, one.steps, one.events, random, returned)
    for of_devices in devices.run([inputs] * 2):
        for device, results in enumerate(of_devices):
            _expect_parts(program, device, results, expected)


def _expect_parts(
    program: DeviceProgram, device: int, results: list[Array], expected: list[Array]
) -> None:
    """Raises :class:`PartitionError` where a device has other parts; of parts of sums nothing."""
    for number, (result, whole) in enumerate(zip(results, expected, strict=True)):
        sharding = program.results[number]
        start = sharding.start(result.shape, program.mesh, device)
        part = part_of(whole, start, result.shape)
        # Functions hand on what they make in its own type.
        size = max(1.0, float(np.nanmax(np.abs(part), initial=0.0)))
        if not sharding.partial and not np.allclose(
            result, part, rtol=0.05, atol=0.05 * size, equal_nan=True
        ):
            raise PartitionError(f"late, result {number} of device {device} differs")


def _replace(op: kn.CollectiveOp, new: Operation) -> None:
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(new, op)
    op.result.replace_all_uses_with(new.results[0])
    op.detach()
    op.erase()


def mutants_of(module: ModuleOp) -> Iterator[tuple[str, ModuleOp]]:
    """The program with one collective left out, or along other axes or another dimension.

    Only those that verify: the others are refused as they are read.
    """
    count = sum(isinstance(op, kn.CollectiveOp) for op in module.walk())
    for number in range(count):
        for kind in ("left out", "axes", "dim", "combine"):
            mutant = module.clone()
            function = only_function(mutant)
            op = [op for op in function.walk() if isinstance(op, kn.CollectiveOp)][number]
            name = op.name
            if not _mutate(op, kind, function):
                continue
            try:
                mutant.verify()
            except VerifyException:
                continue
            yield f"{name} {number}: {kind}", mutant


def _mutate(op: kn.CollectiveOp, kind: str, function: FuncOp) -> bool:
    """Changes a collective; whether it could."""
    changed: dict[str, Attribute] = {}
    match kind:
        case "left out":
            if op.input.type != op.result.type:
                return False
            _replace(op, kn.CopyOp(op.input, op.result.type))
            return True
        case "axes":
            count = len(op.mesh.shape)
            axes = [(axis + 1) % count for axis in op.grid_axes]
            changed["axes"] = DenseArrayBase.from_list(i64, axes)
        case "dim":
            for name in ("dim", "concat"):
                if isinstance(dim := op.properties.get(name), IntegerAttr):
                    rank = len(shape_of(op.input.type))
                    changed[name] = IntegerAttr((dim.value.data + 1) % rank, i64)
        case _:
            if isinstance(op, kn.AllReduceOp | kn.ReduceScatterOp):
                other = Combiner.MAX if op.combination is Combiner.SUM else Combiner.SUM
                changed["combiner"] = CombinerAttr(other)
    if not any(op.properties.get(name) != value for name, value in changed.items()):
        return False
    op.properties.update(changed)
    return True


def unreported(whole: ModuleOp, module: ModuleOp) -> Iterator[tuple[str, str]]:
    """Each mutant of a partitioned program, and what became of it.

    ``reported`` by the simulated devices or ``harmless``: proved to be the same function as the
    partitioned program.  Others are those that neither is true of.
    """
    # Of small inputs, too: near the largest value of a function all maxima are the same.
    sizes = [inputs_of(whole, size) for size in (1.0, 1 / 8)]
    runs = [(inputs, run_function(whole, None, inputs, "float64")) for inputs in sizes]
    for name, mutant in mutants_of(module):
        wrong = next(filter(None, (differs(mutant, *run, FINE) for run in runs)), None)
        # What is not wrong is compared with what it was made of, which is like it.
        proof = proof_of(mutant, whole) if wrong else proof_of(mutant, module, LONG_PROOF_SECONDS)
        if wrong is not None and proof == "proved":
            yield name, f"proved, but {wrong}"
        elif wrong is not None:
            yield name, "reported"
        else:
            yield name, "harmless" if proof == "proved" else f"not seen, nor proved: {proof}"


def main() -> int:
    """Checks random programs; whether none failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.partitioned", description=__doc__)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--fused", action="store_true", help="operators share kernels")
    parser.add_argument("--peers", action="store_true", help="loads from other devices, late")
    parser.add_argument(
        "--mutants", action="store_true", help="also of each collective, or with --peers of flags"
    )
    options = parser.parse_args()
    if options.fused and options.peers:
        parser.error("functions share kernels once they are cut out; give --fused or --peers")
    shown, collectives = Counter[str](), Counter[str]()
    failed, start = 0, time.process_time()
    for number in range(options.first, options.first + options.n):
        whole = draw_partitioned(options.seed, number)
        try:
            module, proof = check_partitioned(whole, fused=options.fused)
            if options.peers:
                check_peers(module.clone(), whole, number)
            shown[proof] += 1
            collectives.update(op.name for op in module.walk() if isinstance(op, kn.CollectiveOp))
            if options.mutants and options.peers:
                one = late(whole.clone(), overlap=number % 2 == 1)
                if one.is_of_loads:
                    calls = [inputs_of(whole, size) for size in (1.0, 0.5, 0.25)]
                    reported, harmless = check_mutants(one, FLAG_MUTANTS, 2, calls, tolerance=0.05)
                    shown["flags changed, reported"] += reported
                    shown["flags changed, harmless"] += harmless
            elif options.mutants:
                for name, outcome in unreported(whole, module):
                    shown[f"mutant {outcome}"] += 1
                    if outcome not in ("reported", "harmless"):
                        print(f"program {number}: {name}: {outcome}", flush=True)
        except Exception as error:
            failed += 1
            print(f"program {number}: {type(error).__name__}: {error}", flush=True)
    print(f"{options.n} programs, {failed} failed, {time.process_time() - start:.0f} s")
    for reason, count in (*shown.most_common(), *collectives.most_common()):
        print(f"{count:6} {reason}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
