"""The C++ behind the header: argument checks, the choice of an architecture's code, the call."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from mugraph.codegen.architecture import Architecture
from mugraph.codegen.c_abi.header import INVALID_EXTENT, parameters, print_header
from mugraph.codegen.c_abi.interface import (
    WORKSPACE_ALIGNMENT,
    CCommunicator,
    CInterface,
    CTensor,
)
from mugraph.codegen.c_abi.model import definitions
from mugraph.codegen.cuda import print_module
from mugraph.dialects.named_extents import NamedExtent, needs_elements, said_extents

_EXECUTE = "void const* const* inputs, void* const* outputs, void* workspace, cudaStream_t stream"


def execute_symbol(interface: CInterface, arch: Architecture) -> str:
    """The C++ function that launches the kernels of one architecture."""
    return f"{interface.name}_{arch.name}"


def print_variant(
    module: ModuleOp, interface: CInterface, arch: Architecture, *, line_info: bool = False
) -> str:
    """The CUDA of a module scheduled for one architecture, and the function that launches it."""
    given = (*interface.inputs, *interface.extents, *interface.communicators)
    inputs, outputs = len(given), len(interface.outputs)
    return "\n".join(
        [
            print_module(module, line_info=line_info),
            f"void {execute_symbol(interface, arch)}({_EXECUTE}) {{",
            f"  const std::vector<void const*> all_inputs(inputs, inputs + {inputs});",
            f"  const std::vector<void*> all_outputs(outputs, outputs + {outputs});",
            "  _execute_mugraph(all_inputs, all_outputs, workspace, stream);",
            "}",
            "",
        ]
    )


def _arguments(
    kind: str,
    tensors: Sequence[CTensor],
    extents: Sequence[NamedExtent] = (),
    communicators: Sequence[CCommunicator] = (),
) -> str:
    """The declaration of the array of a call's inputs or outputs.

    Values of ``extents`` are passed by address.
    """
    entries = [f'{{"{tensor.name}", {tensor.name}, {tensor.alignment}}}' for tensor in tensors]
    entries += [f'{{"{extent.name}", &{extent.name}, 8}}' for extent in extents]
    entries += [f'{{"{each.name}", {each.name}, 1}}' for each in communicators]
    type_ = f"std::array<mugraph::c_interface::{kind}, {len(entries)}>"
    return (
        f"{type_} {kind.lower()}s = {{{{{', '.join(entries)}}}}}"
        if entries
        else f"{type_} {kind.lower()}s{{}}"
    )


def _communicator_checks(communicators: Sequence[CCommunicator]) -> list[str]:
    """What a call does first with communicators."""
    lines: list[str] = []
    for each in communicators:
        lines += [
            f"  if ({each.name} == nullptr) {{",
            f'    return mugraph::c_interface::fail(MUGRAPH_NULL_POINTER, "{each.name} is NULL; '
            f'pass an ncclComm_t of {each.devices} devices.");',
            "  }",
        ]
    return lines


def _extent_checks(interface: CInterface) -> list[str]:
    """What a call does first with the values of extents."""
    lines: list[str] = []
    extents, results = interface.extents, [tensor.names for tensor in interface.outputs]
    for extent in extents:
        least = int(extent.held is None and needs_elements(extent.name, results))
        name, says = extent.name, f"{extent.name} is %lld; it may be {least} to {extent.largest}"
        wrong = [f"{name} < {least}", f"{name} > {extent.largest}"]
        if extent.multiple > 1:
            wrong.append(f"{name} % {extent.multiple} != 0")
            says += f", in steps of {extent.multiple}"
        lines += [
            f"  if ({' || '.join(wrong)}) {{",
            f'    return mugraph::c_interface::fail({INVALID_EXTENT}, "{says}.", '
            f"static_cast<long long>({name}));",
            "  }",
        ]
    empty = " || ".join(f"{extent.name} == 0" for extent in said_extents(extents))
    return [*lines, f"  if ({empty}) return MUGRAPH_SUCCESS;"] if empty else lines


def print_single_file(
    module: ModuleOp, interface: CInterface, arch: Architecture, *, line_info: bool = False
) -> str:
    """Kernels, launcher and interface of one architecture in one file that includes no header.

    ``line_info`` is that of :func:`mugraph.codegen.cuda.print_module`.
    """
    return "\n".join(
        [
            print_variant(module, interface, arch, line_info=line_info),
            print_header(interface),
            _print_functions(interface, [arch]),
        ]
    )


def print_launcher(interface: CInterface, architectures: Sequence[Architecture]) -> str:
    """The file behind the header, for code of these architectures."""
    return f'#include "{interface.name}.h"\n\n{_print_functions(interface, architectures)}'


def _print_functions(interface: CInterface, architectures: Sequence[Architecture]) -> str:
    name = interface.name
    symbols = [execute_symbol(interface, arch) for arch in architectures]
    variants = [
        f"    {{{', '.join(map(str, arch.capability))}, {str(arch.is_exact).lower()}, {symbol}}},"
        for arch, symbol in zip(architectures, symbols, strict=True)
    ]
    inputs = _arguments("Input", interface.inputs, interface.extents, interface.communicators)
    outputs = _arguments("Output", interface.outputs)
    needed = interface.workspace_bytes
    compiled_for = ", ".join(f"{arch.name} ({arch.devices})" for arch in architectures)
    return "\n".join(
        [
            '#include "c_interface.h"',
            *(['#include "c_model.h"'] if interface.model else []),
            "",
            *(f"void {symbol}({_EXECUTE});" for symbol in symbols),
            "",
            "namespace {",
            "constexpr mugraph::c_interface::Variant kVariants[] = {",
            *variants,
            "};",
            f'constexpr char kCompiledFor[] = "{compiled_for}";',
            "}  // namespace",
            "",
            f'extern "C" size_t {name}_workspace_bytes(void) {{ return {needed}; }}',
            "",
            f'extern "C" const char *{name}_error(void) {{',
            "  return mugraph::c_interface::message();",
            "}",
            "",
            f'extern "C" int {name}_check_device(void) {{',
            "  mugraph::c_interface::Variant const* variant = nullptr;",
            "  return mugraph::c_interface::find_variant(kVariants, kCompiledFor, &variant);",
            "}",
            "",
            f'extern "C" int {name}_run({", ".join(parameters(interface))}) {{',
            *_communicator_checks(interface.communicators),
            *_extent_checks(interface),
            f"  const {inputs};",
            f"  const {outputs};",
            "  const mugraph::c_interface::Workspace place = {workspace, workspace_bytes, "
            f"{needed}, {WORKSPACE_ALIGNMENT}}};",
            "  return mugraph::c_interface::run(inputs, outputs, place, kVariants, kCompiledFor, "
            "stream);",
            "}",
            "",
            *definitions(interface),
        ]
    )
