"""A race planted in each example of ``examples/cute`` is reported with its lines of Python.

The text of an example is changed, one statement that orders threads or copies at a time, and the
kernel that it makes then is checked.
"""

from __future__ import annotations

import importlib
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from thorough import THOROUGH
from unit.test_cute_kernels import EXAMPLES, kernel_of

from mugraph import cute
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards

ORDERS = re.compile(
    r"^ *(?:cute\.)?(?:arch|warpgroup)\."
    r"(?:sync_\w+|barrier|fence\w*|mbarrier_\w+|cp_async_\w+|commit_group|wait_group)\("
)
"""A statement that orders threads, copies or products."""


def tensors(element: str, *shapes: tuple[int, ...]) -> list[Any]:
    return [cute.make_fake_tensor(element, shape) for shape in shapes]


def columns(*shapes: tuple[int, int]) -> list[Any]:
    return [cute.make_fake_tensor("f32", shape, (1, shape[0])) for shape in shapes]


LAUNCHES: dict[str, tuple[str, Callable[[Any], cute.Launch]]] = {
    "transpose": ("transpose", lambda one: one.launch(*tensors("f32", (64, 96), (96, 64)))),
    "swizzle": ("swizzle", lambda one: one.launch(*tensors("f16", (256, 64), (256,)))),
    "sgemm_1": (
        "sgemm_1",
        lambda one: one.launch(
            *tensors("f32", (64, 24), (32, 24), (64, 32)), tiler=(32, 32, 8), alpha=2.0
        ),
    ),
    "sgemm_2": (
        "sgemm_2",
        lambda one: one.launch(
            *columns((128, 24), (128, 24)), cute.make_fake_tensor("f32", (128, 128))
        ),
    ),
    "gemm_sm80": (
        "gemm_sm80",
        lambda one: one.launch(
            *tensors("f16", (64, 160), (64, 160), (64, 64)), (32, 64, 32), 3, (2, 2)
        ),
    ),
    "gemm_predicated": (
        "gemm_predicated",
        lambda one: one.launch(*tensors("f16", (70, 100), (50, 100), (70, 50))),
    ),
    "gemm_sm90": (
        "gemm_sm90",
        lambda one: one.launch(
            *tensors("f16", (128, 320), (128, 320), (128, 128)), (128, 64, 64), 2, blocks=1
        ),
    ),
    "contraction": (
        "gemm_sm90",
        lambda one: one.launch(
            "makl,nkl->amn",
            *tensors("f16", (10, 3, 5, 64), (64, 5, 64), (3, 10, 64)),
            (64, 64),
            2,
            1,
        ),
    ),
    "contraction by threads": (
        "gemm_predicated",
        lambda one: one.launch("mkl,nlk->mn", *tensors("f16", (7, 3, 20), (9, 20, 3), (7, 9))),
    ),
    "convolution": (
        "gemm_sm90",
        lambda one: one.launch(
            *tensors("f16", (2, 8, 8, 16), (64, 3, 3, 16), (2, 8, 8, 64)),
            (1, 1),
            (1, 1),
            None,
            (64, 64),
            2,
            1,
        ),
    ),
    "convolution by threads": (
        "gemm_predicated",
        lambda one: one.launch(
            *tensors("f16", (1, 4, 5, 20), (10, 2, 2, 20), (1, 5, 6, 10)), (1, 1), (1, 1)
        ),
    ),
}
"""Each example that has shared memory: the file that has the kernel, and a launch of few blocks."""


def mutants() -> list[tuple[str, int]]:
    """An example, and the line of its kernel that is left out.

    Examples of one file take turns at its lines; with ``MUGRAPH_THOROUGH=1`` each has all of them.
    """
    found: list[tuple[str, int]] = []
    for file in dict.fromkeys(file for file, _launch in LAUNCHES.values()):
        names = [name for name, (launched, _launch) in LAUNCHES.items() if launched == file]
        lines = (EXAMPLES / f"{file}.py").read_text().splitlines()
        ordering = [at for at, line in enumerate(lines, 1) if ORDERS.match(line)]
        for number, at in enumerate(ordering):
            taken = names if THOROUGH else [names[number % len(names)]]
            found += [(name, at) for name in taken]
    return found


@pytest.fixture
def edited(tmp_path: Path) -> Iterator[Callable[[str, Callable[[list[str]], None], str], Any]]:
    """Imports an example from a copy of the folder, in which lines of one file were changed."""
    names = [path.stem for path in EXAMPLES.glob("*.py")]
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}

    def load(file: str, change: Callable[[list[str]], None], example: str) -> Any:
        shutil.copytree(EXAMPLES, tmp_path / "cute", ignore=shutil.ignore_patterns("__pycache__"))
        path = tmp_path / "cute" / f"{file}.py"
        lines = path.read_text().splitlines()
        change(lines)
        path.write_text("\n".join(lines))
        sys.path.insert(0, str(path.parent))
        importlib.invalidate_caches()
        return importlib.import_module(example)

    yield load
    sys.path[:] = [one for one in sys.path if one != str(tmp_path / "cute")]
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(before)


def places(message: str) -> list[tuple[str, int]]:
    """The files and lines that a message names."""
    return [(file, int(line)) for file, line in re.findall(r"(\w+)\.py:(\d+)", message)]


@pytest.mark.parametrize(("name", "line"), mutants())
def test_what_is_left_out_is_reported(name: str, line: int, edited: Any) -> None:
    file, launch = LAUNCHES[name]

    def leave_out(lines: list[str]) -> None:
        text = lines[line - 1]
        lines[line - 1] = f"{text[: len(text) - len(text.lstrip())]}pass"

    launched = launch(edited(file, leave_out, name.split()[0]))
    findings = find_texpr_hazards(kernel_of(launched))
    assert findings
    for finding in findings:
        found = places(finding.message)
        assert found and {one for one, _line in found} == {file}
        assert line not in {at for _one, at in found}


@pytest.mark.parametrize(("name", "launch"), [(name, one) for name, (_f, one) in LAUNCHES.items()])
def test_examples_have_no_hazards(name: str, launch: Any, edited: Any) -> None:
    """As they are: what is reported of mutants comes of what they lack."""

    def nothing(_lines: list[str]) -> None:
        """Leaves the text as it is."""

    module = edited(LAUNCHES[name][0], nothing, name.split()[0])
    assert find_texpr_hazards(kernel_of(launch(module))) == []


def test_two_threads_that_write_one_element_are_reported(edited: Any) -> None:
    """Of the kernel without shared memory: every second thread does what the one before does."""

    def double(lines: list[str]) -> None:
        at = next(at for at, line in enumerate(lines) if "get_slice(thread)" in line)
        lines[at] = lines[at].replace("(thread)", "(thread // 2 * 2)")

    module = edited("elementwise_add", double, "elementwise_add")
    shape = (16, 128)
    (finding,) = find_texpr_hazards(kernel_of(module.launch(*tensors("f32", shape, shape, shape))))
    source = (EXAMPLES / "elementwise_add.py").read_text().splitlines()
    found = places(finding.message)
    assert [file for file, _line in found] == ["elementwise_add"] * 2
    assert all("copy_if(exists, load, right, to_c)" in source[line - 1] for _file, line in found)
