"""Libraries of models: weights from files, state that calls change, and what is wrong with a file.

The kernels run in the emulator; everything of the host is what ``mg-compile`` writes.
"""

from __future__ import annotations

import ctypes
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_libraries import emulated_library
from xdsl.utils.exceptions import VerifyException

from mugraph.codegen.cuda import CodegenError
from mugraph.reading import make_context, parse_text
from mugraph.runtime.library_sources import Sources, generate_sources

# A sum over calls that starts as the file says, rows of a table, and how many there were.
PROGRAM = """
func.func @model(
    %x: tensor<16x64xf32>, %w: tensor<64x32xf32> {mugraph.constant, mugraph.weight = "a.\\"w\\""},
    %sum: tensor<16x32xf32> {mugraph.state = {name = "sum", result = 2 : i64}},
    %rows: tensor<8x32xf32> {mugraph.state = {name = "rows", result = 3 : i64, zeros}},
    %count: tensor<1xi64> {mugraph.state = {name = "count", result = 4 : i64, zeros}},
    %one: tensor<1xi64> {mugraph.constant, mugraph.weight = "one"}
) -> (tensor<16x32xf32>, tensor<8x32xf32>,
      tensor<16x32xf32>, tensor<8x32xf32>, tensor<1xi64>) {
  %y = kn.matmul %x, %w precision ieee : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
  %new = kn.add %sum, %y : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  %row = kn.slice %y from [0, 0] : tensor<16x32xf32> -> tensor<1x32xf32>
  %put = kn.scatter %row into %rows rows %count dim 0
    : (tensor<1x32xf32>, tensor<8x32xf32>, tensor<1xi64>) -> tensor<8x32xf32>
  %more = kn.add %count, %one : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %seen_sum = kn.tanh %new : tensor<16x32xf32> -> tensor<16x32xf32>
  %seen_rows = kn.tanh %put : tensor<8x32xf32> -> tensor<8x32xf32>
  func.return %seen_sum, %seen_rows, %new, %put, %more
    : tensor<16x32xf32>, tensor<8x32xf32>, tensor<16x32xf32>, tensor<8x32xf32>, tensor<1xi64>
}
"""
NAME = 'a."w"'


def sources_of(text: str) -> Sources:
    context = make_context()
    return generate_sources(parse_text(context, text, "model"), context, ["sm_90a"])


def write_file(path: Path, tensors: dict[str, Any], metadata: Any = None) -> Path:
    """Tensors in the format safetensors, written as its description says."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    data = b""
    types = {"float32": "F32", "float16": "F16", "int64": "I64"}
    for name, array in tensors.items():
        own = array.tobytes()
        offsets = [len(data), len(data) + len(own)]
        header[name] = {
            "dtype": types[array.dtype.name], "shape": list(array.shape), "data_offsets": offsets
        }  # fmt: skip
        data += own
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.fixture(scope="module")
def tensors() -> dict[str, Any]:
    values = np.random.default_rng(0)
    return {
        "sum": values.standard_normal((16, 32), np.float32),
        NAME: values.standard_normal((64, 32), np.float32),
        "one": np.array(1, np.int64),
        "not of the model": np.zeros(3, np.float16),
    }


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = ctypes.CDLL(
        str(emulated_library(sources_of(PROGRAM), tmp_path_factory.mktemp("library")))
    )
    made.model_error.restype = ctypes.c_char_p
    made.model_workspace_bytes.restype = ctypes.c_size_t
    return made


def load(library: ctypes.CDLL, *paths: Path) -> tuple[int, str, ctypes.c_void_p]:
    files = (ctypes.c_char_p * len(paths))(*(str(path).encode() for path in paths))
    weights = ctypes.c_void_p()
    count = ctypes.c_size_t(len(paths))
    code = library.emulated_load_weights(files, count, ctypes.byref(weights))
    return code, library.model_error().decode(), weights


def device_array(library: ctypes.CDLL, array: Any) -> tuple[Any, ctypes.c_void_p]:
    """A copy in the emulator's memory, behind whose end nothing may be read, and its address."""
    pointer = ctypes.c_void_p()
    assert library.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes)) == 0
    assert pointer.value is not None
    memory = (ctypes.c_uint8 * array.nbytes).from_address(pointer.value)
    own = np.frombuffer(memory, array.dtype).reshape(array.shape)
    own[...] = array
    return own, pointer


