"""µGraphs of every element type: products, element-wise functions with sums, and casts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FLOATS = ("f16", "bf16", "f32", "f8E4M3FN", "f8E5M2")


@dataclass(frozen=True)
class Input:
    """An argument of the function, of which a block of one takes a tile in each iteration."""

    name: str
    """Says what numbers are drawn: ``signed``, ``positive`` or ``whole``."""
    shape: tuple[int, ...]
    element: str
    fordim: int = -1
    columns_first: bool = False
    """Whether dimension 0 is the innermost."""

    def tensor(self) -> str:
        """The argument's type."""
        extents = "x".join(map(str, self.shape))
        if not self.columns_first:
            return f"tensor<{extents}x{self.element}>"
        rows, columns = self.shape
        return f"tensor<{extents}x{self.element}, #cute.layout<({rows},{columns}):(1,{rows})>>"

    def tile(self, iterations: int) -> str:
        """The tile's type."""
        extents = [n // iterations if d == self.fordim else n for d, n in enumerate(self.shape)]
        return tile("x".join(map(str, extents)), self.element)


def tile(extents: str, element: str) -> str:
    """The type of a tile."""
    return f"!tb.stensor<{extents}x{element}>"


def block(
    inputs: Sequence[Input],
    body: str,
    outputs: Sequence[tuple[str, str, str]],
    *,
    threads: int = 64,
    iterations: int = 2,
) -> str:
    """A custom kernel of one block: tiles ``%t0`` ...; outputs are values, extents and element."""
    types = [one.tensor() for one in inputs]
    numbers = range(len(inputs))
    loads = "\n".join(
        f"%t{i} = tb.input %d{i} imap [-1, -1, -1] "
        f"{f'fordim {inputs[i].fordim}' if inputs[i].fordim >= 0 else ''} "
        f": {types[i]} -> {inputs[i].tile(iterations)}"
        for i in numbers
    )
    stores = "\n".join(
        f"tb.output {value} omap [-1, -1, -1] : {tile(extents, element)} -> "
        f"tensor<{extents}x{element}>"
        for value, extents, element in outputs
    )
    results = ", ".join(f"tensor<{extents}x{element}>" for _, extents, element in outputs)
    returned = ", ".join(f"%r#{n}" for n in range(len(outputs))) if len(outputs) > 1 else "%r"
    count = f":{len(outputs)}" if len(outputs) > 1 else ""
    names = [f"%{one.name}{i}" for i, one in enumerate(inputs)]
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types, strict=True))
    parameters = ", ".join(f"%d{i}: {types[i]}" for i in numbers)
    return f"""
    func.func @f({arguments}) -> ({results}) {{
      %r{count} = kn.customized {", ".join(names)} grid [1, 1, 1] block [{threads}, 1, 1]
          forloop {iterations} {{
      ^bb0({parameters}):
        {loads}
        {body}
        {stores}
      }} : ({", ".join(types)}) -> ({results})
      func.return {returned} : {results}
    }}"""


def product(
    element: str,
    result: str,
    *,
    columns_first: bool = False,
    threads: int = 64,
    precision: str = "",
    depth: int = 80,
) -> str:
    """A product of uneven extents, added up over two iterations."""
    name = "whole" if element == "i8" else "signed"
    inputs = [
        Input(name, (20, depth), element, 1),
        Input(name, (depth, 24), element, 0, columns_first),
    ]
    half = depth // 2
    types = f"({tile(f'20x{half}', element)}, {tile(f'{half}x24', element)})"
    body = f"%m = tb.matmul %t0, %t1 {precision} : {types} -> {tile('20x24', result)}\n"
    body += f"%a = tb.forloop_accum none %m : {tile('20x24', result)} -> {tile('20x24', result)}"
    return block(inputs, body, [("%a", "20x24", result)], threads=threads)


def function_and_sums(element: str, threads: int = 48) -> str:
    """exp, a sum with a row, sums along both dimensions, a quotient and a root mean square.

    What lies between is f32 where the type would be too coarse for numbers to be compared.
    """
    between = element if element in ("f16", "f32") else "f32"
    inputs = [Input("positive", (12, 32), element, 1), Input("positive", (1, 32), element, 1)]
    whole, column = tile("12x16", between), tile("12x1", between)
    body = f"""
    %e = tb.exp %t0 : {tile("12x16", element)} -> {whole}
    %s = tb.add %e, %t1 : ({whole}, {tile("1x16", element)}) -> {whole}
    %a = tb.forloop_accum none %s : {whole} -> {whole}
    %m = tb.mul_scalar %a by 0.125 : {whole} -> {whole}
    %r = tb.reduction %m dim 1 : {whole} -> {column}
    %c = tb.reduction %m dim 0 : {whole} -> {tile("1x16", element)}
    %d = tb.div %m, %r : ({whole}, {column}) -> {tile("12x16", element)}
    %q = tb.forloop_accum rms %t0 : {tile("12x16", element)} -> {tile("12x1", element)}"""
    outputs = [("%d", "12x16", element), ("%c", "1x16", element), ("%q", "12x1", element)]
    return block(inputs, body, outputs, threads=threads)


