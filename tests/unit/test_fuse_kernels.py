"""``--fuse-kernels``: which operators of a program share a kernel, and by which algebra."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fuzz.programs import launches_of
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import kn, tb
from mugraph.dialects.interfaces import HasTileIndices
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.fuse_kernels import (
    algebra,
    fuse_program,
    groups,
    prepare_program,
    search,
    segments,
)
from mugraph.passes.program.fuse_kernels import fusion as fusion_module
from mugraph.passes.program.fuse_kernels.choice import Found
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.explain import explanation
from mugraph.passes.program.fuse_kernels.fusion import Fusion
from mugraph.passes.program.fuse_kernels.kernel import KernelBuilder
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function

Tensors = mi.DTensor | tuple[mi.DTensor, ...]
Program = Callable[[Callable[..., mi.DTensor]], Tensors]
ROWS, WIDTH, HIDDEN, KEYS = 16, 2048, 4096, 1024


def norm_and_product(new: Callable[..., mi.DTensor]) -> Tensors:
    return mi.rms_norm(new(ROWS, WIDTH), new(WIDTH), 1e-5) @ new(WIDTH, HIDDEN)


def gated_mlp(new: Callable[..., mi.DTensor]) -> Tensors:
    x = new(ROWS, WIDTH)
    return mi.silu(x @ new(WIDTH, HIDDEN)) * (x @ new(WIDTH, HIDDEN))


def lora(new: Callable[..., mi.DTensor]) -> Tensors:
    x = new(ROWS, WIDTH)
    return x @ new(WIDTH, HIDDEN) + x @ new(WIDTH, 16) @ new(16, HIDDEN)


def attention(new: Callable[..., mi.DTensor]) -> Tensors:
    q, k, v = new(8, ROWS, 64), new(8, KEYS, 64), new(8, KEYS, 64)
    return mi.softmax(q @ mi.transpose(k) * 0.125) @ v


def attention_of_norms(new: Callable[..., mi.DTensor]) -> Tensors:
    q, k, v = new(8, 256, 64), new(8, KEYS, 64), new(8, KEYS, 64)
    q, k = mi.rms_norm(q, new(64), 1e-6), mi.rms_norm(k, new(64), 1e-6)
    return mi.softmax(q @ mi.transpose(k) * 0.125) @ v


def attention_with_a_bias(new: Callable[..., mi.DTensor]) -> Tensors:
    q, k, v = new(8, ROWS, 64), new(8, KEYS, 64), new(8, KEYS, 64)
    scores = mi.tanh(q @ mi.transpose(k) * 0.02) * 50.0
    return mi.softmax(scores + new(1, ROWS, KEYS)) @ v


def attention_of_a_learned_scale(new: Callable[..., mi.DTensor]) -> Tensors:
    """The exponential of the scale is the program's own: no running maximum is below it."""
    q, k, v, scale = new(8, 64, 64), new(8, KEYS, 64), new(8, KEYS, 64), new(8, 1, 1)
    return mi.softmax(q @ mi.transpose(k) * mi.exp(scale)) @ v


def residual_and_norm(new: Callable[..., mi.DTensor]) -> Tensors:
    x = new(ROWS, WIDTH) + new(ROWS, WIDTH)
    return x, mi.rms_norm(x, new(WIDTH), 1e-5)


def log_sum_exp(new: Callable[..., mi.DTensor]) -> Tensors:
    return mi.log_sum_exp(new(ROWS, 4 * 32003))  # of which no part is short and equal to others


def cosine_similarity(new: Callable[..., mi.DTensor]) -> Tensors:
    x, y = new(ROWS, WIDTH), new(ROWS, WIDTH)
    lengths = mi.sqrt(mi.reduction(x * x, 1)) * mi.sqrt(mi.reduction(y * y, 1))
    return mi.reduction(x * y, 1) / lengths


def distances(new: Callable[..., mi.DTensor]) -> Tensors:
    x, centroids = new(ROWS, 64), new(512, 64)
    lengths = mi.reduction(x * x, 1) + mi.transpose(mi.reduction(centroids * centroids, 1))
    return lengths - x @ mi.transpose(centroids) * 2.0


def softmax_of_distances(new: Callable[..., mi.DTensor]) -> Tensors:
    """Each largest element is known after the loop along what products sum over."""
    x, centroids = new(ROWS, 256), new(48, 256)
    squares = mi.transpose(mi.reduction(mi.square(centroids), 1))
    squares = mi.reduction(mi.square(x), 1) + squares
    return mi.softmax((x @ mi.transpose(centroids)) * 2.0 - squares)


