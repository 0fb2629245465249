"""Tiles of rows that numbers name: proofs, fusion, the builder, launches, and what is refused.

They are read where the rows lie, or written to where they belong.
"""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import kn, sched, tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
from mugraph.passes.transpile import TranspilePass, transpile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence import Answer, Checker, Subject
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import ExecutionError, run_function
from mugraph.tools.export_mirage import MirageExportError, export_mirage
from mugraph.tools.random_inputs import random_inputs

ROWS = 20


def transpiled(module: ModuleOp, *, fused: bool = False) -> ModuleOp:
    """The schedule of a copy of a module."""
    module = module.clone()
    steps = (FuseKernelsPass(), TranspilePass()) if fused else (TranspilePass(),)
    PassPipeline(steps).apply(make_context(), module)
    return module


def values(*, in_place: bool = True, keys_through_table: bool = True) -> mi.KernelGraph:
    """Weights of 3 sequences times the values of 4 pages each, in their loop."""
    graph = mi.new_kernel_graph("values")
    weights = graph.new_input((3, 1, 16, 16), dtype=mi.float16)
    cache = graph.new_input((ROWS, 16, 32), dtype=mi.float16)
    table = graph.new_input((3, 4), dtype=mi.int32)
    other = graph.new_input((3, 4), dtype=mi.int32)
    numbers = table if keys_through_table else other
    block = mi.new_threadblock_graph((3, 1, 1), (128, 1, 1), 4)
    rows = block.new_input(weights, (0, -1, -1))
    if in_place:
        pages = block.new_input(cache, (0, -1, -1), 1, through=numbers)
        inputs = [weights, cache, numbers]
    else:
        gathered = graph.gather(cache, numbers)
        pages = block.new_input(gathered, (0, -1, -1), 1)
        inputs = [weights, gathered]
    block.new_output(block.forloop_accum(block.matmul(rows, pages)), (0, -1, -1))
    (result,) = graph.customized(inputs, block)
    graph.mark_output(result)
    return graph


def test_rows_read_in_place_are_proved_to_be_those_that_are_gathered() -> None:
    one, two, three = (
        only_function(graph.module())
        for graph in (values(), values(in_place=False), values(keys_through_table=False))
    )
    assert prove(one, two).holds
    assert not prove(one, three).holds


def embedding(tokens: tuple[int, ...] = (6, 16)) -> ModuleOp:
    """The program of a norm over the embeddings of tokens."""
    graph = mi.new_kernel_graph("embedding")
    table = graph.new_input((ROWS, 64), dtype=mi.float16)
    numbers = graph.new_input(tokens, dtype=mi.int32)
    graph.mark_output(mi.rms_norm(graph.gather(table, numbers), eps=1e-5))
    return graph.module()


def test_a_norm_over_embeddings_is_one_kernel() -> None:
    module = embedding()
    fused = module.clone()
    FuseKernelsPass().apply(make_context(), fused)
    operators = list(only_function(fused).body.block.ops)
    assert not any(isinstance(op, kn.GatherOp) for op in operators)
    (kernel,) = (op for op in operators if isinstance(op, CustomizedOp))
    (load,) = (op for op in kernel.body.block.ops if isinstance(op, tb.InputOp))
    assert load.through is not None
    assert prove(only_function(module), only_function(fused)).holds


def test_a_gathered_tensor_that_is_returned_stays() -> None:
    graph = mi.new_kernel_graph("both")
    table = graph.new_input((ROWS, 64), dtype=mi.float16)
    numbers = graph.new_input((96,), dtype=mi.int32)
    found = graph.gather(table, numbers)
    graph.mark_output(found)
    graph.mark_output(mi.rms_norm(found, eps=1e-5))
    module = graph.module()
    FuseKernelsPass().apply(make_context(), module)
    assert any(isinstance(op, kn.GatherOp) for op in module.walk())


def test_numbers_that_name_no_row_are_refused() -> None:
    module, random = values().module(), np.random.default_rng(0)
    inputs = [
        random.standard_normal((3, 1, 16, 16)),
        random.standard_normal((ROWS, 16, 32)),
        np.full((3, 4), ROWS),
        np.zeros((3, 4), int),
    ]
    scheduled = transpiled(module)
    for each, level in ((module, "logical"), (scheduled, "logical"), (scheduled, "address")):
        with pytest.raises(ExecutionError, match=f"{ROWS} names no row of a table of {ROWS}"):
            run_function(each, None, inputs, level=level)


def test_loads_through_a_table_that_may_change_wait_for_the_kernels_before() -> None:
    graph = mi.new_kernel_graph("constant")
    cache = graph.new_input((ROWS, 64), dtype=mi.float16, constant=True)
    numbers = graph.new_input((64,), dtype=mi.int32)
    block = mi.new_threadblock_graph((4, 1, 1), (64, 1, 1), 1)
    tile = block.new_input(cache, (0, -1, -1), through=numbers)
    block.new_output(block.exp(tile), (0, -1, -1))
    graph.mark_output(*graph.customized([cache, numbers], block))
    module = transpiled(graph.module())
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    order = [
        type(op)
        for op in kernel.walk()
        if isinstance(op, sched.GridWaitOp)
        or (isinstance(op, sched.CopyOp) and isinstance(op.destination.type, sched.SharedType))
    ]
    assert order[:2] == [sched.GridWaitOp, sched.CopyOp]


