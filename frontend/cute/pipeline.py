"""Rings of stages that threads hand over by mbarriers: ``cutlass.pipeline`` of the CuTe DSL.

    pipe = pipeline.PipelineTmaAsync.create(
        num_stages=4,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, warps),
        tx_count=load_a.bytes + load_b.bytes,
    )
    producer, consumer = pipe.make_participants()
    ...
    handle = producer.acquire_and_advance()       # in the producer's loop
    cute.copy(load_a, from_a[_, k], to_a[_, handle.index], tma_bar_ptr=handle.barrier)
    ...
    handle = consumer.wait_and_advance()          # in that of the consumers
    ...
    handle.release()

A state counts the stages that its threads have gone through; in a loop it is advanced equally often
by each iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from mugraph.cute import arch
from mugraph.cute.control import SmemAllocator, when
from mugraph.cute.errors import KernelError
from mugraph.cute.indices import Numeric
from mugraph.cute.machine import kernel_machine
from mugraph.cute.states import Count


class Agent(Enum):
    """Who arrives."""

    Thread = "thread"


class PipelineUserType(Enum):
    """Whose state it is."""

    Producer, Consumer = "producer", "consumer"


@dataclass(frozen=True)
class CooperativeGroup:
    """How many arrivals end a phase of the other side."""

    agent: Agent
    size: int = 1


class PipelineState:
    """Which stage comes next: ``index``, and the parity of its phase."""

    def __init__(self, stages: int, user: PipelineUserType, count: Count) -> None:
        self.stages = stages
        self.user = user
        self._count = count

    @property
    def count(self) -> Numeric:
        """How often it was advanced.

        Raises KernelError where that was under a condition which does not hold for all threads.
        """
        if self._count.path:
            raise KernelError(
                "the state of a pipeline was advanced under a condition, and other threads or "
                "iterations use it here; use it under the same condition, or make another state"
            )
        return self._count.number

    @property
    def index(self) -> Numeric:
        """The number of the stage."""
        return self.count % self.stages

    @property
    def phase(self) -> Numeric:
        """The parity that is waited for: a producer finds the stages of the first round empty."""
        parity = self.count // self.stages % 2
        return 1 - parity if self.user is PipelineUserType.Producer else parity

    def advance(self) -> None:
        """Goes to the next stage."""
        self._count.number = self.count + 1

    def clone(self) -> PipelineState:
        """Another state at the same stage."""
        return PipelineState(self.stages, self.user, _new_count(self.count))

    def kept(self, ahead: int = 0) -> PipelineState:
        """The same where this one is advanced, or one so many stages ahead."""
        return PipelineState(self.stages, self.user, Count(self.count + ahead))


def make_pipeline_state(type: PipelineUserType, stages: int) -> PipelineState:
    """A state at the first stage.  Raises KernelError where there is none."""
    if not isinstance(type, PipelineUserType) or stages < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise KernelError(f"make_pipeline_state: {type} has no state of {stages} stages")
    return PipelineState(stages, type, _new_count(0))


def _new_count(number: Numeric) -> Count:
    return kernel_machine("make_pipeline_state").new_state(number)


class PipelineAsync:
    """Stages that threads write and others read: each thread of a group arrives."""

    _OF_TMA = False
    """Whether TMA fills stages; then one thread of each warp of consumers arrives."""

    def __init__(self, full: Any, stages: int, tx_count: int) -> None:
        self.num_stages = stages
        self.tx_count = tx_count
        self._full, self._empty = full, full + stages

    def _place(self, state: PipelineState) -> Numeric:
        if state.stages != self.num_stages:
            raise KernelError(
                f"a state of {state.stages} stages is none of a pipeline of {self.num_stages}"
            )
        return state.index

    @classmethod
    def create(
        cls,
        *,
        num_stages: int,
        producer_group: CooperativeGroup,
        consumer_group: CooperativeGroup,
        barrier_storage: Any = None,
        tx_count: int = 0,
        cta_layout_vmnk: Any = None,
    ) -> Any:
        """Sets up two mbarriers a stage, of ``barrier_storage`` or new ones; all threads come.

        ``tx_count`` is the bytes of a stage that come by TMA.  Raises KernelError where
        ``cta_layout_vmnk`` is of a cluster of several blocks, which kernels do not have.
        """
        if cta_layout_vmnk is not None and cta_layout_vmnk.size() > 1:
            raise KernelError(f"create: {cta_layout_vmnk} is a cluster, which kernels do not have")
        for group in (producer_group, consumer_group):
            if not isinstance(group, CooperativeGroup):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise KernelError(f"create: expected a CooperativeGroup, got {group!r}")
        if cls._OF_TMA and (not isinstance(tx_count, int) or tx_count < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise KernelError(
                f"create: tx_count is {tx_count!r}; expected how many bytes TMA loads for a stage"
            )
        full = barrier_storage
        if full is None:
            full = SmemAllocator().allocate_array("i64", 2 * num_stages, name="stages")
        with when(kernel_machine("create").thread == 0):
            for stage in range(num_stages):
                arch.mbarrier_init(full + stage, producer_group.size)
                arch.mbarrier_init(full + (num_stages + stage), consumer_group.size)
            arch.mbarrier_init_fence()
        arch.sync_threads()
        return cls(full, num_stages, tx_count)

    def producer_acquire(self, state: PipelineState, _token: Any = None) -> None:
        """Waits until the stage is empty."""
        arch.mbarrier_wait(self._empty + self._place(state), state.phase)

    def producer_commit(self, state: PipelineState) -> None:
        """Says that the thread has filled the stage."""
        arch.mbarrier_arrive(self._full + state.index)

    def producer_get_barrier(self, state: PipelineState) -> Any:
        """The mbarrier that says that the stage is full."""
        return self._full + state.index

    def producer_tail(self, state: PipelineState) -> None:
        """Waits until all stages are empty."""
        with kernel_machine("producer_tail").one_of_warp():
            for stage in range(self.num_stages):
                PipelineAsync.producer_acquire(self, state.kept(stage))

    def consumer_try_wait(self, _state: PipelineState) -> None:
        """Asks whether the stage is full; ``consumer_wait`` waits in either case."""

    def consumer_wait(self, state: PipelineState, _token: Any = None) -> None:
        """Waits until the stage is full."""
        arch.mbarrier_wait(self._full + self._place(state), state.phase)

    def consumer_release(self, state: PipelineState) -> None:
        """Says that the thread, or warp, has read the stage."""
        place = self._empty + state.index
        if not self._OF_TMA:
            arch.mbarrier_arrive(place)
            return
        arch.sync_warp()
        with arch.elect_one():
            arch.mbarrier_arrive(place)

    def make_participants(self) -> tuple[PipelineProducer, PipelineConsumer]:
        """Producer and consumer, each with a state of its own."""
        producer, consumer = (
            make_pipeline_state(user, self.num_stages) for user in PipelineUserType
        )
        return PipelineProducer(self, producer), PipelineConsumer(self, consumer)


class PipelineTmaAsync(PipelineAsync):
    """Stages that TMA fills; one thread of each warp that reads them arrives."""

    _OF_TMA = True

    def producer_acquire(self, state: PipelineState, _token: Any = None) -> None:
        """Waits until the stage is empty, and announces the bytes that come.

        Of a whole warp one thread does so, the one that then copies by TMA.
        """
        with kernel_machine("producer_acquire").one_of_warp():
            super().producer_acquire(state)
            arch.mbarrier_arrive_and_expect_tx(self._full + state.index, self.tx_count)

    def producer_commit(self, state: PipelineState) -> None:
        """Nothing: the copies say so."""


@dataclass(frozen=True)
class PipelineTmaStore:
    """Tiles that a thread stores by TMA, and that are written again once they were read."""

    num_stages: int

    @staticmethod
    def create(*, num_stages: int, producer_group: CooperativeGroup) -> PipelineTmaStore:
        """A pipeline of the thread, or warp, that stores."""
        del producer_group
        return PipelineTmaStore(num_stages)

    def producer_acquire(self) -> None:
        """Waits until the oldest tile was read."""
        arch.cp_async_bulk_wait_group(self.num_stages - 1)

    def producer_commit(self) -> None:
        """Closes the group of the stores that were begun."""
        arch.cp_async_bulk_commit_group()

    def producer_tail(self) -> None:
        """Waits until all tiles were read."""
        arch.cp_async_bulk_wait_group(0)


@dataclass(frozen=True)
class Stage:
    """A stage that a thread has acquired, or waited for."""

    pipe: PipelineAsync
    state: PipelineState

    @property
    def index(self) -> Numeric:
        """Its number."""
        return self.state.index

    @property
    def count(self) -> Numeric:
        """How many stages came before."""
        return self.state.count

    @property
    def barrier(self) -> Any:
        """The mbarrier at which copies count their bytes."""
        return self.pipe.producer_get_barrier(self.state)

    def commit(self) -> None:
        """Says that it is full."""
        self.pipe.producer_commit(self.state)

    def release(self) -> None:
        """Says that it was read."""
        self.pipe.consumer_release(self.state)


class _Participant(Stage):
    """One side of a pipeline, at the stage of its own state."""

    def advance(self) -> None:
        """Goes to the next stage."""
        self.state.advance()

    def _here(self, wait: Callable[[PipelineState], None], *, advances: bool) -> Stage:
        wait(self.state)
        stage = Stage(self.pipe, self.state.kept())
        if advances:
            self.advance()
        return stage


class PipelineProducer(_Participant):
    """Who fills stages."""

    def acquire(self, _token: Any = None) -> Stage:
        """The next stage, once it is empty."""
        return self._here(self.pipe.producer_acquire, advances=False)

    def acquire_and_advance(self, _token: Any = None) -> Stage:
        """As :meth:`acquire`, and goes on."""
        return self._here(self.pipe.producer_acquire, advances=True)

    def tail(self) -> None:
        """Waits until all stages are empty."""
        self.pipe.producer_tail(self.state)


class PipelineConsumer(_Participant):
    """Who reads stages."""

    def try_wait(self) -> None:
        """Asks whether the next stage is full; ``wait`` waits in either case."""

    def wait(self, _token: Any = None) -> Stage:
        """The next stage, once it is full."""
        return self._here(self.pipe.consumer_wait, advances=False)

    def wait_and_advance(self, _token: Any = None) -> Stage:
        """As :meth:`wait`, and goes on."""
        return self._here(self.pipe.consumer_wait, advances=True)
