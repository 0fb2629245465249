"""Numbers of few bits at random extents: as written, fused, scheduled, on bytes, and as CUDA."""

from __future__ import annotations

import pytest
from emulated_programs import check_emulated_later
from thorough import inputs
from xdsl.passes import PassPipeline

from fuzz.narrow_programs import draw_narrow
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.interpreter import run_function

SEED = 23
EMULATED_EVERY = 10
"""What an emulated kernel takes is the compiler's time: none of the first ones."""


@pytest.mark.parametrize("number", range(inputs(3, 100)))
def test_narrow_numbers_are_what_numpy_says_at_every_level(number: int) -> None:
    program = draw_narrow(SEED, number)
    module = program.graph.module()
    program.check(run_function(module, None, program.inputs))
    fused = module.clone()
    fuse_program(only_function(fused), target_named("sm_90a"))
    program.check(run_function(fused, None, program.inputs))
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    for level in ("logical", "address"):
        program.check(run_function(module, None, program.inputs, level=level))
    if number % EMULATED_EVERY == EMULATED_EVERY - 1:
        made = generate_cuda(module, make_context(), "sm_90a")
        check_emulated_later(made, lambda kernels: program.check(kernels.run(program.inputs)))
