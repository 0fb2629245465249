"""The programs of ``benchmarks/collectives.py``: products and parts of layers on devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Product:
    """A product of whole extents, and the collective of its tensor-parallel form."""

    collective: str
    m: int
    k: int
    n: int

    @property
    def label(self) -> str:
        """As the table calls it."""
        form = (
            f"{self.collective} + GEMM"
            if self.collective == "all-gather"
            else f"GEMM + {self.collective}"
        )
        return f"{form}, M {self.m}, K {self.k}, N {self.n}"

    def cut_of_rows(self, devices: int) -> int:
        """The dimension along which rows lie on devices: the columns where rows are too few."""
        return 0 if self.m % devices == 0 else 1

    def program(self, devices: int) -> str:
        """The program of whole tensors, and how its arguments and its result lie."""
        dim = self.cut_of_rows(devices)
        along = "[[0]]" if dim == 0 else "[[], [0]]"
        x, w, y = {
            "all-reduce": ("[[], [0]]", "[[0]]", "[[]]"),
            "reduce-scatter": ("[[], [0]]", "[[0]]", along),
            "all-gather": (along, "[[], [0]]", "[[], [0]]"),
        }[self.collective]
        left, right, out = (
            f"tensor<{rows}x{columns}xbf16>"
            for rows, columns in ((self.m, self.k), (self.k, self.n), (self.m, self.n))
        )
        return f"""
        func.func @product(%x: {left} {{mugraph.sharding = #kn.sharding<{x}>}},
                           %w: {right} {{mugraph.sharding = #kn.sharding<{w}>}})
            -> ({out} {{mugraph.sharding = #kn.sharding<{y}>}}) {{
          %y = kn.matmul %x, %w : ({left}, {right}) -> {out}
          func.return %y : {out}
        }}
        """


@dataclass(frozen=True)
class Block:
    """A sum over devices, or an MLP that ends in one, with a residual and RMSNorm behind it."""

    label: str
    rows: int
    hidden: int
    inner: int = 0
    """The columns of the MLP's first weights; 0 for a sum of what is given."""
    alone: bool = False
    """Whether nothing stands behind a sum of what is given."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the arguments: rows, the residual, the norm's weight, and the MLP's weights."""
        rows = (self.rows, self.hidden)
        if self.alone:
            return [rows]
        if not self.inner:
            return [rows, rows, (self.hidden,)]
        weights = [(self.hidden, self.inner)] * 2 + [(self.inner, self.hidden)]
        return [rows, rows, (self.hidden,), *weights]

    def program(self, devices: int) -> str:
        """The text; the sum alone is of each device's own rows, one after the other in all."""
        rows, norm = f"tensor<{self.rows}x{self.hidden}xbf16>", f"tensor<{self.hidden}xbf16>"
        tail = f"""
          %h = kn.add %s, %r : ({rows}, {rows}) -> {rows}
          %n = kn.rms_norm %h weight %g over [{self.hidden}] epsilon 1.0e-05
              : ({rows}, {norm}) -> {rows}
          func.return %h, %n : {rows}, {rows}
        }}
        """
        whole = "{mugraph.sharding = #kn.sharding<[[]]>}"
        if self.alone:
            return f"""
            func.func @sum(%x: {rows} {{mugraph.sharding = #kn.sharding<[[0]]>}})
                -> ({rows} {whole})
                attributes {{mugraph.mesh = [{devices}], mugraph.per_device}} {{
              %s = kn.all_reduce %x axes [0] : {rows} -> {rows}
              func.return %s : {rows}
            }}"""
        results = f"({rows} {whole}, {rows} {whole})"
        if not self.inner:
            return f"""
            func.func @sum(%x: {rows} {{mugraph.sharding = #kn.sharding<[[0]]>}}, %r: {rows},
                           %g: {norm}) -> {results}
                attributes {{mugraph.mesh = [{devices}], mugraph.per_device}} {{
              %e = kn.mul_scalar %x by 0.5 : {rows} -> {rows}
              %s = kn.all_reduce %e axes [0] : {rows} -> {rows}
            {tail}"""
        wide = f"tensor<{self.rows}x{self.inner}xbf16>"
        up, down = (
            f"tensor<{self.hidden}x{self.inner}xbf16>",
            f"tensor<{self.inner}x{self.hidden}xbf16>",
        )
        columns = "{mugraph.sharding = #kn.sharding<[[], [0]]>}"
        return f"""
        func.func @mlp(%x: {rows}, %r: {rows}, %g: {norm}, %up: {up} {columns},
                       %gate: {up} {columns},
                       %down: {down} {{mugraph.sharding = #kn.sharding<[[0]]>}}) -> {results} {{
          %u = kn.matmul %x, %up : ({rows}, {up}) -> {wide}
          %t = kn.matmul %x, %gate : ({rows}, {up}) -> {wide}
          %a = kn.silu %t : {wide} -> {wide}
          %m = kn.mul %u, %a : ({wide}, {wide}) -> {wide}
          %s = kn.matmul %m, %down : ({wide}, {down}) -> {rows}
        {tail}"""

    def local(self, parts: Sequence[Any]) -> Any:
        """What a device adds to the sum, by PyTorch."""
        torch: Any = import_module("torch")
        if self.alone:
            return parts[0].clone()
        if not self.inner:
            return parts[0] * 0.5
        x, _, _, up, gate, down = parts
        return (torch.matmul(x, up) * torch.nn.functional.silu(torch.matmul(x, gate))) @ down

    def after(self, total: Any, parts: Sequence[Any]) -> tuple[Any, ...]:
        """The results of the sum, by PyTorch."""
        torch: Any = import_module("torch")
        if self.alone:
            return (total,)
        held = total + parts[1]
        return held, torch.nn.functional.rms_norm(held, (self.hidden,), parts[2], 1e-5)


def blocks(*, small: bool) -> list[Block]:
    """Sums of the sizes that decoding has, and MLPs of Qwen3-8B and Qwen3-32B."""
    if small:
        return [Block("sum alone", 2, 64, alone=True), Block("sum", 2, 64), Block("MLP", 2, 64, 32)]
    sums = ((1, 2048), (16, 2048), (32, 4096))
    return [
        *(Block(f"sum, {m}x{n}", m, n, alone=True) for m, n in sums),
        *(Block(f"sum, residual, RMSNorm, {m}x{n}", m, n) for m, n in sums),
        *(
            Block(f"MLP, residual, RMSNorm, {m}x{hidden}, {inner}", m, hidden, inner)
            for hidden, inner in ((4096, 12288), (5120, 25600))
            for m in (1, 16, 4096)
        ),
    ]


def products(*, small: bool) -> list[Product]:
    """The table's products; small ones with the same forms for a machine without GPUs."""
    rows = (1, 16, 128, 1024, 4096)
    if small:
        return [
            Product(each, m, 64, 32)
            for each in ("all-reduce", "reduce-scatter", "all-gather")
            for m in (1, 32)
        ]
    reduced = [(1, 14336, 8192), *((m, 28672, 8192) for m in rows[1:]), (4096, 8192, 8192)]
    return [
        *(Product("all-reduce", *shape) for shape in reduced),
        *(Product("reduce-scatter", *shape) for shape in reduced),
        *(Product("all-gather", m, 8192, 28672) for m in rows),
    ]
