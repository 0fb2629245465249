"""Programs of several devices: tensor-parallel, data-parallel and expert-parallel.

Run one on the devices of this machine, or on processes that have none:

    torchrun --nproc-per-node 4 examples/several_gpus/programs.py mlp
    torchrun --nproc-per-node 4 examples/several_gpus/programs.py experts --cpu
"""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
distributed: Any = import_module("torch.distributed")

MLP = """
func.func @mlp(%x: tensor<16x256xf16>,
               %up: tensor<256x1024xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
               %gate: tensor<256x1024xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
               %down: tensor<1024x256xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<16x256xf16> {mugraph.sharding = #kn.sharding<[[]]>}) {
  %u = kn.matmul %x, %up : (tensor<16x256xf16>, tensor<256x1024xf16>) -> tensor<16x1024xf16>
  %g = kn.matmul %x, %gate : (tensor<16x256xf16>, tensor<256x1024xf16>) -> tensor<16x1024xf16>
  %s = kn.silu %g : tensor<16x1024xf16> -> tensor<16x1024xf16>
  %h = kn.mul %u, %s : (tensor<16x1024xf16>, tensor<16x1024xf16>) -> tensor<16x1024xf16>
  %d = kn.matmul %h, %down : (tensor<16x1024xf16>, tensor<1024x256xf16>) -> tensor<16x256xf16>
  %y = kn.add %d, %x : (tensor<16x256xf16>, tensor<16x256xf16>) -> tensor<16x256xf16>
  func.return %y : tensor<16x256xf16>
}
"""
"""Columns of two weights and rows of a third: one sum over the devices at the end."""

ATTENTION = """
func.func @attention(%q: tensor<8x32x64xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
                     %k: tensor<8x64x128xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
                     %v: tensor<8x128x64xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
                     %o: tensor<512x256xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<32x256xf16> {mugraph.sharding = #kn.sharding<[[]]>}) {
  %s = kn.matmul %q, %k : (tensor<8x32x64xf16>, tensor<8x64x128xf16>) -> tensor<8x32x128xf16>
  %m = kn.mul_scalar %s by 0.125 : tensor<8x32x128xf16> -> tensor<8x32x128xf16>
  %p = kn.softmax %m dim 2 : tensor<8x32x128xf16> -> tensor<8x32x128xf16>
  %a = kn.matmul %p, %v : (tensor<8x32x128xf16>, tensor<8x128x64xf16>) -> tensor<8x32x64xf16>
  %t = kn.transpose %a dims [1, 0, 2] : tensor<8x32x64xf16> -> tensor<32x8x64xf16>
  %r = kn.reshape %t : tensor<32x8x64xf16> -> tensor<32x512xf16>
  %y = kn.matmul %r, %o : (tensor<32x512xf16>, tensor<512x256xf16>) -> tensor<32x256xf16>
  func.return %y : tensor<32x256xf16>
}
"""
"""Attention by heads, and the rows of the output weight that belong to them."""

DATA = """
func.func @data(%x: tensor<64x128xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
                %w: tensor<128x32xf16>,
                %dy: tensor<64x32xf16> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<64x32xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
        tensor<128x32xf16> {mugraph.sharding = #kn.sharding<[[]]>}) {
  %y = kn.matmul %x, %w : (tensor<64x128xf16>, tensor<128x32xf16>) -> tensor<64x32xf16>
  %r = kn.relu %y : tensor<64x32xf16> -> tensor<64x32xf16>
  %t = kn.transpose %x dims [1, 0] : tensor<64x128xf16> -> tensor<128x64xf16>
  %dw = kn.matmul %t, %dy : (tensor<128x64xf16>, tensor<64x32xf16>) -> tensor<128x32xf16>
  func.return %r, %dw : tensor<64x32xf16>, tensor<128x32xf16>
}
"""
"""Rows of a batch, and the gradient of a weight summed over them."""

EXPERTS = """
func.func @experts(%x: tensor<8x32x64xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
                   %up: tensor<8x64x128xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
                   %down: tensor<8x128x64xf16> {mugraph.sharding = #kn.sharding<[[0]]>},
                   %weight: tensor<8x32x1xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>})
    -> (tensor<1x32x64xf16> {mugraph.sharding = #kn.sharding<[[], [0]]>}) {
  %h = kn.matmul %x, %up : (tensor<8x32x64xf16>, tensor<8x64x128xf16>) -> tensor<8x32x128xf16>
  %s = kn.silu %h : tensor<8x32x128xf16> -> tensor<8x32x128xf16>
  %e = kn.matmul %s, %down : (tensor<8x32x128xf16>, tensor<8x128x64xf16>) -> tensor<8x32x64xf16>
  %w = kn.mul %e, %weight : (tensor<8x32x64xf16>, tensor<8x32x1xf16>) -> tensor<8x32x64xf16>
  %y = kn.reduction %w dim 0 : tensor<8x32x64xf16> -> tensor<1x32x64xf16>
  func.return %y : tensor<1x32x64xf16>
}
"""
"""Rows of tokens for each of eight experts: to the experts' devices, and summed on the rows'."""

PROGRAMS = {"mlp": MLP, "attention": ATTENTION, "data": DATA, "experts": EXPERTS}


def run(name: str, device: str) -> None:
    """Runs a program on all processes, and compares with one that runs on this one alone."""
    import mugraph

    arch = "cpu" if device == "cpu" else "native"
    devices: Any = import_module("torch.distributed.device_mesh")
    mesh = devices.init_device_mesh(device, (distributed.get_world_size(),))
    kernel = mugraph.compile(PROGRAMS[name], arch, mesh=mesh)
    alone = mugraph.compile(PROGRAMS[name], arch)
    generator = torch.Generator().manual_seed(1)
    shapes = [tensor.shape for tensor in alone.interface.inputs]
    wholes = [
        (torch.randn(shape, generator=generator) / 8).to(torch.float16).to(device)
        for shape in shapes
    ]
    results = kernel(*kernel.parts(*wholes)), alone(*wholes)
    found, expected = results if len(kernel.results) > 1 else [[each] for each in results]
    for number, (part, whole) in enumerate(zip(found, expected, strict=True)):
        mine = kernel.part_of_result(number, whole)
        error = (part.float() - mine.float()).norm() / mine.float().norm()
        print(
            f"device {distributed.get_rank()}: result {number}, {list(part.shape)} of "
            f"{list(whole.shape)}: relative error {float(error):.1e}",
            flush=True,
        )
        if not error < 5e-3:
            raise SystemExit(1)


def main() -> None:
    """Runs the program that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("--cpu", action="store_true", help="in the interpreter, through gloo")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("torchrun starts the processes: torchrun --nproc-per-node 4 " + __file__)
    if options.cpu or not torch.cuda.is_available():
        distributed.init_process_group("gloo")
        run(options.program, "cpu")
    else:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("nccl")
        run(options.program, "cuda")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
