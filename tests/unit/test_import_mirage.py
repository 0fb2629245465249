import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mirage_json import BFLOAT16, MirageGraph, MirageThreadblockGraph, Record, rmsnorm_linear
from thorough import THOROUGH
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.parser import Parser

from mugraph.dialects.cute.dialect import CuteDialect
from mugraph.dialects.kn import Kn
from mugraph.dialects.tb import Tb
from mugraph.tools.import_mirage import MirageImportError, import_mirage

SAVED = Path(
    os.environ.get("MUGRAPH_SAVED_MUGRAPHS", Path(__file__).parents[3] / "shared" / "mugraphs")
)

REPLACEMENTS = (-7, "x", 10**30)
"""What a document may have where a field stands that should be something else."""


def imported(document: Any, *arguments: Any) -> ModuleOp:
    module, _ = import_mirage(json.dumps(document), *arguments)
    return module


def message(document: Any, *arguments: Any) -> str:
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(MirageImportError) as error:
        import_mirage(text, *arguments)
    return str(error.value)


def parsed(text: str) -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Func, CuteDialect, Kn, Tb):
        context.load_dialect(dialect)
    return Parser(context, text).parse_module()


RMSNORM_LINEAR = """
!x = tensor<16x64xf16, #cute.layout<(16,64):(64,1)>>
!w = tensor<64x32xf16, #cute.layout<(64,32):(32,1)>>
!y = tensor<16x32xf16, #cute.layout<(16,32):(32,1)>>
func.func @mugraph(%x: !x, %w: !w) -> !y {
  %y = kn.customized %x, %w grid [4, 1, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: !x, %dw: !w):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : !x -> !tb.stensor<16x32xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : !w -> !tb.stensor<32x8xf16>
    %m = tb.matmul %sx, %sw
      : (!tb.stensor<16x32xf16>, !tb.stensor<32x8xf16>) -> !tb.stensor<16x8xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x8xf16> -> !tb.stensor<16x8xf16>
    %ar = tb.forloop_accum rms %sx : !tb.stensor<16x32xf16> -> !tb.stensor<16x1xf16>
    %d = tb.div %am, %ar
      : (!tb.stensor<16x8xf16>, !tb.stensor<16x1xf16>) -> !tb.stensor<16x8xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<16x8xf16> -> !y
  } : (!x, !w) -> !y
  func.return %y : !y
}
"""


def test_a_data_type_that_no_tensor_has_is_refused_where_it_stands():
    said = message(rmsnorm_linear(3), None, 1)
    assert said.startswith("operator 0 (kn_input_op), output_tensors[0].data_type: the data type")


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_each_generation_means_the_same(generation: int):
    module = imported(rmsnorm_linear(generation), None, generation)
    assert module.is_structurally_equivalent(parsed(RMSNORM_LINEAR))


def test_values_are_named_by_their_guids():
    text = str(imported(rmsnorm_linear()))
    assert "%dtensor10000003: tensor<16x64xf16" in text
    assert "%stensor20000007 = tb.input %dtensor10000003" in text


def test_the_symbol_becomes_an_identifier():
    module, _ = import_mirage(json.dumps(rmsnorm_linear()), symbol="my graph-µ.1")
    assert "func.func @my_graph___1(" in str(module)


def kernel_level(
    kind: str, *shapes: tuple[int, ...], result: tuple[int, ...], **more: Any
) -> list[Record]:
    graph = MirageGraph()
    operands = [graph.input(*shape, strides=()) for shape in shapes]
    tensor = graph.dtensor(*result)
    graph.add(kind, operands, [tensor], **more)
    graph.output(tensor)
    return graph.operators


UNARY = ["exp", "silu", "square", "sqrt", "gelu", "sigmoid", "relu", "log"]


@pytest.mark.parametrize("name", UNARY)
def test_kernel_level_unary_operators(name: str):
    text = str(imported(kernel_level(f"kn_{name}_op", (4, 8), result=(4, 8))))
    # No strides in the file, so no layout in the types.
    assert f"= kn.{name} %dtensor10000003 : tensor<4x8xf16> -> tensor<4x8xf16>" in text


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow"])
def test_kernel_level_binary_operators(name: str):
    text = str(imported(kernel_level(f"kn_{name}_op", (4, 8), (4, 1), result=(4, 8))))
    assert f"= kn.{name} %dtensor10000003, %dtensor10000006 :" in text