def casts(element: str, threads: int = 64) -> str:
    """Tiles of two types, joined by casts: into a product, and its sum back into the first."""
    inputs = [Input("signed", (16, 16), element, 1), Input("signed", (16, 8), "f16", 0)]
    lhs, rhs = tile("16x8", "f16"), tile("8x8", "f16")
    half, result = tile("16x8", "f16"), tile("16x8", "f32")
    body = f"""
    %l = tb.cast %t0 : {tile("16x8", element)} -> {lhs}
    %m = tb.matmul %l, %t1 : ({lhs}, {rhs}) -> {half}
    %w = tb.cast %m : {half} -> {result}
    %s = tb.square %w : {result} -> {result}
    %a = tb.forloop_accum none %s : {result} -> {result}
    %n = tb.cast %a : {result} -> {tile("16x8", element)}
    %o = tb.cast %a : {result} -> {tile("16x8", "bf16")}"""
    return block(inputs, body, [("%n", "16x8", element), ("%o", "16x8", "bf16")], threads=threads)


def requantised() -> str:
    """i8 by i8 into i32, scaled in f32, and i8 again."""
    inputs = [Input("whole", (16, 64), "i8", 1), Input("whole", (64, 16), "i8", 0, True)]
    whole, real = tile("16x16", "i32"), tile("16x16", "f32")
    body = f"""
    %m = tb.matmul %t0, %t1 : ({tile("16x32", "i8")}, {tile("32x16", "i8")}) -> {whole}
    %a = tb.forloop_accum none %m : {whole} -> {whole}
    %f = tb.cast %a : {whole} -> {real}
    %s = tb.mul_scalar %f by 0.125 : {real} -> {real}
    %q = tb.cast %s : {real} -> {tile("16x16", "i8")}
    %h = tb.cast %a : {whole} -> {tile("16x16", "f16")}"""
    return block(inputs, body, [("%q", "16x16", "i8"), ("%h", "16x16", "f16")])


def integer_sums(threads: int = 40) -> str:
    """Sums of i32 over iterations and along dimensions, and a copy of i8."""
    inputs = [Input("whole", (10, 24), "i32", 1), Input("whole", (10, 12), "i8")]
    whole = tile("10x12", "i32")
    body = f"""
    %a = tb.forloop_accum none %t0 : {whole} -> {whole}
    %s = tb.forloop_accum sum %t0 : {whole} -> {tile("10x1", "i32")}
    %c = tb.reduction %a dim 0 : {whole} -> {tile("1x12", "i32")}
    %g = tb.reduction_to_dimx_strided %a dim 1 : {whole} -> {tile("10x4", "i32")}
    %w = tb.cast %t1 : {tile("10x12", "i8")} -> {whole}
    %r = tb.reduction %w dim 1 : {whole} -> {tile("10x1", "i32")}
    %v = tb.forloop_accum none %r : {tile("10x1", "i32")} -> {tile("10x1", "i32")}"""
    outputs = [
        ("%a", "10x12", "i32"),
        ("%s", "10x1", "i32"),
        ("%c", "1x12", "i32"),
        ("%g", "10x4", "i32"),
        ("%v", "10x1", "i32"),
        ("%t1", "10x12", "i8"),
    ]
    return block(inputs, body, outputs, threads=threads)


def library_product(element: str, result: str, precision: str = "") -> str:
    """A product by the library."""
    name = "whole" if element == "i8" else "signed"
    lhs, rhs, out = (
        f"tensor<12x32x{element}>",
        f"tensor<32x20x{element}>",
        f"tensor<12x20x{result}>",
    )
    return f"""
    func.func @f(%{name}0: {lhs}, %{name}1: {rhs}) -> {out} {{
      %r = kn.matmul %{name}0, %{name}1 {precision} : ({lhs}, {rhs}) -> {out}
      func.return %r : {out}
    }}"""


def kernel_casts(element: str) -> str:
    """To a type and back, by kernels."""
    first, narrow = "tensor<6x40xf32>", f"tensor<6x40x{element}>"
    name = "whole" if element.startswith("i") else "signed"
    return f"""
    func.func @f(%{name}: {narrow}) -> ({first}, {narrow}) {{
      %w = kn.cast %{name} : {narrow} -> {first}
      %s = kn.mul_scalar %w by 0.75 : {first} -> {first}
      %n = kn.cast %s : {first} -> {narrow}
      func.return %s, %n : {first}, {narrow}
    }}"""


def all_cases() -> dict[str, str]:
    """Every case by name."""
    cases: dict[str, str] = {}
    for element in FLOATS:
        cases[f"product_{element}"] = product(element, element)
        cases[f"product_columns_{element}"] = product(element, "f32", columns_first=True)
        cases[f"product_few_threads_{element}"] = product(element, element, threads=20)
        cases[f"functions_{element}"] = function_and_sums(element)
        if element not in ("f16", "f32"):
            cases[f"casts_{element}"] = casts(element)
        if element != "f32":
            cases[f"kernel_casts_{element}"] = kernel_casts(element)
    cases["product_ieee"] = product("f32", "f32", precision="precision ieee", depth=20)
    cases["product_i8"] = product("i8", "i32")
    cases["product_columns_i8"] = product("i8", "i32", columns_first=True)
    cases["product_few_threads_i8"] = product("i8", "i32", threads=7, depth=12)
    cases["requantised"] = requantised()
    cases["integer_sums"] = integer_sums()
    cases["kernel_casts_i8"] = kernel_casts("i8")
    for element in ("f16", "bf16", "f32"):
        cases[f"library_{element}"] = library_product(element, element)
    cases["library_ieee"] = library_product("f32", "f32", "precision ieee")
    cases["library_i8"] = library_product("i8", "i32")
    return cases
