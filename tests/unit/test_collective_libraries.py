"""Libraries of programs on several devices: what their C functions take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from libraries_once import units_once

import mugraph
from mugraph.codegen.c_abi import CCommunicator
from mugraph.errors import UserError
from mugraph.reading import make_context, parse_text
from mugraph.runtime.ahead_of_time import MANIFEST, build
from mugraph.runtime.library_sources import Sources, generate_sources
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

WHOLE = """
func.func @sums(%x: tensor<8x16xbf16> {mugraph.sharding = #kn.sharding<[[], [0]]>},
                %z: tensor<8x16xf32> {mugraph.sharding = #kn.sharding<[[], [1]]>})
    -> (tensor<8x16xbf16> {mugraph.sharding = #kn.sharding<[[]]>},
        tensor<8x16xf32> {mugraph.sharding = #kn.sharding<[[]]>})
    attributes {mugraph.mesh = [2, 4]} {
  %e = kn.exp %x : tensor<8x16xbf16> -> tensor<8x16xbf16>
  %r = kn.relu %z : tensor<8x16xf32> -> tensor<8x16xf32>
  func.return %e, %r : tensor<8x16xbf16>, tensor<8x16xf32>
}
"""


def sources() -> Sources:
    """Of a program of whole tensors, which is partitioned on the way."""
    context = make_context()
    return generate_sources(parse_text(context, WHOLE, "sums"), context, ["sm_90a"])


def test_a_communicator_of_each_group_follows_the_tensors() -> None:
    found = sources()
    assert found.interface.communicators == (
        CCommunicator("comm_0", (0,), 2),
        CCommunicator("comm_1", (1,), 4),
    )
    header = found.files["include/sums.h"]
    assert "x: bf16 8x8" in header
    assert "comm_1: the 4 devices that differ along axis 1" in header
    run = "void *e, void *r, struct ncclComm *comm_0, struct ncclComm *comm_1, void *workspace,"
    assert run in header
    assert "-lnccl" in found.files["lib/pkgconfig/sums.pc"]
    assert 'INTERFACE_LINK_LIBRARIES "nccl"' in found.files["lib/cmake/sums/sums-config.cmake"]


def test_a_program_of_one_device_links_no_nccl() -> None:
    context = make_context()
    text = WHOLE.replace("attributes {mugraph.mesh = [2, 4]} ", "")
    found = generate_sources(parse_text(context, text, "sums"), context, ["sm_90a"])
    assert found.interface.communicators == ()
    assert not any("nccl" in text.lower() for text in found.files.values())


def test_it_compiles_and_python_is_told_to_call_the_c_function(tmp_path: Path) -> None:
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))
    with units_once():
        build(sources(), tmp_path, WHOLE)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    assert [each["devices"] for each in manifest["communicators"]] == [2, 4]
    with pytest.raises(UserError, match="takes communicators of NCCL; call its C function"):
        mugraph.load(tmp_path)