def scaled_by_its_largest(new: Callable[..., mi.DTensor]) -> Tensors:
    y = mi.silu(new(ROWS, 512) @ new(512, 64))
    scale = mi.reduction_max(mi.abs(y), 1)
    return y / (scale + 1e-3), scale


def gated_mixture(new: Callable[..., mi.DTensor]) -> Tensors:
    """Rows of x are summed over, and its columns stand beside those of the product."""
    x = new(ROWS, 512)
    gate = mi.sigmoid(mi.rms_norm(x, new(512), 1e-5) @ new(512, 512))
    return x * gate + new(ROWS, 512) * (1.0 - gate)


def two_norms(new: Callable[..., mi.DTensor]) -> Tensors:
    x = new(ROWS, WIDTH)
    return mi.rms_norm(x + mi.rms_norm(new(ROWS, WIDTH)) * new(WIDTH))


def two_experts(new: Callable[..., mi.DTensor]) -> Tensors:
    x = new(ROWS, WIDTH)
    return (x @ new(WIDTH, WIDTH)) * new(ROWS, 1) + (x @ new(WIDTH, WIDTH)) * new(ROWS, 1)


def layer_norm_and_product(new: Callable[..., mi.DTensor]) -> Tensors:
    normal = mi.layer_norm(new(ROWS, WIDTH), new(WIDTH), new(WIDTH), 1e-5)
    return mi.gelu(normal @ new(WIDTH, HIDDEN) + new(HIDDEN))


def squared_distances(new: Callable[..., mi.DTensor]) -> Tensors:
    """Of rows from a mean, by a matrix: a difference has a role in the product, and one beside."""
    apart = new(64, 128) - new(1, 128)
    return mi.reduction(apart @ new(128, 128) * apart, 1)


ONE_KERNEL = (
    norm_and_product,
    gated_mlp,
    lora,
    attention,
    attention_of_norms,
    attention_with_a_bias,
    attention_of_a_learned_scale,
    residual_and_norm,
    log_sum_exp,
    cosine_similarity,
    distances,
    softmax_of_distances,
    scaled_by_its_largest,
    gated_mixture,
    two_norms,
    two_experts,
    squared_distances,
)


def module_of(program: Program) -> ModuleOp:
    graph = mi.new_kernel_graph(program.__name__)
    results = program(lambda *shape: graph.new_input(shape))
    for result in results if isinstance(results, tuple) else (results,):
        graph.mark_output(result)
    return graph.module()


def fused(module: ModuleOp) -> tuple[ModuleOp, Fusion]:
    own = module.clone()
    fusion = fuse_program(only_function(own), target_named("h200"))
    own.verify()
    return own, fusion


def require_proof(module: ModuleOp, other: ModuleOp) -> None:
    proof = prove(only_function(module), only_function(other))
    assert proof.holds, proof.reason


class AskedRules(dict[str, algebra.Rule]):
    """Rules of functions, and which of them, or of those that are missing, were asked for."""

    def __init__(self) -> None:
        super().__init__(algebra.RULES)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)


