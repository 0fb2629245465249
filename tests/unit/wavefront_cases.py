"""Kernels of one access pattern each, whose counters ``benchmarks/results/wavefronts_h200.md`` has.

Each kernel copies its inputs to shared memory without conflicts, does one thing with a
known pattern there, and copies a result out, so that the compiler can leave nothing away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MMA = "SM80_16x8x16_F32F16F16F32_TN"


@dataclass(frozen=True)
class Tensor:
    """A device tensor or shared buffer of a synthetic kernel."""

    shape: tuple[int, ...]
    dtype: str
    layout: str

    @property
    def dims(self) -> str:
        """``16x64xf16``."""
        return "x".join(map(str, self.shape)) + f"x{self.dtype}"

    @property
    def shared(self) -> str:
        """The type as a buffer."""
        return f"!sched.shared<{self.dims}, {self.layout}>"

    @property
    def device(self) -> str:
        """The type as an argument of the kernel."""
        return f"!sched.global<{self.dims}, {self.layout}>"

    @property
    def tensor(self) -> str:
        """The type at kernel level."""
        return f"tensor<{self.dims}, #cute.layout<{self.layout}>>"


def rows(height: int, width: int, dtype: str = "f16", pitch: int | None = None) -> Tensor:
    """A row-major matrix whose rows are ``pitch`` elements apart."""
    return Tensor((height, width), dtype, f"({height},{width}):({pitch or width},1)")


def columns(height: int, width: int, dtype: str = "f16", pitch: int | None = None) -> Tensor:
    """A column-major matrix whose columns are ``pitch`` elements apart."""
    return Tensor((height, width), dtype, f"({height},{width}):(1,{pitch or height})")


def swizzled(tensor: Tensor, swizzle: str) -> Tensor:
    """The tensor with a swizzle."""
    return Tensor(tensor.shape, tensor.dtype, f"{swizzle} o {tensor.layout}")


@dataclass(frozen=True)
class Case:
    """A module to compile, and what is special about it."""

    name: str
    text: str
    about: str


def copy(source: str, target: str, types: str, by: str, kind: str = "") -> str:
    """A ``sched.copy`` between two named values."""
    return f"sched.copy {kind} %{source} to %{target} by <{by}> : {types}"


def synthetic(
    name: str,
    about: str,
    threads: int,
    inputs: Sequence[Tensor],
    output: Tensor,
    values: Sequence[str],
    body: Sequence[str],
) -> Case:
    """A module with one kernel ``@name``: inputs %x0, %x1 ..., output %o."""
    arguments = [f"%x{i}: {tensor.device}" for i, tensor in enumerate(inputs)]
    types = ", ".join(tensor.tensor for tensor in inputs)
    signature = ", ".join(f"%x{i}: {tensor.tensor}" for i, tensor in enumerate(inputs))
    operands = ", ".join(f"%x{i}" for i in range(len(inputs)))
    lines = [
        f"sched.kernel @{name} inputs {len(inputs)} grid [2, 1, 1] block [{threads}, 1, 1] {{",
        f"^bb0({', '.join([*arguments, f'%o: {output.device}'])}):",
        *values,
        "sched.prologue {",
        *body,
        "}",
        "}",
        f"func.func @main({signature}) -> {output.tensor}",
        "attributes {kn.workspace_bytes = 0 : i64} {",
        f"%r = sched.launch @{name} {operands} workspace [-1] : ({types}) -> {output.tensor}",
        f"func.return %r : {output.tensor}",
        "}",
    ]
    return Case(name, "\n".join(lines), about)


def through_shared(
    name: str, about: str, device: Tensor, shared: Tensor, store: str, load: str, kind: str = ""
) -> Case:
    """Device memory to shared memory by one partition, and back by another."""
    threads = int(store.split(",")[0])
    return synthetic(
        name,
        about,
        threads,
        [device],
        device,
        [f"%s = sched.alloc : {shared.shared}"],
        [
            copy("x0", "s", f"{device.device} to {shared.shared}", store, kind),
            *(["sched.commit", "sched.wait pending 0"] if kind else []),
            "sched.barrier",
            copy("s", "o", f"{shared.shared} to {device.device}", load),
        ],
    )


def product(name: str, about: str, lhs: Tensor, rhs: Tensor, warps: tuple[int, int]) -> Case:
    """A matrix product of two shared operands, each copied in by vectors that fit it."""
    m, n = lhs.shape[0], rhs.shape[1]
    fragment = f"!sched.tile<{m}x{n}xf32, #cute.tiled_mma<{MMA}, ({warps[0]},{warps[1]},1)>>"
    out = rows(m, n, "f32")
    threads = 32 * warps[0] * warps[1]
    sources = [Tensor(t.shape, t.dtype, t.layout.rpartition(" o ")[2]) for t in (lhs, rhs)]
    body: list[str] = []
    for index, (source, shared) in enumerate(zip(sources, (lhs, rhs), strict=True)):
        order = "[1, 0]" if source.layout.endswith(",1)") else "[0, 1]"
        by = f"{threads}, vector 8, order {order}"
        types = f"{source.device} to {shared.shared}"
        body.append(copy(f"x{index}", "ab"[index], types, by))
    body += [
        f"%zeros = sched.fill %acc with 0.0 : {fragment}",
        "sched.barrier",
        f"%sum = sched.mma %a, %b to %zeros ldmatrix[true, true] "
        f": {lhs.shared}, {rhs.shared} to {fragment}",
        f"sched.store %sum to %c : {fragment} to {out.shared}",
        "sched.barrier",
        copy("c", "o", f"{out.shared} to {out.device}", f"{threads}, vector 4, order [1, 0]"),
    ]
    values = [
        f"%a = sched.alloc : {lhs.shared}",
        f"%b = sched.alloc : {rhs.shared}",
        f"%c = sched.alloc : {out.shared}",
        f"%acc = sched.empty : {fragment}",
    ]
    return synthetic(name, about, threads, sources, out, values, body)


def elementwise(
    name: str, about: str, sources: Sequence[Tensor], target: Tensor, by: str, then: str = ""
) -> Case:
    """An element-wise operation on shared buffers, which are copied in and out by 2 bytes or 4."""
    threads = int(by.split(",")[0])
    plain = f"{threads}, vector 1, order [1, 0]"
    names = [f"s{index}" for index in range(len(sources))]
    function = "mul" if len(sources) == 2 else "square"
    out = rows(target.shape[0], target.shape[1], target.dtype)
    body = [
        copy(f"x{i}", s, f"{tensor.device} to {tensor.shared}", plain)
        for i, (s, tensor) in enumerate(zip(names, sources, strict=True))
    ]
    if then:
        body.append(f"sched.fill %t with 0.0 : {target.shared}")
    operands = ", ".join(f"%{s}" for s in names)
    types = ", ".join(tensor.shared for tensor in sources)
    body += [
        "sched.barrier",
        f"sched.map {function} {operands} to %t {then} by <{by}> : {types} to {target.shared}",
        "sched.barrier",
        copy("t", "o", f"{target.shared} to {out.device}", plain),
    ]
    values = [
        *(f"%{s} = sched.alloc : {t.shared}" for s, t in zip(names, sources, strict=True)),
        f"%t = sched.alloc : {target.shared}",
    ]
    return synthetic(name, about, threads, sources, out, values, body)


def reduction(name: str, about: str, source: Tensor, result: Tensor, how: str) -> Case:
    """A sum of groups of a shared buffer."""
    plain = "128, vector 1, order [1, 0]"
    device = Tensor(source.shape, source.dtype, source.layout.rpartition(" o ")[2])
    body = [
        copy("x0", "s", f"{device.device} to {source.shared}", plain),
        "sched.barrier",
        f"sched.reduce %s to %t {how} : {source.shared} to {result.shared}",
        "sched.barrier",
        copy("t", "o", f"{result.shared} to {result.device}", plain),
    ]
    values = [f"%s = sched.alloc : {source.shared}", f"%t = sched.alloc : {result.shared}"]
    return synthetic(name, about, 128, [device], result, values, body)


def all_cases() -> list[Case]:
    """The kernels, from harmless to bad."""
    by_rows, by_columns = "128, vector 1, order [1, 0]", "128, vector 1, order [0, 1]"
    vectors = "128, vector 8, order [1, 0]"
    return [
        through_shared(
            "scalar_plain", "4 bytes a lane, neighbours", rows(32, 64, "f32"),
            rows(32, 64, "f32"), by_rows, by_rows,
        ),
        through_shared(
            "scalar_conflicts", "rows of 256 bytes read by columns: 32 words of one bank",
            rows(32, 64, "f32"), rows(32, 64, "f32"), by_rows, by_columns,
        ),
        through_shared(
            "scalar_padded", "the same, rows padded by one word", rows(32, 64, "f32"),
            rows(32, 64, "f32", 65), by_rows, by_columns,
        ),
        through_shared(
            "half_columns", "2 bytes a lane by columns", rows(64, 64), rows(64, 64),
            by_rows, by_columns,
        ),
        through_shared(
            "vector_8_bytes", "8 bytes a lane, rows padded by 8 bytes", rows(64, 64),
            rows(64, 64, pitch=68), "128, vector 4, order [1, 0]", "128, vector 4, order [1, 0]",
        ),
        through_shared(
            "vector_16_bytes_conflicts", "16 bytes a lane, columns of vectors 128 bytes apart",
            columns(8, 256), columns(8, 256, pitch=64), "128, vector 8, order [0, 1]",
            "128, vector 8, order [0, 1]",
        ),
        through_shared(
            "async_16_bytes", "cp.async of whole lines", rows(64, 64), rows(64, 64),
            vectors, vectors, "async",
        ),
        through_shared(
            "async_conflicts", "cp.async into columns of vectors 128 bytes apart",
            columns(8, 256), columns(8, 256, pitch=64), "128, vector 8, order [0, 1]",
            "128, vector 8, order [0, 1]", "async",
        ),
        through_shared(
            "async_4_bytes", "cp.async of 4 bytes", rows(32, 64, "f32"), rows(32, 64, "f32"),
            by_rows, by_rows, "async",
        ),
        through_shared(
            "async_8_bytes", "cp.async of 8 bytes", rows(64, 64), rows(64, 64),
            "128, vector 4, order [1, 0]", "128, vector 4, order [1, 0]", "async",
        ),
        through_shared(
            "async_far_rows", "cp.async of rows of 64 bytes that lie 1024 bytes apart",
            rows(64, 32, pitch=512), swizzled(rows(64, 32), "S<2,3,3>"), vectors, vectors,
            "async",
        ),
        elementwise(
            "broadcast_16_bytes", "all lanes read one vector of 16 bytes",
            [rows(128, 8), rows(1, 8)], rows(128, 8), vectors,
        ),
        elementwise(
            "broadcast_pairs", "lanes that differ in bit 1 read one vector of 16 bytes",
            [rows(64, 16), rows(1, 16)], rows(64, 16), vectors,
        ),
        elementwise(
            "broadcast_8_bytes", "all lanes read one vector of 8 bytes",
            [rows(128, 4), rows(1, 4)], rows(128, 4), "128, vector 4, order [1, 0]",
        ),
        elementwise(
            "broadcast_halves", "both half-warps read the same 16 vectors",
            [rows(16, 128), rows(1, 128)], rows(16, 128), vectors,
        ),
        elementwise(
            "update", "fp32 sums in shared memory, read and written",
            [rows(32, 64)], rows(32, 64, "f32"), "128, vector 4, order [1, 0]", "then [accum]",
        ),
        product(
            "ldmatrix_plain", "rows of 128 bytes without a swizzle: eight lines of one bank group",
            rows(64, 64), rows(64, 64), (2, 2),
        ),
        product(
            "ldmatrix_swizzled", "the same, swizzled", swizzled(rows(64, 64), "S<3,3,3>"),
            swizzled(rows(64, 64), "S<3,3,3>"), (2, 2),
        ),
        product(
            "ldmatrix_columns", "both operands column-major, swizzled",
            swizzled(columns(64, 64), "S<3,3,3>"), swizzled(columns(64, 64), "S<3,3,3>"), (4, 1),
        ),
        product(
            "ldmatrix_odd", "a last tile of B on its own, lines past the matrix",
            rows(24, 40, pitch=40), rows(40, 24, pitch=24), (1, 1),
        ),
        reduction(
            "reduce_rows", "eight lanes a row, 16 bytes each, without a swizzle",
            rows(16, 128, "f32"), columns(16, 1, "f32"),
            "dim 1 contiguous lanes 8 by <128, vector 1, order [0, 1]>",
        ),
        reduction(
            "reduce_rows_swizzled", "the same, swizzled",
            swizzled(rows(16, 128, "f32"), "S<3,2,5>"), columns(16, 1, "f32"),
            "dim 1 contiguous lanes 8 by <128, vector 1, order [0, 1]>",
        ),
        reduction(
            "reduce_columns", "one lane a column", rows(16, 128, "f32"), rows(1, 128, "f32"),
            "dim 0 contiguous lanes 1 by <128, vector 1, order [1, 0]>",
        ),
    ]  # fmt: skip
