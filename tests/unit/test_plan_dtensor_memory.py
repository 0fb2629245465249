"""The workspace of a function: whatever a kernel still reads, no other kernel has overwritten."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, TensorType, f16
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import PassPipeline

from mugraph.dialects import kn
from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.kn.workspace import NOT_IN_WORKSPACE, WORKSPACE_BYTES, tensor_bytes
from mugraph.passes.mugraph.resolve_layout import ResolveLayoutPass
from mugraph.passes.program.plan_dtensor_memory import ALIGNMENT, PlanDTensorMemoryPass
from mugraph.reading import make_context, read_module

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.mlir"))


def planned(module: ModuleOp, *, reuse: bool = True) -> FuncOp:
    """The function of a module, its layouts resolved and its workspace planned."""
    passes = (ResolveLayoutPass(), PlanDTensorMemoryPass(reuse=reuse))
    PassPipeline(passes).apply(make_context(), module)
    module.verify()
    return next(op for op in module.walk() if isinstance(op, FuncOp))


def check(function: FuncOp) -> int:
    """Runs the kernels in order on bytes that know whose they are; the bytes of the workspace."""
    size = int(function.attributes[WORKSPACE_BYTES].value.data)  # pyright: ignore
    owner: list[SSAValue | None] = [None] * size
    places: dict[SSAValue, range] = {}
    for op in function.body.block.ops:
        for value in op.operands:
            if value in places:
                assert all(owner[at] is value for at in places[value])
        if not isinstance(op, HasWorkspace):
            continue
        for result, offset in zip(op.results, op.workspace_offsets() or (), strict=True):
            if offset == NOT_IN_WORKSPACE:
                continue
            assert offset % ALIGNMENT == 0
            places[result] = range(offset, offset + tensor_bytes(result))
            assert places[result].stop <= size
            # A kernel must not write what it reads.
            reads = [places[value] for value in op.operands if value in places]
            assert not any(set(place) & set(places[result]) for place in reads)
            for at in places[result]:
                owner[at] = result
    return size


@st.composite
def functions(draw: st.DrawFn) -> ModuleOp:
    """Element-wise kernels on earlier results."""
    type_ = TensorType(f16, [draw(st.integers(1, 9)), 8])
    function = FuncOp("f", ((type_,), (type_,)))
    values: list[SSAValue] = list(function.body.block.args)
    for _ in range(draw(st.integers(1, 12))):
        first, second = draw(st.sampled_from(values)), draw(st.sampled_from(values[-3:]))
        exp, add = kn.UNARY_OPERATORS["exp"], kn.BINARY_OPERATORS["add"]
        op = add(first, second, type_) if draw(st.booleans()) else exp(second, type_)
        function.body.block.add_op(op)
        values.append(op.results[0])
    function.body.block.add_op(ReturnOp(values[-1]))
    return ModuleOp([function])


@settings(max_examples=30, deadline=None)
@given(functions())
def test_no_kernel_reads_what_another_overwrote(module: ModuleOp) -> None:
    own = check(planned(module.clone(), reuse=False))
    assert check(planned(module)) <= own


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    check(planned(read_module(str(path), make_context())))


def test_a_chain_needs_two_places() -> None:
    type_ = TensorType(f16, [8, 8])
    function = FuncOp("f", ((type_,), (type_,)))
    value: SSAValue = function.body.block.args[0]
    for _ in range(9):
        op = kn.UNARY_OPERATORS["exp"](value, type_)
        function.body.block.add_op(op)
        value = op.results[0]
    function.body.block.add_op(ReturnOp(value))
    assert check(planned(ModuleOp([function]))) == 2 * 128
