"""The C header: the interface as a C or C++ compiler, or a person, reads it."""

from __future__ import annotations

from mugraph.codegen.c_abi.interface import INTERFACE_VERSION, WORKSPACE_ALIGNMENT, CInterface
from mugraph.codegen.c_abi.model import INVALID_WEIGHTS, comments, declarations
from mugraph.passes.program.partition.places import PLACE_ALIGNMENT

STATUS_CODES: tuple[tuple[str, str], ...] = (
    ("MUGRAPH_SUCCESS", "the kernels are on the stream"),
    ("MUGRAPH_NULL_POINTER", "a tensor, or a workspace that is needed, is NULL"),
    ("MUGRAPH_MISALIGNED_POINTER", "a tensor or the workspace is not aligned as documented"),
    ("MUGRAPH_WORKSPACE_TOO_SMALL", "workspace_bytes is less than is needed"),
    ("MUGRAPH_UNSUPPORTED_DEVICE", "compiled for other architectures than the current device's"),
    ("MUGRAPH_CUDA_ERROR", "the CUDA runtime or a library reported an error"),
)
"""The status codes in order from 0, with what each says; fixed for version 1 of the interface."""


INVALID_EXTENT = "MUGRAPH_INVALID_EXTENT"
"""What a call with a value of an extent returns that cannot be; of interfaces with extents."""

INVALID_PLACE = "MUGRAPH_INVALID_PLACE"
"""What a call of a device returns that says it is none of the members."""


def _extents(interface: CInterface) -> list[str]:
    """What comments say of the values of extents."""
    lines: list[str] = []
    for extent in interface.extents:
        line = f" *   {extent.name}: 0 to {extent.largest}"
        if extent.multiple > 1:
            line += f", a multiple of {extent.multiple}"
        if extent.held is not None:
            holder = interface.inputs[extent.held].name
            line += f", at least what {holder} holds; tensors have room for {extent.largest}"
        lines.append(line)
    return lines


def _in_place(interface: CInterface) -> list[str]:
    """What comments say of outputs that may be inputs."""
    return [
        f" *   {interface.outputs[output].name} may be {interface.inputs[given].name}, of which "
        "only what changes is written then."
        for output, given in interface.in_place.items()
    ]


def _communicators(interface: CInterface) -> list[str]:
    """What comments say of communicators."""
    if not interface.communicators:
        return []
    return [
        " * The program of each of several devices: all of them call it, in one order. It takes an",
        " * ncclComm_t of each group, ranks in the order of the mesh, and the caller links NCCL:",
        *(
            f" *   {each.name}: the {each.devices} devices that differ along "
            f"{'axis' if len(each.axes) == 1 else 'axes'} {', '.join(map(str, each.axes))}"
            for each in interface.communicators
        ),
    ]


def _peers(interface: CInterface) -> list[str]:
    """What comments say of the memory of other devices."""
    if not interface.peers:
        return []
    lines = [
        " * The program of each of several devices of one host, which read one another's memory:",
        " * all of them call it, in one order. The memory is zero before the first call of any.",
    ]
    for each in interface.peers:
        axes = f"{'axis' if len(each.axes) == 1 else 'axes'} {', '.join(map(str, each.axes))}"
        lines += [
            f" *   {each.name}: the addresses, as this device has them, of the memory of the "
            f"{each.devices} devices",
            f" *     that differ along {axes}, in the order of the mesh: {each.bytes} bytes each, "
            f"aligned to {PLACE_ALIGNMENT}",
            f" *   {each.place}: which of them this device is",
        ]
    return lines


def _status_codes() -> list[str]:
    lines = ["#ifndef MUGRAPH_C_INTERFACE_1", "#define MUGRAPH_C_INTERFACE_1", "enum {"]
    for code, (name, meaning) in enumerate(STATUS_CODES):
        lines.append(f"  {name} = {code}, /* {meaning} */")
    return [*lines, "};", "#endif"]


