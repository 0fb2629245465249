"""What is measured, and the passes that make each workload fast.

A workload is a µGraph in ``mugraphs/``, as a user writes it.  All that is done to it stands in its
``pipeline``, passes and options as ``mg-opt -p`` takes them; ``arch`` is filled in where a pass has
that option and the text does not give it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import references

MUGRAPHS = Path(__file__).with_name("mugraphs")

Reference = Callable[..., Any]
"""A function of :mod:`benchmarks.references`."""

ATTENTION_SCALES = (0.25, 0.25, 1.0)


@dataclass(frozen=True)
class Overflowing:
    """Inputs whose exponentials overflow fp32 unless the running maximum is taken off first.

    Normal random numbers times ``scales``, plus ``shifts``: what Q and K have in common makes each
    score of a depth of 64 about 128, and what they differ in makes the maximum grow on the way.
    """

    scales: tuple[float, ...] = (0.5, 0.5, 1.0)
    shifts: tuple[float, ...] = (1.0, 2.0, 0.0)


@dataclass(frozen=True)
class Workload:
    """One function on tensors of fixed shapes."""

    name: str
    reference: Reference
    scales: tuple[float, ...]
    """What the normal random numbers of each input are multiplied by."""
    flop: int
    """Floating-point operations of the matrix products."""
    pipeline: str
    overflowing: Overflowing | None = None
    """Inputs that only a running maximum keeps the result finite on; checked, too, not timed."""

    @property
    def path(self) -> Path:
        """The µGraph's file."""
        return MUGRAPHS / f"{self.name}.mlir"


_RINGS = "transpile{pipeline=channels overlap-launches=false}"
_COPIES = "transpile{pipeline=async-copies}"
_SOFTMAX = "transpile{online-softmax=true pipeline=async-copies}"
_GROUPS = "transpile{online-softmax=true pipeline=channels}"
_PARTS_OF_GROUPS = "transpile{online-softmax=true overlap-start=end}"

_AUTO = "retile{auto=true}"
"""Where the model chooses what is fastest of what was measured (``retile_model``)."""

PIPELINES: dict[str, str] = {
    # Two blocks fit on a multiprocessor, so that the next launch's start beside this one's.  With
    # that, swapped operands are as fast, and no faster (docs/scheduling.md).
    "rmsnorm_bs8": (
        "retile{block=256},transpile{pipeline=channels objective=memory-first small-m=mma}"
    ),
    "rmsnorm_bs1": "retile{grid=192 block=256},transpile{pipeline=channels overlap-start=end}",
    "gated_mlp": f"retile{{grid=128 forloop=32 block=256}},{_RINGS}",
    "lora": f"retile{{grid=128}},{_COPIES}",
    "gqa_bs8": f"{_AUTO},{_PARTS_OF_GROUPS}",
    "gqa_bs1": f"{_AUTO},{_SOFTMAX}",
    # The kernel of the norms is short, and the next one's blocks fit beside its own.
    "qknorm_gqa_bs8": (
        "retile{outline=true forloop=32 split=4},transpile{online-softmax=true overlap-start=early}"
    ),
    "qknorm_gqa_bs1": f"retile{{outline=true forloop=32 split=16}},{_SOFTMAX}",
    "mqa_bs8": f"{_AUTO},{_PARTS_OF_GROUPS}",
    "mqa_bs1": f"{_AUTO},{_SOFTMAX}",
    "mha_bs8": f"retile{{forloop=32}},{_SOFTMAX}",
    "mha_bs1": f"retile{{forloop=32 split=8}},{_SOFTMAX}",
    "ntrans_bs8": f"{_AUTO},{_COPIES}",
    "ntrans_bs1": f"{_AUTO},{_COPIES}",
    "gemm4096_f16": f"{_AUTO},{_RINGS}",
    "gemm4096_bf16": f"{_AUTO},{_RINGS}",
    "gemm8192_f16": f"{_AUTO},{_RINGS}",
    "gemm8192_bf16": f"{_AUTO},{_RINGS}",
    "gemm_silu_mul": f"{_AUTO},{_RINGS}",
    # Its epilogue is long beside the loop: two roles multiply in turn.
    "gemm_silu_mul_k512": (
        "retile{block=128},transpile{pipeline=channels overlap-launches=false turns=2}"
    ),
    "prefill": f"{_AUTO},{_GROUPS}",
}
"""The passes of each workload: the only place where workloads differ in how they are made fast."""


def _workload(name: str, reference: Reference, scales: tuple[float, ...], flop: int) -> Workload:
    overflowing = Overflowing() if reference in references.LARGEST_EXPONENT else None
    return Workload(name, reference, scales, flop, PIPELINES[name], overflowing)


def _attention(name: str, heads: int, queries: int, depth: int = 64) -> Workload:
    function = references.attention_of_norms if "qknorm" in name else references.attention
    return _workload(name, function, ATTENTION_SCALES, 4 * heads * queries * 4096 * depth)


def _product(name: str, extent: int) -> Workload:
    return _workload(name, references.product, (1.0, 1 / 64), 2 * extent**3)


_WEIGHTS = 1 / 64
_LOW_RANK = 1 / 16

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        *(
            _workload(
                f"rmsnorm_bs{batch}",
                references.rms_norm_linear,
                (1.0, _WEIGHTS),
                2 * 2 * batch * 4096 * 6144,
            )
            for batch in (8, 1)
        ),
        _workload(
            "gated_mlp", references.gated_mlp, (1.0, _WEIGHTS, _WEIGHTS), 4 * 8 * 4096 * 4096
        ),
        _workload(
            "lora",
            references.lora,
            (1.0, _LOW_RANK, _LOW_RANK, _LOW_RANK),
            2 * 16 * (256 * 4096 + 256 * 16 + 16 * 4096),
        ),
        _attention("gqa_bs8", 16, 256),
        _attention("gqa_bs1", 2, 256),
        _attention("qknorm_gqa_bs8", 16, 256),
        _attention("qknorm_gqa_bs1", 2, 256),
        _attention("mqa_bs8", 8, 1024),
        _attention("mqa_bs1", 1, 1024),
        _attention("mha_bs8", 256, 16),
        _attention("mha_bs1", 32, 16),
        _workload("ntrans_bs8", references.norm_transition, (1.0, 1.0, 1.0), 0),
        _workload("ntrans_bs1", references.norm_transition, (1.0, 1.0, 1.0), 0),
        _product("gemm4096_f16", 4096),
        _product("gemm4096_bf16", 4096),
        _product("gemm8192_f16", 8192),
        _product("gemm8192_bf16", 8192),
        _workload("gemm_silu_mul", references.gated_mlp, (1.0, _WEIGHTS, _WEIGHTS), 4 * 4096**3),
        _workload(
            "gemm_silu_mul_k512",
            references.gated_mlp,
            (1.0, _WEIGHTS, _WEIGHTS),
            4 * 4096**2 * 512,
        ),
        _attention("prefill", 32, 4096, 128),
    )
}

FIRST_FOURTEEN = tuple(WORKLOADS)[:14]
"""The workloads that the peers' anchors are of."""
