"""Instructions of printed kernels as calls of the emulator: PTX, and products of warp groups."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ASM = re.compile(r'^(\s*)asm volatile\("([\w.:]+) ([^"]*)" : (.*)\);$')
_OF_GPU = re.compile(r"^ *#if defined\(__CUDA_ARCH__\)\n.*\n *#else\n((?s:.*?))^ *#endif\n", re.M)
_ADDRESS = re.compile(r"^( *[\w ]+ =) static_cast<int>\(mugraph::te::shared_address\(.*$", re.M)
INCLUDES = ('#include "cute/arch/copy_sm75.hpp"', '#include "cute/arch/mma_sm80.hpp"')


def with_emulated_instructions(source: str) -> str:
    """The text of kernels with calls of the emulator in the place of inline PTX.

    Inline PTX of which the program says what it means is left to that, and needs no addresses.
    """
    source = _ADDRESS.sub(r"\1 0;", _OF_GPU.sub(r"\1", source))
    return "\n".join(_emulated(line) for line in source.splitlines())


# Products that end when they are waited for.
_PRODUCTS = {
    r"^(\s*)(emulate\(d, a, b, thread\);)$": r"\1emulator::begin_product([=] { \2 });",
    r"mugraph::commit_products\(\);": "emulator::commit_products();",
    r"mugraph::wait_products<(\d+)>\(\);": r"emulator::wait_products(\1);",
}


def _emulated(line: str) -> str:
    for pattern, call in _PRODUCTS.items():
        line = re.sub(pattern, call, line)
    match = _ASM.match(line)
    if match is None:
        return line
    indent, name, template, rest = match.groups()
    operands = [text for _, text in _operands(rest)]
    if name.startswith("ldmatrix.sync.aligned.m8n8.x"):
        *registers, address = operands
        place, transposed = _line(name, address)
        # The kernel has no such name.
        stores = " ".join(f"{one} = emulated_[{n}];" for n, one in enumerate(registers))
        call = f"emulator::ldmatrix<{len(registers)}, {transposed}>({place}, emulated_);"
        return f"{indent}{{ uint32_t emulated_[{len(registers)}]; {call} {stores} }}"
    if name.startswith("stmatrix.sync.aligned.m8n8.x"):
        address, *registers = operands
        place, transposed = _line(name, address)
        held = ", ".join(registers)
        return f"{indent}emulator::stmatrix<{len(registers)}, {transposed}>({place}, {{{held}}});"
    if name.startswith("shfl.sync."):
        result, value, *_lane = operands
        _, _, distance, clamp, _mask = template.removesuffix(";").split(", ")
        distance = operands[2] if distance == "%2" else distance
        mode = name.split(".")[2][0]
        return f"{indent}{result} = emulator::shuffle('{mode}', {value}, {distance}, {clamp});"
    if name == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32":
        # In the order of the constraints: what is written first.
        sums, others = operands[:4], operands[4:]
        arguments = ", ".join([*sums, *others, *sums])
        return f"{indent}cute::SM80_16x8x16_F32F16F16F32_TN::fma({arguments});"
    raise ValueError(f"the emulator does not know the instruction {name}")


def _line(name: str, address: str) -> tuple[str, str]:
    """The place of a line of ``ldmatrix`` or ``stmatrix``, and whether matrices are transposed."""
    place = address.removeprefix("mugraph::te::shared_address(").removesuffix(")")
    return place, "true" if ".trans." in name else "false"


def _operands(text: str) -> Iterator[tuple[str, str]]:
    """Constraint and expression of each operand."""
    position = 0
    while (start := text.find('"', position)) >= 0:
        end = text.index('"', start + 1)
        constraint = text[start + 1 : end]
        if text[end + 1 : end + 2] != "(":  # what is clobbered
            return
        depth, position = 1, end + 2
        while depth:
            depth += {"(": 1, ")": -1}.get(text[position], 0)
            position += 1
        yield constraint, text[end + 2 : position - 1]
