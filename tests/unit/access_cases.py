"""Schedules of one operator each, over the ways in which operators touch memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from mugraph.dialects import sched
from mugraph.dialects.cute.dialect import CuteDialect
from mugraph.dialects.sched import Sched
from mugraph.dialects.tb import Tb
from mugraph.passes.schedule.tile_values import name_registers, name_values

MMA = "SM80_16x8x16_F32F16F16F32_TN"


def shared(shape: str, layout: str) -> str:
    return f"!sched.shared<{shape}, {layout}>"


def device(shape: str, layout: str) -> str:
    return f"!sched.global<{shape}, {layout}>"


def linear(shape: str, partition: str) -> str:
    return f"!sched.tile<{shape}, #sched.linear<{partition}>>"


def tensor_core(shape: str, warps: str, atom: str = MMA) -> str:
    along = warps if warps.count(",") == 2 else f"{warps},1"
    return f"!sched.tile<{shape}, #cute.tiled_mma<{atom}, ({along})>>"


ATOMS = {
    "f16": MMA,
    "bf16": "SM80_16x8x16_F32BF16BF16F32_TN",
    "f32": "SM80_16x8x8_F32TF32TF32F32_TN",
    "f8E4M3FN": MMA,
    "f8E5M2": MMA,
    "i8": "SM80_16x8x32_S32S8S8S32_TN",
}


@dataclass(frozen=True)
class Case:
    """One operator on buffers ``%a``, ``%b`` ...; ``text`` says ``{a}`` for the type of ``%a``."""

    name: str
    threads: int
    text: str
    buffers: Sequence[str]

    def kernel(self, phase: str = "prologue") -> str:
        types = dict(zip("abcdef", self.buffers, strict=False))
        arguments = {name: type_ for name, type_ in types.items() if "global" in type_}
        places: list[str] = []
        for name, type_ in types.items():
            if "shared" in type_:
                places.append(f"%{name} = sched.alloc offset 0 : {type_}")
            elif "tile" in type_:
                places.append(f"%{name} = sched.empty : {type_}")
        text = self.text
        for name, type_ in types.items():
            text = text.replace("{" + name + "}", type_)
        signature = ", ".join(f"%{name}: {type_}" for name, type_ in arguments.items())
        return "\n".join(
            [
                f"sched.kernel @{self.name} inputs 0",
                f"grid [1, 1, 1] block [{self.threads}, 1, 1] {{",
                f"^bb0({signature}):" if signature else "",
                *places,
                f"sched.{phase} {{ {text} }}",
                "}",
            ]
        )


def copy(name: str, threads: int, by: str, source: str, destination: str, kind: str = "") -> Case:
    text = f"sched.copy {kind} %a to %b by <{by}> : {{a}} to {{b}}"
    return Case(f"copy_{name}", threads, text, [source, destination])


def elementwise(
    name: str, threads: int, by: str, function: str, *buffers: str, then: str = ""
) -> Case:
    names = "abcdef"[: len(buffers)]
    sources = ", ".join(f"%{letter}" for letter in names[:-1])
    types = ", ".join("{" + letter + "}" for letter in names[:-1])
    target = names[-1]
    text = f"sched.map {function} {sources} to %{target} {then} by <{by}> : {types} to {{{target}}}"
    return Case(f"elementwise_{name}", threads, text, buffers)


def reduce(name: str, threads: int, how: str, source: str, destination: str) -> Case:
    return Case(
        f"reduce_{name}",
        threads,
        f"sched.reduce %a to %b {how} : {{a}} to {{b}}",
        [source, destination],
    )


def product(
    name: str,
    threads: int,
    warps: str,
    lhs: str,
    rhs: str,
    result: str,
    ldmatrix: str = "true, true",
    atom: str | None = None,
) -> Case:
    text = f"sched.mma %a, %b to %c ldmatrix[{ldmatrix}] : {{a}}, {{b}} to {{c}}"
    element = lhs[lhs.index("<") + 1 : lhs.index(",")].rpartition("x")[2]
    fragment = tensor_core(result, warps, atom or ATOMS[element])
    return Case(f"mma_{name}", threads, text, [lhs, rhs, fragment])


def store(name: str, threads: int, fragment: str, destination: str, then: str = "") -> Case:
    text = f"sched.store %a to %b {then} : {{a}} to {{b}}"
    return Case(f"store_{name}", threads, text, [fragment, destination])


def load(name: str, threads: int, source: str, fragment: str) -> Case:
    return Case(f"load_{name}", threads, "sched.load %a to %b : {a} to {b}", [source, fragment])


def sum_parts(
    name: str, threads: int, by: str, source: str, destination: str, then: str = ""
) -> Case:
    by = "" if "sched.tile" in destination else f"by <{by}>"
    text = f"sched.reduce %a to %b {then} dim 0 contiguous {by} : {{a}} to {{b}}"
    return Case(f"sum_parts_{name}", threads, text, [source, destination])


def fill(name: str, threads: int, buffer: str) -> Case:
    return Case(f"fill_{name}", threads, "sched.fill %a with 1.0 : {a}", [buffer])


ROWS_16X64 = "(16,64):(64,1)"
SWIZZLED_16X64 = "S<3,3,3> o (16,64):(64,1)"
COLUMNS_16X64 = "(16,64):(1,16)"

CASES = [
    load(
        "lines_in_two_boxes",
        64,
        shared("64x128xf16", "S<3,3,3> o (64,(64,2)):(64,(1,4096))"),
        tensor_core("64x128xf16", "2, 1, 1"),
    ),
    load(
        "lines_of_warps",
        64,
        shared("32x32xf16", "S<2,3,3> o (32,32):(32,1)"),
        tensor_core("32x32xf16", "2, 1, 1"),
    ),
    load(
        "pairs",
        64,
        shared("32x24xf16", "(32,24):(26,1)"),
        tensor_core("32x24xf16", "2, 1, 1"),
    ),
    copy(
        "async_16",
        64,
        "64, vector 8, order [1, 0]",
        device("16x64xf16", "(16,64):(4096,1)"),
        shared("16x64xf16", SWIZZLED_16X64),
        "async",
    ),
    copy(
        "async_4_uneven",
        48,
        "48, vector 2, order [1, 0]",
        device("5x6xf16", "(5,6):(40,1)"),
        shared("5x6xf16", "(5,6):(8,1)"),
        "async",
    ),
    copy(
        "async_f32_scalar",
        32,
        "32, vector 1, order [0, 1]",
        device("5x6xf32", "(5,6):(7,1)"),
        shared("5x6xf32", "(5,6):(6,1)"),
        "async",
    ),
    copy(
        "widening",
        32,
        "32, vector 4, order [1, 0]",
        device("16x64xf16", ROWS_16X64),
        shared("16x64xf32", "S<3,2,5> o (16,64):(64,1)"),
    ),
    copy(
        "narrowing_to_device",
        32,
        "32, vector 4, order [1, 0]",
        shared("16x64xf32", ROWS_16X64),
        device("16x64xf16", "(16,64):(100,1)"),
    ),
    copy(
        "gather_to_rows",
        64,
        "64, vector 4, order [1, 0]",
        device("16x64xf16", COLUMNS_16X64),
        shared("16x64xf16", ROWS_16X64),
    ),
    copy(
        "fine_swizzle",
        64,
        "64, vector 8, order [1, 0]",
        device("16x64xf16", ROWS_16X64),
        shared("16x64xf16", "S<3,1,5> o (16,64):(64,1)"),
    ),
    copy(
        "scalars",
        96,
        "96, vector 1, order [0, 1]",
        device("7x9xf16", "(7,9):(9,1)"),
        shared("7x9xf16", "(7,9):(1,8)"),
    ),
    copy(
        "rank_3",
        64,
        "64, vector 4, order [2, 1, 0]",
        device("3x4x12xf16", "(3,4,12):(400,16,1)"),
        shared("3x4x12xf16", "(3,4,12):(64,16,1)"),
    ),
    copy(
        "long_vector",
        32,
        "32, vector 8, order [1, 0]",
        device("8x64xf16", "(8,64):(64,1)"),
        shared("8x64xf16", "S<1,3,3> o (8,64):(64,1)"),
    ),
    elementwise(
        "broadcasts",
        64,
        "64, vector 8, order [1, 0]",
        "div",
        shared("16x64xf16", SWIZZLED_16X64),
        shared("16x1xf16", "(16,1):(1,16)"),
        shared("16x64xf16", ROWS_16X64),
    ),
    elementwise(
        "broadcast_rows",
        64,
        "64, vector 4, order [1, 0]",
        "mul",
        shared("1x64xf16", "(1,64):(64,1)"),
        shared("16x64xf32", ROWS_16X64),
        shared("16x64xf32", "S<3,2,4> o (16,64):(64,1)"),
    ),
    elementwise(
        "same_twice",
        32,
        "32, vector 2, order [1, 0]",
        "add",
        shared("16x64xf16", ROWS_16X64),
        shared("16x64xf16", ROWS_16X64),
        shared("16x64xf16", COLUMNS_16X64),
    ),
    elementwise(
        "update",
        48,
        "48, vector 4, order [1, 0]",
        "exp",
        shared("10x20xf16", "(10,20):(24,1)"),
        shared("10x20xf32", "(10,20):(20,1)"),
        then="then [accum]",
    ),
    elementwise(
        "update_columns",
        32,
        "32, vector 1, order [0, 1]",
        "square",
        shared("10x20xf16", "(10,20):(24,1)"),
        shared("10x20xf32", "(10,20):(1,16)"),
        then="then [sqrt, accum]",
    ),
    elementwise(
        "to_registers",
        32,
        "32, vector 4, order [1, 0]",
        "square",
        shared("16x64xf16", SWIZZLED_16X64),
        linear("16x64xf32", "32, vector 4, order [1, 0]"),
        then="then [accum]",
    ),
    elementwise(
        "to_new_registers",
        32,
        "32, vector 2, order [0, 1]",
        "silu",
        shared("6x10xf32", "(6,10):(1,8)"),
        linear("6x10xf32", "32, vector 2, order [0, 1]"),
    ),
    reduce(
        "rows_in_vectors",
        128,
        "dim 1 contiguous lanes 8 by <128, vector 1, order [0, 1]>",
        shared("16x128xf32", "S<3,2,5> o (16,128):(128,1)"),
        shared("16x1xf16", "(16,1):(1,16)"),
    ),
    reduce(
        "rows_f16",
        64,
        "then [sqrt] dim 1 contiguous lanes 2 by <64, vector 1, order [0, 1]>",
        shared("16x64xf16", SWIZZLED_16X64),
        shared("16x1xf16", "(16,1):(1,16)"),
    ),
    reduce(
        "columns",
        64,
        "dim 0 contiguous lanes 1 by <64, vector 1, order [1, 0]>",
        shared("16x64xf16", SWIZZLED_16X64),
        shared("1x64xf16", "(1,64):(64,1)"),
    ),
    reduce(
        "groups",
        32,
        "dim 1 contiguous lanes 4 by <32, vector 1, order [1, 0]>",
        shared("6x64xf16", "(6,64):(72,1)"),
        shared("6x4xf32", "(6,4):(4,1)"),
    ),
    reduce(
        "strided_groups",
        32,
        "dim 1 strided lanes 4 by <32, vector 1, order [1, 0]>",
        shared("6x64xf16", "(6,64):(72,1)"),
        shared("6x4xf32", "(6,4):(4,1)"),
    ),
    reduce(
        "updated",
        96,
        "then [accum] dim 0 strided lanes 2 by <96, vector 1, order [1, 0]>",
        shared("12x10xf32", "(12,10):(10,1)"),
        shared("3x10xf32", "(3,10):(10,1)"),
    ),
    reduce(
        "odd_threads",
        50,
        "dim 1 contiguous lanes 4 by <50, vector 1, order [0, 1]>",
        shared("20x6xf16", "(20,6):(8,1)"),
        shared("20x1xf16", "(20,1):(1,24)"),
    ),
    reduce(
        "extent_1",
        32,
        "dim 1 contiguous lanes 1 by <32, vector 1, order [0, 1]>",
        shared("20x1xf16", "(20,1):(1,24)"),
        shared("20x1xf16", "(20,1):(1,24)"),
    ),
    reduce(
        "whole_warp",
        64,
        "dim 1 contiguous lanes 32 by <64, vector 1, order [0, 1]>",
        shared("3x512xf16", "(3,512):(512,1)"),
        shared("3x1xf32", "(3,1):(1,4)"),
    ),
    product(
        "rmsnorm",
        128,
        "1,4",
        shared("16x128xf16", "S<3,3,4> o (16,128):(128,1)"),
        shared("128x64xf16", "S<3,3,3> o (128,64):(64,1)"),
        "16x64xf32",
    ),
    product(
        "k_contiguous",
        128,
        "2,2",
        shared("64x32xf16", "S<2,3,3> o (64,32):(32,1)"),
        shared("32x64xf16", "S<2,3,3> o (32,64):(1,32)"),
        "64x64xf32",
    ),
    product(
        "transposed_both",
        64,
        "2,1",
        shared("40x32xf16", "(40,32):(1,40)"),
        shared("32x24xf16", "(32,24):(24,1)"),
        "40x24xf32",
    ),
    product(
        "tails",
        128,
        "2,2",
        shared("20x21xf16", "(20,21):(24,1)"),
        shared("21x12xf16", "(21,12):(1,24)"),
        "20x12xf32",
    ),
    product(
        "tails_transposed",
        96,
        "1,3",
        shared("20x21xf16", "(20,21):(1,24)"),
        shared("21x12xf16", "(21,12):(16,1)"),
        "20x12xf32",
    ),
    product(
        "tiny",
        64,
        "1,1",
        shared("1x8xf16", "(1,8):(8,1)"),
        shared("8x1xf16", "(8,1):(1,8)"),
        "1x1xf32",
    ),
    product(
        "short_k",
        64,
        "1,2",
        shared("16x5xf16", "(16,5):(8,1)"),
        shared("5x40xf16", "(5,40):(40,1)"),
        "16x40xf32",
    ),
    product(
        "elements",
        64,
        "2,1",
        shared("20x21xf16", "(20,21):(21,1)"),
        shared("21x12xf16", "(21,12):(12,1)"),
        "20x12xf32",
        "false, false",
    ),
    product(
        "bf16_transposed",
        64,
        "2,1",
        shared("40x32xbf16", "(40,32):(1,40)"),
        shared("32x24xbf16", "(32,24):(24,1)"),
        "40x24xf32",
    ),
    product(
        "tf32",
        128,
        "2,2",
        shared("40x20xf32", "(40,20):(20,1)"),
        shared("20x24xf32", "(20,24):(1,20)"),
        "40x24xf32",
    ),
    product(
        "tf32_swizzled",
        64,
        "1,2",
        shared("16x32xf32", "S<3,2,3> o (16,32):(32,1)"),
        shared("32x40xf32", "S<3,2,3> o (32,40):(1,32)"),
        "16x40xf32",
    ),
    product(
        "tf32_elements",
        64,
        "2,1",
        shared("20x13xf32", "(20,13):(13,1)"),
        shared("13x12xf32", "(13,12):(12,1)"),
        "20x12xf32",
        "false, false",
    ),
    product(
        "bytes",
        128,
        "2,2",
        shared("40x80xi8", "(40,80):(80,1)"),
        shared("80x24xi8", "(80,24):(1,80)"),
        "40x24xi32",
    ),
    product(
        "bytes_swizzled",
        64,
        "2,1",
        shared("64x128xi8", "S<3,4,3> o (64,128):(128,1)"),
        shared("128x16xi8", "S<3,4,3> o (128,16):(1,128)"),
        "64x16xi32",
    ),
    product(
        "bytes_elements",
        32,
        "1,1",
        shared("20x37xi8", "(20,37):(1,20)"),
        shared("37x12xi8", "(37,12):(12,1)"),
        "20x12xi32",
        "false, false",
    ),
    product(
        "f8",
        64,
        "1,2",
        shared("20x37xf8E4M3FN", "(20,37):(37,1)"),
        shared("37x12xf8E4M3FN", "(37,12):(12,1)"),
        "20x12xf32",
        "false, false",
    ),
    product(
        "threads",
        20,
        "3,5",
        shared("10x9xf16", "(10,9):(9,1)"),
        shared("9x12xf16", "S<1,2,2> o (9,12):(12,1)"),
        "10x12xf32",
        "false, false",
        "UniversalFMA_F32",
    ),
    product(
        "threads_of_integers",
        33,
        "16,2",
        shared("40x21xi8", "(40,21):(1,40)"),
        shared("21x3xi8", "(21,3):(3,1)"),
        "40x3xi32",
        "false, false",
        "UniversalFMA_S32",
    ),
    product(
        "batch_of_one",
        32,
        "1,1",
        shared("1x16x16xf16", "(1,16,16):(256,16,1)"),
        shared("1x16x8xf16", "(1,16,8):(128,8,1)"),
        "1x16x8xf32",
    ),
    product(
        "padded_shift",
        128,
        "4,1",
        shared("64x48xf16", "(64,48):(56,1)"),
        shared("48x24xf16", "(48,24):(1,56)"),
        "64x24xf32",
    ),
    product(
        "warps_along_k",
        128,
        "1,1,4",
        shared("16x128xf16", "S<3,3,4> o (16,128):(128,1)"),
        shared("128x64xf16", "S<3,3,3> o (128,64):(64,1)"),
        "4x16x64xf32",
    ),
    product(
        "uneven_steps_along_k",
        256,
        "1,2,3",
        shared("20x88xf16", "(20,88):(88,1)"),
        shared("88x24xf16", "(88,24):(24,1)"),
        "3x20x24xf32",
    ),
    product(
        "elements_along_k",
        128,
        "2,1,2",
        shared("20x50xbf16", "(20,50):(51,1)"),
        shared("50x12xbf16", "(50,12):(1,53)"),
        "2x20x12xf32",
        "false, false",
    ),
    store(
        "parts",
        128,
        tensor_core("4x16x64xf32", "1,1,4"),
        shared("4x16x64xf32", "S<2,3,3> o (4,16,64):(1024,64,1)"),
    ),
    store(
        "parts_close_together",
        192,
        tensor_core("3x20x14xf32", "1,2,3"),
        shared("3x20x14xf32", "S<2,3,3> o (3,20,14):(280,14,1)"),
    ),
    store(
        "odd_parts",
        64,
        tensor_core("2x5x9xf32", "1,1,2"),
        shared("2x5x9xf32", "(2,5,9):(45,9,1)"),
    ),
    sum_parts(
        "whole_periods",
        128,
        "128, vector 4, order [1, 0]",
        shared("4x16x64xf32", "S<2,3,3> o (4,16,64):(1024,64,1)"),
        shared("16x64xf16", ROWS_16X64),
    ),
    sum_parts(
        "parts_of_a_period",
        64,
        "64, vector 2, order [1, 0]",
        shared("3x20x14xf32", "S<2,3,3> o (3,20,14):(280,14,1)"),
        shared("20x14xf32", "(20,14):(14,1)"),
        "then [relu, accum]",
    ),
    sum_parts(
        "by_columns",
        64,
        "64, vector 1, order [0, 1]",
        shared("2x5x9xf32", "(2,5,9):(45,9,1)"),
        shared("5x9xf16", "(5,9):(1,5)"),
    ),
    sum_parts(
        "to_registers",
        64,
        "64, vector 4, order [1, 0]",
        shared("2x16x64xf32", "(2,16,64):(1024,64,1)"),
        linear("16x64xf32", "64, vector 4, order [1, 0]"),
    ),
    store("pairs", 128, tensor_core("16x64xf32", "1,4"), shared("16x64xf16", SWIZZLED_16X64)),
    store("pairs_f32", 128, tensor_core("20x24xf32", "2,2"), shared("20x24xf32", "(20,24):(24,1)")),
    store("bytes", 64, tensor_core("20x14xf32", "1,2"), shared("20x14xf8E5M2", "(20,14):(14,1)")),
    store(
        "integers",
        64,
        tensor_core("20x14xi32", "1,2", ATOMS["i8"]),
        shared("20x14xi32", "(20,14):(14,1)"),
    ),
    store(
        "threads",
        24,
        tensor_core("10x14xf32", "5,4", "UniversalFMA_F32"),
        shared("10x14xbf16", "(10,14):(14,1)"),
    ),
    store("scalars", 64, tensor_core("20x13xf32", "1,2"), shared("20x13xf16", "(20,13):(13,1)")),
    store("columns", 64, tensor_core("20x12xf32", "2,1"), shared("20x12xf16", "(20,12):(1,24)")),
    store(
        "update",
        128,
        tensor_core("16x24xf32", "1,2"),
        shared("16x24xf32", "(16,24):(24,1)"),
        "then [exp, accum]",
    ),
    store(
        "odd_swizzle",
        32,
        tensor_core("16x16xf32", "1,1"),
        shared("16x16xf16", "S<2,0,4> o (16,16):(16,1)"),
    ),
    store("one_column", 32, tensor_core("16x1xf32", "1,1"), shared("16x1xf16", "(16,1):(1,16)")),
    store(
        "linear",
        32,
        linear("16x64xf32", "32, vector 4, order [1, 0]"),
        shared("16x64xf32", "S<3,2,4> o (16,64):(64,1)"),
    ),
    store(
        "linear_f16_columns",
        48,
        linear("16x64xf32", "48, vector 2, order [1, 0]"),
        shared("16x64xf16", COLUMNS_16X64),
    ),
    store(
        "linear_two_words",
        32,
        linear("16x64xf32", "32, vector 8, order [1, 0]"),
        shared("16x64xf32", ROWS_16X64),
    ),
    fill("f16", 96, shared("5x6xf16", "(5,6):(8,1)")),
    fill("f32", 32, shared("16x64xf32", "S<3,2,4> o (16,64):(64,1)")),
]


def context() -> Context:
    result = Context()
    for dialect in (Builtin, Func, CuteDialect, Tb, Sched):
        result.load_dialect(dialect)
    return result


def parse(text: str) -> ModuleOp:
    """A module whose kernels may name tiles by the registers that they are in."""
    module = Parser(context(), text).parse_module()
    for op in module.walk():
        if isinstance(op, sched.KernelOp):
            name_registers(op)
            name_values(op)
    module.verify()
    return module
