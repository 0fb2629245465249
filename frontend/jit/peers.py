"""What devices lay out for one another to read: PyTorch's symmetric memory, and meetings in it.

``mugraph_dialects/kn`` says what an exchange is, ``passes/program/partition/meetings.py`` where
devices meet, ``runtime/include/mugraph/meet.h`` how.
"""

from __future__ import annotations

import ctypes
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

from xdsl.ir import Attribute, SSAValue

from mugraph.codegen.c_abi import CTensor
from mugraph.dialects.sharding import Axes
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of
from mugraph.errors import UserError, first_line
from mugraph.jit.arguments import ELEMENT_TYPES
from mugraph.jit.groups import Group
from mugraph.passes.program.partition.delivered import pieces_to_copy
from mugraph.passes.program.partition.places import places_of
from mugraph.passes.program.partition.segments import Delivery, Exchange, Meeting
from mugraph.runtime.compile import compile_library
from mugraph.runtime.execute import DeviceError
from mugraph.runtime.toolchain import device_architecture

LIMIT_VARIABLE = "MUGRAPH_MEETING_SECONDS"
"""The environment variable for how long a device waits for another before it gives up, saying for
which; without it it waits for ever."""

_MOST_RANGES = 32
"""As many as ``runtime/include/mugraph/gather.h`` copies."""
_PIECE = 16
"""It copies whole pieces of so many bytes."""

_LIBRARY = """
#include <mugraph/gather.h>

extern "C" __attribute__((visibility("default"))) int mugraph_meet(
    unsigned* const* flags, int members, int place, unsigned* met, unsigned long long limit,
    int number, cudaStream_t stream) {
  try {
    mugraph::meet(mugraph::overlapping(stream), flags, members, place, met, limit, number);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\\n", error.what());
    return 1;
  }
}

extern "C" __attribute__((visibility("default"))) int mugraph_gather(
    unsigned* const* flags, int members, int place, unsigned* met, unsigned long long limit,
    int number, void* const* addresses, unsigned long long const* sizes, int far, int near,
    int multiprocessors, cudaStream_t stream) {
  try {
    auto const own = mugraph::member_of(flags, members, place, met, limit, number);
    auto const queue = mugraph::overlapping(stream);
    mugraph::gather(queue, own, addresses, sizes, far, near, multiprocessors);
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\\n", error.what());
    return 1;
  }
}
"""


class PeerMemory(ABC):
    """Where tensors of exchanges lie, and how devices meet.

    ``number`` is that of a meeting in its program, which whoever waits too long says.
    """

    @abstractmethod
    def exchange(
        self, step: Exchange, value: Any, number: int, *, meets: bool = True
    ) -> Sequence[Any]:
        """Lays a tensor out, meets, and returns the tensors of all members, by place.

        Devices do not meet yet where they do as they ``gather`` it.
        """

    def gather(self, step: Exchange, parts: Sequence[tuple[Any, Any]], number: int) -> None:
        """Meets for an exchange, and copies parts of it and others, each to the first of a pair."""
        for place, part in parts:
            place.copy_(part)

    @abstractmethod
    def deliver(self, step: Delivery, pieces: Sequence[Any], number: int) -> Any:
        """Gives each member its part, meets, and returns what the members gave to this device.

        A part is ``None`` that this device would give itself and nobody reads.
        """

    @abstractmethod
    def meet(self, step: Meeting, number: int) -> None:
        """Waits for the others of the group."""

    def send(self, value: SSAValue, piece: Any) -> None:
        """Begins to copy what a function made for another device, if it was made for one."""
        return

    def fetch(
        self, step: Exchange, value: Any, target: Any, *, ran: bool
    ) -> tuple[Any, Callable[[], None]]:
        """Begins to copy a tensor of another device, and what waits for the copy.

        ``ran`` says whether functions were enqueued since the exchange: they may use memory that
        the copy is then given.
        """
        return value.clone(), lambda: None

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor lies where the next call writes."""
        return False

    def empty_of(self, type_: Attribute) -> Any:
        """A tensor whose parts are written where they belong; ``None`` where they are copied."""
        return None

    def place_of(self, value: SSAValue) -> Any:
        """Where what makes a tensor may write it, for others to read; ``None`` where anywhere."""
        return None


class SentMemory(PeerMemory):
    """Devices that cannot address one another's memory: tensors are sent."""

    def __init__(self, groups: Mapping[Axes, Group]) -> None:
        self._groups = groups

    def exchange(
        self, step: Exchange, value: Any, number: int, *, meets: bool = True
    ) -> Sequence[Any]:
        """The tensors of all members."""
        distributed: Any = import_module("torch.distributed")
        group = self._groups[step.axes]
        received = [value.new_empty(value.shape) for _ in group.members]
        distributed.all_gather(received, value.contiguous(), group.process_group)
        return [received[member] for member in group.members]

    def deliver(self, step: Delivery, pieces: Sequence[Any], number: int) -> Any:
        """The parts of all members for this device."""
        torch, distributed = _torch(), import_module("torch.distributed")
        group = self._groups[step.axes]
        order = sorted(range(len(pieces)), key=lambda place: group.members[place])
        like = next(piece for piece in pieces if piece is not None)
        sent = torch.stack([like if (p := pieces[place]) is None else p for place in order])
        received = sent.new_empty(sent.shape)
        distributed.all_to_all_single(received, sent, group=group.process_group)
        return torch.cat([received[member] for member in group.members], step.op.joined_dim)

    def meet(self, step: Meeting, number: int) -> None:
        """Nothing is laid out that could be replaced too soon."""


