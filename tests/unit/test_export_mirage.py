"""µGraphs as Mirage's JSON, and back."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from mirage_json import MirageGraph, MirageThreadblockGraph, rmsnorm_linear
from xdsl.dialects.builtin import ModuleOp

from benchmarks.programs import PROGRAMS
from mugraph.dialects import kn
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
from mugraph.reading import make_context, parse_text
from mugraph.tools.export_mirage import MirageExportError, export_mirage, write_mirage
from mugraph.tools.import_mirage import import_mirage
from mugraph.tools.import_mirage.generations import OWN_FUNCTIONS

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.case import Case
from cases.catalogue import usual_cases

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(
    [*(ROOT / "examples").glob("*.mlir"), *(ROOT / "examples" / "reference").glob("*.mlir")]
)
SAVED = Path(os.environ.get("MUGRAPH_SAVED_MUGRAPHS", ROOT.parent / "shared" / "mugraphs"))


def parse(text: str) -> ModuleOp:
    module = parse_text(make_context(), text, "the text")
    module.verify()
    return module


def normal(records: object) -> object:
    """The same document with guids in the order of their first use, and no fingerprint offsets."""
    guids: dict[int, int] = {}

    def walk(value: object) -> object:
        if isinstance(value, list):
            return [walk(element) for element in cast(list[object], value)]
        if not isinstance(value, dict):
            return value
        # Operands before results, whatever order the file has them in.
        fields = sorted(cast(dict[str, Any], value).items(), key=lambda item: _place(item[0]))
        return {
            name: guids.setdefault(content, len(guids)) if name == "guid" else walk(content)
            for name, content in fields
            if name != "smem_offset"
        }

    return walk(records)


def _place(name: str) -> tuple[int, str]:
    order = {"input_tensors": 0, "dtensor": 1, "bgraph": 2, "operators": 3, "output_tensors": 4}
    return order.get(name, 2), name


def imported(records: object, generation: int | None = None) -> ModuleOp:
    return import_mirage(json.dumps(records), None, generation)[0]


def all_accumulators(generation: int) -> list[dict[str, Any]]:
    """A kernel graph of unary functions around a threadblock graph with every accumulator."""
    graph = MirageGraph(generation)
    x = graph.input(16, 64)
    results = [graph.dtensor(16, 4), graph.dtensor(16, 16), graph.dtensor(16, 32)]
    body = MirageThreadblockGraph(generation)
    tile = body.input(x, (-1, -1, -1), 1, 16, 32)
    summed = body.add("accum_red_ld_sum_op", [tile], 16, 1)
    folded = body.add("accum_redtox_ld_sum_op", [tile], 16, 8)
    whole = body.add("accum_nored_op", [tile], 16, 32)
    halves = body.add("tb_reduction_1_to_dimx_op", [whole], 16, 8, reduce_dim=1, reduce_size=8)
    total = body.add("tb_reduction_0_op", [folded], 1, 8, reduce_dim=0, reduce_size=1)
    body.output(summed, graph.dtensor(16, 4), (1, -1, -1))
    body.operators[-1]["dtensor"] = results[0]
    body.output(body.add("tb_add_op", [halves, total], 16, 8), results[1], (1, -1, -1))
    body.operators[-1]["dtensor"] = results[1]
    body.record["grid_dim"] = {"x": 4, "y": 1, "z": 1}
    results[1]["dim"] = [16, 32, 0, 0]
    graph.customized(body, [x], results[:2])
    exp = graph.dtensor(16, 4)
    graph.add("kn_exp_op", [results[0]], [exp])
    graph.output(exp)
    graph.output(results[1], strides=(1, 16))
    return graph.operators


def rescaled(generation: int) -> list[dict[str, Any]]:
    """A running maximum, accumulators that it rescales, pieces put together, and their product."""
    graph = MirageGraph(generation)
    x, w = graph.input(16, 64), graph.input(64, 8)
    body = MirageThreadblockGraph(generation, reduction_dimx=64)
    tile, narrow = body.input(x, (0, -1, -1), 1, 4, 32), body.input(w, (-1, -1, -1), 0, 32, 8)
    maximum = body.add("tb_reduction_1_max_op", [tile], 4, 1, reduce_dim=1, reduce_size=-1)
    fall = body.stensor(4, 1)
    body.operators[-1]["output_tensors"].append(fall)
    weights = body.add("tb_exp_op", [body.add("tb_sub_op", [tile, maximum], 4, 32)], 4, 32)
    factor = body.add("tb_exp_op", [fall], 4, 1)
    product = body.add("tb_concat_then_matmul_op", [weights, tile, narrow, narrow], 4, 8)
    joined = body.add("tb_concat_1_op", [product, product], 4, 16, concat_dim=1)
    part = body.add("tb_split_1_op", [joined], 4, 8, split_dim=1)
    body.operators[-1]["output_tensors"].append(body.stensor(4, 8))
    normed = body.add("tb_rms_norm_op", [part], 4, 8)
    for value, kind, extent in (
        (normed, "nored_rescale", 8),
        (weights, "red_ld_sum_rescale", 1),
        (maximum, "max", 1),
        (tile, "red_ld_mean", 1),
    ):
        operands = [value, factor] if "rescale" in kind else [value]
        result = body.add(f"accum_{kind}_op", operands, 4, extent)
        body.output(result, graph.dtensor(16, extent), (0, -1, -1))
    results = [op["dtensor"] for op in body.operators if op["op_type"] == "tb_output_op"]
    graph.customized(body, [x, w], results)
    for result in results:
        graph.output(result)
    return graph.operators


@pytest.mark.parametrize("generation", (1, 2, 3))
@pytest.mark.parametrize("make", (rmsnorm_linear, all_accumulators, rescaled))
def test_json_comes_back(make: Any, generation: int) -> None:
    records = make(generation)
    if make is rmsnorm_linear:
        # An extent to which nothing reduces is not kept: ours is what searches set.
        records[2]["bgraph"]["reduction_dimx"] = 64
    for operator in records:
        for inner in operator.get("bgraph", {}).get("operators", []):
            # Generation 2 used both prefixes; ours is the later one.
            if generation == 2:
                inner["op_type"] = inner["op_type"].replace("tb_accum_", "tb_forloop_accum_")
    exported = export_mirage(imported(records, generation), generation)
    assert normal(json.loads(write_mirage(exported))) == normal(records)


def test_saved_graphs_come_back() -> None:
    if not SAVED.is_dir():
        pytest.skip(f"no saved µGraphs in {SAVED}; MUGRAPH_SAVED_MUGRAPHS names another folder")
    count = 0
    for file in sorted(SAVED.glob("*.json")):
        document = json.loads(file.read_text(encoding="utf-8"))
        for graph in document if isinstance(document[0], list) else [document]:
            assert normal(export_mirage(imported(graph), 1)) == normal(graph), file.name
            count += 1
    assert count


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_come_back(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if " through " in text:
        pytest.skip("Mirage's format has no tiles whose rows numbers name")
    module = parse(text)
    (function,) = module.ops
    symbol = function.properties["sym_name"].data  # type: ignore[attr-defined]
    text = write_mirage(export_mirage(module))
    back, _ = import_mirage(text, generation=3, symbol=symbol)
    assert back.is_structurally_equivalent(module)


REFUSED = {
    "ragged": "Mirage's format has no tiles that are smaller than the others.",
    "exp-empty": "Mirage's format has no tiles that are smaller than the others.",
    "f8E5M2": "of f8E5M2, for which generation 3",
    "xi64": "of i64, for which generation 3",
    "xi1>": "of i1, for which generation 3",
    "kn.sub": "Mirage has this operator in threadblock graphs only.",
    "_contiguous ": "sums runs of neighbours",
    "combine max": "its sums are all that Mirage's format has.",
    "tb.concat %v2, %v3, %v": "Mirage's format joins two.",
    "mugraph.alignment": "Mirage's format has no field for mugraph.alignment.",
    ".cast": "Mirage's format has no casts.",
    "kn.copy": "Mirage's format has no copies",
    "rank-2x1x3x1x8": "has 5 dimensions",
    " through ": "reads rows through|of f8",
    "groups-in-bulk": "is no result of the function and has a layout",
} | {
    f".{name} ": "Mirage's format has no such (threadblock )?operator."
    for name in {
        *("arg_max", "carried", "gather", "mask", "random", "scan", "scatter", "slice", "top_k"),
        *("group_tiles", "sort_groups"),
        *OWN_FUNCTIONS,
        *(op.name.removeprefix("kn.") for op in kn.COMPOSITE_OPERATORS),
    }
    - {"rms_norm"}
}


def cases_by_family() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in usual_cases():
        found.setdefault(case.family, []).append(case)
    return found


@pytest.mark.parametrize("family", cases_by_family())
def test_cases_come_back(family: str) -> None:
    for case in cases_by_family()[family]:
        module = parse(case.text)
        searched = f"{case.id}\n{case.text}"
        reasons = [said for what, said in REFUSED.items() if what in searched]
        if reasons:
            with pytest.raises(MirageExportError, match="|".join(reasons)):
                export_mirage(module)
            continue
        text = write_mirage(export_mirage(module))
        back, _ = import_mirage(text, generation=3, symbol="case")
        assert back.is_structurally_equivalent(module), case.id


@pytest.mark.parametrize("name", ["gated_mlp", "lora", "gqa_bs1"])
def test_kernels_that_are_found_come_back(name: str) -> None:
    module = PROGRAMS[name].module()
    FuseKernelsPass().apply(make_context(), module)
    assert any(isinstance(op, kn.CustomizedOp) for op in module.walk())
    back, _ = import_mirage(write_mirage(export_mirage(module)), symbol=name)
    assert back.is_structurally_equivalent(module)


def in_block(body: str, result: str = "4x8xf16", tile: str = "4x8xf16", more: str = "") -> str:
    return f"""
