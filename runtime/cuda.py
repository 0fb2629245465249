"""From a µGraph to something that runs on a GPU: the passes, the printer, nvcc and the loader."""

from __future__ import annotations

from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import PassPipeline

from mugraph.dialects import te
from mugraph.dialects.alignment import argument_alignment, result_alignment
from mugraph.dialects.cute import Layout
from mugraph.dialects.functions import (
    argument_types,
    given_names,
    got_names,
    mugraphs_of,
    result_types,
)
from mugraph.dialects.named_extents import named_extents
from mugraph.dialects.tensor_types import element_type_of, layout_of, row_major_strides, shape_of
from mugraph.errors import UserError
from mugraph.runtime.compile import FAST_MATH, compile_kernel
from mugraph.runtime.execute import CudaModule, Signature, TensorSpec
from mugraph.runtime.interpreter.arithmetic import storage_dtype


@dataclass(frozen=True)
class CudaProgram:
    """Generated CUDA for one function, and what it takes."""

    source: str
    signature: Signature
    arch: str

    def compile(self, *, fast_math: bool = False) -> Path:
        """The shared object, from the cache where it is there; raises as ``compile_kernel``.

        ``fast_math`` compiles with nvcc's ``-use_fast_math``, outside of all error bounds.
        """
        return compile_kernel(self.source, self.arch, flags=FAST_MATH if fast_math else ())

    def load(self, *, fast_math: bool = False) -> CudaModule:
        """Compiled and loaded into this process; raises ``DeviceError`` where there is no GPU."""
        return CudaModule(self.compile(fast_math=fast_math), self.signature)


def generate_cuda(module: ModuleOp, context: Context, arch: str) -> CudaProgram:
    """The CUDA of a module that defines one function; the module is changed on the way.

    A µGraph goes through ``--transpile`` first, a tensor expression through ``--te-lower``; a
    module with kernels of ``sched`` or of ``te`` is printed as it is.  ``arch`` names an
    architecture or a GPU.  Raises what the passes and the printer raise.
    """
    from mugraph.codegen.cuda import CudaTarget
    from mugraph.passes.targets import architecture_named
    from mugraph.passes.texpr.te_lower import steps_to_kernels
    from mugraph.passes.transpile import TranspilePass

    function = only_function(module)
    if te.is_texpr(function):
        PassPipeline(steps_to_kernels(function, arch)).apply(context, module)
        module.verify()
    elif not any(op.dialect_name() == "sched" for op in module.walk()):
        PassPipeline((TranspilePass(arch=arch),)).apply(context, module)
        module.verify()
    text = StringIO()
    CudaTarget().emit(context, module, text)
    signature = signature_of(only_function(module))
    return CudaProgram(text.getvalue(), signature, architecture_named(arch))


def only_function(module: ModuleOp) -> FuncOp:
    """The µGraph that the module defines; ``UserError`` unless it is one."""
    functions = mugraphs_of(module)
    if len(functions) != 1:
        names = ", ".join(f"@{function.sym_name.data}" for function in functions) or "none"
        raise UserError(
            f"the module must define one function to be run; it defines {names}: a file has one."
        )
    return functions[0]


def signature_of(function: FuncOp) -> Signature:
    """The tensors and the workspace of a function whose layouts and memory have been planned."""
    from mugraph.codegen.cuda import workspace_bytes
    from mugraph.passes.program.plan_dtensor_memory import WORKSPACE_BYTES

    is_planned = WORKSPACE_BYTES in function.attributes
    if te.is_texpr(function):
        taken = [argument_alignment(function, index) for index in te.input_parameters(function)]
        given = [argument_alignment(function, index) for index in te.written_parameters(function)]
    else:
        count = len(function.function_type.outputs.data)
        taken = [
            argument_alignment(function, index) for index in range(len(argument_types(function)))
        ]
        given = [result_alignment(function, index) for index in range(count)]
    extents = tuple(named_extents(function).values())
    inputs = [_tensor_spec(*pair) for pair in zip(argument_types(function), taken, strict=True)]
    outputs = [_tensor_spec(*pair) for pair in zip(result_types(function), given, strict=True)]
    if extents:
        pairs = (inputs, given_names(function)), (outputs, got_names(function))
        inputs, outputs = (
            [replace(spec, names=own) for spec, own in zip(*pair, strict=True)] for pair in pairs
        )
    needed = workspace_bytes(function) if is_planned else 0
    return Signature(tuple(inputs), tuple(outputs), needed, extents)


def _tensor_spec(type_: Attribute, alignment: int) -> TensorSpec:
    shape = shape_of(type_)
    layout = layout_of(type_)
    if layout is None:
        layout = Layout(shape, row_major_strides(shape))
    if not isinstance(layout, Layout):
        raise UserError(f"the device tensor {type_} is swizzled, which none of the kernels reads.")
    return TensorSpec(shape, storage_dtype(element_type_of(type_)), layout, alignment)