def test_calls_change_a_state_and_read_weights_of_files(
    library: ctypes.CDLL, tensors: dict[str, Any], tmp_path: Path
) -> None:
    first = {name: tensors[name] for name in ("sum", "not of the model")}
    path = write_file(tmp_path / "first", first | {NAME: tensors[NAME] + 1}, {"format": "ü\n"})
    later = write_file(tmp_path / "later", {name: tensors[name] for name in (NAME, "one")})
    code, message, weights = load(library, path, later)
    assert code == 0, message
    state = ctypes.c_void_p()
    assert library.model_new_state(weights, ctypes.byref(state)) == 0
    size = library.model_workspace_bytes()
    _, workspace = device_array(library, np.zeros(max(size, 256), np.uint8))
    sums, rows = np.float64(tensors["sum"]), np.zeros((8, 32))
    for call in range(5):
        if call == 3:  # from here on as in the first call
            assert library.model_reset_state(weights, state, None) == 0
            sums, rows = np.float64(tensors["sum"]), np.zeros((8, 32))
        drawn = np.random.default_rng(call).random((16, 64), np.float32)
        x, given = device_array(library, drawn)
        made = [device_array(library, np.full(each.shape, np.nan, np.float32))
                for each in (sums, rows)]  # fmt: skip
        pointers = (weights, state, given, *(pointer for _, pointer in made), workspace)
        code = library.model_call(*pointers, ctypes.c_size_t(size), None)
        assert code == 0, library.model_error().decode()
        product = np.float64(x) @ np.float64(tensors[NAME])
        sums, rows[call % 3] = sums + product, product[0]
        for (array, _), expected in zip(made, (sums, rows), strict=True):
            np.testing.assert_allclose(array, np.tanh(expected), atol=1e-4)
    library.model_free_state(state)
    library.model_free_weights(weights)


def test_null_arguments_are_refused_by_name(library: ctypes.CDLL) -> None:
    null = ctypes.c_void_p()
    size = ctypes.c_size_t(0)
    assert library.model_call(null, null, null, null, null, size, null) == 1
    assert library.model_error() == b"weights is NULL; model_load_weights makes what to pass."
    assert library.model_new_state(null, ctypes.byref(ctypes.c_void_p())) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({NAME: None}, "no tensor 'a.\"w\"' in {path}; there is for instance 'not of the model'."),
        ({NAME: np.zeros((32, 64), np.float32)},
         "'a.\"w\"' of {path} is F32 [32, 64] of 8192 bytes; the model was compiled for F32 "
         "[64, 32] of 8192 bytes."),
        ({"sum": np.zeros((16, 32), np.float16)},
         "'sum' of {path} is F16 [16, 32] of 1024 bytes; the model was compiled for F32 [16, 32] "
         "of 2048 bytes."),
    ],
)  # fmt: skip
def test_a_tensor_that_is_not_as_compiled(
    library: ctypes.CDLL, tensors: dict[str, Any], tmp_path: Path, change: Any, says: str
) -> None:
    own = {name: each for name, each in (tensors | change).items() if each is not None}
    path = write_file(tmp_path / "file", own)
    code, message, weights = load(library, path)
    assert (code, message) == (7, says.format(path=path)) and not weights.value


def test_files_that_are_none(library: ctypes.CDLL, tensors: dict[str, Any], tmp_path: Path) -> None:
    whole = write_file(tmp_path / "file", tensors).read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    wrong = {
        whole[: header + 100]: "ends before",
        whole[: header - 1]: "its header does not end in it",
        b"{}": "its header does not end in it",
        struct.pack("<Q", 9) + b'{"a": 1x}': "is missing at its byte 6",
        struct.pack("<Q", 8) + b'{"a": {"': "a string has no end",
        struct.pack("<Q", 20) + b'{"a":{"dtype":"F32"}': "has no two offsets in order",
        struct.pack("<Q", 2**63 + 9) + b"{}": "its header does not end in it",
    }
    for content, says in wrong.items():
        path = tmp_path / "wrong"
        path.write_bytes(content)
        code, message, _ = load(library, path)
        assert code == 7 and says in message and str(path) in message, message
    code, message, _ = load(library, tmp_path / "nothing")
    assert code == 7 and "cannot be opened" in message


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ("mugraph.weight = 3 : i64", "mugraph.weight is a name in quotes, not 3 : i64"),
        ('mugraph.state = "x"', 'mugraph.state is {name = "NAME", result = NUMBER : i64}, not "x"'),
        ('mugraph.state = {name = "x", result = 1 : i64}', "result 1, but there are 1 results"),
        ('mugraph.weight = "w", mugraph.state = {name = "x", result = 0 : i64}',
         "is a weight and a state"),
    ],
)  # fmt: skip
def test_what_an_argument_cannot_be(attributes: str, says: str) -> None:
    text = f"""func.func @f(%x: tensor<8x8xf32> {{{attributes}}}) -> tensor<8x8xf32> {{
      %y = kn.exp %x : tensor<8x8xf32> -> tensor<8x8xf32>
      func.return %y : tensor<8x8xf32>
    }}"""
    with pytest.raises(VerifyException, match="argument 0") as error:
        sources_of(text)
    assert says in str(error.value)


def test_a_weight_that_is_not_as_files_have_it() -> None:
    layout = "#cute.layout<(8,4):(1,8)>"
    text = f"""func.func @f(%x: tensor<8x4xf32, {layout}> {{mugraph.weight = "w"}})
        -> tensor<8x4xf32> {{
      %y = kn.exp %x : tensor<8x4xf32, {layout}> -> tensor<8x4xf32>
      func.return %y : tensor<8x4xf32>
    }}"""
    with pytest.raises(CodegenError, match=r"'w' has strides \(1, 8\), but tensors of files are"):
        sources_of(text)