func.func @f(%x: tensor<4x8xf16>) -> tensor<{result}> {{
  %o = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop 1 {{
  ^bb0(%dx: tensor<4x8xf16>):
    %s = tb.input %dx imap [-1, -1, -1] : tensor<4x8xf16> -> !tb.stensor<4x8xf16{more}>
    {body}
    %r = tb.forloop_accum none %q : !tb.stensor<{tile}> -> !tb.stensor<{tile}>
    tb.output %r omap [-1, -1, -1] : !tb.stensor<{tile}> -> tensor<{result}>
  }} : (tensor<4x8xf16>) -> tensor<{result}>
  func.return %o : tensor<{result}>
}}"""


TO_DIMX = "tb.reduction_to_dimx_strided"
NOT_SAID = {
    in_block(
        "%q = tb.exp %s then [square] : !tb.stensor<4x8xf16> -> !tb.stensor<4x8xf16>"
    ): "'tb.exp' %q: it has an epilogue; export the µGraph before --fuse-threadblock.",
    in_block(
        "%q = tb.exp %s : !tb.stensor<4x8xf16, (4,8):(8,1)> -> !tb.stensor<4x8xf16>",
        more=", (4,8):(8,1)",
    ): "%s has a layout, which Mirage's format has no field for; export the µGraph before "
    "--resolve-layout.",
    in_block(
        f"%a = {TO_DIMX} %s dim 1 : !tb.stensor<4x8xf16> -> !tb.stensor<4x4xf16>\n"
        f"%q = {TO_DIMX} %a dim 1 : !tb.stensor<4x4xf16> -> !tb.stensor<4x2xf16>",
        "4x2xf16",
        "4x2xf16",
    ): f"'{TO_DIMX}' %q: it reduces to 2, and another operator of the graph to 4; Mirage's format "
    "has one reduction_dimx a graph.",
    """