def test_kernel_level_matmul():
    text = str(imported(kernel_level("kn_matmul_op", (2, 4, 8), (2, 8, 3), result=(2, 4, 3))))
    assert "= kn.matmul %dtensor10000003, %dtensor10000006 :" in text


def in_loop(
    kind: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], **more: Any
) -> list[Record]:
    """An operator on whole tensors in one block, its result accumulated and stored."""
    graph = MirageGraph()
    dtensors = [graph.input(*shape) for shape in shapes]
    body = MirageThreadblockGraph(grid=(1, 1, 1), forloop_range=1)
    tiles = [
        body.input(tensor, (-1, -1, -1), -1, *shape)
        for tensor, shape in zip(dtensors, shapes, strict=True)
    ]
    value = body.add(kind, tiles, *result, **more)
    if not value["after_accum"]:
        value = body.add("accum_nored_op", [value], *result)
    output = graph.dtensor(*result)
    body.output(value, output, (-1, -1, -1))
    graph.customized(body, dtensors, [output])
    graph.output(output)
    return graph.operators


@pytest.mark.parametrize("name", [*UNARY, "rms_norm"])
def test_threadblock_unary_operators(name: str):
    text = str(imported(in_loop(f"tb_{name}_op", [(4, 16)], (4, 16))))
    assert f"= tb.{name} %stensor20000007 :" in text


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_threadblock_binary_operators(name: str):
    text = str(imported(in_loop(f"tb_{name}_op", [(4, 16), (4, 1)], (4, 16))))
    assert f"= tb.{name} %stensor20000007, %stensor20000014 :" in text


@pytest.mark.parametrize(
    ("kind", "result", "op"),
    [
        ("accum_nored_op", (4, 16), "tb.forloop_accum none"),
        ("accum_red_ld_sum_op", (4, 1), "tb.forloop_accum sum"),
        ("accum_red_ld_rms_op", (4, 1), "tb.forloop_accum rms"),
        ("accum_red_ld_mean_op", (4, 1), "tb.forloop_accum mean"),
        ("accum_max_op", (4, 16), "tb.forloop_accum max"),
        ("accum_redtox_ld_sum_op", (4, 8), "tb.forloop_accum_sum_to_dimx_strided"),
    ],
)
def test_accumulators(kind: str, result: tuple[int, ...], op: str):
    assert f"= {op} %stensor20000007 :" in str(imported(in_loop(kind, [(4, 16)], result)))


@pytest.mark.parametrize(
    ("kind", "result", "op"),
    [
        ("accum_nored_rescale_op", (4, 16), "none"),
        ("accum_red_ld_sum_rescale_op", (4, 1), "sum"),
    ],
)
def test_rescaled_accumulators(kind: str, result: tuple[int, ...], op: str):
    text = str(imported(in_loop(kind, [(4, 16), (4, 1)], result)))
    assert f"= tb.forloop_accum_rescale {op} %stensor20000007 by %stensor20000014 :" in text


def test_norms_of_tiles():
    text = str(imported(in_loop("tb_rms_norm_op", [(4, 16), (1, 16)], (4, 16), epsilon=0.25)))
    assert "= tb.rms_norm %stensor20000007 weight %stensor20000014 epsilon 2.500000e-01 :" in text
    three = in_loop("tb_rms_norm_op", [(4, 16), (1, 16), (1, 16)], (4, 16))
    assert "holds 3 tensors; expected 1, or 2 with a weight." in message(three)


def test_splits():
    document = in_loop("tb_split_1_op", [(4, 16)], (4, 8))
    (split,) = (op for op in document[1]["bgraph"]["operators"] if op["op_type"] == "tb_split_1_op")
    split["output_tensors"].append({**split["output_tensors"][0], "guid": 20000777})
    text = str(imported(document))
    assert "%stensor20000014, %stensor20000777 = tb.split %stensor20000007 dim 1 :" in text
    split["split_dim"] = 0
    assert message(document).endswith("split_dim: 0 does not fit the op_type; expected 1.")


