"""Models of torch that are cut for several devices; a group of one device is here."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import mugraph.build as mi
from mugraph.build import BuildError
from mugraph.errors import UserError
from mugraph.jit.groups import Group, expect_alike, mesh_shape
from mugraph.jit.peers import shared_buffer
from mugraph.torch import explain

torch: Any = pytest.importorskip("torch", reason="models are torch's")
distributed: Any = pytest.importorskip("torch.distributed")
collectives: Any = pytest.importorskip("torch.distributed._functional_collectives")


@pytest.fixture
def groups() -> Iterator[list[Any]]:
    """Two process groups of this process alone."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield [distributed.group.WORLD, distributed.new_group([0])]
    distributed.destroy_process_group()


def test_exchanges_of_a_model_are_in_the_program_of_each_device(groups: list[Any]) -> None:
    def layer(x: Any) -> Any:
        total = collectives.all_reduce(x * 2, "sum", groups[0]) + x
        parts = collectives.reduce_scatter_tensor(total, "sum", 0, groups[0])
        return collectives.all_gather_tensor(parts, 0, groups[0]).relu()

    x = torch.randn(4, 8)
    report = explain(layer, x)
    assert len(report.islands) == 1
    assert not report.stayed
    with torch.no_grad():
        found = torch.compile(layer, backend="mugraph", dynamic=False)(x)
    assert torch.allclose(found, (3 * x).relu())


def test_what_another_group_exchanges_stays_in_torch(groups: list[Any]) -> None:
    def layer(x: Any) -> Any:
        for group in (*groups, groups[0]):
            x = collectives.all_reduce(x + 1, "sum", group)
        return x

    report = explain(layer, torch.randn(4, 8))
    assert any("one group" in reason for _, reason in report.stayed)
    assert {str(what).split(".")[1] for what, _ in report.stayed} == {"all_reduce", "wait_tensor"}


def test_collectives_need_a_graph_of_several_devices() -> None:
    graph = mi.new_kernel_graph()
    with pytest.raises(BuildError, match=r"new_kernel_graph\(devices=\[4\]\)"):
        graph.all_reduce(graph.new_input((4, 8)))
    graph = mi.new_kernel_graph(devices=[3])
    with pytest.raises(BuildError, match="3 devices cannot share"):
        graph.reduce_scatter(graph.new_input((4, 8)))


def test_ranks_that_exchange_other_tensors_are_named(
    groups: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = torch.distributed.device_mesh.DeviceMesh.from_group(groups[0], "cpu")
    expect_alike(mesh, "f", ["reading 4x8"])

    def gather(found: list[Any], own: Any, _: Any) -> None:
        found[:] = [own, (1, [*own[1], "a meeting"])]

    monkeypatch.setattr(distributed, "all_gather_object", gather)
    with pytest.raises(UserError, match="exchange 1 is nothing on rank 0, and a meeting on rank 1"):
        expect_alike(mesh, "f", ["reading 4x8"])


def test_memory_that_cannot_be_reached_is_a_sentence(
    groups: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    symmetric: Any = pytest.importorskip("torch.distributed._symmetric_memory")

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("peer access is not supported between these two devices\nmore")

    monkeypatch.setattr(symmetric, "empty", refuse)
    device = torch.device("cuda", 3)
    with pytest.raises(UserError, match="GPU 3 cannot address the memory of the 2 devices") as said:
        shared_buffer(device, 256, Group(groups[0], (0, 1), 0))
    assert "between these two devices); compile with peers=False" in str(said.value)


def test_a_process_outside_of_the_mesh_is_told(groups: list[Any]) -> None:
    outside = SimpleNamespace(mesh=torch.tensor([1]), get_coordinate=lambda: None)
    with pytest.raises(UserError, match="the process of rank 0 is none of the devices of"):
        mesh_shape(outside)
