"""The plans that were measured to be fastest: those that come with mugraph, and those of
``mugraph.compile(..., tune=True)``.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mugraph.codegen.architecture import Architecture
from mugraph.passes.mugraph.known_plans import UsePlansPass, measured_plans
from mugraph.passes.targets import target_named
from mugraph.runtime.toolchain import device_architecture
from mugraph.tune import Options, database_path, gpu_here, tune_program


def shipped_plans(arch: str, target: str) -> UsePlansPass | None:
    """The pass that writes what comes with mugraph; ``None`` where it has nothing of the GPU.

    ``arch`` is what was asked for, ``native`` or a GPU's name, and ``target`` what it is compiled
    for.  Of an architecture it is not known which GPU runs it.
    """
    gpu = gpu_here() if arch == "native" else arch
    if gpu is None or not len(measured_plans(gpu)):
        return None
    return UsePlansPass(gpu=gpu, arch=target)


def known_plans(module: ModuleOp, context: Context, arch: str, *, fuse: bool) -> UsePlansPass:
    """The pass that writes measured plans, for ``arch``, a GPU or an architecture.

    Kernels that the database does not know are measured first, where this machine's GPU runs code
    for ``arch``.
    """
    target, path = target_named(arch), database_path()
    device, gpu = device_architecture(), gpu_here()
    runs = device is not None and Architecture(target.arch).runs_on(Architecture(device))
    if runs and gpu is not None:
        tune_program(module, context, arch, Options(path, gpu), fuse=fuse)
    else:
        gpu = target.name
    return UsePlansPass(str(path) if path.is_file() else "", gpu, arch)