def test_concats():
    shapes = [(4, 16), (4, 8)]
    document = in_loop("tb_concat_1_op", shapes, (4, 24), concat_dim=1)
    text = str(imported(document))
    assert "= tb.concat %stensor20000007, %stensor20000014 dim 1 :" in text
    document = in_loop("tb_concat_1_op", shapes, (4, 24), concat_dim=0)
    assert message(document).endswith("concat_dim: 0 does not fit the op_type; expected 1.")
    shapes = [(4, 16), (4, 8), (16, 3), (8, 3)]
    text = str(imported(in_loop("tb_concat_then_matmul_op", shapes, (4, 3))))
    assert "= tb.concat_then_matmul %stensor20000007, %stensor20000014, %stensor20000021" in text


def test_running_maxima():
    document = in_loop("tb_reduction_1_max_op", [(4, 16)], (4, 1), reduce_dim=1, reduce_size=-1)
    operators = document[1]["bgraph"]["operators"]
    maximum = next(op for op in operators if op["op_type"] == "tb_reduction_1_max_op")
    (first,) = maximum["output_tensors"]
    maximum["output_tensors"].append({**first, "guid": 20000777})
    text = str(imported(document))
    assert "%stensor20000014, %stensor20000777 = tb.reduction_max %stensor20000007 dim 1 :" in text
    maximum["reduce_dim"] = 0
    assert message(document).endswith("reduce_dim: 0 does not fit the op_type; expected 1.")


def test_reductions():
    document = in_loop("tb_reduction_0_op", [(4, 16)], (1, 16), reduce_dim=0, reduce_size=1)
    assert "= tb.reduction %stensor20000007 dim 0 :" in str(imported(document))
    document = in_loop("tb_reduction_1_to_dimx_op", [(4, 16)], (4, 8), reduce_dim=1, reduce_size=8)
    assert "= tb.reduction_to_dimx_strided %stensor20000007 dim 1 :" in str(imported(document))


def test_containers():
    one, other = rmsnorm_linear(), in_loop("tb_exp_op", [(4, 16)], (4, 16))
    assert imported([one], 0).is_structurally_equivalent(imported(one))
    assert imported([one]).is_structurally_equivalent(imported(one, 0))
    assert imported([one, other], 1).is_structurally_equivalent(imported(other))
    assert message([one, other]) == "the file holds 2 graphs; say which one with --index 0 to 1."
    assert (
        message([one, other], 2) == "the file holds 2 graphs; there is no --index 2, only 0 to 1."
    )
    assert message([one], -1) == "the file holds one graph; there is no --index -1, only 0 to 0."
    assert message(one, 1) == "the file holds one graph; there is no --index 1, only 0 to 0."
    assert message([]) == "the file: the list is empty; there is no graph in it."
    assert message({}).startswith("the file: expected a list of operators or a list of graphs")
    assert message([one, {}], 1) == "the file: graph 1 is not a list of operators."
    assert message([[]]) == "the file: the graph has no kn_output_op, so no result."


def data_types(*codes: int, accumulator: str = "") -> list[Record]:
    """A document with these data types, and an accumulator's name, of which only that matters."""
    graph = MirageGraph()
    for code in codes:
        graph.data_type = code
        graph.output(graph.input(4))
    document = graph.operators
    if accumulator:
        document = [*document, {"op_type": accumulator}]
    return document


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_numbers_mean_types_by_generation(generation: int):
    graph = MirageGraph(generation, BFLOAT16[generation])
    graph.output(graph.input(4, 8, strides=()))
    assert "tensor<4x8xbf16>" in str(imported(graph.operators, None, generation))


