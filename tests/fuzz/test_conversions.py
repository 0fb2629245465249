"""Conversions between element types: what they are, and that the headers do the same."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from narrow_codes import around_halves, codes

from fuzz.emulated import build_program
from mugraph.codegen.cuda.cpp import element_type
from mugraph.dialects.element_types import ELEMENT_TYPES
from mugraph.runtime.interpreter.arithmetic import (
    STORAGE_DTYPES,
    convert,
    float_info,
    is_whole,
    round_to_tf32,
)

Array = npt.NDArray[Any]
INFINITY = float("inf")
NAN = float("nan")


@pytest.mark.parametrize(
    ("dtype", "given", "expected"),
    [
        (
            ml_dtypes.float8_e4m3fn,
            [448.0, 464.0, 1e9, INFINITY, -INFINITY],
            [448, 448, 448, 448, -448],
        ),
        (ml_dtypes.float8_e4m3fn, [17.0, 19.0, 2.0**-10, 2.0**-9 * 1.5], [16, 20, 0, 2.0**-8]),
        (
            ml_dtypes.float8_e5m2,
            [57344.0, 1e9, -INFINITY, 9.0, 11.0],
            [57344, 57344, -57344, 8, 12],
        ),
        (ml_dtypes.bfloat16, [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1e39], [1, 1 + 2.0**-6, INFINITY]),
        (np.float16, [65519.0, 65520.0, 2049.0], [65504, INFINITY, 2048]),
        (np.int8, [0.5, 1.5, -2.5, 200.0, -INFINITY, NAN], [0, 2, -2, 127, -128, 0]),
        (np.int32, [2.5, -3.5, 1e10, -1e10, NAN], [2, -4, 2**31 - 1, -(2**31), 0]),
    ],
)
def test_casts_round_to_even_and_saturate(
    dtype: type[np.generic], given: list[float], expected: list[float]
) -> None:
    with np.errstate(over="ignore"):
        result = convert(np.array(given, np.float32), np.dtype(dtype))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype(np.float64), np.array(expected, np.float64))


def nearest(given: Array, dtype: np.dtype[Any]) -> Array:
    """The numbers of a type that are nearest, by the list of all; of two the one of an even code.

    What is larger than the largest number becomes that, or an infinity of 16 bits.
    """
    numbers = np.sort(codes(dtype).astype(np.float64))
    numbers = np.unique(numbers[np.isfinite(numbers)])
    is_even = numbers.astype(dtype).view(f"u{dtype.itemsize}") % 2 == 0
    exact = np.clip(given.astype(np.float64), numbers[0], numbers[-1])
    above = np.searchsorted(numbers, exact).clip(0, len(numbers) - 1)
    below = np.maximum(above - (numbers[above] > exact), 0)
    up, down = numbers[above] - exact, exact - numbers[below]
    rounded = numbers[np.where((up < down) | ((up == down) & is_even[above]), above, below)]
    if dtype.itemsize == 2:
        # Halfway to the number that would be next.
        step = numbers[-1] - numbers[-2]
        beyond = np.abs(given.astype(np.float64)) >= numbers[-1] + step / 2
        rounded = np.where(beyond, np.copysign(INFINITY, given), rounded)
    return np.where(np.isnan(given), 0.0 if dtype.kind == "i" else NAN, rounded)


# Of tensors: tensor expressions have more types.
DTYPES = {type_: STORAGE_DTYPES[type_] for type_ in ELEMENT_TYPES}
SHORT = [dtype for dtype in DTYPES.values() if dtype.itemsize <= 2 and dtype.kind != "b"]


@pytest.mark.parametrize("dtype", SHORT, ids=str)
def test_numbers_around_all_halves_become_the_nearest_ones(dtype: np.dtype[Any]) -> None:
    """As a list of all numbers says, and as ml_dtypes has it where nothing is too large."""
    given = around_halves(dtype)
    with np.errstate(all="ignore"):
        found = convert(given, dtype)
        np.testing.assert_array_equal(found.astype(np.float64), nearest(given, dtype))
        if dtype.kind != "i":
            inside = np.abs(given) <= float(float_info(dtype).max)
            theirs = given[inside].astype(dtype)
            bits = f"u{dtype.itemsize}"
            np.testing.assert_array_equal(found[inside].view(bits), theirs.view(bits))


@pytest.mark.parametrize(
    ("source", "target"),
    [(a, b) for a in SHORT for b in SHORT if a.itemsize == 1 and a != b],
    ids=str,
)
def test_every_code_becomes_the_nearest_number(
    source: np.dtype[Any], target: np.dtype[Any]
) -> None:
    """Infinities and all codes of NaN among them."""
    every = codes(source)
    with np.errstate(all="ignore"):
        found = convert(every, target).astype(np.float64)
        np.testing.assert_array_equal(found, nearest(every.astype(np.float64), target))


def test_nan_stays_nan() -> None:
    for dtype in DTYPES.values():
        if not is_whole(dtype):
            assert np.isnan(convert(np.array([NAN], np.float32), dtype).astype(np.float64)).all()


def test_integers_saturate_where_they_are_cast_and_wrap_where_they_are_summed() -> None:
    large = np.array([300, -300, 2**31], np.int64)
    np.testing.assert_array_equal(convert(large, np.dtype(np.int8)), [127, -128, 127])
    np.testing.assert_array_equal(convert(large, np.dtype(np.int32)), [300, -300, -(2**31)])


def test_tf32_has_ten_bits_and_ties_go_away_from_zero() -> None:
    one = np.float32(1)
    given = np.array([one + 2.0**-11, -one - 2.0**-11, one + 2.0**-12, 3e38, INFINITY], np.float32)
    rounded = round_to_tf32(given)
    np.testing.assert_array_equal(rounded[:3], [1 + 2.0**-10, -1 - 2.0**-10, 1])
    assert np.isinf(rounded[4]) and np.isnan(round_to_tf32(np.array([NAN], np.float32))).all()


def numbers() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """fp32 numbers of all exponents, with the neighbours of every tie of the short types."""
    generator = np.random.default_rng(3)
    bits = generator.integers(0, 2**32, 50_000, np.uint64).astype(np.uint32)
    top = np.arange(2**16, dtype=np.uint32) << np.uint32(16)
    ties = [top | np.uint32(low) for low in (0, 0x7FFF, 0x8000, 0x8001)]
    whole = np.arange(-300, 300, 0.25, dtype=np.float32).view(np.uint32)
    halves = [around_halves(dtype).view(np.uint32) for dtype in SHORT]
    return np.concatenate([bits, *ties, whole, *halves]).view(np.float32)


@pytest.mark.usefixtures("needs_emulator")
def test_the_headers_convert_as_the_interpreter_does(tmp_path: Path) -> None:
    names = [element_type(type_) for type_ in ELEMENT_TYPES]
    lines = [f'convert<{name}>(numbers, folder + "/{index}");' for index, name in enumerate(names)]
    executable = build_program(
        """
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>
using namespace cute;