def parameters(interface: CInterface) -> list[str]:
    """The parameters of the function that runs the kernels, as C declares them."""
    return [
        *(f"const void *{tensor.name}" for tensor in interface.inputs),
        *(f"void *{tensor.name}" for tensor in interface.outputs),
        *(f"int64_t {extent.name}" for extent in interface.extents),
        *(f"struct ncclComm *{each.name}" for each in interface.communicators),
        *(f"void *const *{each.name}, int {each.place}" for each in interface.peers),
        "void *workspace",
        "size_t workspace_bytes",
        "struct CUstream_st *stream",
    ]


def print_header(interface: CInterface) -> str:
    """The header's text; C89 but for the comments' contents, and C++."""
    name = interface.name
    guard = f"MUGRAPH_{name.upper()}_H"
    tensors = [f" *   {tensor.name}: {tensor}" for tensor in interface.tensors]
    return "\n".join(
        [
            f"/* {name}: a µGraph compiled by mugraph. Version {INTERFACE_VERSION} of the C "
            "interface.",
            " *",
            " * Tensors are pointers to device memory, strides are in elements:",
            *tensors,
            *([" * Extents that a call says:", *_extents(interface)] if interface.extents else []),
            " * An output must not overlap an input, another output or the workspace"
            + (", but for:" if interface.in_place else "."),
            *_in_place(interface),
            *_communicators(interface),
            *_peers(interface),
            *comments(interface),
            " */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#include <stddef.h>",
            *(["#include <stdint.h>"] if interface.extents else []),
            "",
            *_status_codes(),
            *(
                [f"#ifndef {INVALID_EXTENT}", f"#define {INVALID_EXTENT} 6", "#endif"]
                if interface.extents
                else []
            ),
            *(
                [f"#ifndef {INVALID_WEIGHTS}", f"#define {INVALID_WEIGHTS} 7", "#endif"]
                if interface.model
                else []
            ),
            *(
                [f"#ifndef {INVALID_PLACE}", f"#define {INVALID_PLACE} 8", "#endif"]
                if interface.peers
                else []
            ),
            "",
            "#if defined(__GNUC__)",
            '#define MUGRAPH_API __attribute__((visibility("default")))',
            "#else",
            "#define MUGRAPH_API",
            "#endif",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            "/* CUDA's cudaStream_t and CUstream are pointers to it. */",
            "struct CUstream_st;",
            *(
                ["/* NCCL's ncclComm_t is a pointer to it. */", "struct ncclComm;"]
                if interface.communicators
                else []
            ),
            "",
            f"/* Bytes of device memory, aligned to {WORKSPACE_ALIGNMENT}, that a call needs for"
            " intermediates; 0 for none. */",
            f"MUGRAPH_API size_t {name}_workspace_bytes(void);",
            *(
                line
                for each in interface.peers
                for line in (
                    "",
                    f"/* Bytes of device memory, aligned to {PLACE_ALIGNMENT}, that each device of "
                    f"{each.name} gives. */",
                    f"MUGRAPH_API size_t {name}_{each.name}_bytes(void);",
                )
            ),
            "",
            "/* 0 where the current device runs this code, else MUGRAPH_UNSUPPORTED_DEVICE or",
            " * MUGRAPH_CUDA_ERROR, as a call would return it. */",
            f"MUGRAPH_API int {name}_check_device(void);",
            "",
            "/* Puts the kernels on the stream of the current device and returns without waiting.",
            " *",
            " * The workspace must stay untouched until the kernels have run; calls on different",
            " * streams need one each. May be captured in a CUDA graph. Safe to call from several",
            " * threads. Returns one of the codes above; nothing is launched where it is one of",
            " * the first four failures. */",
            f"MUGRAPH_API int {name}_run(" + ", ".join(parameters(interface)) + ");",
            "",
            "/* A sentence on the last failure of a call on this thread; empty before it. */",
            f"MUGRAPH_API const char *{name}_error(void);",
            "",
            *declarations(interface),
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            f"#endif /* {guard} */",
            "",
        ]
    )