def test_generations_are_told_apart():
    module, notes = import_mirage(json.dumps(data_types(920, 921)))
    assert "bf16" in str(module) and not notes
    assert "xf32" in str(imported(data_types(950)))

    module, notes = import_mirage(json.dumps(data_types(940)))
    assert "xf16" in str(module)
    assert notes == [
        "the data types 940 fit generations 2 and 3 of the format; taking 3, in which 940 is "
        "FLOAT16 and 941 is BFLOAT16 (--generation 2 takes them the other way round)."
    ]

    # Accumulators were renamed within generation 2, so the old name with a new number is that one.
    old = in_loop("accum_nored_op", [(4, 16)], (4, 16))
    as_second = json.loads(json.dumps(old).replace("921", "941"))
    module, notes = import_mirage(json.dumps(as_second))
    assert "xf16" in str(module) and not notes
    as_third = json.loads(json.dumps(as_second).replace("tb_accum", "tb_forloop_accum"))
    module, notes = import_mirage(json.dumps(as_third))
    assert "xbf16" in str(module) and len(notes) == 1


def test_generations_that_nothing_tells_apart():
    # FLOAT32 in generation 1, FLOAT8 later.
    assert message(data_types(930)) == (
        "the data types 930 mean different types in generation 1 of the format and later; say "
        "--generation 1, 2 or 3."
    )
    assert "xf32" in str(imported(data_types(930), None, 1))
    assert message(data_types(921, 941)).startswith(
        "the data types 921, 941 and the names of the accumulators belong to no one generation"
    )
    assert message(data_types(921), None, 3) == (
        "operator 0 (kn_input_op), output_tensors[0].data_type: 921 is no data type of generation "
        "3 of the format (--generation 1 knows it)."
    )
    assert message(data_types(999)) == (
        "operator 0 (kn_input_op), output_tensors[0].data_type: 999 is no data type of generation "
        "3 of the format."
    )
    assert message(data_types(936)) == (
        "operator 0 (kn_input_op), output_tensors[0].data_type: the data type 936, UINT8, is not "
        "supported."
    )
    assert "xi8" in str(imported(data_types(935)))
    assert "xf8E4M3FN" in str(imported(data_types(930), None, 3))


CUSTOMIZED = "operator 2 (kn_customized_op)"
Change = Callable[[list[Record]], object]


def body_of(document: list[Record]) -> list[Record]:
    return document[2]["bgraph"]["operators"]


