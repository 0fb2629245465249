"""``mugraph.compile(..., tune=True)``: kernels under the plans that were measured to be fastest."""

from __future__ import annotations

import warnings

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from mugraph.codegen.architecture import Architecture
from mugraph.errors import UserError
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.known_plans import PlanDatabaseWarning, UsePlansPass
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import target_named
from mugraph.passes.transpile import LEVEL_ENDS
from mugraph.runtime.toolchain import device_architecture
from mugraph.tune import Options, database_path, gpu_here, tune_program


def tuned(module: ModuleOp, context: Context, arch: str, *, fuse: bool) -> ModuleOp:
    """The scheduled module of a program, its kernels under measured plans.

    Kernels that the database does not know are measured first, where this machine's GPU runs code
    for ``arch``, a GPU or an architecture.  Where measured plans cannot be, a warning says so and
    the kernels are planned as without them.  The module may be changed.  Raises what the passes
    raise.
    """
    known = known_plans(module, context, arch, fuse=fuse)
    scheduled = module.clone()
    steps = compile_pipeline(arch, fuse=fuse, known_plans=known)
    try:
        verifying(steps, LEVEL_ENDS).apply(context, scheduled)
        return scheduled
    except (DiagnosticException, UserError) as error:
        lines = [*str(error).strip().splitlines(), ""]
        warnings.warn(f"measured plans are not used: {lines[0]}", PlanDatabaseWarning, stacklevel=2)
    verifying(compile_pipeline(arch, fuse=fuse), LEVEL_ENDS).apply(context, module)
    return module


def known_plans(module: ModuleOp, context: Context, arch: str, *, fuse: bool) -> UsePlansPass:
    """The pass that writes measured plans, once there are some of this machine's GPU."""
    target, path = target_named(arch), database_path()
    device, gpu = device_architecture(), gpu_here()
    runs = device is not None and Architecture(target.arch).runs_on(Architecture(device))
    if runs and gpu is not None:
        tune_program(module, context, arch, Options(path, gpu), fuse=fuse)
    else:
        gpu = target.name
    return UsePlansPass(str(path) if path.is_file() else "", gpu, arch)
