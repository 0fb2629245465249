"""Run by ``torchrun`` on two GPUs: an ahead-of-time library with NCCL's communicators."""

from __future__ import annotations

import ctypes
import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from mugraph.reading import make_context, parse_text
from mugraph.runtime.ahead_of_time import build
from mugraph.runtime.library_sources import generate_sources
from mugraph.runtime.toolchain import device_architecture

torch: Any = import_module("torch")
distributed: Any = import_module("torch.distributed")

PROGRAM = """
func.func @all(%x: tensor<8x64xbf16>, %z: tensor<8x16xf32>)
    -> (tensor<8x64xbf16> {mugraph.sharding = #kn.sharding<[[]]>},
        tensor<4x16xf32> {mugraph.sharding = #kn.sharding<[[0]]>},
        tensor<8x128xbf16> {mugraph.sharding = #kn.sharding<[[]]>},
        tensor<4x128xbf16>, tensor<8x32xbf16>)
    attributes {mugraph.mesh = [2], mugraph.per_device} {
  %e = kn.exp %x : tensor<8x64xbf16> -> tensor<8x64xbf16>
  %s = kn.all_reduce %e axes [0] : tensor<8x64xbf16> -> tensor<8x64xbf16>
  %r = kn.reduce_scatter %z combine max axes [0] dim 0 : tensor<8x16xf32> -> tensor<4x16xf32>
  %g = kn.all_gather %e axes [0] dim 1 : tensor<8x64xbf16> -> tensor<8x128xbf16>
  %a = kn.all_to_all %e axes [0] split 0 concat 1 : tensor<8x64xbf16> -> tensor<4x128xbf16>
  %l = kn.all_slice %e axes [0] dim 1 : tensor<8x64xbf16> -> tensor<8x32xbf16>
  func.return %s, %r, %g, %a, %l : tensor<8x64xbf16>, tensor<4x16xf32>, tensor<8x128xbf16>,
      tensor<4x128xbf16>, tensor<8x32xbf16>
}
"""


class UniqueId(ctypes.Structure):
    """NCCL's ``ncclUniqueId``."""

    _fields_ = (("internal", ctypes.c_char * 128),)


def communicator(rank: int, count: int) -> ctypes.c_void_p:
    """A communicator of all processes, made by NCCL itself."""
    nccl = ctypes.CDLL("libnccl.so.2", mode=ctypes.RTLD_GLOBAL)
    unique = UniqueId()
    if rank == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    shared = [bytes(unique)]
    distributed.broadcast_object_list(shared)
    unique = UniqueId.from_buffer_copy(shared[0])
    made = ctypes.c_void_p()
    nccl.ncclCommInitRank.argtypes = [
        *(ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId, ctypes.c_int)
    ]
    assert nccl.ncclCommInitRank(ctypes.byref(made), count, unique, rank) == 0
    return made


def library(rank: int) -> tuple[Any, Any]:
    """The compiled library, which one process makes, and its interface."""
    context = make_context()
    architecture = device_architecture()
    assert architecture is not None
    sources = generate_sources(parse_text(context, PROGRAM, "all"), context, [architecture])
    folder = [tempfile.mkdtemp(prefix="mugraph-library-")]
    distributed.broadcast_object_list(folder)
    if rank == 0:
        build(sources, Path(folder[0]), PROGRAM)
    distributed.barrier()
    return ctypes.CDLL(str(Path(folder[0]) / "lib" / "liball.so")), sources.interface


def main() -> None:
    """Calls it, and compares with PyTorch."""
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl")
    rank, count = distributed.get_rank(), distributed.get_world_size()
    comm = communicator(rank, count)
    loaded, interface = library(rank)
    generator = torch.Generator("cuda").manual_seed(3)
    x = [torch.randn(8, 64, generator=generator, device="cuda").bfloat16() for _ in range(count)]
    z = [torch.randn(8, 16, generator=generator, device="cuda") for _ in range(count)]
    outputs = [
        torch.empty_strided(
            each.shape,
            each.strides,
            dtype=torch.bfloat16 if each.element_type == "bf16" else torch.float32,
            device="cuda",
        ).fill_(float("nan"))
        for each in interface.outputs
    ]
    workspace = torch.empty(interface.workspace_bytes, dtype=torch.uint8, device="cuda")
    pointers = [each.data_ptr() for each in (x[rank], z[rank], *outputs)]
    loaded.all_error.restype = ctypes.c_char_p
    status = loaded.all_run(
        *map(ctypes.c_void_p, pointers),
        comm,
        ctypes.c_void_p(workspace.data_ptr()),
        ctypes.c_size_t(interface.workspace_bytes),
        ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
    )
    assert status == 0, loaded.all_error()
    torch.cuda.synchronize()
    e = [each.float().exp().bfloat16() for each in x]
    rows = slice(4 * rank, 4 * rank + 4)
    expected = [
        (e[0].float() + e[1].float()).bfloat16(),
        torch.maximum(z[0], z[1])[rows],
        torch.cat(e, 1),
        torch.cat([each[rows] for each in e], 1),
        e[rank][:, 32 * rank : 32 * rank + 32],
    ]
    for number, (found, wanted) in enumerate(zip(outputs, expected, strict=True)):
        assert torch.allclose(found.float(), wanted.float(), rtol=2e-2, atol=2e-2), number
    distributed.destroy_process_group()
    print("right", flush=True)


if __name__ == "__main__":
    main()
