"""What is measured.

A workload is a µGraph in ``mugraphs/``, as a user writes it, and goes through
``--transpile``.  Variants of a workload have another ``pipeline``, passes and options
as ``mg-opt -p`` takes them; ``arch`` is filled in where a pass has that option and the text does
not give it.
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
    overflowing: Overflowing | None = None
    """Inputs that only a running maximum keeps the result finite on; checked, too, not timed."""

    @property
    def path(self) -> Path:
        """The µGraph's file."""
        return MUGRAPHS / f"{self.name}.mlir"


@dataclass(frozen=True)
class Rewritten(Workload):
    """A workload whose µGraph is another's with other numbers, written into a folder for a run."""

    folder: Path = Path()

    @property
    def path(self) -> Path:
        """The µGraph's file."""
        return self.folder / f"{self.name}.mlir"


def _workload(name: str, reference: Reference, scales: tuple[float, ...], flop: int) -> Workload:
    overflowing = Overflowing() if reference in references.LARGEST_EXPONENT else None
    return Workload(name, reference, scales, flop, overflowing)


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
"""The workloads of the Mirage paper, at two batch sizes."""
