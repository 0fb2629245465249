"""The README's example of mugraph's passes in a pipeline of one's own."""

import runpy
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.reading import make_context

EXAMPLE = Path(__file__).parents[2] / "examples" / "embed_passes.py"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(EXAMPLE))
    module = names["module"]
    assert isinstance(module, ModuleOp)
    module.verify()
    printed = capsys.readouterr().out
    assert "!tb.stensor<16x128xf16, S<3,3,4> o (16,128):(128,1)>" in printed
    assert str(Parser(make_context(), printed).parse_module()) == str(module)
