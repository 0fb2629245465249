"""Tensor-parallel PyTorch models through ``torch.compile(model, backend="mugraph")``.

A plan says which weights are cut, as torch's or transformers' own; mugraph compiles the program of
each device, collectives among it:

    torchrun --nproc-per-node 2 examples/several_gpus/models.py mlp
    torchrun --nproc-per-node 2 examples/several_gpus/models.py qwen3 --cpu

``mlp`` has a plan of ``torch.distributed.tensor.parallel``, ``qwen3`` the ``tp_plan`` of its class
in transformers, which needs accelerate, too; its weights are random.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
distributed: Any = import_module("torch.distributed")

HIDDEN, INNER, LAYERS, ROWS, KEY_HEADS = 256, 1024, 2, 16, 4
SHARED = {"mlp": INNER, "qwen3": KEY_HEADS}
"""What devices share equally: columns of a weight, or heads."""


class Layer(torch.nn.Module):
    """A norm and a gated MLP beside what they are added to."""

    def __init__(self) -> None:
        torch.nn.Module.__init__(self)
        linear = torch.nn.Linear
        self.norm = torch.nn.RMSNorm(HIDDEN)
        self.up, self.gate = (linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = linear(INNER, HIDDEN, bias=False)

    def forward(self, x: Any) -> Any:
        """Of some rows."""
        held = self.norm(x)
        return x + self.down(torch.nn.functional.silu(self.gate(held)) * self.up(held))


def mlp(device: str, dtype: Any, mesh: Any) -> tuple[Any, Any, Any]:
    """Layers, the same with columns of two weights and rows of a third one cut, and an input."""
    parallel: Any = import_module("torch.distributed.tensor.parallel")
    columns, rows = parallel.ColwiseParallel(), parallel.RowwiseParallel()
    plan = {"up": columns, "gate": columns, "down": rows}
    models: list[Any] = []
    for _ in range(2):
        torch.manual_seed(1)
        layers = torch.nn.Sequential(*(Layer() for _ in range(LAYERS)))
        models.append(layers.to(device, dtype).eval().requires_grad_(False))
    whole, cut = models
    for layer in cut:
        parallel.parallelize_module(layer, mesh, plan)
    return whole, cut, torch.randn(ROWS, HIDDEN).to(device, dtype)


def qwen3(device: str, dtype: Any, mesh: Any) -> tuple[Any, Any, Any]:
    """A small Qwen3 with random weights, the same by its class's ``tp_plan``, and tokens."""
    transformers: Any = import_module("transformers")
    config = transformers.Qwen3Config(
        vocab_size=512,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=KEY_HEADS,
        head_dim=32,
        tie_word_embeddings=False,
        use_cache=False,
    )
    torch.manual_seed(1)
    whole = transformers.Qwen3ForCausalLM(config).to(device, dtype)
    with tempfile.TemporaryDirectory() as own:
        # All devices load what the first one saved.
        shared = [own]
        distributed.broadcast_object_list(shared)
        (folder,) = shared
        if folder == own:
            whole.save_pretrained(folder)
        distributed.barrier()
        cut = transformers.AutoModelForCausalLM.from_pretrained(
            folder, tp_plan="auto", device_mesh=mesh, dtype=dtype
        )
        distributed.barrier()
    for module in cut.modules():
        # Hooks on gradients, which inference has none of, would cut the model in pieces.
        module._backward_hooks.clear()
    tokens = torch.arange(ROWS, device=device)[None]
    return whole.eval().requires_grad_(False), cut.eval().requires_grad_(False), tokens


def run(name: str, device: str) -> None:
    """Runs a model on all processes, and compares with the whole model in torch."""
    meshes: Any = import_module("torch.distributed.device_mesh")
    mesh = meshes.init_device_mesh(device, (distributed.get_world_size(),))
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    whole, cut, given = {"mlp": mlp, "qwen3": qwen3}[name](device, dtype, mesh)
    with torch.no_grad():
        found = torch.compile(cut, backend="mugraph")(given)
        expected = whole(given)
    if name == "qwen3":
        found, expected = found.logits, expected.logits
    error = float((found.float() - expected.float()).norm() / expected.float().norm())
    rank = distributed.get_rank()
    print(f"device {rank}: {list(found.shape)}: relative error {error:.1e}", flush=True)
    if not error < 2e-2:
        raise SystemExit(1)


def main() -> None:
    """Runs the model that is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("mlp", "qwen3"))
    parser.add_argument("--cpu", action="store_true", help="in the interpreter, through gloo")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("torchrun starts the processes: torchrun --nproc-per-node 4 " + __file__)
    if SHARED[options.model] % int(os.environ["WORLD_SIZE"]):
        parser.error(
            f"{os.environ['WORLD_SIZE']} processes cannot share {SHARED[options.model]} columns or "
            "heads equally, and torch.compile takes equal parts; start another number of them"
        )
    on_cpu = options.cpu or not torch.cuda.is_available()
    if not on_cpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("gloo" if on_cpu else "nccl")
    run(options.model, "cpu" if on_cpu else "cuda")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