@cache
def fused_program(program: Program) -> tuple[ModuleOp, frozenset[str]]:
    """A program with its kernels, and the functions whose rules were asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algebra, "RULES", rules := AskedRules())
        own, _ = fused(module_of(program))
    return own, frozenset(rules.asked)


@pytest.mark.parametrize("program", ONE_KERNEL, ids=lambda program: program.__name__)
def test_a_program_becomes_one_kernel_that_is_proved(program: Program) -> None:
    own, _ = fused_program(program)
    assert launches_of(only_function(own)) == 1
    require_proof(module_of(program), own)


def test_a_centred_variance_stays_centred() -> None:
    """The mean is a kernel of its own: a variance of powers would cancel."""
    module = module_of(layer_norm_and_product)
    own, fusion = fused(module)
    assert launches_of(only_function(own)) == 2
    require_proof(module, own)
    reasons = {reason for attempt in fusion.attempts.values() for reason in attempt.reasons}
    assert any("their powers would cancel" in why for why in reasons)


ATTENTION = {
    attention,
    attention_with_a_bias,
    attention_of_a_learned_scale,
    attention_of_norms,
}
LOST = {
    "div": {norm_and_product, *ATTENTION},
    "exp": {log_sum_exp, *ATTENTION},
    "log": {log_sum_exp},
}
"""Programs that are more than one kernel without what is known of a function."""


@pytest.mark.parametrize("rule", LOST)
def test_programs_need_their_algebra_and_no_other(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a rule that nothing asks for a program is fused as it is with it.  Attention of norms
    # needs what attention and a norm before a product do, and takes as long as all others.
    programs = [each for each in ONE_KERNEL if THOROUGH or each is not attention_of_norms]
    asking = [program for program in programs if rule in fused_program(program)[1]]
    monkeypatch.delitem(algebra.RULES, rule)
    lost = set[object]()
    for program in asking:
        own, _ = fused(module_of(program))
        if launches_of(only_function(own)) > 1:
            lost.add(program)
    assert lost == LOST[rule] & {*programs}


def test_sums_of_rows_and_of_columns_are_no_kernel_of_one_block() -> None:
    """Such a kernel took 12.1 us on an H200, and three that divide the scores 4.7."""
    graph = mi.new_kernel_graph("losses")
    x, y, weights = (graph.new_input(shape) for shape in ((128, 512), (128, 512), (128, 128)))
    scores = x @ mi.transpose(y) * 0.05
    left = scores * 2.0 - mi.log_sum_exp(scores, 1) - mi.log_sum_exp(scores, 0)
    graph.mark_output(mi.reduction(left * weights, 1))
    own, _ = fused(graph.module())
    assert launches_of(only_function(own)) > 1
    require_proof(graph.module(), own)


def test_an_exponential_without_its_maximum_is_not_taken() -> None:
    """Of a softmax over rows that fit no block, two kernels are never one that may overflow."""
    graph = mi.new_kernel_graph("long_rows")
    graph.mark_output(mi.softmax(graph.new_input((4, 64 * 4096))))
    own, _ = fused(graph.module())
    for op in own.walk():
        if isinstance(op, tb.ExpOp):
            assert isinstance(op.operands[0].owner, tb.SubOp) or op.result.name_hint == "rescale"
    require_proof(graph.module(), own)


@pytest.mark.parametrize("dtype", [mi.int8, mi.float8_e4m3fn])
def test_what_is_rounded_for_good_is_rounded_where_it_is_written(dtype: Attribute) -> None:
    """A norm leaves no sum of numbers of 8 bits: they are rounded after it."""
    graph = mi.new_kernel_graph("quantized")
    x, w = graph.new_input((ROWS, WIDTH)), graph.new_input((WIDTH, HIDDEN))
    normal = mi.cast(mi.rms_norm(x) * 16.0, dtype)
    graph.mark_output(mi.cast(normal, mi.float16) @ w)
    module = graph.module()
    own, fusion = fused(module)
    assert launches_of(only_function(own)) == 2
    require_proof(module, own)
    reasons = {reason for attempt in fusion.attempts.values() for reason in attempt.reasons}
    assert any("'identity' takes a value" in reason for reason in reasons)


def test_what_is_the_same_along_the_loop_is_not_summed_once_a_tile() -> None:
    """A norm plus a number of each row: the number counts once an element."""
    graph = mi.new_kernel_graph("rows")
    x, row = graph.new_input((ROWS, WIDTH)), graph.new_input((ROWS, 1))
    normal = x * mi.rsqrt(mi.reduction(x * x, 1) + 1.0) + row
    graph.mark_output(mi.reduction(normal, 1))
    function = only_function(graph.module())
    operators = [op for op in function.body.block.ops if isinstance(op, HasTileIndices)]
    builder = KernelBuilder(operators, [operators[-1].results[0]])
    looped = builder.indices.of_value[function.args[0]][1]
    with pytest.raises(NotFusedError, match="the same in all iterations"):
        builder.build(looped)


def test_a_softmax_in_one_iteration_needs_no_rescaling() -> None:
    graph = mi.new_kernel_graph("small")
    x = mi.exp(graph.new_input((3, 3)) @ graph.new_input((3, 3)))
    largest = mi.reduction_max(x @ graph.new_input((3, 96)), 1)
    graph.mark_output(mi.softmax(x) * largest)
    own, _ = fused(graph.module())
    require_proof(graph.module(), own)


def test_a_difference_of_equal_maxima_is_no_sum_of_terms() -> None:
    graph = mi.new_kernel_graph("nothing")
    x = graph.new_input((4, 64))
    largest = mi.reduction_max(mi.exp(x), 1)
    graph.mark_output(largest - largest)
    own, _ = fused(graph.module())
    require_proof(graph.module(), own)


def test_what_is_customized_stays() -> None:
    graph = mi.new_kernel_graph("customized")
    x = graph.new_input((64, 64))
    y = mi.pointwise(mi.silu, x)
    graph.mark_output(mi.square(mi.exp(y)) @ graph.new_input((64, 64)))
    module = graph.module()
    own, _ = fused(module)
    kernels = [op for op in own.walk() if isinstance(op, kn.CustomizedOp)]
    assert launches_of(only_function(own)) == len(kernels) == 2
    require_proof(module, own)


def rotated(y: mi.DTensor, cos: mi.DTensor, sin: mi.DTensor) -> mi.DTensor:
    half = y.shape[-1] // 2
    return y * cos + mi.concat(-y[:, :, half:], y[:, :, :half], -1) * sin


def product_and_rotary(new: Callable[..., mi.DTensor]) -> Tensors:
    y = new(ROWS, WIDTH) @ new(WIDTH, 8 * 64) + new(8 * 64)
    return rotated(mi.reshape(y, (ROWS, 8, 64)), new(ROWS, 1, 64), new(ROWS, 1, 64))


def rotary_by_its_name(new: Callable[..., mi.DTensor]) -> Tensors:
    y = new(ROWS, WIDTH) @ new(WIDTH, 8 * 64)
    return mi.rotary(mi.reshape(y, (ROWS, 8, 64)), new(ROWS, 1, 64), new(ROWS, 1, 64))


def heads_first(new: Callable[..., mi.DTensor]) -> Tensors:
    y = mi.reshape(new(ROWS, WIDTH) @ new(WIDTH, 8 * 64), (ROWS, 8, 64))
    return mi.rotary(mi.transpose(y, (1, 0, 2)), new(1, ROWS, 64), new(1, ROWS, 64))


def norms_of_heads(new: Callable[..., mi.DTensor]) -> Tensors:
    y = mi.reshape(new(ROWS, WIDTH) @ new(WIDTH, 8 * 64), (ROWS, 8, 64))
    return mi.reshape(mi.rms_norm(y, new(64), 1e-5), (ROWS, 8 * 64))


def split_rows(new: Callable[..., mi.DTensor]) -> Tensors:
    y = mi.reshape(new(4 * 32, WIDTH) @ new(WIDTH, 64), (4, 32, 64))
    return mi.exp(y) * new(4, 1, 1) + new(1, 32, 64)


def norm_of_groups(new: Callable[..., mi.DTensor]) -> Tensors:
    x = new(64, 2048, 16)
    normal = mi.layer_norm(mi.reshape(x, (64, 32, 64 * 16)), eps=1e-5)
    return mi.reshape(normal, (64, 2048, 16)) * new(2048, 1) + new(2048, 1)


def weights_with_scales_of_groups(new: Callable[..., mi.DTensor]) -> Tensors:
    w = mi.reshape(new(WIDTH, 512), (WIDTH // 128, 128, 512)) * new(WIDTH // 128, 1, 512)
    return new(ROWS, WIDTH) @ mi.reshape(w, (WIDTH, 512))


REGROUPED = (
    weights_with_scales_of_groups,
    product_and_rotary,
    rotary_by_its_name,
    heads_first,
    norms_of_heads,
    split_rows,
    norm_of_groups,
)
"""Views stand between operators of one kernel."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("program", REGROUPED, ids=lambda program: program.__name__)
def test_views_between_operators_are_changes_of_indices(
    program: Callable[[Callable[..., mi.DTensor]], Tensors],
) -> None:
    module = module_of(program)
    own, _ = fused(module)
    assert launches_of(only_function(own)) == 1
    require_proof(module, own)


