"""Run by ``torchrun``, a GPU a process: programs that read the memory of other devices.

Each is called many times with other inputs, plainly and in a CUDA graph, while devices are late by
turns.  Results are within the error of bf16 of float64, and the same bits on all devices.
"""

from __future__ import annotations

import os
import random
from importlib import import_module
from typing import Any

import mugraph
from mugraph.dialects import kn

torch: Any = import_module("torch")
distributed: Any = import_module("torch.distributed")
device_mesh: Any = import_module("torch.distributed.device_mesh")

CALLS = 200
GRAPH_CALLS = 3
BUDGET = 1.0 / 64

HEADER = """
func.func @f(%x: tensor<4x512xbf16>,
             %w: tensor<512x256xbf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
             %v: tensor<256x512xbf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<4x512xbf16> {mugraph.sharding = #kn.sharding<[[]]>}) {
"""
LAYER = """
  %a{n} = kn.matmul {given}, %w
      : (tensor<4x512xbf16>, tensor<512x256xbf16>) -> tensor<4x256xbf16>
  %s{n} = kn.silu %a{n} : tensor<4x256xbf16> -> tensor<4x256xbf16>
  %p{n} = kn.matmul %s{n}, %v
      : (tensor<4x256xbf16>, tensor<256x512xbf16>) -> tensor<4x512xbf16>
  %h{n} = kn.add %p{n}, {given} : (tensor<4x512xbf16>, tensor<4x512xbf16>) -> tensor<4x512xbf16>
  %n{n} = kn.rms_norm %h{n} over [512] epsilon 1.0e-05
      : (tensor<4x512xbf16>) -> tensor<4x512xbf16>
"""


def program(layers: int) -> str:
    """MLPs one after the other: one exchange each, so that one alone needs another meeting."""
    text, given = HEADER, "%x"
    for number in range(layers):
        text += LAYER.format(n=number, given=given)
        given = f"%n{number}"
    return f"{text}  func.return {given} : tensor<4x512xbf16>\n}}"


def exact(layers: int, x: Any, w: Any, v: Any) -> Any:
    """The program in float64."""
    x, w, v = (each.double() for each in (x, w, v))
    for _ in range(layers):
        held = torch.nn.functional.silu(x @ w) @ v + x
        x = torch.nn.functional.rms_norm(held, (512,), eps=1e-5)
    return x


def be_late(chance: random.Random) -> None:
    """Keeps this device busy now and then, the host or the GPU."""
    if chance.random() < 0.5:
        torch.cuda._sleep(chance.randrange(2_000_000))


def check(layers: int, mesh: Any) -> None:
    """A program, call after call."""
    kernel = mugraph.compile(program(layers), mesh=mesh, peers=True)
    assert any(isinstance(op, kn.PeerOp) for op in kernel.module.walk())
    generator = torch.Generator("cuda").manual_seed(layers)
    chance = random.Random(distributed.get_rank())

    def drawn(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, device="cuda").bfloat16()

    w, v = drawn(512, 256) / 16, drawn(256, 512) / 16
    inputs = [drawn(4, 512) for _ in range(GRAPH_CALLS)]
    parts = [kernel.parts(x, w, v) for x in inputs]
    kernel(*parts[0])
    torch.cuda.synchronize()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        captured = [kernel(*each) for each in parts]
    for call in range(CALLS):
        # Parts of weights stay; what is computed of them is new in each call.
        fresh = [drawn(4, 512) for _ in inputs]
        for each, x in zip(parts, fresh, strict=True):
            each[0].copy_(x)
        for result in captured:
            result.fill_(float("nan"))
        be_late(chance)
        if call % 2:
            graph.replay()
            found = captured
        else:
            found: list[Any] = []
            for each in parts:
                found.append(kernel(*each))
                be_late(chance)
        for result, x in zip(found, fresh, strict=True):
            expected = exact(layers, x, w, v)
            error = float((result.double() - expected).norm() / expected.norm())
            assert error < BUDGET, (layers, call, error)
            others = [torch.empty_like(result) for _ in range(distributed.get_world_size())]
            distributed.all_gather(others, result.contiguous())
            bits = [each.view(torch.int16) for each in others]
            assert all(torch.equal(bits[0], each) for each in bits), (layers, call)


def main() -> None:
    """All of it."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl")
    mesh = device_mesh.init_device_mesh("cuda", (distributed.get_world_size(),))
    with torch.inference_mode():
        for layers in (1, 2, 3):
            check(layers, mesh)
    distributed.destroy_process_group()
    print("right", flush=True)


if __name__ == "__main__":
    main()