class SharedMemory(PeerMemory):
    """Devices of one host, each of which addresses the memory of the others of its groups."""

    def __init__(
        self, device: Any, exchanges: Sequence[Exchange | Delivery], groups: Mapping[Axes, Group]
    ) -> None:
        self._device = device
        # Copies to other devices and from them are side by side, and meetings for these; what meets
        # takes little room beside a product, before whose blocks it comes.
        self._beside, self._sending, self._meeting = (
            _torch().cuda.Stream(device, priority=-1) for _ in range(3)
        )
        together: dict[Axes, list[Exchange | Delivery]] = {}
        for step in exchanges:
            together.setdefault(step.axes, []).append(step)
        library = _library()
        self._rooms = {
            axes: _Room(device, steps, groups[axes], library) for axes, steps in together.items()
        }
        self._first: dict[SSAValue, Any] = {}
        self._sent = set[SSAValue]()
        self._under_way = dict[SSAValue, Any]()
        self._met_beside = False
        self._met = dict[Exchange, Any]()
        for step in reversed(exchanges):
            places = self._rooms[step.axes].places(step)
            self._first |= places
            self._sent -= places.keys()
            if isinstance(step, Delivery):
                self._sent |= pieces_to_copy(step.op, groups[step.axes].place)
        _torch().cuda.synchronize(device)

    def exchange(
        self, step: Exchange, value: Any, number: int, *, meets: bool = True
    ) -> Sequence[Any]:
        """The tensors of all members, where they lie; this device's is copied to its place."""
        room = self._rooms[step.axes]
        own = room.own[step]
        if step.beside and self._met_beside:
            self._meeting.wait_stream(self._sending)
            self._met_beside = False
        with self._on(self._meeting) if step.beside else nullcontext():
            if value.data_ptr() != own.data_ptr():
                own.copy_(value)
            if meets:
                room.meet(number)
            self._met[step] = _torch().cuda.Event()
            self._met[step].record()
        return room.held[step]

    def gather(self, step: Exchange, parts: Sequence[tuple[Any, Any]], number: int) -> None:
        """Meets and copies in one kernel, behind the meetings before it.

        Parts that are no ranges of whole pieces are copied behind the meeting.
        """
        room = self._rooms[step.axes]
        _torch().cuda.current_stream(self._device).wait_stream(self._meeting)
        if len(parts) <= _MOST_RANGES and all(_is_range(each) for pair in parts for each in pair):
            far = [pair for pair in parts if self._is_far(pair[1])]
            room.gather(number, far, [pair for pair in parts if not self._is_far(pair[1])])
        else:
            room.meet(number)
            for place, part in parts:
                place.copy_(part, non_blocking=True)

    def deliver(self, step: Delivery, pieces: Sequence[Any], number: int) -> Any:
        """What the members wrote here; parts are copied that are not at theirs or on their way."""
        room = self._rooms[step.axes]
        on_their_way = {p: self._under_way.pop(p) for p in step.op.pieces if p in self._under_way}
        self._met_beside = False
        for stream in set(on_their_way.values()):
            _torch().cuda.current_stream(self._device).wait_stream(stream)
        for value, piece, place in zip(step.op.pieces, pieces, room.pieces(step), strict=True):
            is_sent = value in on_their_way and self._first[value].data_ptr() == place.data_ptr()
            if piece is not None and not is_sent and piece.data_ptr() != place.data_ptr():
                place.copy_(piece)
        room.meet(number)
        return room.own[step]

    def meet(self, step: Meeting, number: int) -> None:
        """Waits for the others of the group, on the current stream or that of copies to them."""
        with self._on(self._sending) if step.beside else nullcontext():
            self._rooms[step.axes].meet(number)
        self._met_beside = step.beside

    def send(self, value: SSAValue, piece: Any) -> None:
        """Copies on a stream of its own, behind what the current one has been given."""
        if value not in self._sent:
            return
        place = self._first[value]
        own = any(room.is_own(place) for room in self._rooms.values())
        self._under_way[value] = self._beside if own else self._sending
        with self._on(self._under_way[value]):
            place.copy_(piece, non_blocking=True)

    def fetch(
        self, step: Exchange, value: Any, target: Any, *, ran: bool
    ) -> tuple[Any, Callable[[], None]]:
        """Copies on a stream of its own, behind the exchange."""
        cuda = _torch().cuda
        current = cuda.current_stream(self._device)
        copy = value.new_empty(value.shape) if target is None else target
        self._beside.wait_event(self._met[step])
        if ran:
            self._beside.wait_stream(current)
        with cuda.stream(self._beside):
            copy.copy_(value, non_blocking=True)
            arrived = [cuda.Event()]
            arrived[0].record()

        def arrive() -> None:
            # Once: the stream waits for it before all that it is given behind that.
            while arrived:
                current.wait_event(arrived.pop())

        return copy, arrive

    @contextmanager
    def _on(self, stream: Any) -> Generator[None]:
        """On another stream, behind what the current one has been given."""
        cuda = _torch().cuda
        stream.wait_stream(cuda.current_stream(self._device))
        with cuda.stream(stream):
            yield

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor lies in the memory that devices share."""
        return any(room.holds(tensor) for room in self._rooms.values())

    def _is_far(self, tensor: Any) -> bool:
        """Whether a tensor lies in the memory of another device."""
        return any(room.holds(tensor) and not room.is_own(tensor) for room in self._rooms.values())

    def empty_of(self, type_: Attribute) -> Any:
        """A row-major tensor of torch's allocator."""
        torch = _torch()
        dtype = getattr(torch, ELEMENT_TYPES[str(element_type_of(type_))])
        return torch.empty(shape_of(type_), dtype=dtype, device=self._device)

    def place_of(self, value: SSAValue) -> Any:
        """Where this device lays the tensor out, unless it is sent there when it is made."""
        return None if value in self._sent else self._first.get(value)