def test_blocks_have_whole_heads() -> None:
    """A rotary embedding mixes the halves of a head: the grid has one head a block."""
    own, _ = fused(module_of(product_and_rotary))
    (kernel,) = [op for op in own.walk() if isinstance(op, kn.CustomizedOp)]
    assert kernel.grid_dim[0] == 8
    (joined,) = [op for op in own.walk() if isinstance(op, tb.ConcatOp)]
    assert shape_of(joined.result.type) == (1, ROWS, 64)


def test_a_rotary_embedding_of_halves_the_wrong_way_round_is_no_proof() -> None:
    own, _ = fused(module_of(product_and_rotary))
    (joined,) = [op for op in own.walk() if isinstance(op, tb.ConcatOp)]
    joined.operands = [*reversed(joined.operands)]
    own.verify()
    assert not prove(only_function(module_of(product_and_rotary)), only_function(own)).holds


def test_what_views_do_not_line_up_stays_apart() -> None:
    """Rows of 48 fall into no parts of rows of 64."""

    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        y = mi.exp(new(48, 64)) * new(1, 64)
        return mi.exp(mi.reshape(y, (64, 48))) * new(1, 48)

    module = module_of(program)
    own, fusion = fused(module)
    assert launches_of(only_function(own)) == 2
    reasons = {reason for attempt in fusion.known.attempts.values() for reason in attempt.reasons}
    assert any("neither divides the other" in why for why in reasons)


