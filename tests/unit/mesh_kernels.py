"""Run by ``torchrun`` on four processes: collectives against devices that are simulated."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import mugraph
from mugraph.dialects import kn
from mugraph.dialects.sharding import device_program
from mugraph.errors import UserError
from mugraph.passes.program.overlap import OverlapCollectivesPass
from mugraph.passes.program.use_peers import UsePeersPass
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function

torch: Any = import_module("torch")
distributed: Any = import_module("torch.distributed")
device_mesh: Any = import_module("torch.distributed.device_mesh")
tensors: Any = import_module("torch.distributed.tensor")

COLLECTIVES = """
func.func @all(%x: tensor<4x8xT> {mugraph.sharding = #kn.sharding<[[1], [0]]>},
               %z: tensor<4x8xT> {mugraph.sharding = #kn.sharding<[[0, 1]]>})
    -> (tensor<8x4xT> {mugraph.sharding = #kn.sharding<[[], [1]]>},
        tensor<1x8xT> {mugraph.sharding = #kn.sharding<[[1, 0]]>},
        tensor<8x8xT> {mugraph.sharding = #kn.sharding<[[1], []]>},
        tensor<4x8xT> {mugraph.sharding = #kn.sharding<[[0, 1], []]>})
    attributes {mugraph.mesh = [2, 2], mugraph.per_device} {
  %e = kn.exp %x : tensor<4x8xT> -> tensor<4x8xT>
  %g = kn.all_gather %e axes [0] dim 1 : tensor<4x8xT> -> tensor<4x16xT>
  %a = kn.all_to_all %g axes [1] split 1 concat 0 : tensor<4x16xT> -> tensor<8x8xT>
  %m = kn.all_reduce %z combine max axes [1, 0] : tensor<4x8xT> -> tensor<4x8xT>
  %s = kn.reduce_scatter %m axes [1, 0] dim 0 : tensor<4x8xT> -> tensor<1x8xT>
  %l = kn.all_slice %a axes [0] dim 1 : tensor<8x8xT> -> tensor<8x4xT>
  %w = kn.all_gather %l axes [0] dim 1 : tensor<8x4xT> -> tensor<8x8xT>
  %p = kn.all_reduce %w axes [1] : tensor<8x8xT> -> tensor<8x8xT>
  %q = kn.add %p, %w : (tensor<8x8xT>, tensor<8x8xT>) -> tensor<8x8xT>
  %o = kn.all_to_all %q axes [1] split 1 concat 0 : tensor<8x8xT> -> tensor<16x4xT>
  %r = kn.all_to_all %o axes [1] split 0 concat 1 : tensor<16x4xT> -> tensor<8x8xT>
  %c = kn.slice %r from [0, 0] : tensor<8x8xT> -> tensor<8x4xT>
  func.return %c, %s, %r, %z : tensor<8x4xT>, tensor<1x8xT>, tensor<8x8xT>, tensor<4x8xT>
}
"""


def check_collectives(element: str, dtype: Any, *, peers: bool) -> None:
    """Each process's parts are those of a simulated device."""
    text = COLLECTIVES.replace("xT>", f"x{element}>")
    mesh = device_mesh.init_device_mesh("cpu", (2, 2))
    module = parse_text(make_context(), text, "collectives")
    if peers:
        UsePeersPass(everywhere=True).apply(make_context(), module)
    kernel = mugraph.compile(module, "cpu", mesh=mesh)
    program = device_program(only_function(module))
    assert program is not None
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(type_.get_shape()) for type_ in program.argument_types]
    wholes = [torch.from_numpy(array).to(dtype) for array in arrays]
    inputs = [whole.float().numpy() for whole in wholes]
    expected = run_function(module, None, inputs)
    found = kernel(*kernel.parts(*wholes))
    assert any(isinstance(op, kn.PeerOp) for op in kernel.module.walk()) == peers
    for number, (part, whole) in enumerate(zip(found, expected, strict=True)):
        mine = kernel.part_of_result(number, torch.from_numpy(whole.astype(np.float32)))
        assert torch.allclose(part.float(), mine, rtol=2e-2, atol=2e-2), (element, number)


OVERLAPPING = """
func.func @layers(%x: tensor<16x16xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
                  %w: tensor<16x12xf32> {mugraph.sharding = #kn.sharding<[[0]]>},
                  %u: tensor<12x20xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
                  %d: tensor<20x12xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
    -> (tensor<16x12xf32> {mugraph.sharding = #kn.sharding<[[]]>},
        tensor<4x12xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
    attributes {mugraph.mesh = [4], mugraph.per_device} {
  %y = kn.matmul %x, %w precision ieee
      : (tensor<16x16xf32>, tensor<16x12xf32>) -> tensor<16x12xf32>
  %s = kn.reduce_scatter %y axes [0] dim 0 : tensor<16x12xf32> -> tensor<4x12xf32>
  %n = kn.silu %s : tensor<4x12xf32> -> tensor<4x12xf32>
  %g = kn.all_gather %n axes [0] dim 0 : tensor<4x12xf32> -> tensor<16x12xf32>
  %a = kn.matmul %g, %u precision ieee
      : (tensor<16x12xf32>, tensor<12x20xf32>) -> tensor<16x20xf32>
  %h = kn.matmul %a, %d precision ieee
      : (tensor<16x20xf32>, tensor<20x12xf32>) -> tensor<16x12xf32>
  %r = kn.all_reduce %h axes [0] : tensor<16x12xf32> -> tensor<16x12xf32>
  func.return %r, %s : tensor<16x12xf32>, tensor<4x12xf32>
}
"""


def check_overlap(members: int, element: str = "f32", way: str | None = None) -> None:
    """Products in parts of members, which are delivered, fetched and joined; or sums go around."""
    mesh = device_mesh.init_device_mesh("cpu", (4,))
    text = OVERLAPPING.replace("xf32>", f"x{element}>")
    if element != "f32":
        text = text.replace("precision ieee", "")
    module = parse_text(make_context(), text, "overlap")
    overlap = OverlapCollectivesPass(everywhere=True, members=members, way=way)
    overlap.apply(make_context(), module)
    module.verify()
    operators = [*module.walk()]
    assert any(isinstance(op, kn.CopyOp) for op in operators)
    kernel = mugraph.compile(module, "cpu", mesh=mesh)
    met = [what.partition("%")[0] for what in kernel.meetings.values()]
    if way is None:
        assert any(isinstance(op, kn.AllToAllOp) and op.delivered for op in operators)
        assert met == ["parts of ", ""] * 2
    else:
        assert any(isinstance(op, kn.MatmulAddOp) for op in operators)
    generator = torch.Generator().manual_seed(1)
    shapes = ((16, 64), (64, 12), (12, 80), (80, 12))
    for _ in range(2):
        x, w, u, d = (torch.randn(shape, generator=generator) / 4 for shape in shapes)
        dtype = torch.float16 if element == "f16" else torch.float32
        found = kernel(*(part.to(dtype) for part in kernel.parts(x, w, u, d)))
        summed = x @ w
        for number, exact in enumerate((torch.nn.functional.silu(summed) @ u @ d, summed)):
            mine = kernel.part_of_result(number, exact)
            error = 1e-4 if element == "f32" else 2e-2
            assert torch.allclose(found[number].float(), mine, rtol=error, atol=error), number


def check_dtensors() -> None:
    """DTensors go in as the program says, and come out so."""
    mesh = device_mesh.init_device_mesh("cpu", (4,))
    kernel = mugraph.compile(
        """
        func.func @f(%x: tensor<8x16xf32> {mugraph.sharding = #kn.sharding<[[], [0]]>},
                     %w: tensor<16x4xf32> {mugraph.sharding = #kn.sharding<[[0]]>})
            -> (tensor<8x4xf32> {mugraph.sharding = #kn.sharding<[[0]]>}) {
          %y = kn.matmul %x, %w precision ieee
              : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
          func.return %y : tensor<8x4xf32>
        }
        """,
        "cpu",
        mesh=mesh,
    )
    generator = torch.Generator().manual_seed(1)
    x, w = torch.randn(8, 16, generator=generator), torch.randn(16, 4, generator=generator)
    placed = [
        tensors.distribute_tensor(each, mesh, [tensors.Shard(dim)])
        for each, dim in ((x, 1), (w, 0))
    ]
    y = kernel(*placed)
    assert y.placements == (tensors.Shard(0),)
    assert torch.allclose(y.full_tensor(), x @ w, atol=1e-4)
    own = tensors.distribute_tensor(torch.zeros(8, 4), mesh, [tensors.Shard(0)])
    assert kernel(*placed, out=own) is own
    assert torch.equal(own.full_tensor(), y.full_tensor())
    for out, sentence in (
        (torch.zeros(8, 4), "output 0 of f is the part of one device, 2x4, got 8x4"),
        (placed[0], "output 0 of f is placed as"),
        (torch.zeros(2, 4).half(), "output 0 ('y') has elements of type f16, expected f32"),
        ([torch.zeros(2, 4)] * 2, "f has 1 outputs, got 2 in out"),
    ):
        try:
            kernel(*placed, out=out)
        except UserError as error:
            assert sentence in str(error), error
        else:
            raise AssertionError(sentence)
    for wrong, sentence in (
        ((x, w), "argument 0 of f is the part of one device, 8x4, got 8x16; f.parts(...)"),
        ((x.numpy(), w), "argument 0 of f is a ndarray; expected a torch.Tensor"),
        ((placed[0],), "f takes 2 arguments, got 1"),
        ((placed[0], placed[0]), "argument 1 of f is placed as"),
    ):
        try:
            kernel(*wrong)
        except UserError as error:
            assert sentence in str(error), error
        else:
            raise AssertionError(sentence)


def check_unequal() -> None:
    """Devices whose programs exchange other tensors say so, and do not wait for one another."""
    rows = 4 + distributed.get_rank() % 2
    kernel = mugraph.compile(
        f"""
        func.func @f(%x: tensor<{rows}x8xf32>) -> (tensor<{rows}x8xf32>)
            attributes {{mugraph.mesh = [4], mugraph.per_device}} {{
          %s = kn.all_reduce %x axes [0] : tensor<{rows}x8xf32> -> tensor<{rows}x8xf32>
          func.return %s : tensor<{rows}x8xf32>
        }}
        """,
        "cpu",
        mesh=device_mesh.init_device_mesh("cpu", (4,)),
    )
    try:
        kernel(torch.ones(rows, 8))
    except UserError as error:
        assert "exchange 0 is kn.all_reduce of 4x8 of f32 along axes [0] on rank 0" in str(error)
    else:
        raise AssertionError("unequal programs ran")


def main() -> None:
    """All of it."""
    distributed.init_process_group("gloo")
    for element, name in (("f32", "float32"), ("f16", "float16"), ("bf16", "bfloat16")):
        for peers in (False, True):
            check_collectives(element, getattr(torch, name), peers=peers)
    check_overlap(1)
    check_overlap(2)
    check_overlap(1, "f16", "added")
    check_dtensors()
    check_unequal()
    distributed.destroy_process_group()
    print("right")


if __name__ == "__main__":
    main()