def setting(*path: int | str, to: Any) -> Change:
    def change(document: list[Record]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = to

    return change


def deleting(*path: int | str) -> Change:
    def change(document: list[Record]) -> None:
        place: Any = document
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return change


BODY = (2, "bgraph", "operators")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # Kernel level.
        (
            setting(0, "op_type", to="kn_magic_op"),
            "operator 0 (kn_magic_op), op_type: 'kn_magic_op' is no kernel-level operator.",
        ),
        (setting(0, to=5), "operator 0: expected an object, found the number 5."),
        (deleting(0, "op_type"), "operator 0: the field 'op_type' is missing."),
        (setting(0, "op_type", to=7), "operator 0.op_type: expected a string, found the number 7."),
        (
            deleting(1, "output_tensors"),
            "operator 1 (kn_input_op): the field 'output_tensors' is missing.",
        ),
        (
            setting(1, "output_tensors", to=[]),
            "operator 1 (kn_input_op), output_tensors: holds 0 tensors; expected 1.",
        ),
        (
            setting(1, "output_tensors", to={}),
            "operator 1 (kn_input_op), output_tensors: expected a list, found an object.",
        ),
        (
            setting(0, "input_map", "y", to=0),
            "operator 0 (kn_input_op), input_map: this tensor is cut over several GPUs, and the "
            "file does not say how many there are; give --mesh, such as 4 or 2x2.",
        ),
        (
            setting(3, "output_map", "x", to=1),
            "operator 3 (kn_output_op), output_map: this tensor is cut over several GPUs, and the "
            "file does not say how many there are; give --mesh, such as 4 or 2x2.",
        ),
        (
            setting(0, "input_strides", to=[64]),
            "operator 0 (kn_input_op), input_strides: 1 strides "
            "for a tensor of 16x64; one a dimension is expected.",
        ),
        (
            setting(0, "input_strides", to=[32, 1]),
            "operator 0 (kn_input_op), input_strides: with "
            "strides [32, 1] elements of a tensor of 16x64 overlap.",
        ),
        (
            setting(0, "input_strides", to=[64, 0]),
            "operator 0 (kn_input_op), input_strides[1]: 0 is too small; expected at least 1.",
        ),
        (
            setting(0, "input_strides", to=[64, True]),
            "operator 0 (kn_input_op), input_strides[1]: expected an integer, found true.",
        ),
        # Tensor records.
        (
            setting(0, "output_tensors", 0, "num_dims", to=5),
            "operator 0 (kn_input_op), "
            "output_tensors[0].num_dims: a tensor has 1 to 4 dimensions, not 5.",
        ),
        (
            setting(0, "output_tensors", 0, "dim", to=[16, 64, 2, 0]),
            "operator 0 (kn_input_op), output_tensors[0].dim: has extents beyond its 2 dimensions.",
        ),
        (
            setting(0, "output_tensors", 0, "dim", to=[16]),
            "operator 0 (kn_input_op), "
            "output_tensors[0].dim: 1 extents for 2 dimensions; one each is expected.",
        ),
        (
            setting(0, "output_tensors", 0, "dim", 0, to=0),
            "operator 0 (kn_input_op), "
            "output_tensors[0].dim[0]: 0 is too small; expected at least 1.",
        ),
        (
            setting(0, "output_tensors", 0, "dim", 0, to=1.5),
            "operator 0 (kn_input_op), "
            "output_tensors[0].dim[0]: expected an integer, found the number 1.5.",
        ),
        (
            setting(0, "output_tensors", 0, "layout", to="DmemColumnMajor"),
            "operator 0 (kn_input_op), output_tensors[0].layout: DmemColumnMajor is not supported.",
        ),
        (
            setting(0, "output_tensors", 0, "layout", to="Zigzag"),
            "operator 0 (kn_input_op), "
            "output_tensors[0].layout: 'Zigzag' is no layout; expected DmemRowMajor, "
            "DmemColumnMajor, "
            "DmemUnknownLayout.",
        ),
        (
            setting(1, "output_tensors", 0, "guid", to=10000003),
            "operator 1 (kn_input_op), output_tensors[0].guid: DTensor 10000003 is defined twice.",
        ),
        (
            setting(3, "input_tensors", 0, "guid", to=5),
            "operator 3 (kn_output_op), "
            "input_tensors[0].guid: no operator before this one makes the DTensor 5.",
        ),
        (
            setting(3, "input_tensors", 0, "dim", 0, to=8),
            "operator 3 (kn_output_op), "
            "input_tensors[0].dim: DTensor 10000009 has 8x32 here, but 16x32 where it is made.",
        ),
        (
            setting(3, "input_tensors", 0, "data_type", to=920),
            "operator 3 (kn_output_op), "
            "input_tensors[0].data_type: DTensor 10000009 is of bf16 here, but of f16 where it is "
            "made.",
        ),
        # The threadblock graph.
        (deleting(2, "bgraph"), f"{CUSTOMIZED}: the field 'bgraph' is missing."),
        (
            setting(2, "bgraph", "graph_level", to="kernel_graph"),
            f"{CUSTOMIZED}, bgraph.graph_level: 'kernel_graph' is not 'thread_block_graph'.",
        ),
        (
            deleting(2, "bgraph", "grid_dim", "z"),
            f"{CUSTOMIZED}, bgraph.grid_dim: the field 'z' is missing.",
        ),
        (
            setting(2, "bgraph", "forloop_range", to=0),
            f"{CUSTOMIZED}, bgraph.forloop_range: 0 is too small; expected at least 1.",
        ),
        (
            setting(2, "bgraph", "block_dim", "x", to=2048),
            f"{CUSTOMIZED}, bgraph.block_dim: a block of 2048 threads; the hardware allows 1024.",
        ),
        (
            setting(2, "bgraph", "grid_dim", "y", to=65536),
            f"{CUSTOMIZED}, bgraph.grid_dim.y: 65536 blocks; the hardware allows 65535.",
        ),
        (
            setting(2, "bgraph", "grid_dim", "x", to=3),
            f"{CUSTOMIZED}, threadblock operator 1 "
            "(tb_input_op), output_tensors[0].dim: the tile has 32x8, but the maps cut 32x11 from "
            "a tensor of 64x32.",
        ),
        (
            setting(*BODY, 2, "op_type", to="tb_magic_op"),
            f"{CUSTOMIZED}, threadblock operator 2 "
            "(tb_magic_op), op_type: 'tb_magic_op' is no threadblock operator.",
        ),
        (setting(*BODY, to=3), f"{CUSTOMIZED}: expected a list of operators, found the number 3."),
        # Inputs and outputs, and what they are bound to.
        (
            setting(*BODY, 0, "dtensor", "guid", to=10000006),
            f"{CUSTOMIZED}, threadblock operator 0 "
            "(tb_input_op), dtensor.guid: 10000006 differs from the 10000003 of "
            "input_tensors[0] of "
            "the kn_customized_op, to which this tb_input_op is bound.",
        ),
        (
            setting(*BODY, 0, "dtensor", "dim", to=[16, 32, 0, 0]),
            f"{CUSTOMIZED}, threadblock "
            "operator 0 (tb_input_op), dtensor.dim: [16, 32, 0, 0] differs from the [16, 64, 0, "
            "0] of "
            "input_tensors[0] of the kn_customized_op, to which this tb_input_op is bound.",
        ),
        (
            deleting(2, "input_tensors", 1),
            f"{CUSTOMIZED}, threadblock operator 1 (tb_input_op), "
            "op_type: the threadblock graph has more tb_input_op than input_tensors of its "
            "kn_customized_op holds tensors (1); the i-th is bound to the i-th.",
        ),
        (
            deleting(*BODY, 6),
            f"{CUSTOMIZED}, output_tensors: holds 1 tensors, but the threadblock "
            "graph has 0 tb_output_op; the i-th tensor is bound to the i-th of them.",
        ),
        (
            setting(*BODY, 0, "input_map", "x", to=2),
            f"{CUSTOMIZED}, threadblock operator 0 "
            "(tb_input_op), input_map: imap maps grid axis x to dimension 2, but the tensor has "
            "rank "
            "2: expected -1 (replicated) or 0 to 1.",
        ),
        (
            setting(*BODY, 0, "output_tensors", 0, "dim", 1, to=64),
            f"{CUSTOMIZED}, threadblock "
            "operator 0 (tb_input_op), output_tensors[0].dim: the tile has 16x64, but the maps cut "
            "16x32 from a tensor of 16x64.",
        ),
        (
            setting(*BODY, 6, "output_map", "x", to=0),
            f"{CUSTOMIZED}, threadblock operator 6 "
            "(tb_output_op), input_tensors[0].dim: the tile has 16x8, but the maps cut 4x32 from a "
            "tensor of 16x32.",
        ),
        # Operators of the body.
        (
            setting(*BODY, 2, "input_tensors", 1, "guid", to=3),
            f"{CUSTOMIZED}, threadblock operator "
            "2 (tb_matmul_op), input_tensors[1].guid: no operator before this one makes the "
            "STensor "
            "3.",
        ),
        (
            deleting(*BODY, 5, "input_tensors", 1),
            f"{CUSTOMIZED}, threadblock operator 5 "
            "(tb_div_op), input_tensors: holds 1 tensors; expected 2.",
        ),
        (
            setting(*BODY, 4, "output_tensors", 0, "after_accum", to=False),
            f"{CUSTOMIZED}, "
            "threadblock operator 4 (tb_accum_red_ld_rms_op), output_tensors[0].after_accum: this "
            "value is made after the accumulators.",
        ),
        (
            setting(*BODY, 4, "output_tensors", 0, "after_accum", to=1),
            f"{CUSTOMIZED}, threadblock "
            "operator 4 (tb_accum_red_ld_rms_op), output_tensors[0].after_accum: expected true or "
            "false, found the number 1.",
        ),
    ],
)
def test_errors_name_the_operator_and_the_field(change: Change, expected: str):
    document = copy.deepcopy(rmsnorm_linear())
    change(document)
    assert message(document) == expected