def test_parts_of_a_row_share_its_kernel() -> None:
    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        x = mi.exp(new(ROWS, 96))
        middle = x[:, 32:64] * mi.reduction(x, 1)
        return mi.concat(mi.concat(middle, x[:, :32], 1), -x[:, 64:], 1)

    module = module_of(program)
    own, _ = fused(module)
    assert launches_of(only_function(own)) == 1
    require_proof(module, own)


def products_of_one_operand(new: Callable[..., mi.DTensor]) -> Tensors:
    x = mi.rms_norm(new(ROWS, WIDTH), new(WIDTH), 1e-5)
    return tuple(x @ new(WIDTH, columns) + new(columns) for columns in (1024, 512, 512))


def test_products_of_one_operand_are_computed_side_by_side() -> None:
    """An axis of the grid cuts the columns of all results, in as many parts each."""
    module = module_of(products_of_one_operand)
    own, _ = fused(module)
    assert launches_of(only_function(own)) == 1
    require_proof(module, own)
    (kernel,) = [op for op in own.walk() if isinstance(op, kn.CustomizedOp)]
    stored = [op for op in kernel.body.block.ops if isinstance(op, tb.OutputOp)]
    assert kernel.grid_dim == (8, 1, 1)
    assert [shape_of(op.stensor.type) for op in stored] == [(ROWS, 128), (ROWS, 64), (ROWS, 64)]


def queries_keys_and_values(new: Callable[..., mi.DTensor]) -> Tensors:
    x, cos, sin = mi.rms_norm(new(ROWS, WIDTH)), new(ROWS, 1, 64), new(ROWS, 1, 64)
    q, k, v = (x @ new(WIDTH, 8 * 64) for _ in range(3))
    heads = (mi.reshape(y, (ROWS, 8, 64)) for y in (q, k))
    return (*(rotated(y, cos, sin) for y in heads), v)


def test_rotated_and_other_heads_are_computed_side_by_side() -> None:
    module = module_of(queries_keys_and_values)
    own, _ = fused(module)
    assert launches_of(only_function(own)) == 1
    require_proof(module, own)


def test_a_result_and_views_of_it_are_stored() -> None:
    """A view that is used in a kernel and outside lies as the program's results do."""

    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        y = new(ROWS, 256) @ new(256, 8 * 64)
        heads = mi.reshape(y, (ROWS, 8, 64))
        return mi.exp(heads) * new(ROWS, 1, 64), heads, y

    module = module_of(program)
    own, _ = fused(module)
    assert launches_of(only_function(own)) == 1
    require_proof(module, own)


def test_views_of_single_elements() -> None:
    """There is no dimension to split."""
    graph = mi.new_kernel_graph("single")
    x = mi.exp(graph.new_input((1, 1)))
    graph.mark_output(mi.silu(mi.reshape(x, (1, 1, 1))))
    module = graph.module()
    function = only_function(module.clone())
    prepare_program(function)
    fusion = Fusion(function, target_named("h200"))
    whole = (1 << len(fusion.operators)) - 1
    assert fusion.fastest(whole).part is not None
    require_proof(module, fused(module)[0])


def test_one_index_along_two_dimensions_is_refused() -> None:
    """A matrix times its own transpose, and its reshape, has rows and columns of one index."""

    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        y = new(16, 8) @ new(8, 16)
        both = mi.reshape(y + mi.transpose(y), (4, 4, 16))
        return mi.exp(both) * new(4, 1, 16)

    module = module_of(program)
    require_proof(module, fused(module)[0])
    # As it is written: where kernels compute the exponential again, none has both.
    fusion = Found.of(only_function(module.clone()), target_named("h200")).fusion
    reasons = {reason for attempt in fusion.known.attempts.values() for reason in attempt.reasons}
    assert any("the same index along two" in why for why in reasons)