func.func @f(%x: tensor<1x1x1x2x4xf16>) -> tensor<1x1x1x2x4xf16> {
  %r = kn.exp %x : tensor<1x1x1x2x4xf16> -> tensor<1x1x1x2x4xf16>
  func.return %r : tensor<1x1x1x2x4xf16>
}""": "%x has 5 dimensions; Mirage's format has 1 to 4.",
    """
func.func @f(%x: tensor<2x4xf16>) -> tensor<2x4xf16> attributes {mugraph.mesh = [2]} {
  %r = kn.exp %x : tensor<2x4xf16> -> tensor<2x4xf16>
  func.return %r : tensor<2x4xf16>
}""": "'func.func' @f: it is of whole tensors; Mirage's format has the program of each GPU. Run "
    "--partition first.",
    """
func.func @f(%x: tensor<2x4xf16>) -> tensor<2x4xf16>
    attributes {mugraph.mesh = [2, 2], mugraph.per_device} {
  %r = kn.all_reduce %x axes [1] : tensor<2x4xf16> -> tensor<2x4xf16>
  func.return %r : tensor<2x4xf16>
}""": "'kn.all_reduce' %r: it is along some axes of the mesh; Mirage's format has sums over all "
    "GPUs.",
    """
func.func @f(%x: tensor<2x4xf16> {mugraph.sharding = #kn.sharding<[[1, 0]]>}) -> tensor<2x4xf16>
    attributes {mugraph.mesh = [2, 2], mugraph.per_device} {
  func.return %x : tensor<2x4xf16>
}""": "'func.func' @f: argument 0 lies as [[1, 0], []], which Mirage's maps of GPUs cannot say.",
    """
func.func @f(%x: tensor<2x4xf16>) -> tensor<2x4xf16> {
  %a = kn.exp %x : tensor<2x4xf16> -> tensor<2x4xf16, #cute.layout<(2,4):(1,2)>>
  %r = kn.exp %a : tensor<2x4xf16, #cute.layout<(2,4):(1,2)>> -> tensor<2x4xf16>
  func.return %r : tensor<2x4xf16>
}""": "'kn.exp' %a: its result is no result of the function and has a layout; Mirage's format has "
    "strides for inputs and outputs only. Export the µGraph before --resolve-layout.",
}


@pytest.mark.parametrize(("text", "message"), NOT_SAID.items())
def test_what_the_format_cannot_say_is_an_error(text: str, message: str) -> None:
    with pytest.raises(MirageExportError) as raised:
        export_mirage(parse(text))
    assert str(raised.value) == message


def test_types_that_a_generation_lacks_are_an_error() -> None:
    module = parse(
        "func.func @f(%x: tensor<4xf64>) -> tensor<4xf64> { func.return %x : tensor<4xf64> }"
    )
    assert export_mirage(module, 3)[0]["output_tensors"][0]["data_type"] == 960
    module = parse(
        "func.func @f(%x: tensor<4xi1>) -> tensor<4xi1> { func.return %x : tensor<4xi1> }"
    )
    with pytest.raises(MirageExportError, match="of i1, for which generation 3"):
        export_mirage(module, 3)


def test_constants_and_free_strides_are_fields_of_ours() -> None:
    module = parse(
        """
func.func @f(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {
  %a = kn.mul_scalar %x by 0.5 : tensor<4x8xf16> -> tensor<4x8xf16>
  %b = kn.clamp %a from -1.0 to 6.0 : tensor<4x8xf16> -> tensor<4x8xf16>
  %c = kn.matmul %b, %b compute f16 : (tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return %c : tensor<4x8xf16>
}""".replace("4x8", "8x8")
    )
    first, scaled, clamped, product, _ = export_mirage(module)
    assert first["input_strides"] == [8, 1] and first["strides_are_free"] is True
    assert scaled["op_type"] == "kn_mul_scalar_op" and scaled["scalar"] == 0.5
    assert (clamped["low"], clamped["high"]) == (-1.0, 6.0)
    assert product["compute"] == "f16"
    back, _ = import_mirage(write_mirage(export_mirage(module)), generation=3, symbol="f")
    assert back.is_structurally_equivalent(module)


def test_a_loop_of_one_iteration_is_imported_without_accumulator_and_gets_one_of_mirage() -> None:
    graph = MirageGraph(1)
    x = graph.input(16, 64)
    body = MirageThreadblockGraph(1)
    norm = body.add("tb_rms_norm_op", [body.input(x, (0, -1, -1), -1, 4, 64)], 4, 64)
    body.output(norm, graph.dtensor(16, 64), (0, -1, -1))
    result = body.operators[-1]["dtensor"]
    body.record["forloop_range"] = 1
    graph.customized(body, [x], [result])
    graph.output(result)
    records = cast(list[Any], export_mirage(imported(graph.operators), 1))
    kinds = [op["op_type"] for op in records[1]["bgraph"]["operators"]]
    assert kinds == ["tb_input_op", "tb_rms_norm_op", "tb_accum_nored_op", "tb_output_op"]