class _Room:
    """The memory of one group: flags, and a place for each tensor that is exchanged in it."""

    def __init__(
        self, device: Any, exchanges: Sequence[Exchange | Delivery], group: Group, library: Any
    ) -> None:
        torch = _torch()
        places, size = places_of(exchanges, len(group.members))
        buffer, handle = shared_buffer(device, size, group)
        self._buffer, self._handle = buffer, handle
        self.held = {
            step: [_tensor_in(handle, member, step.value, start) for member in group.members]
            for step, start in zip(exchanges, places, strict=True)
        }
        """The tensors of all members, by place."""
        self.own = {step: tensors[group.place] for step, tensors in self.held.items()}
        """This device's."""
        self._ranges = [
            range(start, start + size)
            for member in group.members
            if (start := int(handle.get_buffer(member, (1,), torch.uint8).data_ptr()))
        ]
        buffer.zero_()
        # How often this device has met, and what a kernel that gathers counts with.
        self._met = torch.zeros(2, dtype=torch.int32, device=device)
        addresses = [
            int(handle.get_buffer(member, (1,), torch.int32).data_ptr()) for member in group.members
        ]
        self._flags = (ctypes.c_void_p * len(addresses))(*addresses)
        self._place = group.place
        self._library = library
        self._limit = _limit()
        self._stream = torch._C._cuda_getCurrentRawStream
        self._index = device.index
        self._multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
        # Nobody meets before all flags are zero.
        torch.cuda.synchronize(device)
        distributed: Any = import_module("torch.distributed")
        distributed.barrier(group.process_group)

    def places(self, step: Exchange | Delivery) -> dict[SSAValue, Any]:
        """Where this device lays out what an exchange is of."""
        if isinstance(step, Exchange):
            return {step.value: self.own[step]}
        return dict(zip(step.op.pieces, self.pieces(step), strict=True))

    def pieces(self, step: Delivery) -> list[Any]:
        """Where this device writes what it delivers, in the memory of each member."""
        shape = shape_of(step.op.pieces[0].type)
        count = math.prod(shape)
        return [
            whole.view(-1)[self._place * count : (self._place + 1) * count].view(shape)
            for whole in self.held[step]
        ]

    def holds(self, tensor: Any) -> bool:
        """Whether a tensor lies in the memory of a member."""
        return any(tensor.data_ptr() in each for each in self._ranges)

    def is_own(self, tensor: Any) -> bool:
        """Whether a tensor lies in the memory of this device."""
        return tensor.data_ptr() in self._ranges[self._place]

    def meet(self, number: int) -> None:
        """Waits for the others, on the current stream."""
        if self._library.mugraph_meet(*self._member(number), self._stream(self._index)):
            raise DeviceError("devices cannot meet: the launch failed, as was said on stderr.")

    def gather(
        self, number: int, far: Sequence[tuple[Any, Any]], near: Sequence[tuple[Any, Any]]
    ) -> None:
        """Waits for the others, and copies ranges of their memory and of this device's."""
        addresses = [each.data_ptr() for pair in (*far, *near) for each in pair]
        sizes = [part.nbytes for _, part in (*far, *near)]
        if self._library.mugraph_gather(
            *self._member(number),
            (ctypes.c_void_p * len(addresses))(*addresses),
            (ctypes.c_ulonglong * len(sizes))(*sizes),
            len(far),
            len(near),
            self._multiprocessors,
            self._stream(self._index),
        ):
            raise DeviceError("parts cannot be gathered: the launch failed, as was said on stderr.")

    def _member(self, number: int) -> tuple[Any, ...]:
        """What this device meets the others with."""
        return (
            *(self._flags, len(self._flags), self._place),
            *(self._met.data_ptr(), self._limit, number),
        )