def gated_layer(x: mi.DTensor, new: Callable[..., mi.DTensor]) -> mi.DTensor:
    """A norm, a gated product, and the residual."""
    normed = mi.rms_norm(x, new(256), 1e-5)
    gate, up = normed @ new(256, 512), normed @ new(256, 512)
    return x + (mi.silu(gate) * up) @ new(512, 256)


def layers_function(layers: int, *, prepared: int = 0) -> FuncOp:
    """Some layers; what prepares the first weights is no part of what flows through."""
    graph = mi.new_kernel_graph("layers")
    x = graph.new_input((1, 256))
    for layer in range(layers):
        if layer < prepared:
            weight = graph.new_input((256,)) + 1.0
            x = x * weight + weight
        x = gated_layer(x, lambda *shape: graph.new_input(shape))
    graph.mark_output(x)
    function = only_function(graph.module())
    prepare_program(function)
    return function


def fused_layers(layers: int, *, prepared: int = 0) -> tuple[Fusion, FuncOp]:
    """The same with operators in common kernels."""
    function = layers_function(layers, prepared=prepared)
    fusion = Fusion(function, target_named("h200"))
    fusion.apply(fusion.choose())
    return fusion, function


@cache
def two_layers() -> tuple[int, float, list[str]]:
    """In how many segments two layers are searched, in what time they run, and their kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "MOST_OPERATORS", 10)
        function = layers_function(2)
        fusion = Fusion(function, target_named("h200"))
        chosen = fusion.choose()
        time = sum(map(fusion.cost, chosen))
        fusion.apply(chosen)
    return len(fusion.program.segments), time, kernels_of(function)


def kernels_of(function: FuncOp) -> list[str]:
    """The text of each kernel, without names."""
    return [kernel_text(op) for op in function.walk() if isinstance(op, kn.CustomizedOp)]


def kernel_text(kernel: kn.CustomizedOp) -> str:
    """A kernel, whatever its values are called."""
    names: dict[str, str] = {}
    return re.sub(r"%\w+", lambda name: names.setdefault(name[0], f"%v{len(names)}"), str(kernel))


def test_a_further_layer_that_is_alike_is_not_searched_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing of it is looked at, and it becomes the same kernels."""
    monkeypatch.setattr(search, "MOST_OPERATORS", 10)
    four, few = fused_layers(4)
    five, many = fused_layers(5)
    assert four.program.is_exact and five.program.is_exact
    assert five.looked_at == four.looked_at
    texts, more = kernels_of(few), kernels_of(many)
    a_layer = len(texts) // 4
    assert texts == [*texts[:a_layer], *texts[a_layer : 2 * a_layer] * 2, *texts[-a_layer:]]
    assert more == [*texts[:a_layer], *texts[a_layer : 2 * a_layer] * 3, *texts[-a_layer:]]


