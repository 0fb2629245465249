"""Run by ``torchrun``, a GPU a process: programs that reach the memory of other devices.

Each is called many times with other inputs, plainly and in a CUDA graph, while devices are late by
turns.  Results are within the error of bf16 of float64, and the same bits on all devices.  Layers
of many rows are computed in parts, which overlap with what devices exchange.  ``--calls 2`` is
enough for a sanitizer.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

import mugraph
from mugraph.dialects import kn
from mugraph.dialects.sharding import MESH, Mesh, mesh_attribute, part_of
from mugraph.passes.program.overlap import OverlapCollectivesPass
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.use_peers import UsePeersPass
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function

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
IN_PARTS = """
func.func @parts(%x: tensor<1024x256xbf16> {{mugraph.sharding = #kn.sharding<[[], [0]]>}},
                 %w: tensor<256x384xbf16> {{mugraph.sharding = #kn.sharding<[[0]]>}},
                 %u: tensor<384x320xbf16> {{mugraph.sharding = #kn.sharding<[[], [0]]>}},
                 %d: tensor<320x512xbf16> {{mugraph.sharding = #kn.sharding<[[0]]>}})
    -> (tensor<1024x512xbf16> {{mugraph.sharding = #kn.sharding<[[]]>}})
    attributes {{mugraph.mesh = [{devices}], mugraph.per_device}} {{
  %y = kn.matmul %x, %w
      : (tensor<1024x256xbf16>, tensor<256x384xbf16>) -> tensor<1024x384xbf16>
  %s = kn.reduce_scatter %y axes [0] dim 0 : tensor<1024x384xbf16> -> tensor<{rows}x384xbf16>
  %e = kn.silu %s : tensor<{rows}x384xbf16> -> tensor<{rows}x384xbf16>
  %g = kn.all_gather %e axes [0] dim 0 : tensor<{rows}x384xbf16> -> tensor<1024x384xbf16>
  %a = kn.matmul %g, %u
      : (tensor<1024x384xbf16>, tensor<384x320xbf16>) -> tensor<1024x320xbf16>
  %h = kn.matmul %a, %d
      : (tensor<1024x320xbf16>, tensor<320x512xbf16>) -> tensor<1024x512xbf16>
  %r = kn.all_reduce %h axes [0] : tensor<1024x512xbf16> -> tensor<1024x512xbf16>
  func.return %r : tensor<1024x512xbf16>
}}
"""


class Case(NamedTuple):
    """A program, the whole extents of its arguments, and what it computes, in float64."""

    name: str
    kernel: Any
    shapes: list[tuple[int, int]]
    exact: Callable[..., Any]


def layered(layers: int, mesh: Any, *, pushed: bool) -> Case:
    """MLPs one after the other: one exchange each, so that one alone needs another meeting.

    What a device adds up it loads from the others, or they write it into its memory.
    """
    text, given = HEADER, "%x"
    for number in range(layers):
        text += LAYER.format(n=number, given=given)
        given = f"%n{number}"
    text = f"{text}  func.return {given} : tensor<4x512xbf16>\n}}"
    module = parse_text(make_context(), text, "layers")
    only_function(module).attributes[MESH] = mesh_attribute(Mesh((distributed.get_world_size(),)))
    PartitionPass().apply(make_context(), module)
    if pushed:
        OverlapCollectivesPass(everywhere=True, way="pushed").apply(make_context(), module)
    else:
        UsePeersPass(everywhere=True).apply(make_context(), module)
    assert any(isinstance(op, kn.PeerOp) for op in module.walk()) != pushed
    kernel = mugraph.compile(module, mesh=mesh)

    def exact(x: Any, w: Any, v: Any) -> Any:
        for _ in range(layers):
            held = torch.nn.functional.silu(x @ w) @ v + x
            x = torch.nn.functional.rms_norm(held, (512,), eps=1e-5)
        return x

    name = f"{layers} layers, {'pushed' if pushed else 'loaded'}"
    return Case(name, kernel, [(4, 512), (512, 256), (256, 512)], exact)


def in_parts(mesh: Any, members: int, way: str | None = None) -> Case:
    """Products before and behind what lies in parts of rows, and a sum that all devices need.

    A kernel computes the parts of so many members; or sums are exchanged in another way.
    """
    count = distributed.get_world_size()
    text = IN_PARTS.format(devices=count, rows=1024 // count)
    module: ModuleOp = parse_text(make_context(), text, "parts")
    overlap = OverlapCollectivesPass(everywhere=True, members=members, way=way)
    overlap.apply(make_context(), module)
    assert any(part_of(op) is not None for op in module.walk())

    def exact(x: Any, w: Any, u: Any, d: Any) -> Any:
        return torch.nn.functional.silu(x @ w) @ u @ d

    shapes = [(1024, 256 * count), (256 * count, 384), (384, 320 * count), (320 * count, 512)]
    name = f"in parts of {members}" if way is None else way
    return Case(name, mugraph.compile(module, mesh=mesh), shapes, exact)


def be_late(chance: random.Random) -> None:
    """Keeps this device busy now and then, the host or the GPU."""
    if chance.random() < 0.5:
        torch.cuda._sleep(chance.randrange(2_000_000))


def check(case: Case, calls: int) -> None:
    """A program, call after call."""
    kernel = case.kernel
    generator = torch.Generator("cuda").manual_seed(len(case.name))
    chance = random.Random(distributed.get_rank())

    def drawn(shape: tuple[int, int]) -> Any:
        return torch.randn(shape, generator=generator, device="cuda").bfloat16()

    first, *others = case.shapes
    weights = [drawn(shape) / shape[0] ** 0.5 for shape in others]
    inputs = [drawn(first) for _ in range(GRAPH_CALLS)]
    parts = [kernel.parts(x, *weights) for x in inputs]
    kernel(*parts[0])
    torch.cuda.synchronize()
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        captured = [kernel(*each) for each in parts]
    for call in range(calls):
        # Parts of weights stay; what is computed of them is new in each call.
        fresh = [drawn(first) for _ in inputs]
        for each, x in zip(parts, fresh, strict=True):
            each[0].copy_(kernel.parts(x, *weights)[0])
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
            expected = case.exact(*(each.double() for each in (x, *weights)))
            error = float((result.double() - expected).norm() / expected.norm())
            assert error < BUDGET, (case.name, call, error)
            everywhere = [torch.empty_like(result) for _ in range(distributed.get_world_size())]
            distributed.all_gather(everywhere, result.contiguous())
            bits = [each.view(torch.int16) for each in everywhere]
            assert all(torch.equal(bits[0], each) for each in bits), (case.name, call)


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=CALLS)
    calls = parser.parse_args().calls
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl")
    mesh = device_mesh.init_device_mesh("cuda", (distributed.get_world_size(),))
    with torch.inference_mode():
        for layers in (1, 2, 3):
            for pushed in (False, True):
                check(layered(layers, mesh, pushed=pushed), calls)
        count = distributed.get_world_size()
        for members in (each for each in range(1, count) if count % each == 0):
            check(in_parts(mesh, members), calls)
        check(in_parts(mesh, 1, "added"), calls)
    distributed.destroy_process_group()
    print("right", flush=True)


if __name__ == "__main__":
    main()