def test_results_of_another_shape_are_refused():
    document = in_loop("tb_matmul_op", [(4, 16), (16, 8)], (4, 16))
    assert message(document) == (
        "operator 2 (kn_customized_op), threadblock operator 2 (tb_matmul_op): 'tb.matmul' "
        "%stensor20000021: the result has 4x16, expected 4x8."
    )
    document = kernel_level("kn_add_op", (4, 8), (4, 2), result=(4, 8))
    assert message(document).startswith("operator 2 (kn_add_op): 'kn.add'")
    document = in_loop("accum_redtox_ld_sum_op", [(4, 16)], (4, 4))
    assert message(document) == (
        "operator 1 (kn_customized_op), threadblock operator 1 (tb_accum_redtox_ld_sum_op), "
        "output_tensors[0].dim: the last extent is 4, but the graph's reduction_dimx is 8."
    )
    document = in_loop("tb_reduction_1_op", [(4, 16)], (4, 1), reduce_dim=0, reduce_size=1)
    assert message(document) == (
        "operator 1 (kn_customized_op), threadblock operator 1 (tb_reduction_1_op), reduce_dim: 0 "
        "does not fit the op_type; expected 1."
    )


def test_kernels_on_whole_tensors():
    summed = imported(kernel_level("kn_reduction_1_op", (4, 8), result=(4, 2)))
    assert "kn.reduction %dtensor10000003 dim 1 : tensor<4x8xf16> -> tensor<4x2xf16>" in str(summed)
    joined = imported(kernel_level("kn_concat_0_op", (4, 8), (2, 8), result=(6, 8)))
    assert "kn.concat %dtensor10000003, %dtensor10000006 dim 0" in str(joined)
    everywhere = imported(kernel_level("kn_allreduce_op", (4, 8), result=(4, 8), inplace=True))
    assert "kn.all_reduce %dtensor10000003 inplace" in str(everywhere)