def test_segments_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of all layers is that of a search that looks at all prefixes together."""
    count, time, _ = two_layers()
    monkeypatch.setattr(search, "MOST_OPERATORS", 10)
    monkeypatch.setattr(fusion_module, "in_segments", groups.Program)
    fusion = Fusion(layers_function(2), target_named("h200"))
    assert count > 2 and len(fusion.program.segments) == 1
    assert sum(map(fusion.cost, fusion.choose())) == pytest.approx(time)


def test_what_prepares_weights_is_searched_beside_its_first_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MOST_OPERATORS", 10)
    whole, function = fused_layers(2, prepared=2)
    assert whole.program.is_exact and len(whole.program.segments) == 1
    monkeypatch.setattr(groups, "MOST_PREFIXES", 16)
    in_parts = layers_function(2, prepared=2)
    parts = Fusion(in_parts, target_named("h200"))
    chosen = parts.choose()
    assert not parts.program.is_exact and len(parts.program.segments) > 3
    text = explanation(in_parts, Found(parts, chosen))
    assert "in some orders only; memory alone takes" in text
    parts.apply(chosen)
    assert kernels_of(function) == kernels_of(in_parts)


def test_units_stand_behind_what_they_need() -> None:
    """A scale is searched together with the sum behind it, whose other operand comes later."""

    def program(new: Callable[..., mi.DTensor], count: int = 2) -> Tensors:
        q, k, seen = new(8, ROWS, 64), new(8, 256, 64), new(1, ROWS, 256)
        for _ in range(count):
            scores = q @ mi.transpose(k) * 0.125
            bias = mi.relu(seen) * 2.0
            q = mi.softmax(scores + bias + mi.max(bias, 2)) @ k
        return q

    def one_layer(new: Callable[..., mi.DTensor]) -> Tensors:
        return program(new, 1)

    function = only_function(module_of(program))
    prepare_program(function)
    found = groups.Program([op for op in function.body.block.ops if op.results])
    done = found.first_prefix()
    for unit in found.units:
        assert not unit.needed & ~done
        done |= unit.whole
    module = module_of(one_layer)
    own, _ = fused(module)
    assert prove(only_function(module), only_function(own)).holds


def test_a_wide_segment_is_searched_in_orders_near_the_program_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *_, kernels = two_layers()
    monkeypatch.setattr(search, "MOST_OPERATORS", 10)
    monkeypatch.setattr(groups, "MOST_PREFIXES", 2)
    narrow, found = fused_layers(2)
    assert not narrow.program.is_exact and kernels == kernels_of(found)


def test_what_far_segments_use_comes_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor that all layers end with stands before the weights of the first one."""
    monkeypatch.setattr(groups, "MOST_PREFIXES", 16)
    monkeypatch.setattr(segments, "MOST_OPERATORS", 8)

    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        x, mask = new(8, ROWS, 64), mi.sqrt(new(1, 1, KEYS))
        largest: mi.DTensor | None = None
        for _ in range(2):
            k, v = new(8, KEYS, 64), new(8, KEYS, 64)
            x = mi.softmax(x @ mi.transpose(k) * 0.125 + mask) @ v
            largest = mi.reduction_max(mask, 2) if largest is None else largest
            x = x * largest
        return x

    function = only_function(module_of(program))
    prepare_program(function)
    ordered = segments.in_segments([op for op in function.body.block.ops if op.results]).operators
    shapes = [shape_of(op.results[0].type) for op in ordered]
    products = [number for number, op in enumerate(ordered) if isinstance(op, kn.MatmulOp)]
    assert shapes.index((1, 1, 1)) < products[1]