template <class T>
void convert(std::vector<float> const& numbers, std::string const& path) {
  // An array: std::vector packs booleans.
  std::unique_ptr<T[]> const narrow(new T[numbers.size()]);
  std::vector<float> wide(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) narrow[i] = mugraph::from_float<T>(numbers[i]);
  for (std::size_t i = 0; i < numbers.size(); ++i) wide[i] = mugraph::to_float(narrow[i]);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<char const*>(narrow.get()), numbers.size() * sizeof(T));
  file.write(reinterpret_cast<char const*>(wide.data()), wide.size() * sizeof(float));
  if constexpr (sizeof(T) == 1 && !std::is_same_v<T, bool>) {
    for (int code = 0; code < 256; ++code) {
      T number;
      std::memcpy(&number, &code, 1);
      float const meant = mugraph::to_float(number);
      file.write(reinterpret_cast<char const*>(&meant), sizeof(float));
    }
  }
}

int main(int, char** arguments) {
  std::string const folder = arguments[1];
  std::ifstream file(folder + "/numbers", std::ios::binary | std::ios::ate);
  std::vector<float> numbers(file.tellg() / sizeof(float));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(numbers.data()), numbers.size() * sizeof(float));
  for (float& number : numbers) number = number == number ? number : __uint_as_float(0x7fc00000u);
  """
        + "\n  ".join(lines)
        + """
  std::vector<uint32_t> rounded;
  for (float number : numbers) rounded.push_back(mugraph::round_to_tf32(number));
  std::ofstream(folder + "/tf32", std::ios::binary)
      .write(reinterpret_cast<char const*>(rounded.data()), rounded.size() * sizeof(uint32_t));
}
"""
    )
    given = numbers()
    given.tofile(tmp_path / "numbers")
    subprocess.run([str(executable), str(tmp_path)], check=True)
    with np.errstate(all="ignore"):
        for index, type_ in enumerate(ELEMENT_TYPES):
            dtype = DTYPES[type_]
            data = (tmp_path / str(index)).read_bytes()
            size = given.size * dtype.itemsize
            narrow = np.frombuffer(data[:size], dtype).astype(np.float64)
            wide, every = np.split(np.frombuffer(data[size:], np.float32), [given.size])
            if every.size:
                np.testing.assert_array_equal(every, codes(dtype).astype(np.float32), str(type_))
            expected = convert(given, dtype)
            np.testing.assert_array_equal(narrow, expected.astype(np.float64), str(type_))
            np.testing.assert_array_equal(wide, expected.astype(np.float32), str(type_))
        rounded = np.fromfile(tmp_path / "tf32", np.float32)
        np.testing.assert_array_equal(rounded, round_to_tf32(given))


def test_types_have_the_widths_that_their_bounds_say() -> None:
    units = {
        str(type_): float_info(dtype).eps for type_, dtype in DTYPES.items() if not is_whole(dtype)
    }
    assert units == {
        "f16": 2.0**-10,
        "bf16": 2.0**-7,
        "f32": 2.0**-23,
        "f8E4M3FN": 2.0**-3,
        "f8E5M2": 2.0**-2,
    }
