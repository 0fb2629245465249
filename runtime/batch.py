"""Several generated files as one, which nvcc compiles in little more time than one of them.

Most of nvcc's time is for headers: 5.8 s of processor time for a kernel and its launcher, of which
0.3 are for the kernel itself.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_TOGETHER = 8
"""Files in a batch at most: ptxas compiles their kernels one after another."""
MEMBER_VARIABLE = "mugraph_member"
"""Which of a batch runs, from 0."""


def batch_source(sources: Sequence[str]) -> str:
    """One generated file of several: each in a namespace of its own, chosen by a variable."""
    heads: dict[str, None] = {}
    bodies: list[str] = []
    for number, source in enumerate(sources):
        body: list[str] = []
        for line in source.splitlines():
            if line.startswith(("#define", "#include", "using namespace")):
                heads[line] = None
            else:
                body.append(line)
        bodies += [f"namespace member_{number} {{", *body, f"}}  // namespace member_{number}", ""]
    numbers = range(len(sources))
    arguments = "inputs, outputs, buf, stream"
    calls = [
        f"    case {number}: return member_{number}::_execute_mugraph({arguments});"
        for number in numbers
    ]
    lines = [
        *heads,
        *bodies,
        f'extern "C" {{ int {MEMBER_VARIABLE} = 0; }}',
        # A file that is compiled without the launcher does not call them.
        "[[maybe_unused]] static void _init() {",
        *(f"  member_{number}::_init();" for number in numbers),
        "}",
        "[[maybe_unused]] static void _execute_mugraph(std::vector<void const *> inputs, "
        "std::vector<void*> outputs, void* buf, cudaStream_t stream) {",
        f"  switch ({MEMBER_VARIABLE}) {{",
        *calls,
        "  }",
        "}",
    ]
    return "\n".join(lines) + "\n"
