"""A token of a tensor-parallel decoder by ``torch.compile``, on one GPU and on several.

    PYTHONPATH=src:. python -m torch.distributed.run --standalone --nproc-per-node 2 \\
        -m benchmarks.tensor_parallel --output tensor_parallel.json

takes some minutes on two H200, nvcc included; behind ``--limit`` seconds each process says what it
was at, and ends.  Layers of Qwen3-8B and Qwen3-32B with random weights decode one token
behind a prompt, with a cache of a fixed number of places; embeddings and logits are of few tokens,
so that the layers take the time.  A plan of
``torch.distributed.tensor.parallel`` cuts the weights, as ``tp_plan`` does.  Each system is the
same one line, captured in CUDA graphs of 20 calls; times are medians of the slowest device.  Logits
are compared with float64, as eager's are.  ``--cpu`` checks a small one without GPUs, and times
nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from importlib import import_module
from typing import Any

import mugraph.torch
from benchmarks.devices import Devices, Row, arguments, end, write
from benchmarks.models.zoo import Step

torch: Any = import_module("torch")
transformers: Any = import_module("transformers")

SIZES = {
    "8B": {"hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32},
    "32B": {"hidden_size": 5120, "intermediate_size": 25600, "num_attention_heads": 64},
    "small": {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4},
}
PLACES, PROMPT = 1024, 100
VOCABULARY = 512
ALLOWED = 2
"""Times the error of eager: parts of sums are rounded, too."""
ONE = "one device"


def model_of(size: str, layers: int, devices: Devices) -> Any:
    """Some layers of a decoder with random weights, the same on all devices."""
    heads = {"num_key_value_heads": 2, "head_dim": 16} if size == "small" else {}
    config = transformers.Qwen3Config(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        tie_word_embeddings=False,
        **{"num_key_value_heads": 8, "head_dim": 128, **heads, **SIZES[size]},
    )
    dtype = torch.float32 if devices.cpu else torch.bfloat16
    torch.manual_seed(1)
    with devices.device:
        model = transformers.AutoModelForCausalLM.from_config(config)
    return model.to(dtype).eval().requires_grad_(False)


def cut(model: Any, devices: Devices) -> Any:
    """The same with its layers' weights on all devices, each a part."""
    parallel: Any = import_module("torch.distributed.tensor.parallel")
    plan: dict[str, Any] = {}
    for names, way in (
        ("self_attn.q_proj self_attn.k_proj self_attn.v_proj", parallel.ColwiseParallel()),
        ("mlp.gate_proj mlp.up_proj", parallel.ColwiseParallel()),
        ("self_attn.o_proj mlp.down_proj", parallel.RowwiseParallel()),
    ):
        plan |= dict.fromkeys(names.split(), way)
    for layer in model.model.layers:
        parallel.parallelize_module(layer, devices.mesh, plan)
    return model


def step_of(model: Any, devices: Devices) -> Any:
    """A token behind a prompt."""
    generator = torch.Generator().manual_seed(2)
    prompt = torch.randint(3, VOCABULARY, (1, PROMPT), generator=generator).to(devices.device)
    step = Step(model, PLACES, prompt, None)
    step.fill()
    return step


def ours(devices: Devices) -> Callable[..., Any]:
    """mugraph's backend, which says what stays in torch."""

    def backend(graph: Any, examples: Any) -> Callable[..., Any]:
        report = mugraph.torch.Report()
        compiled = mugraph.torch.backend(graph, examples, report=report)
        seconds = sum(island.seconds for island in report.islands)
        stayed = ", ".join(f"{count} {name}" for (name, _), count in report.stayed.items())
        programs = f"{len(report.islands)} programs in {seconds:.0f} s"
        devices.say(f"    {programs}; in torch: {stayed or 'nothing'}")
        return compiled

    return backend


def measured(size: str, layers: int, devices: Devices, only: str, *, timed: bool) -> Row:
    """All systems on some layers."""
    row = Row(f"Qwen3-{size}, {layers} layers, one token")
    devices.begin(f"{row.label}: weights, and what float64 gives")
    whole = model_of(size, layers, devices)
    token = torch.tensor([[7]], device=devices.device)
    exact = step_of(copy.deepcopy(whole).double(), devices)(token)
    plain = step_of(whole, devices)(token).double()
    eager = float((plain - exact).norm() / exact.norm())
    parts = cut(copy.deepcopy(whole), devices)
    several = f"{devices.count} devices"
    for name, model, backend in (
        (f"mugraph, {several}", parts, ours(devices)),
        (f"mugraph, {ONE}", whole, ours(devices)),
        (f"torch.compile + NCCL, {several}", parts, "inductor"),
        (f"torch.compile, {ONE}", whole, "inductor"),
    ):
        if only not in name or (devices.cpu and backend == "inductor"):
            continue
        torch.compiler.reset()
        step = step_of(model, devices)
        fast = torch.compile(step, backend=backend, dynamic=False)

        def call(step: Any = step, fast: Any = fast) -> Any:
            step.rewind()
            return fast(token)

        devices.begin(f"{row.label}: {name}: compiling")
        found = devices.together(row, name, call)
        if found is not None:
            devices.check(row, name, found, exact, ALLOWED * eager)
            devices.begin(f"{row.label}: {name}: measuring")
            if timed:
                devices.time(row, name, call)
        devices.say(
            f"{row.label}: {name}: {row.microseconds.get(name, 0):.1f} µs, relative error "
            f"{row.relative_errors.get(name, 1):.1e}, eager's {eager:.1e}"
            f"{_of_one(row, name)} {row.failures.get(name, '')}"
        )
    return row


def _of_one(row: Row, name: str) -> str:
    """The parts of one device's times that a system's is, as far as both were measured."""
    own = row.microseconds.get(name)
    shares = [
        f"{own / other:.2f} of {label}"
        for label, other in row.microseconds.items()
        if own is not None and label != name
    ]
    return "".join(f"; {share}" for share in shares)


def main() -> None:
    """Measures, prints a line a system, and writes all of it as JSON after each size."""
    parser = arguments(__doc__, "tensor_parallel.json", 300)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--untimed", action="store_true", help="compile and check alone")
    parser.add_argument("--sizes", nargs="+", default=["32B", "8B"], choices=SIZES)
    options = parser.parse_args()
    devices = Devices(cpu=options.cpu, limit=options.limit)
    rows: list[Row] = []
    with torch.no_grad():
        for size in ["small"] if options.cpu else options.sizes:
            timed = not options.untimed
            rows.append(measured(size, options.layers, devices, options.only, timed=timed))
            write(devices, rows, options.output)
    end(rows)


if __name__ == "__main__":
    main()