def peer_memory(
    device_mesh: Any, exchanges: Sequence[Exchange | Delivery], groups: Mapping[Axes, Group]
) -> PeerMemory:
    """The memory for the exchanges of a program; every device of the mesh calls it.

    Raises ``UserError`` where GPUs cannot address one another's memory.
    """
    if not exchanges or device_mesh.device_type != "cuda":
        return SentMemory(groups)
    device = _torch().device("cuda", _torch().cuda.current_device())
    return SharedMemory(device, exchanges, groups)


def empty(tensor: CTensor, device: Any) -> Any:
    """A tensor of torch's allocator, that no other device reads."""
    torch = _torch()
    dtype = getattr(torch, ELEMENT_TYPES[tensor.element_type])
    return torch.empty_strided(tensor.shape, tensor.strides, dtype=dtype, device=device)


def shared_buffer(device: Any, size: int, group: Group) -> tuple[Any, Any]:
    """Memory of so many bytes on each member, and what addresses that of all of them.

    Raises ``UserError`` where this device cannot address that of another one.
    """
    torch = _torch()
    memory: Any = import_module("torch.distributed._symmetric_memory")
    try:
        buffer = memory.empty(size, dtype=torch.uint8, device=device)
        return buffer, memory.rendezvous(buffer, group.process_group.group_name)
    except RuntimeError as error:
        raise UserError(
            f"GPU {device.index} cannot address the memory of the {len(group.members)} devices "
            f"that it exchanges tensors with ({first_line(error)}); compile with "
            "peers=False, for which nothing is addressed but sent."
        ) from error


def _tensor_in(handle: Any, member: int, value: SSAValue, start: int) -> Any:
    """The tensor of a member that begins at a byte of its memory."""
    dtype = getattr(_torch(), ELEMENT_TYPES[str(element_type_of(value.type))])
    offset = start // element_bytes_of(value.type)
    return handle.get_buffer(member, shape_of(value.type), dtype, storage_offset=offset)


def _is_range(tensor: Any) -> bool:
    """Whether a tensor is a range of memory of whole pieces."""
    aligned = tensor.nbytes % _PIECE == 0 and tensor.data_ptr() % _PIECE == 0
    return aligned and tensor.is_contiguous()


def _library() -> Any:
    """The compiled kernels in which devices meet."""
    architecture = device_architecture()
    if architecture is None:
        raise DeviceError("devices meet on GPUs, and there is none on this machine.")
    library = ctypes.CDLL(str(compile_library(_LIBRARY, architecture)))
    member = [
        *(ctypes.c_void_p, ctypes.c_int, ctypes.c_int),
        *(ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_int),
    ]
    library.mugraph_meet.argtypes = [*member, ctypes.c_void_p]
    ranges = [*(ctypes.c_void_p, ctypes.c_void_p), *(ctypes.c_int, ctypes.c_int, ctypes.c_int)]
    library.mugraph_gather.argtypes = [*member, *ranges, ctypes.c_void_p]
    return library


def _limit() -> int:
    """How long a device waits for another, in nanoseconds; 0 for ever."""
    given = os.environ.get(LIMIT_VARIABLE, "0")
    try:
        return int(1e9 * float(given))
    except ValueError as error:
        raise UserError(
            f"{LIMIT_VARIABLE} is {given!r}; expected a number of seconds, 0 for no limit."
        ) from error


def _torch() -> Any:
    return import_module("torch")