def test_the_builder_says_what_numbers_must_be() -> None:
    graph = mi.new_kernel_graph("wrong")
    cache = graph.new_input((ROWS, 64), dtype=mi.float16)
    numbers = graph.new_input((64,), dtype=mi.int64)
    block = mi.new_threadblock_graph((4, 1, 1), (64, 1, 1), 1)
    with pytest.raises(mi.BuildError, match=r"are of i64; expected i32"):
        block.new_input(cache, (0, -1, -1), through=numbers)
    with pytest.raises(mi.BuildError, match="expected a DTensor of numbers of rows for 'through'"):
        block.new_input(cache, (0, -1, -1), through=[1, 2])  # pyright: ignore[reportArgumentType]
    assert list(block.operations) == []


def test_mirage_has_no_such_tiles() -> None:
    with pytest.raises(MirageExportError, match="reads rows through"):
        export_mirage(values().module())
    with pytest.raises(MirageExportError, match="stores rows through"):
        export_mirage(stored().module())


STORED = 50
"""Of the 64 rows of a product; the others are nowhere."""


def stored(*, by_places: int = 0, negated: bool = False) -> mi.KernelGraph:
    """A product of 64 rows, of which numbers say where 50 are stored.

    ``by_places``: the numbers are those of a list of so many places.
    """
    graph = mi.new_kernel_graph("stored")
    x, w = graph.new_input((4, 16, 64)), graph.new_input((1, 64, 32))
    given = graph.new_input((by_places,) if by_places else (4, 16), dtype=mi.int32)
    numbers = mi.invert_places(given, (4, 16)) if by_places else given
    block = mi.new_threadblock_graph((4, 1, 1), (128, 1, 1), 4)
    rows, matrix = block.new_input(x, (0, -1, -1), 2), block.new_input(w, (-1, -1, -1), 1)
    total = block.forloop_accum(block.matmul(rows, matrix))
    total = block.mul_scalar(total, -1.0) if negated else total
    block.new_output(total, (0, -1, -1), dims=(STORED, 32), through=numbers)
    (result,) = graph.customized([x, w, numbers], block)
    graph.mark_output(result)
    return graph


@pytest.mark.parametrize("splits", [1, 2])
def test_rows_are_stored_where_numbers_say(splits: int) -> None:
    """Also if a second kernel adds up what blocks have computed, each of a part of the loop."""
    random = np.random.default_rng(3)
    x = random.uniform(-1, 1, (4, 16, 64)).astype(np.float16)
    w = random.uniform(-1, 1, (1, 64, 32)).astype(np.float16)
    numbers = random.permutation(64)
    numbers[numbers >= STORED] = [-1] * 7 + [STORED, 99] + [-1] * 5
    wanted = np.empty((STORED, 32))
    is_stored = (numbers >= 0) & (numbers < STORED)
    made = (x.astype(np.float64) @ w.astype(np.float64)).reshape(64, 32)
    wanted[numbers[is_stored]] = made[is_stored]
    inputs = [x, w, numbers.reshape(4, 16).astype(np.int32)]
    module = stored().module()
    scheduled = module.clone()
    for step in transpile_pipeline(plan=Plan(split_k=splits) if splits > 1 else None):
        step.apply(make_context(), scheduled)
    for each, level in ((module, "logical"), (scheduled, "logical"), (scheduled, "address")):
        (found,) = run_function(each, None, inputs, level=level)
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-3, atol=4e-3)


def test_random_numbers_of_rows_that_are_stored_are_all_different() -> None:
    """Also those that a schedule takes: some of 64 say none of the 50 rows."""
    module = stored().module()
    scheduled = module.clone()
    TranspilePass().apply(make_context(), scheduled)
    for each in (module, scheduled):
        *_, numbers = random_inputs(only_function(each), [1, 1, 1], 0)
        assert sorted(numbers.reshape(-1)) == list(range(64))


@pytest.mark.parametrize("number", [7, -1])
def test_rows_that_no_number_or_two_numbers_say_are_refused(number: int) -> None:
    numbers = np.arange(64).reshape(4, 16)
    numbers[0, 3] = number
    inputs = [np.zeros((4, 16, 64)), np.zeros((1, 64, 32)), numbers]
    with pytest.raises(ExecutionError, match="0 numbers say that row 3 of its 50 is stored"):
        run_function(stored().module(), None, inputs)


@pytest.mark.parametrize("places", [0, STORED])
def test_functions_that_store_named_rows_are_tested_where_there_is_no_proof(places: int) -> None:
    """Also the degrees of what they compute, for which nobody knows the numbers."""
    one = Subject.of(stored(by_places=places).module())
    other = Subject.of(stored(by_places=places, negated=True).module())
    assert Checker(one).check(other).answer is Answer.DIFFERENT
    same = Checker(one, thorough=True).check(one)
    assert same.answer is (Answer.PROVED if places else Answer.TESTED)


def test_rows_that_a_list_of_places_does_not_have_are_not_proved() -> None:
    kernel = only_function(stored(by_places=STORED - 1).module())
    found = prove(kernel, kernel)
    assert not found.holds and "stores 50 rows through" in found.reason
    assert "which names 49 of them; nothing is stored to the others" in found.reason
