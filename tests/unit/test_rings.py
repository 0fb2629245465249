"""The rings of warp groups: what the estimate takes them for, and what passes make of them."""

import pytest
from xdsl.passes import PassPipeline

from mugraph.dialects import sched
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import Ring, estimate, ring_of
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.work import PhaseWork, Product
from mugraph.passes.mugraph.plan.choose import space_of, trial_of
from mugraph.passes.mugraph.plan.dimension_tiles import suits_products
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.retile.partition import choose_partition
from mugraph.passes.schedule.pipeline_loads.rings import present_stages
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text

LINEAR = """
func.func @linear(%x: tensor<3072x1280xf16>, %w: tensor<1280x3840xf16>, %b: tensor<1x3840xf16>)
    -> tensor<3072x3840xf16> {
  %a = kn.matmul %x, %w : (tensor<3072x1280xf16>, tensor<1280x3840xf16>) -> tensor<3072x3840xf16>
  %c = kn.add %a, %b : (tensor<3072x3840xf16>, tensor<1x3840xf16>) -> tensor<3072x3840xf16>
  func.return %c : tensor<3072x3840xf16>
}
"""
RESIDUAL = LINEAR.replace("1x3840xf16", "3072x3840xf16")
GATED = """
func.func @gated(%x: tensor<286x1024xf16>, %g: tensor<1024x4096xf16>, %u: tensor<1024x4096xf16>)
    -> tensor<286x4096xf16> {
  %a = kn.matmul %x, %g : (tensor<286x1024xf16>, tensor<1024x4096xf16>) -> tensor<286x4096xf16>
  %b = kn.matmul %x, %u : (tensor<286x1024xf16>, tensor<1024x4096xf16>) -> tensor<286x4096xf16>
  %c = kn.silu %a : tensor<286x4096xf16> -> tensor<286x4096xf16>
  %d = kn.mul %c, %b : (tensor<286x4096xf16>, tensor<286x4096xf16>) -> tensor<286x4096xf16>
  func.return %d : tensor<286x4096xf16>
}
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("program", "plan"),
    [
        # Results of 192 columns leave beside four stages, of 256 in halves.
        (LINEAR, Plan(grid=(20, 24, 1), block=(256, 1, 1))),
        (LINEAR, Plan(grid=(15, 24, 1), block=(256, 1, 1))),
        (RESIDUAL, Plan(grid=(15, 24, 1), block=(256, 1, 1))),
        (
            RESIDUAL.replace("3072x", "3000x"),
            Plan(tile=(128, 0), grid=(15, 24, 1), block=(256, 1, 1)),
        ),
        # Where all blocks run at once, more of what comes from the cache is on its way.
        (LINEAR.replace("3072x", "512x"), Plan(grid=(30, 4, 1), block=(256, 1, 1))),
        # With a residual registers do not suffice for a second block.
        (RESIDUAL, Plan(grid=(30, 24, 1), block=(128, 1, 1))),
        # Swapped operands: two blocks share a multiprocessor, or three.
        (GATED, Plan(grid=(64, 2, 1), tile=(144, 0), block=(128, 1, 1))),
        (GATED, Plan(grid=(64, 5, 1), tile=(64, 0), block=(128, 1, 1))),
        (GATED, Plan(grid=(32, 3, 1), tile=(128, 0), block=(256, 1, 1))),
    ],
)
def test_the_estimate_knows_the_ring_that_a_kernel_gets(program: str, plan: Plan) -> None:
    context, target = make_context(), target_named("h200")
    module = parse_text(context, program, "program")
    steps = compile_pipeline("sm_90a", plan)
    at = [step.name for step in steps].index("plan")
    PassPipeline(steps[:at]).apply(context, module)
    (graph,) = (op for op in module.walk() if isinstance(op, CustomizedOp))
    with trial_of(graph) as trial:
        space = space_of(trial, Plan())
        shape = shape_under(space, choose_partition(space, plan))
    PassPipeline(steps[at:]).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    (stages,) = present_stages(kernel)
    kept = int(shape.loop.runs_ahead(shape.threads, target))
    goes_on = kernel.persistent_blocks is not None
    found = Ring(stages, kept, kernel.resident_blocks or 1, goes_on)
    ring = ring_of(shape, target)
    assert ring is not None
    assert ring._replace(waits=False) == found


def test_results_take_the_place_of_rings_where_all_blocks_run_at_once() -> None:
    """1000 rows are ragged in tiles of 128, so that a buffer is there before stages are chosen."""
    context = make_context()
    module = parse_text(context, LINEAR.replace("3072", "1000"), "linear")
    plan = Plan(grid=(15, 8, 1), tile=(128, 0), block=(256, 1, 1))
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert present_stages(kernel) == (4,)
    results = 128 * 256 * 2
    assert (kernel.smem_bytes or 0) < 4 * (128 + 256) * 64 * 2 + results


def test_sums_that_warps_have_stored_take_no_registers() -> None:
    """Warps add up their parts of the depth in memory: what they had is free for the results."""
    context = make_context()
    few = RESIDUAL.replace("3072x", "32x").replace("3840", "17024")
    module = parse_text(context, few, "few")
    plan = Plan(grid=(266, 1, 1), block=(128, 1, 1), swap_ab=False)
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert kernel.resident_blocks == 2
    assert present_stages(kernel) == (4,)


def test_blocks_of_a_last_round_are_brought_by_few_multiprocessors() -> None:
    """Weights of 5120 x 27648: 36 multiprocessors of an H200 have four of 432 blocks, not three."""
    target = target_named("h200")
    three, more = 3 * target.multiprocessors, 36
    product = Product(2 * 8 * 4, 4)

    def time(blocks: int) -> float:
        weights = Load(64 * 64 * 2, 5120 * 64 * 2 * blocks, looped=True)
        loop = PhaseWork((product,), 0, sums=32 * 64)
        shape = KernelShape(
            blocks, 128, 80, Loads((weights,)), loop, PhaseWork((), 0), 32 * 64 * 2, 0
        )
        found = estimate(shape, target)
        assert found is not None
        return found

    even = time(three)
    assert time(three + more) > even * (three + 1.5 * more) / three
    assert time(2 * three) < 2 * even


@pytest.mark.parametrize(
    ("tile", "suits"),
    [(144, True), (148, False), (296, False), (304, True), (592, False), (768, True)],
)
def test_tiles_are_a_few_whole_instructions(tile: int, suits: bool) -> None:
    assert suits_products(8 * tile, tile) is suits