def test_kernel_level_norms():
    plain = imported(kernel_level("kn_rms_norm_op", (4, 8), result=(4, 8)))
    assert "kn.rms_norm %dtensor10000003 over [8] : (" in str(plain)
    whole = kernel_level("kn_rms_norm_op", (4, 8), result=(4, 8), normalized_shape=[4, 8])
    assert "over [4, 8] : (" in str(imported(whole))
    weighted = kernel_level("kn_rms_norm_op", (4, 8), (8,), result=(4, 8), epsilon=0.5)
    assert "weight %dtensor10000006 over [8] epsilon 5.000000e-01" in str(imported(weighted))
    three = kernel_level("kn_rms_norm_op", (4, 8), (8,), (8,), result=(4, 8))
    assert "holds 3 tensors; expected 1, or 2 with a weight." in message(three)


@pytest.mark.parametrize("kind", ["chunk", "split"])
def test_parts_of_tensors(kind: str):
    graph = MirageGraph()
    x = graph.input(4, 8)
    parts = [graph.dtensor(4, 4), graph.dtensor(4, 4)]
    graph.add(f"kn_{kind}_1_op", [x], parts, chunk_size=2, chunk_dim=1)
    graph.output(parts[1])
    assert f"kn.{kind} %dtensor10000003 dim 1 : (tensor<4x8xf16" in str(imported(graph.operators))
    graph.operators[1] |= {"chunk_size": 3, "chunk_dim": 0, "split_dim": 0}
    expected = {
        "chunk": "output_tensors: holds 2 tensors; expected 3.",
        "split": "split_dim: 0 does not fit the op_type; expected 1.",
    }[kind]
    assert expected in message(graph.operators)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("tb_customized_op", "mugraph has no such threadblock operator."),
    ],
)
def test_known_but_unsupported_threadblock_operators(kind: str, reason: str):
    expected = (
        f"operator 1 (kn_customized_op), threadblock operator 1 ({kind}), op_type: unsupported: "
        f"{reason}"
    )
    assert expected in message(in_loop(kind, [(4, 16)], (4, 16)), None, 1)


