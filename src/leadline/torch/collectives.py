"""Collectives with arrival and end, seen where torch.distributed hands them to a backend.

One place sees them all: the methods of `ProcessGroup`. `dist.all_reduce` and its like end there, and so do the bucket
reductions of a DistributedDataParallel with a communication hook of the user's, because such a hook calls
`dist.all_reduce` itself. A DDP without a hook reduces in C++, unseen; it gets one of ours before its first forward
pass, which computes the same and is seen by itself. Nothing is seen twice.

    arrival   when the method is called
    end       asynchronous: when the work's future completes, on the backend's thread; otherwise, and for works
              without a future (send, recv): when `wait` returns. CPU tensors only: work on a device is complete for
              its future when it is queued, and its end is the NCCL plug-in's to tell

A send or receive is also told as its end of a message (table message_end): channel is its tag, and its number counts
what went from one rank to the other under that tag, so both ends of a message have the same one.

Not seen: functional collectives (torch.compile), which go past these methods. The communicator's number of a
collective is the group's own, so it agrees with the Flight Recorder's (which counts from 1).
Cost and what was compared: docs/how-to/watch-a-pytorch-job.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from leadline.torch.identity import Identity
from leadline.torch.rings import Rings

# Method of ProcessGroup, the operation, and which argument holds what this rank puts in (scatter: gets; -1: nothing).
# A method that this version of torch has not is left out.
METHODS = (
    ("allreduce", "all_reduce", 0),
    ("allreduce_coalesced", "all_reduce", 0),
    ("broadcast", "broadcast", 0),
    ("reduce", "reduce", 0),
    ("allgather", "all_gather", 1),
    ("allgather_coalesced", "all_gather", 1),
    ("_allgather_base", "all_gather", 1),
    ("all_gather_single", "all_gather", 1),
    ("all_gather_single_coalesced", "all_gather", 1),
    ("allgather_into_tensor_coalesced", "all_gather", 1),
    ("reduce_scatter", "reduce_scatter", 1),
    ("_reduce_scatter_base", "reduce_scatter", 1),
    ("reduce_scatter_single", "reduce_scatter", 1),
    ("reduce_scatter_single_coalesced", "reduce_scatter", 1),
    ("reduce_scatter_tensor_coalesced", "reduce_scatter", 1),
    ("alltoall", "all_to_all", 1),
    ("alltoall_base", "all_to_all", 1),
    ("all_to_all_single", "all_to_all", 1),
    ("gather", "gather", 1),
    ("scatter", "scatter", 0),
    ("barrier", "barrier", -1),
    ("send", "send", 0),
    ("recv", "recv", 0),
    ("recv_anysource", "recv", 0),
)
PAIRWISE = ("send", "recv")
TAG_MAX = 0xFFFF  # a message's channel has 16 bits in the ring
WAITED_MAX = 1024  # works without a future whose `wait` has not returned; more are not followed to their end


class Comm:
    """A communicator as this process sees it, and the number of its next collective."""

    def __init__(self, name: str, ranks: int, on_cpu: bool = True, members: list[int] | None = None) -> None:
        self.name = name  # `bert-7/0x9c...`, equal on all its ranks
        self.ranks = ranks
        self.members = members or []  # global ranks, by rank in the group
        self.on_cpu = on_cpu  # whether a barrier's end can be seen
        self.group_number = -1  # what the group said the last time
        self.next = 0
        self.pairwise = {"send": 0, "recv": 0}
        self.messages: dict[tuple[str, int, int], int] = {}  # side, peer, tag: how many there were

    def number(self, group_number: int) -> int:
        """The number of the collective that is about to be called."""
        # The group's own number, unless it stands still: a group of two backends counts on one of them only.
        seq = max(group_number, self.next) if group_number > self.group_number else self.next
        self.group_number, self.next = group_number, seq + 1
        return seq

    def pairwise_number(self, op: str) -> int:
        """The number of a send or a receive; they do not count as collectives."""
        seq = self.pairwise[op]
        self.pairwise[op] = seq + 1
        return seq

    def message(self, op: str, group_rank: int, tag: int) -> tuple[int, int, int]:
        """Channel, number and global rank at the other end of the message that is about to be sent or received."""
        key = (op, group_rank, tag)
        seq = self.messages.get(key, 0)
        self.messages[key] = seq + 1
        return tag, seq, self.members[group_rank]


class Call(NamedTuple):
    """One collective between its arrival and its end."""

    record: tuple[str, int, str, str, int, int, int]  # comm, seq, op, dtype, bytes, ranks, enqueued_ns
    on_cpu: bool
    message: tuple[int, int, int] | None = None  # channel, seq, peer: of a send or receive whose peer is known


class Collectives:
    """Sees the collectives of this process from `attach()` to `detach()`."""

    def __init__(self, rings: Rings, identity: Identity, count: Callable[[str], None]) -> None:
        self._rings = rings
        self._identity = identity
        self._count = count
        self._comms: dict[str, Comm] = {}
        self._generation: dict[str, int] = {}
        self._dtypes: dict[torch.dtype, str] = {}
        self._waited: dict[int, Call] = {}
        self._undo: list[Callable[[], None]] = []
        self._waiting: weakref.WeakSet[Any] = weakref.WeakSet()  # DDP models before their first forward pass
        self._before_forward: Any = None

    def attach(self) -> None:
        """Put our functions around those of ProcessGroup, and a hook into DDP models that have none."""
        if self._undo or not dist.is_available():
            return
        for name, op, place in METHODS:
            if hasattr(dist.ProcessGroup, name):
                ours = self._around(getattr(dist.ProcessGroup, name), op, place, has_peer=name in PAIRWISE)
                self._wrap(dist.ProcessGroup, name, ours)
        self._wrap(dist.Work, "wait", self._around_wait(dist.Work.wait))
        self._wrap(DistributedDataParallel, "__init__", self._around_init(DistributedDataParallel.__init__))

    def detach(self) -> None:
        """Put everything back. A DDP model keeps its hook, which cannot be taken out again and goes on without us."""
        self._stop_waiting()
        self._waiting.clear()
        while self._undo:
            self._undo.pop()()

    def model(self, model: Any) -> None:
        """Let the bucket reductions of a DDP model be seen; done by itself for models made after `attach`."""
        if not isinstance(model, DistributedDataParallel):
            return
        self._waiting.add(model)
        if self._before_forward is None:  # for all modules: a hook in the model itself would be pickled with it
            self._before_forward = register_module_forward_pre_hook(self._module_called)

    def _module_called(self, module: Any, inputs: object) -> None:
        # At the first forward pass, not before: the user may still register a hook, and there can be one only.
        if not isinstance(module, DistributedDataParallel) or module not in self._waiting:
            return
        with self._guarded():
            self._waiting.discard(module)
            if not self._waiting:
                self._stop_waiting()
            # In a join that divides by the ranks that are left, only DDP knows how many these are.
            if not module._comm_hooks and getattr(module, "_divide_by_initial_world_size", True):
                # A lambda has no annotations: DDP refuses those of postponed evaluation, being strings.
                hook = lambda group, bucket: self._hook(group, bucket)  # noqa: E731, PLW0108
                module.register_comm_hook(module.process_group, hook)
                # Its list of them is for those that copy or pickle the model, which ours (and a group) cannot be.
                module._comm_hooks[:] = [one for one in module._comm_hooks if one[0] is not hook]

    def _stop_waiting(self) -> None:
        if self._before_forward is not None:
            self._before_forward.remove()
            self._before_forward = None

    def _hook(self, group: Any, bucket: Any) -> torch.futures.Future[Any]:
        """What DDP does without a hook, as torch's `allreduce_hook` does it, with one callback instead of two."""
        tensor = bucket.buffer()
        tensor.div_(group.size())
        method = dist.ProcessGroup.allreduce
        call = self._begin(group, "all_reduce", tensor)
        work = getattr(method, "leadline_wraps", method)(group, [tensor], dist.AllreduceOptions())

        def reduced(future: Any) -> Any:
            try:
                value = future.value()
            except Exception:
                if call is not None:
                    self._end(call, failed=True)
                raise
            if call is not None and call.on_cpu:
                self._end(call, failed=False)
            return value[0]

        return work.get_future().then(reduced)

    # -- around the methods -----------------------------------------------------------------------------------

    def _wrap(self, owner: Any, name: str, ours: Callable[..., Any]) -> None:
        # What lies in the class, not what getattr makes of it: a bound C method put back bare would not bind any more.
        before = inspect.getattr_static(owner, name)
        ours.__name__, ours.__doc__ = name, getattr(owner, name).__doc__
        ours.leadline_wraps = getattr(owner, name)  # type: ignore[attr-defined]
        setattr(owner, name, ours)

        def undo() -> None:
            if inspect.getattr_static(owner, name) is ours:  # somebody may have wrapped it after us: then ours stays
                setattr(owner, name, before)

        self._undo.append(undo)

    def _around(self, method: Callable[..., Any], op: str, place: int, has_peer: bool = False) -> Callable[..., Any]:
        begin, follow, end = self._begin, self._follow, self._end

        def ours(group: Any, *args: Any, **kwargs: Any) -> Any:
            pair = args[1:3] if has_peer else ()  # rank in the group, tag
            call = begin(group, op, args[place] if 0 <= place < len(args) else None, pair)
            try:
                work = method(group, *args, **kwargs)
            except BaseException:
                if call is not None:
                    end(call, failed=True)
                raise
            if call is not None:
                follow(call, work, _is_waited_for(args, kwargs))
            return work

        return ours

    def _around_wait(self, method: Callable[..., Any]) -> Callable[..., Any]:
        waited = self._waited

        def ours(work: Any, *args: Any, **kwargs: Any) -> Any:
            call = waited.pop(id(work), None) if waited else None
            if call is None:
                return method(work, *args, **kwargs)
            try:
                done = method(work, *args, **kwargs)
            except BaseException:
                self._end(call, failed=True)
                raise
            self._end(call, failed=False)
            return done

        return ours

    def _around_init(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def ours(model: Any, *args: Any, **kwargs: Any) -> None:
            method(model, *args, **kwargs)
            with self._guarded():
                self.model(model)

        return ours

    # -- the records ------------------------------------------------------------------------------------------

    def _begin(self, group: Any, op: str, payload: Any, pair: tuple[Any, ...] = ()) -> Call | None:
        """Write the arrival. None: nobody reads, or ours failed; then the end is not written either."""
        if not self._rings.is_on:
            return None
        try:
            now_ns = time.time_ns()
            comm = self._comms.get(group.group_name)
            number = _group_number(group)
            if comm is None or number < comm.group_number:
                comm = self._meet(group, now_ns)
            seq = comm.pairwise_number(op) if op in PAIRWISE else comm.number(number)
            size, dtype, on_cpu = self._told(payload)
            record = (comm.name, seq, op, dtype, size, comm.ranks, now_ns)
            self._rings.of_thread().collective_begin(*record)
            message = comm.message(op, *pair) if len(pair) == 2 and 0 <= pair[1] <= TAG_MAX else None
            return Call(record, comm.on_cpu if on_cpu is None else on_cpu, message)
        except Exception:
            self._count("hook_error")
            return None

    def _follow(self, call: Call, work: Any, waited_for: bool) -> None:
        """See to it that the end is written."""
        try:
            if work is None or not call.on_cpu:  # None: inside a coalescing block, whose last call has the work
                return
            # Whoever is about to wait sees the end as soon as anybody; a callback would have to fetch the
            # interpreter's lock on the backend's thread first, and the waiting thread would wait for that.
            future = None if waited_for else _future_of(work)
            if future is not None:
                future.add_done_callback(lambda done: self._end(call, failed=_has_failed(done)))
            elif len(self._waited) < WAITED_MAX:
                self._waited[id(work)] = call
            else:
                self._count("no_end")
        except Exception:
            self._count("hook_error")

    def _end(self, call: Call, failed: bool) -> None:
        try:
            ring, now_ns = self._rings.of_thread(), time.time_ns()
            ring.collective_end(*call.record, now_ns, failed=failed)
            if call.message is not None and not failed:
                (comm, _, op, _, size, _, begun_ns), (channel, seq, peer) = call.record, call.message
                ring.message_end(comm, channel, seq, 0, op, peer, size, begun_ns, now_ns)
        except Exception:
            self._count("hook_error")

    def _meet(self, group: Any, now_ns: int) -> Comm:
        """A group's first collective, or the first one of a group made anew under an old name: name it, announce it."""
        name = group.group_name
        generation = self._generation[name] = self._generation.get(name, -1) + 1
        ranks = dist.get_process_group_ranks(group)
        on_cpu = dist.get_backend(group) in ("gloo", "mpi")
        comm = Comm(comm_name(self._identity, name, ranks, generation), len(ranks), on_cpu, ranks)
        self._comms[name] = comm
        self._rings.of_thread().relation(self._identity.rank_entity, "member", f"comm:{comm.name}", now_ns)
        return comm

    def _told(self, payload: Any) -> tuple[int, str, bool | None]:
        """Bytes, element type, and whether it lies on the CPU (None: there is nothing) of tensors in lists or not."""
        size, first = 0, None
        if isinstance(payload, torch.Tensor):
            size, first = payload.nbytes, payload
        elif payload:
            for one in payload:
                if isinstance(one, torch.Tensor):
                    size += one.nbytes
                    first = one if first is None else first
                else:
                    size += sum(each.nbytes for each in one)
                    first = one[0] if first is None and one else first
        if first is None:
            return 0, "", None
        dtype = self._dtypes.get(first.dtype)
        if dtype is None:
            dtype = self._dtypes[first.dtype] = str(first.dtype).removeprefix("torch.")
        return size, dtype, first.is_cpu

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self._count("hook_error")


def comm_name(identity: Identity, group_name: str, ranks: list[int], generation: int) -> str:
    """`bert-7/0x` and 16 hex digits, equal on all ranks of the group: a hash of its name, ranks and how often that
    name was used. The launcher's attempt is in it, because a restarted job counts its collectives from 0 again."""
    text = f"{identity.job}\0{identity.attempt}\0{group_name}\0{generation}\0{','.join(map(str, ranks))}"
    return f"{identity.job}/0x{hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}"


def _group_number(group: Any) -> int:
    """How many collectives the group has counted; -1 if its backend does not count."""
    try:
        return int(group._get_sequence_number_for_group())
    except RuntimeError:
        return -1


def _is_waited_for(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the caller is about to wait: `dist.all_reduce(..., async_op=False)` says so in its options."""
    options = args[-1] if args else kwargs.get("opts")
    return getattr(options, "asyncOp", True) is False


def _future_of(work: Any) -> Any:
    """The work's future, or None: gloo's sends, receives and all_to_all have none."""
    try:
        return work.get_future()
    except RuntimeError:
        return None


def _has_failed(future: Any) -> bool:
    try:
        future.value()
    except Exception:
        return True
    return False