def test_what_prepares_a_layer_s_weights_is_in_the_segment_of_their_product(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many layers come behind it."""
    monkeypatch.setattr(groups, "MOST_PREFIXES", 4)
    monkeypatch.setattr(segments, "MOST_OPERATORS", 8)

    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        x = new(ROWS, 64)
        for _ in range(4):
            x = mi.silu(mi.exp(x) @ mi.sqrt(new(64, 64)))
        return x

    function = only_function(module_of(program))
    prepare_program(function)
    found = segments.in_segments([op for op in function.body.block.ops if op.results])
    for segment in found.segments:
        names = {found.operators[n].name for unit in segment.units for n in groups.bits(unit.whole)}
        assert ("kn.sqrt" in names) == ("kn.matmul" in names), names


def test_layers_that_an_embedding_modulates_are_searched_apart() -> None:
    """What flows through the layers is the stream, though the embedding of the time leads to more.

    Its modulations stand beside their users.
    """

    def widths(count: int) -> list[int]:
        def program(new: Callable[..., mi.DTensor]) -> Tensors:
            x = new(ROWS, 64) @ new(64, 64)
            time = mi.silu(mi.silu(new(1, 64) @ new(64, 64)) @ new(64, 64))
            for _ in range(count):
                scale, shift, gate = (mi.silu(time @ new(64, 64)) for _ in range(3))
                y = mi.layer_norm(x, eps=1e-5) * scale + shift
                x = x + gate * (mi.gelu(y @ new(64, 256)) @ new(256, 64))
            return x

        function = only_function(module_of(program))
        prepare_program(function)
        found = segments.in_segments([op for op in function.body.block.ops if op.results])
        return [len(segment.units) for segment in found.segments]

    layer = [1, 1, 1, 3, 1, 1, 1, 2]
    assert widths(4) == [1, 1, 1, 1, 4, *layer[3:], *layer * 3]
    assert widths(5) == [*widths(4), *layer]


def test_rows_of_all_products_are_cut_before_columns_of_one() -> None:
    """Of two dimensions of matrices, rows and columns blocks can cut three."""

    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        q, k, v = new(32, 2, 183, 256), new(32, 1, 183, 256), new(32, 1, 183, 256)
        scores = q @ mi.transpose(mi.broadcast_to(k, (32, 2, 183, 256)))
        return mi.softmax(scores * 0.0625) @ mi.broadcast_to(v, (32, 2, 183, 256))

    own, _ = fused(module_of(program))
    assert launches_of(only_function(own)) == 1


def test_the_first_part_of_rows_and_columns_stands_where_they_do() -> None:
    """Two rows of one column, out of a tensor whose extents neither divides."""

    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        return mi.sqrt(mi.abs((new(5, 3) * -1.0)[:2, :1]) + 1.0)

    module = module_of(program)
    own, _ = fused(module)
    assert launches_of(only_function(own)) == 1
    assert prove(only_function(module), only_function(own)).holds


def test_operators_that_are_no_kernel_together_are_searched_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user that needs a sum of its operand's whole row does not fit a block with it."""

    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        x = new(512, 262144)
        return x - mi.reduction(x, 1) * 2.0**-18

    def its_user(self: groups.Program, op: Any) -> Any:
        uses = [*op.results[0].uses]
        user = uses[0].operation if uses else None
        return user if user in self.operators else None

    module = module_of(program)
    apart, _ = fused(module)
    monkeypatch.setattr(groups.Program, "_spread_for", its_user)
    monkeypatch.setattr(groups.Program, "_reduces", lambda self, unit: False)
    own, _ = fused(module)
    assert launches_of(only_function(own)) == launches_of(only_function(apart)) == 2


def test_an_exponential_of_a_column_times_it_is_no_weight_of_a_sum() -> None:
    def program(new: Callable[..., mi.DTensor]) -> Tensors:
        x = new(32, 1)
        return mi.softmax(mi.exp(x) * x), mi.exp(x) * mi.exp(x)

    module = module_of(program)
    own, _ = fused(module)
    require_proof(module, own)


def test_a_library_multiplies_where_no_tile_divides_large_rows() -> None:
    """Its tiles' padding costs a kernel of ours more than an activation's own launch."""
    text = """
func.func @main(%x: tensor<1579x28672xbf16>, %w: tensor<28672x8192xbf16>)
    -> tensor<1579x8192xbf16> {
  %y = kn.matmul %x, %w
    : (tensor<1579x28672xbf16>, tensor<28672x8192xbf16>) -> tensor<1579x8192xbf16>
  %z = kn.relu %y : tensor<1579x8192xbf16> -> tensor<1579x8192xbf16>
  func.return %z : tensor<1579x8192xbf16>
}
"""
    module, _ = fused(parse_text(make_context(), text, "product.mlir"))
    names = [op.name for op in module.walk() if op.name.startswith("kn.")]
    assert names == ["kn.matmul", "kn.relu"]


def test_exponentials_of_long_rows_are_computed_again() -> None:
    """Where a row fits no block, kernels load the scores, not exponentials in f32."""
    text = """
func.func @main(%x: tensor<2048x128256xf16>) -> tensor<2048x128256xf16> {
  %y = kn.softmax %x dim 1 : tensor<2048x128256xf16> -> tensor<2048x128256xf16>
  func.return %y : tensor<2048x128256xf16>
}
"""
    module = parse_text(make_context(), text, "softmax.mlir")
    found, _ = fused(module)
    kernels = [op for op in only_function(found).body.block.ops if isinstance(op, kn.CustomizedOp)]
    stored = [result.type for op in kernels for result in op.results]
    (large,) = (each for each in stored if math.prod(shape_of(each)) >= 2048 * 128256)
    assert len(kernels) == 2 and "xf16" in str(large)
    require_proof(module, found)


def test_casts_in_one_kernel_keep_the_sign_of_zero() -> None:
    """A loop of one iteration writes what it adds up; added to zero, -0 would become 0."""
    graph = mi.new_kernel_graph("casts")
    x = graph.new_input((256,), dtype=mi.float8_e5m2)
    for dtype in (mi.float8_e4m3fn, mi.int8, mi.float16, mi.bfloat16):
        graph.mark_output(mi.cast(x, dtype))
    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e5m2)
    module, context = graph.module(), make_context()
    expected = run_function(module, None, [codes])
    PassPipeline(compile_pipeline("sm_90a")).apply(context, module)
    found = run_function(module, None, [codes])
    for one, other in zip(found, expected, strict=True):
        numbers = ~np.isnan(other.astype(np.float32))
        assert (one[numbers].tobytes()) == other[numbers].tobytes()
