"""Collectives, and products with collectives, on the GPUs of one host: what there is to beat.

    PYTHONPATH=src:. python -m torch.distributed.run --standalone --nproc-per-node 2 \\
        -m benchmarks.collectives --output collectives.json

takes about two minutes on two H100, nvcc included.  It times, in CUDA graphs of 20 calls:

- NCCL's all-reduce, all-gather and reduce-scatter, and PyTorch's one-shot and two-shot all-reduce
  on symmetric memory, of bf16;
- products that a tensor-parallel model splits, alone by cuBLAS, followed or preceded by NCCL, and
  as ``mugraph.compile(program, mesh=...)`` runs the program that ``--partition`` makes, by NCCL
  and, where ``--use-peers`` finds that it pays, by loads from the other devices;
- a sum over devices with a residual and RMSNorm behind it, and the MLP of a decoder layer.

Results are checked against float64.  A time is the median over samples of the slowest device's.
The floor is the larger of the product alone and the best collective alone.  NVLink multicast stays
off.  ``--cpu`` runs the same checks on small shapes without GPUs, and times nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.collective_programs import Block, Product, blocks, products

# Multicast can put a host's GPUs out of service; it is read when the libraries start.
for _name, _off in (
    ("NCCL_NVLS_ENABLE", "0"),
    ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"),
    ("NVSHMEM_DISABLE_NVLS", "1"),
):
    os.environ[_name] = _off

torch: Any = import_module("torch")
distributed: Any = import_module("torch.distributed")

# Older versions of torch have the same functions under other names.
_all_gather: Any = getattr(distributed, "all_gather_single", None) or (
    distributed.all_gather_into_tensor
)
_reduce_scatter: Any = getattr(distributed, "reduce_scatter_single", None) or (
    distributed.reduce_scatter_tensor
)

CALLS = 20
"""Calls in a CUDA graph."""
SAMPLES = 15
LONGEST = timedelta(seconds=150)
"""After this a device that waits for another gives up."""
JOBS = max(2, (os.cpu_count() or 2) - 2)
"""Kernels under nvcc at a time."""
ELEMENTS = (2_048, 32_768, 131_072, 1_048_576, 8_388_608, 33_554_432)
"""Of a collective alone: of what is reduced, or of what an all-gather leaves on each device."""
BUDGET = 1.0 / 128
"""A relative error (of norms) that bf16 results stay below: parts of sums are rounded, too."""


@dataclass
class Row:
    """What was found of one product, or of one size of collectives."""

    label: str
    microseconds: dict[str, float] = field(default_factory=dict[str, float])
    relative_errors: dict[str, float] = field(default_factory=dict[str, float])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    floor: float | None = None


Call = Callable[[], Any]


class Devices:
    """This process's device, and the others'."""

    def __init__(self, *, cpu: bool) -> None:
        self.cpu = cpu
        if cpu:
            self.device = torch.device("cpu")
            distributed.init_process_group("gloo")
        else:
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
            distributed.init_process_group("nccl", timeout=LONGEST, device_id=self.device)
        self.rank = distributed.get_rank()
        self.count = distributed.get_world_size()
        meshes: Any = import_module("torch.distributed.device_mesh")
        self.mesh = meshes.init_device_mesh(self.device.type, (self.count,))

    def say(self, text: str) -> None:
        """A line, from one of the devices."""
        if self.rank == 0:
            print(text, flush=True)

    def slowest(self, value: float) -> float:
        """The largest of what the devices have."""
        given = torch.tensor([value], dtype=torch.float64, device=self.device)
        distributed.all_reduce(given, distributed.ReduceOp.MAX)
        return float(given.item())

    def time(self, row: Row, name: str, call: Call) -> None:
        """Notes the microseconds of a call, or why it cannot be captured."""
        if self.cpu:
            return
        try:
            graph = self._captured(call)
        except Exception as error:
            row.failures[name] = f"{type(error).__name__}: {error}"
            return
        graph.replay()
        samples: list[float] = []
        for _ in range(SAMPLES):
            distributed.barrier()
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            stop.record()
            stop.synchronize()
            samples.append(self.slowest(1000.0 * start.elapsed_time(stop) / CALLS))
        row.microseconds[name] = statistics.median(samples)

    def _captured(self, call: Call) -> Any:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # NCCL's watchdog is another thread, whose calls are none of the capture's business.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            for _ in range(CALLS):
                call()
        torch.cuda.synchronize()
        return graph

    def check(self, row: Row, name: str, found: Any, expected: Any) -> None:
        """Notes the largest relative error of the devices."""
        difference = (found.double() - expected).norm() / expected.norm()
        error = self.slowest(float(difference.nan_to_num(nan=1e9)))
        row.relative_errors[name] = error
        if not error < BUDGET:
            row.failures[name] = f"relative error {error:.1e}"


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
        rows.append(row)
    return rows


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


class Kernels(NamedTuple):
    """A program as it runs by NCCL, and by loads from other devices; ``None`` if that is as well
    by NCCL."""

    library: Any
    peers: Any


def compiled(devices: Devices, chosen: Sequence[Product | Block]) -> list[Kernels]:
    """The kernels: one process compiles them, the others find them in the cache."""
    import mugraph
    from mugraph.dialects import kn

    def compile(program: Product | Block) -> Kernels:
        arch = "cpu" if devices.cpu else "native"
        text = program.program(devices.count)
        library, peers = (
            mugraph.compile(text, arch, mesh=devices.mesh, peers=peers) for peers in (False, True)
        )
        pays = any(isinstance(op, kn.PeerOp) for op in peers.module.walk())
        return Kernels(library, peers if pays else None)

    if devices.rank > 0:
        distributed.barrier()
    with ThreadPoolExecutor(JOBS) as pool:
        kernels = list(pool.map(compile, chosen))
    if devices.rank == 0:
        distributed.barrier()
    return kernels


def block_row(devices: Devices, block: Block, kernels: Kernels) -> Row:
    """A sum over devices and what follows it, as PyTorch and mugraph run it."""
    row, (kernel, peers) = Row(block.label), kernels
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

    calls: dict[str, Call] = {
        "PyTorch + NCCL": torch_with_nccl,
        "mugraph": lambda: kernel(*parts),
    }
    if peers is not None:
        calls["mugraph, peers"] = lambda: peers(*parts)
    for name, call in calls.items():
        for _ in range(2):
            call()
        for number, (one, other) in enumerate(zip(call(), expected, strict=True)):
            devices.check(row, f"{name}, result {number}", one, other)
        devices.time(row, name, call)
    return row


def product_row(devices: Devices, product: Product, kernels: Kernels) -> Row:
    """One product: alone, with NCCL before or behind it, and as mugraph runs it."""
    row, (kernel, peers) = Row(product.label), kernels
    generator = torch.Generator(devices.device).manual_seed(7)

    def random(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, device=devices.device).bfloat16()

    x, w = random(product.m, product.k), random(product.k, product.n)
    parts = kernel.parts(x, w)
    expected = kernel.part_of_result(0, x.double() @ w.double())
    del x, w
    devices.check(row, "mugraph", _poisoned(devices, kernel, parts), expected)
    own_x, own_w = parts
    call, alone, collective = _baseline(devices, product, own_x, own_w)
    devices.check(row, "cuBLAS + NCCL", call(), expected)
    if peers is not None:
        devices.check(row, "mugraph, peers", _poisoned(devices, peers, parts), expected)
    del expected
    devices.time(row, "cuBLAS alone", alone)
    devices.time(row, "NCCL alone", collective)
    devices.time(row, "cuBLAS + NCCL", call)
    devices.time(row, "mugraph", lambda: kernel(*parts))
    if peers is not None:
        devices.time(row, "mugraph, peers", lambda: peers(*parts))
    if product.collective == "all-reduce" and not devices.cpu:
        for name, reduce in _all_reduces(devices, torch.zeros_like(call()).view(-1)).items():
            if name.startswith("symmetric"):
                devices.time(row, f"{name} alone", reduce)
    alone_times = {name: time for name, time in row.microseconds.items() if name.endswith("alone")}
    if "cuBLAS alone" in alone_times and len(alone_times) > 1:
        product_time = alone_times.pop("cuBLAS alone")
        row.floor = max(product_time, min(alone_times.values()))
    return row


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
    if not times:
        times = [f"{name} error {error:.1e}" for name, error in row.relative_errors.items()]
    return f"{row.label}: {'; '.join(times)}" + "".join(
        f"\n    {name}: {reason}" for name, reason in row.failures.items()
    )


def main() -> None:
    """Measures, prints a line a row, and writes all of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("collectives.json"))
    parser.add_argument("--cpu", action="store_true", help="small shapes through gloo, not timed")
    options = parser.parse_args()
    devices = Devices(cpu=options.cpu)
    name = "cpu" if options.cpu else torch.cuda.get_device_name()
    devices.say(f"{devices.count} devices ({name}), torch {torch.__version__}; microseconds")
    rows: list[Row] = []
    with torch.inference_mode():
        for row in collective_rows(devices, ELEMENTS[:2] if options.cpu else ELEMENTS):
            devices.say(_line(row))
            rows.append(row)
        chosen = [*blocks(small=options.cpu), *products(small=options.cpu)]
        for program, kernel in zip(chosen, compiled(devices, chosen), strict=True):
            if isinstance(program, Block):
                rows.append(block_row(devices, program, kernel))
            else:
                rows.append(product_row(devices, program, kernel))
            devices.say(_line(rows[-1]))
            if not options.cpu:
                torch.cuda.empty_cache()
    if devices.rank == 0:
        record = {"device": name, "devices": devices.count, "torch": torch.__version__}
        record["rows"] = [asdict(row) for row in rows]
        options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    distributed.destroy_process_group()
    if any(row.failures for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
