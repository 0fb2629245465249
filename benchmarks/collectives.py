"""Collectives, and products with collectives, on the GPUs of one host: what there is to beat.

    PYTHONPATH=src:. python -m torch.distributed.run --standalone --nproc-per-node 2 \\
        -m benchmarks.collectives --output collectives.json

takes about five minutes on two H100, nvcc included.  It times, in CUDA graphs of 20 calls:

- NCCL's all-reduce, all-gather and reduce-scatter, and PyTorch's one-shot and two-shot all-reduce
  on symmetric memory, of bf16;
- a copy of as much from the memory of another device;
- products that a tensor-parallel model splits, alone by cuBLAS, followed or preceded by NCCL, and
  as ``mugraph.compile(program, mesh=...)`` runs the program that ``--partition`` makes: by NCCL, by
  loads from the other devices (``--use-peers``), and in parts that overlap
  (``--overlap-collectives``), by themselves or with the sum in the last one, each wherever it can
  be, also where another way is chosen; and the functions of these by themselves;
- a sum over devices, alone and with a residual and RMSNorm behind it, and the MLP of a decoder
  layer.

Results are checked against float64.  A time is the median over samples of the slowest device's.
The floor is the larger of the product alone and the best collective alone.  NVLink multicast stays
off.  The way that ``mugraph.compile(..., peers=True)`` chooses is named.  ``--cpu`` runs the same
checks on small shapes without GPUs, and times nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import mugraph
from benchmarks.collective_programs import Block, Product, blocks, products
from benchmarks.devices import Call, Devices, Row, arguments, end, write
from mugraph.dialects import kn
from mugraph.dialects.sharding import MESH, Mesh, is_per_device, mesh_attribute
from mugraph.jit.kernel import as_sequence
from mugraph.passes.program.overlap import OverlapCollectivesPass
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.use_peers import UsePeersPass, loads_of
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function

torch: Any = import_module("torch")
distributed: Any = import_module("torch.distributed")

# Older versions of torch have the same functions under other names.
_all_gather: Any = getattr(distributed, "all_gather_single", None) or (
    distributed.all_gather_into_tensor
)
_reduce_scatter: Any = getattr(distributed, "reduce_scatter_single", None) or (
    distributed.reduce_scatter_tensor
)

JOBS = max(2, (os.cpu_count() or 2) - 2)
"""Kernels under nvcc at a time."""
ELEMENTS = (2_048, 32_768, 131_072, 1_048_576, 8_388_608, 33_554_432)
"""Of a collective alone: of what is reduced, or of what an all-gather leaves on each device."""


def collective_rows(devices: Devices, sizes: Sequence[int]) -> list[Row]:
    """NCCL and symmetric memory by themselves."""
    rows: list[Row] = []
    for elements in sizes:
        row = Row(f"{elements:,} bf16")
        generator = torch.Generator(devices.device).manual_seed(1 + devices.rank)
        own = torch.randn(
            elements, generator=generator, device=devices.device, dtype=torch.float32
        ).bfloat16()
        total = own.double()
        distributed.all_reduce(total)
        for name, call in _all_reduces(devices, own).items():
            devices.check(row, name, call(), total)
        for name, call in _all_reduces(devices, torch.zeros_like(own)).items():
            devices.time(row, name, call)
        part = own.view(devices.count, -1)[devices.rank].clone()
        whole, scattered = torch.empty_like(own), torch.empty_like(part)
        devices.time(
            row,
            "NCCL all-gather",
            lambda whole=whole, part=part: _all_gather(whole, part),
        )
        devices.time(
            row,
            "NCCL reduce-scatter",
            lambda scattered=scattered, own=own: _reduce_scatter(scattered, own),
        )
        if not devices.cpu:
            devices.time(row, "copy from another device", _copy(devices, own))
        rows.append(row)
    return rows


def _copy(devices: Devices, value: Any) -> Call:
    """A copy of the tensor of the next device."""
    memory: Any = import_module("torch.distributed._symmetric_memory")
    shared = memory.empty(value.numel(), dtype=value.dtype, device=devices.device)
    handle = memory.rendezvous(shared, distributed.group.WORLD.group_name)
    other = (devices.rank + 1) % devices.count
    theirs = handle.get_buffer(other, (value.numel(),), value.dtype)

    # The handle keeps the memory.
    return lambda handle=handle: value.copy_(theirs)


def _all_reduces(devices: Devices, value: Any) -> dict[str, Call]:
    """All-reduces of a copy of a tensor, each giving its sums."""
    own = value.clone()

    def nccl() -> Any:
        distributed.all_reduce(own)
        return own

    calls: dict[str, Call] = {"NCCL all-reduce": nccl}
    if devices.cpu:
        return calls
    memory: Any = import_module("torch.distributed._symmetric_memory")
    group = distributed.group.WORLD.group_name
    shared = memory.empty(value.numel(), dtype=value.dtype, device=devices.device)
    memory.rendezvous(shared, group)
    shared.copy_(value)
    torch.cuda.synchronize()
    distributed.barrier()
    operators = torch.ops.symm_mem
    calls["symmetric memory one-shot"] = lambda: operators.one_shot_all_reduce(shared, "sum", group)
    calls["symmetric memory two-shot"] = lambda: operators.two_shot_all_reduce_(
        shared, "sum", group
    )
    return calls


LIBRARY, LOADS, OVERLAP = "mugraph", "mugraph, peers", "mugraph, overlap"
"""How mugraph runs collectives: by NCCL, by loads from other devices, beside products."""
PUSHED = "mugraph, pushed"
"""Sums whose summands each device writes into the memory of all."""
ADDED = "mugraph, added"
"""Sums that a device adds to its own part, what it got of the others, as it computes it."""
FEW_ROWS = 16
"""Of products that are not measured in parts: all weights would be read for each."""
MOST_LOADED = 2**24
"""Bytes that a device loads from others at most where loads are measured."""


@dataclass(frozen=True)
class Kernels:
    """A program in each way in which it can run, and the way that is chosen."""

    ways: dict[str, Any]
    chosen: str


def programs_of(program: Product | Block, count: int) -> dict[str, ModuleOp]:
    """The program of each of so many devices in each way, and as it is chosen."""
    text = program.program(count)

    def made(*passes: ModulePass) -> ModuleOp:
        module = parse_text(make_context(), text, "program")
        function = only_function(module)
        function.attributes[MESH] = mesh_attribute(Mesh((count,)))
        for each in (*([] if is_per_device(function) else [PartitionPass()]), *passes):
            each.apply(make_context(), module)
        module.verify()
        return module

    found = {LIBRARY: made()}
    collectives = [op for op in found[LIBRARY].walk() if isinstance(op, kn.CollectiveOp)]
    if sum(loads_of(op).loaded for op in collectives) <= MOST_LOADED:
        found[LOADS] = made(UsePeersPass(everywhere=True))
    overlapping = made(OverlapCollectivesPass(everywhere=True))
    rows = program.m if isinstance(program, Product) else program.rows
    in_parts = isinstance(program, Product) or program.inner > 0
    pushed = made(OverlapCollectivesPass(everywhere=True, way="pushed"))
    if str(pushed) != str(found[LIBRARY]):
        found[PUSHED] = pushed
    if in_parts and rows > FEW_ROWS and str(overlapping) not in map(str, found.values()):
        found[OVERLAP] = overlapping
    added = made(OverlapCollectivesPass(everywhere=True, way="added"))
    if in_parts and rows > FEW_ROWS and str(added) not in map(str, found.values()):
        found[ADDED] = added
    found["chosen"] = made(OverlapCollectivesPass(), UsePeersPass())
    return found


def compiled(devices: Devices, chosen: Sequence[Product | Block]) -> list[Kernels]:
    """The kernels."""
    arch = "cpu" if devices.cpu else "native"

    def compile(program: Product | Block) -> Kernels:
        found = programs_of(program, devices.count)
        text = str(found.pop("chosen"))
        way = next(
            (name for name, module in found.items() if str(module) == text), "several of them"
        )
        kernels = {
            name: mugraph.compile(module, arch, mesh=devices.mesh) for name, module in found.items()
        }
        return Kernels(kernels, way)

    with ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(compile, chosen))


def block_row(devices: Devices, block: Block, kernels: Kernels) -> Row:
    """A sum over devices and what follows it, as PyTorch and mugraph run it."""
    row, kernel = Row(block.label, chosen=kernels.chosen), kernels.ways[LIBRARY]
    generator = torch.Generator(devices.device).manual_seed(11)
    wholes = [
        torch.randn(shape, generator=generator, device=devices.device).bfloat16() / 8
        for shape in block.shapes
    ]
    mine = [wholes[0] * (1 + devices.rank), *wholes[1:]]
    parts = kernel.parts(*wholes) if block.inner else mine
    exact = [part.double() for part in parts]
    total = block.local(exact)
    distributed.all_reduce(total)
    expected = block.after(total, exact)

    def torch_with_nccl() -> Any:
        held = block.local(parts)
        distributed.all_reduce(held)
        return block.after(held, parts)

    calls: dict[str, Call] = {"PyTorch + NCCL": torch_with_nccl}
    for name, way in kernels.ways.items():
        calls[name] = lambda way=way: way(*parts)
    for name, call in calls.items():
        for _ in range(2):
            call()
        found = as_sequence(call(), len(expected))
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            devices.check(row, f"{name}, result {number}", one, other)
    devices.time_in_turn(row, calls)
    return row


def product_row(devices: Devices, product: Product, kernels: Kernels) -> Row:
    """One product: alone, with NCCL before or behind it, and as mugraph runs it."""
    row, kernel = Row(product.label, chosen=kernels.chosen), kernels.ways[LIBRARY]
    generator = torch.Generator(devices.device).manual_seed(7)

    def random(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, device=devices.device).bfloat16()

    x, w = random(product.m, product.k), random(product.k, product.n)
    parts = kernel.parts(x, w)
    expected = kernel.part_of_result(0, x.double() @ w.double())
    del x, w
    for name, way in kernels.ways.items():
        devices.check(row, name, _poisoned(devices, way, parts), expected)
    own_x, own_w = parts
    call, alone, collective = _baseline(devices, product, own_x, own_w)
    devices.check(row, "cuBLAS + NCCL", call(), expected)
    del expected
    calls = {"cuBLAS alone": alone, "NCCL alone": collective, "cuBLAS + NCCL": call}
    for name, way in kernels.ways.items():
        calls[name] = lambda way=way: way(*parts)
    for name in (LIBRARY, OVERLAP, PUSHED, ADDED):
        if name in kernels.ways:
            calls[f"functions of {name}"] = _functions(devices, kernels.ways[name])
    if product.collective == "all-reduce" and not devices.cpu:
        for name, reduce in _all_reduces(devices, torch.zeros_like(call()).view(-1)).items():
            if name.startswith("symmetric"):
                calls[f"{name} alone"] = reduce
    devices.time_in_turn(row, calls)
    alone_times = {name: time for name, time in row.microseconds.items() if name.endswith("alone")}
    if "cuBLAS alone" in alone_times and len(alone_times) > 1:
        product_time = alone_times.pop("cuBLAS alone")
        row.floor = max(product_time, min(alone_times.values()))
    return row


def _functions(devices: Devices, kernel: Any) -> Call:
    """The functions of a program one after the other, without what devices do together."""
    inputs = [
        [
            torch.randn(tensor.shape, device=devices.device).bfloat16()
            for tensor in function.interface.inputs
        ]
        for function in kernel.functions
    ]

    def call() -> None:
        for function, given in zip(kernel.functions, inputs, strict=True):
            function(*given)

    return call


def _poisoned(devices: Devices, kernel: Any, parts: Sequence[Any]) -> Any:
    """A call after memory that it may get was filled with NaN."""
    kernel(*parts)
    if not devices.cpu:
        torch.cuda.synchronize()
        torch.full((1 << 28,), float("nan"), dtype=torch.bfloat16, device=devices.device)
    return kernel(*parts)


def _baseline(devices: Devices, product: Product, x: Any, w: Any) -> tuple[Call, Call, Call]:
    """cuBLAS with NCCL, cuBLAS alone and NCCL alone, of this device's parts."""
    count, columns = devices.count, product.cut_of_rows(devices.count) == 1
    if product.collective == "all-gather":
        # With parts of columns what NCCL gathers is one row: it lies as the whole does.
        whole = x.new_empty((product.m, product.k))

        def gather() -> Any:
            _all_gather(whole.view(-1), x.view(-1))

        def gather_then_multiply() -> Any:
            gather()
            return torch.matmul(whole, w)

        gather()
        return gather_then_multiply, lambda: torch.matmul(whole, w), gather
    made = torch.matmul(x, w)
    if product.collective == "all-reduce":

        def reduce() -> Any:
            distributed.all_reduce(made)
            return made

    else:
        shape = (1, product.n // count) if columns else (product.m // count, product.n)
        part = made.new_empty(shape)

        def reduce() -> Any:
            _reduce_scatter(part.view(-1), made.view(-1))
            return part

    def multiply_then_reduce() -> Any:
        torch.matmul(x, w, out=made)
        return reduce()

    return multiply_then_reduce, lambda: torch.matmul(x, w, out=made), reduce


def _line(row: Row) -> str:
    times = [f"{name} {time:.1f}" for name, time in row.microseconds.items()]
    if row.floor is not None:
        times.append(f"floor {row.floor:.1f}")
    if row.chosen is not None:
        times.append(f"chosen: {row.chosen}")
    if not row.microseconds:
        times += [f"{name} error {error:.1e}" for name, error in row.relative_errors.items()]
    return f"{row.label}: {'; '.join(times)}" + "".join(
        f"\n    {name}: {reason}" for name, reason in row.failures.items()
    )


def main() -> None:
    """Measures, prints a line a row, and writes all of it as JSON."""
    options = arguments(__doc__, "collectives.json", 600).parse_args()
    devices = Devices(cpu=options.cpu, limit=options.limit)
    rows: list[Row] = []
    with torch.inference_mode():
        devices.begin("collectives alone, in microseconds")
        for row in collective_rows(devices, ELEMENTS[:2] if options.cpu else ELEMENTS):
            devices.say(_line(row))
            rows.append(row)
        chosen = [*blocks(small=options.cpu), *products(small=options.cpu)]
        chosen = [each for each in chosen if options.only in each.label]
        devices.begin(f"compiling {len(chosen)} programs")
        for program, kernel in zip(chosen, compiled(devices, chosen), strict=True):
            devices.begin(f"measuring {program.label}")
            if isinstance(program, Block):
                rows.append(block_row(devices, program, kernel))
            else:
                rows.append(product_row(devices, program, kernel))
            devices.say(_line(rows[-1]))
            write(devices, rows, options.output)
            if not options.cpu:
                torch.cuda.empty_cache()
    write(devices, rows, options.output)
    end(rows)


if __name__ == "__main__":
    main()