@pytest.mark.parametrize("level", ["kn", "tb"])
def test_constants_are_fields_that_mirage_does_not_write(level: str):
    make = {
        "kn": lambda kind, **more: kernel_level(kind, (4, 16), result=(4, 16), **more),
        "tb": lambda kind, **more: in_loop(kind, [(4, 16)], (4, 16), **more),
    }[level]
    for kind, missing in (("mul_scalar", "scalar"), ("clamp", "low")):
        assert (
            f"({level}_{kind}_op), op_type: Mirage does not save the constants of a {kind}; add "
            f"the field '{missing}' with the number that is meant."
        ) in message(make(f"{level}_{kind}_op"), None, 1)
    wrong = make(f"{level}_clamp_op", low=-1, high="six")
    assert "high: expected a number, found the string 'six'." in message(wrong, None, 1)


def test_constants_are_read():
    scaled = kernel_level("kn_mul_scalar_op", (4, 16), result=(4, 16), scalar=0.5)
    assert "by 5.000000e-01" in str(imported(scaled))
    clamped = kernel_level("kn_clamp_op", (4, 16), result=(4, 16), low=-1, high=6.5)
    assert "from -1.000000e+00 to 6.500000e+00" in str(imported(clamped))


def test_strides_of_outputs():
    graph = MirageGraph()
    x = graph.input(4, 8)
    y = graph.dtensor(4, 8)
    graph.add("kn_exp_op", [x], [y])
    graph.output(y, strides=(1, 4))
    assert "-> tensor<4x8xf16, #cute.layout<(4,8):(1,4)>> {" in str(imported(graph.operators))
    graph.output(y, strides=(8, 1))
    assert message(graph.operators) == (
        "operator 3 (kn_output_op), output_strides: this tensor is an output twice, with different "
        "strides."
    )


def test_an_input_that_is_an_output_with_other_strides_is_copied():
    graph = MirageGraph()
    x = graph.input(4, 8)
    graph.output(x, strides=(1, 4))
    text = str(imported(graph.operators))
    assert "kn.copy %dtensor10000003 : tensor<4x8xf16, #cute.layout<(4,8):(8,1)>>" in text
    assert "func.return %0 : tensor<4x8xf16, #cute.layout<(4,8):(1,4)>>" in text


def test_text_that_is_no_json():
    text = json.dumps(rmsnorm_linear())
    assert message(text[: len(text) // 2]).endswith("The file seems to be truncated.")
    assert message("") == (
        "the file:1:1: not valid JSON: Expecting value. The file seems to be truncated."
    )
    assert message('[\n {"op_type": oops}]') == "the file:2:14: not valid JSON: Expecting value."


def test_every_cut_and_every_change_gives_a_message():
    """Nothing that happens to a document is a traceback or another kind of exception."""
    document = rmsnorm_linear()
    text = json.dumps(document)
    for length in range(0, len(text), 97):
        message(text[:length])

    def paths(value: Any, path: tuple[int | str, ...]) -> list[tuple[int | str, ...]]:
        found = [path] if path else []
        if isinstance(value, dict):
            for key, child in value.items():
                found += paths(child, (*path, key))
        elif isinstance(value, list):
            for index, child in enumerate(value):
                found += paths(child, (*path, index))
        return found

    for number, path in enumerate(paths(document, ())):
        # One after another, where there is no time for all: fields of operators come many times.
        first = number % len(REPLACEMENTS)
        for replacement in REPLACEMENTS if THOROUGH else REPLACEMENTS[first : first + 1]:
            changed = copy.deepcopy(document)
            setting(*path, to=replacement)(changed)
            try:
                import_mirage(json.dumps(changed))
            except MirageImportError as error:
                assert str(error)


@pytest.mark.skipif(not SAVED.is_dir(), reason=f"no saved µGraphs at {SAVED.parent.name}/mugraphs")
def test_all_saved_graphs_import():
    files = sorted(SAVED.glob("*.json"))
    assert files
    for file in files:
        text = file.read_text()
        # A file's graphs are found by one search, and differ in tiles and a few operators.
        count = len(json.loads(text))
        for index in {*range(0, count, 1 if THOROUGH else 8), count - 1}:
            module, notes = import_mirage(text, index)
            assert not notes
            assert parsed(str(module)).is_structurally_equivalent(module)
