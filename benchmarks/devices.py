"""The devices of a benchmark that runs on several GPUs: one process each, as ``torchrun`` starts.

A benchmark ends: behind its limit of seconds each process says what it was at, shows where, and
ends, and a device that waits for another one in a kernel says for which.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import random
import statistics
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

# Multicast can put a host's GPUs out of service; it is read when the libraries start.
for _name, _off in (
    ("NCCL_NVLS_ENABLE", "0"),
    ("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1"),
    ("NVSHMEM_DISABLE_NVLS", "1"),
):
    os.environ[_name] = _off
os.environ.setdefault("MUGRAPH_MEETING_SECONDS", "20")

torch: Any = import_module("torch")
distributed: Any = import_module("torch.distributed")

CALLS = 20
"""Calls in a CUDA graph."""
SAMPLES = 15
BUDGET = 1.0 / 128
"""A relative error (of norms) that bf16 results stay below: parts of sums are rounded, too."""
T = TypeVar("T")
Call = Callable[[], Any]


@dataclass
class Row:
    """What was found of one program, or of one size of collectives."""

    label: str
    microseconds: dict[str, float] = field(default_factory=dict[str, float])
    relative_errors: dict[str, float] = field(default_factory=dict[str, float])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    floor: float | None = None
    chosen: str | None = None
    """The way of mugraph that is chosen."""


class Devices:
    """This process's device, and the others'."""

    def __init__(self, *, cpu: bool, limit: float) -> None:
        self.cpu = cpu
        self._start, self._doing = time.perf_counter(), "starting"
        self.rank = int(os.environ["RANK"])
        self._end_behind(limit)
        if cpu:
            self.device = torch.device("cpu")
            distributed.init_process_group("gloo")
        else:
            self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            torch.cuda.set_device(self.device)
            longest = timedelta(seconds=limit)
            distributed.init_process_group("nccl", timeout=longest, device_id=self.device)
        self.count = distributed.get_world_size()
        meshes: Any = import_module("torch.distributed.device_mesh")
        self.mesh = meshes.init_device_mesh(self.device.type, (self.count,))

    def _end_behind(self, limit: float) -> None:
        """Ends this process if it is still there after so many seconds."""

        def end() -> None:
            sys.stderr.write(
                f"device {self.rank}: no end after {limit:.0f} s, while {self._doing}; it is here "
                "(--limit gives more time)\n"
            )
            faulthandler.dump_traceback(all_threads=True)
            sys.stderr.flush()
            # The others say it, too, before torchrun ends them.
            time.sleep(2)
            os._exit(1)

        watch = threading.Timer(limit, end)
        watch.daemon = True
        watch.start()

    def begin(self, what: str) -> None:
        """Says what comes now, and after how many seconds."""
        self._doing = what
        self.say(f"  {time.perf_counter() - self._start:5.1f} s: {what}")

    def say(self, text: str) -> None:
        """A line, from one of the devices."""
        if self.rank == 0:
            print(text, flush=True)

    def slowest(self, value: float) -> float:
        """The largest of what the devices have."""
        given = torch.tensor([value], dtype=torch.float64, device=self.device)
        distributed.all_reduce(given, distributed.ReduceOp.MAX)
        return float(given.item())

    def together(self, row: Row, name: str, action: Callable[[], T]) -> T | None:
        """What an action gives; ``None`` on all devices where it fails on one, which is noted.

        So no device waits for one that has gone on.
        """
        result, reason = None, ""
        try:
            result = action()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            sys.stderr.write(f"device {self.rank}: {name}: {reason}\n")
        if self.slowest(float(bool(reason))) > 0:
            row.failures[name] = reason or "it failed on another device"
            return None
        return result

    def time(self, row: Row, name: str, call: Call) -> None:
        """Notes the microseconds of a call, or why it cannot be captured."""
        self.time_in_turn(row, {name: call})

    def time_in_turn(self, row: Row, calls: Mapping[str, Call]) -> None:
        """Notes the microseconds of calls, sample by sample in an order that is drawn.

        A GPU's clock falls as it gets warm: products took a fifth longer at last than at first.
        """
        if self.cpu:
            return
        graphs: dict[str, Any] = {}
        for name, call in calls.items():
            graph = self.together(row, name, lambda call=call: self._captured(call))
            if graph is not None:
                graphs[name] = graph
                graph.replay()
        samples: dict[str, list[float]] = {name: [] for name in graphs}
        # The same order on all devices.
        order = random.Random(row.label)
        for _ in range(SAMPLES):
            for name in order.sample([*graphs], len(graphs)):
                samples[name].append(self._sample(graphs[name]))
        row.microseconds |= {name: statistics.median(times) for name, times in samples.items()}

    def _sample(self, graph: Any) -> float:
        """The microseconds of a call of the slowest device."""
        distributed.barrier()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        return self.slowest(1000.0 * start.elapsed_time(stop) / CALLS)

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

    def check(self, row: Row, name: str, found: Any, expected: Any, budget: float = BUDGET) -> None:
        """Notes the largest relative error of the devices."""
        difference = (found.double() - expected).norm() / expected.norm()
        error = self.slowest(float(difference.nan_to_num(nan=1e9)))
        row.relative_errors[name] = error
        if not error < budget:
            row.failures[name] = f"relative error {error:.1e}, expected less than {budget:.1e}"


def arguments(description: str | None, output: str, limit: float) -> argparse.ArgumentParser:
    """The arguments of a benchmark on several GPUs."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--output", type=Path, default=Path(output))
    parser.add_argument("--cpu", action="store_true", help="small shapes through gloo, not timed")
    parser.add_argument("--only", default="", help="what has this in its name")
    parser.add_argument("--limit", type=float, default=limit, help="seconds after which it ends")
    return parser


def write(devices: Devices, rows: Sequence[Row], output: Path, **record: object) -> None:
    """Writes what was found so far as JSON."""
    if devices.rank == 0:
        found: Mapping[str, object] = {
            "device": "cpu" if devices.cpu else torch.cuda.get_device_name(),
            "devices": devices.count,
            "torch": torch.__version__,
            **record,
            "rows": [asdict(row) for row in rows],
        }
        output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def end(rows: Sequence[Row]) -> None:
    """Ends the process, with an error where something failed."""
    distributed.destroy_process_group()
    if any(row.failures for row in rows):
        raise SystemExit(1)
