"""What a library has beside its interface where arguments are weights of files, or kept state.

``NAME_load_weights`` reads the weights, ``NAME_new_state`` makes what calls change, and
``NAME_call`` is ``NAME_run`` with both in the place of their pointers.
"""

from __future__ import annotations

import math

from mugraph.codegen.c_abi.interface import CInterface, CTensor
from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.dialects.element_types import DESCRIPTIONS
from mugraph.dialects.tensor_types import row_major_strides

INVALID_WEIGHTS = "MUGRAPH_INVALID_WEIGHTS"
"""What loading returns where a file is not as expected; of interfaces with weights or state."""

MAX_RANK = 8
"""As ``kMaxRank`` of ``c_model.h``."""

_FILE_TYPES = {str(type_): known for type_, known in DESCRIPTIONS.items()}


def file_tensors(interface: CInterface) -> dict[str, CTensor]:
    """The tensors that files must have, by their names there: weights, and states as they start.

    Raises :class:`CodegenError` for one that is not row-major, as files are.
    """
    model, inputs = interface.model, interface.inputs
    named = {name: inputs[index] for index, name in model.weights.items()}
    named |= {each.name: inputs[each.argument] for each in model.states if not each.zeros}
    for name, tensor in named.items():
        expected = row_major_strides(tensor.shape)
        pairs = zip(tensor.shape, tensor.strides, expected, strict=True)
        if any(extent > 1 and own != wanted for extent, own, wanted in pairs):
            raise CodegenError(
                f"the weight '{name}' has strides {tensor.strides}, but tensors of files are "
                f"row-major; lay argument {tensor.name} out with strides {expected}"
            )
        if len(tensor.shape) > MAX_RANK:
            raise CodegenError(f"the weight '{name}' has more than {MAX_RANK} dimensions")
    return named


def comments(interface: CInterface) -> list[str]:
    """What the header's first comment says of weights and state."""
    model = interface.model
    lines: list[str] = []
    if model.weights:
        lines.append(" * Weights, by their names in files:")
        for index, name in model.weights.items():
            lines.append(f" *   {interface.inputs[index].name}: {_in_comment(name)}")
    if model.states:
        lines.append(" * What calls change, and keep for the next call:")
        for state in model.states:
            new = interface.outputs[state.result].name
            how = "in place" if state.result in interface.in_place else "copied"
            lines.append(f" *   {interface.inputs[state.argument].name}: becomes {new}, {how}")
    return lines


def _in_comment(name: str) -> str:
    return name.replace("*/", "* /")


def _given(interface: CInterface) -> list[str]:
    """The first parameters of a call."""
    name = interface.name
    weights = [f"const struct {name}_weights *weights"] if file_tensors(interface) else []
    state = [f"struct {name}_state *state"] if interface.model.states else []
    return [*weights, *state]


def _call_parameters(interface: CInterface) -> list[str]:
    model = interface.model
    own, made = model.arguments, model.results
    return [
        *_given(interface),
        *(f"const void *{x.name}" for at, x in enumerate(interface.inputs) if at not in own),
        *(f"void *{x.name}" for at, x in enumerate(interface.outputs) if at not in made),
        *(f"int64_t {extent.name}" for extent in interface.extents),
        "void *workspace",
        "size_t workspace_bytes",
        "struct CUstream_st *stream",
    ]


def declarations(interface: CInterface) -> list[str]:
    """The functions for weights and state, as the header declares them."""
    if not interface.model:
        return []
    name, lines = interface.name, list[str]()
    weights = f"const struct {name}_weights *weights" if file_tensors(interface) else ""
    if weights:
        lines += [
            "/* Reads the weights from safetensors files, by name, into memory of the current",
            " * device; of two files that have one name, the later counts. Names, types and",
            " * extents of all are checked before anything is copied. */",
            f"struct {name}_weights;",
            f"MUGRAPH_API int {name}_load_weights(const char *const *files, size_t count, "
            f"struct {name}_weights **weights);",
            f"MUGRAPH_API void {name}_free_weights(struct {name}_weights *weights);",
            "",
        ]
    if interface.model.states:
        before = f"{weights}, " if weights else ""
        lines += [
            "/* What calls change, as it is before the first call; each sequence of calls has its",
            " * own. _reset_state makes it that again, on the stream. */",
            f"struct {name}_state;",
            f"MUGRAPH_API int {name}_new_state({before}struct {name}_state **state);",
            f"MUGRAPH_API int {name}_reset_state({before}struct {name}_state *state, "
            "struct CUstream_st *stream);",
            f"MUGRAPH_API void {name}_free_state(struct {name}_state *state);",
            "",
        ]
    return [
        *lines,
        f"/* {name}_run with the pointers of weights and state. */",
        f"MUGRAPH_API int {name}_call({', '.join(_call_parameters(interface))});",
        "",
    ]


def definitions(interface: CInterface) -> list[str]:
    """What is behind :func:`declarations`, in C++."""
    if not interface.model:
        return []
    name, files = interface.name, file_tensors(interface)
    lines: list[str] = []
    if files:
        lines += [
            f"struct {name}_weights : mugraph::c_interface::Weights {{}};",
            "",
            "namespace {",
            "constexpr mugraph::c_interface::FileTensor kFileTensors[] = {",
            *(f"    {_file_tensor(each, tensor)}," for each, tensor in files.items()),
            "};",
            "}  // namespace",
            "",
            f'extern "C" int {name}_load_weights(const char *const *files, size_t count, '
            f"struct {name}_weights **weights) {{",
            "  return mugraph::c_interface::load_weights(files, count, kFileTensors, weights);",
            "}",
            "",
            f'extern "C" void {name}_free_weights(struct {name}_weights *weights) {{',
            "  delete weights;",
            "}",
            "",
        ]
    if interface.model.states:
        lines += _state_definitions(interface, [*files])
    return [*lines, *_call_definition(interface, [*files])]


def _state_definitions(interface: CInterface, files: list[str]) -> list[str]:
    name = interface.name
    weights = f"const struct {name}_weights *weights, " if files else ""
    given = "weights" if files else "nullptr"
    entries: list[str] = []
    for state in interface.model.states:
        initial = -1 if state.zeros else files.index(state.name)
        in_place = interface.in_place.get(state.result) == state.argument
        span = interface.inputs[state.argument].span
        entries.append(
            f"    {{{_quoted(state.name)}, {span}, {initial}, {str(in_place).lower()}}},"
        )
    return [
        f"struct {name}_state : mugraph::c_interface::State {{}};",
        "",
        "namespace {",
        "constexpr mugraph::c_interface::StateTensor kStateTensors[] = {",
        *entries,
        "};",
        "}  // namespace",
        "",
        f'extern "C" int {name}_new_state({weights}struct {name}_state **state) {{',
        *_null_check("weights", f"{name}_load_weights", bool(files)),
        f"  return mugraph::c_interface::new_state({given}, kStateTensors, state);",
        "}",
        "",
        f'extern "C" int {name}_reset_state({weights}struct {name}_state *state, '
        "struct CUstream_st *stream) {",
        *_null_check("weights", f"{name}_load_weights", bool(files)),
        f"  return mugraph::c_interface::reset_state({given}, state, stream);",
        "}",
        "",
        f'extern "C" void {name}_free_state(struct {name}_state *state) {{ delete state; }}',
        "",
    ]


def _call_definition(interface: CInterface, files: list[str]) -> list[str]:
    name, model = interface.name, interface.model
    inputs = [tensor.name for tensor in interface.inputs]
    outputs = [tensor.name for tensor in interface.outputs]
    for index, weight in model.weights.items():
        inputs[index] = f"weights->pointers[{files.index(weight)}]"
    for number, state in enumerate(model.states):
        inputs[state.argument] = f"state->now({number})"
        outputs[state.result] = f"state->next({number})"
    passed = [*inputs, *outputs, *(extent.name for extent in interface.extents)]
    has_state = bool(model.states)
    after = "mugraph::c_interface::keep(*state, stream)" if has_state else "MUGRAPH_SUCCESS"
    return [
        f'extern "C" int {name}_call({", ".join(_call_parameters(interface))}) {{',
        *_null_check("weights", f"{name}_load_weights", bool(files)),
        *_null_check("state", f"{name}_new_state", has_state),
        f"  int const code = {name}_run({', '.join(passed)}, workspace, workspace_bytes, stream);",
        f"  return code != MUGRAPH_SUCCESS ? code : static_cast<int>({after});",
        "}",
        "",
    ]


def _null_check(what: str, maker: str, is_there: bool) -> list[str]:
    if not is_there:
        return []
    return [
        f"  if ({what} == nullptr) {{",
        "    return mugraph::c_interface::fail(MUGRAPH_NULL_POINTER, "
        f'"{what} is NULL; {maker} makes what to pass.");',
        "  }",
    ]


def _file_tensor(name: str, tensor: CTensor) -> str:
    known = _FILE_TYPES[tensor.element_type]
    bytes_ = math.prod(tensor.shape) * known.bits // 8
    shape = ", ".join(map(str, tensor.shape))
    return f'{{{_quoted(name)}, "{known.safetensors}", {len(tensor.shape)}, {{{shape}}}, {bytes_}}}'


def _quoted(name: str) -> str:
    """A name as a string of C++."""
    escaped = "".join(
        char
        if (char.isascii() and char.isalnum()) or char in "._-/ "
        else "".join(f"\\{byte:03o}" for byte in char.encode())
        for char in name
    )
    return f'"{escaped}"'
