"""The guard in a process of its own: a statement that takes for ever to read costs a second or five, and nobody else.

    Store.query_as ── statement, tenant ──> guard process: rewrite(...) ── safe statement, or why not ──>
                   ── killed and begun anew when it has not answered in READ_S_MAX

What nests is refused before it is parsed (`guard.py`), but only as far as somebody thought of it; and the parser is
native code, whose stack can run over. The process begins with the first statement and ends when none came for IDLE_S.
One that its parent cannot end any more, because that is gone, ends by its own alarm clock.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable

from leadline.model.errors import BusyError, StoreError, UsageError
from leadline.model.principal import Principal, Role
from leadline.model.programs import OWN_PYTHON
from leadline.model.tables import BY_NAME

# The longest that passes (65 kB, 5,000 nodes) takes 0.4 s of a core; on a machine that others keep busy ten times that.
READ_S_MAX = 5.0
BEGIN_S_MAX = 60.0  # loading the parser takes half a second, and 20 s on a machine that is very busy
WAIT_S_MAX = 10.0  # for those before: two that are ended at their limit
IDLE_S = 300.0  # so long it is kept for the next: it holds some 60 MB
MEMORY_BYTES_MAX = 1 << 30  # of data; reading the longest statement takes 40 MB
_LENGTH = struct.Struct("<I")
_COMMAND = "from leadline.store.asking.process import serve; serve()"


class GuardProcess:
    """Rewrites statements one at a time in a child process. Thread-safe. Construction is inert."""

    def __init__(
        self, tables: Iterable[str], *, read_s_max: float = READ_S_MAX, wait_s_max: float = WAIT_S_MAX
    ) -> None:
        self._tables = list(tables)
        self._read_s_max = read_s_max
        self._wait_s_max = wait_s_max
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process, while there is one."""
        child = self._child
        return child.pid if child is not None else None

    def rewritten(self, sql: str, principal: Principal) -> str:
        """What `guard.rewrite` makes of a statement.

        Errors: UsageError for what is refused, or takes too long to read; BusyError if those before take too long;
        StoreError if the process cannot be run.
        """
        if not self._turn.acquire(timeout=self._wait_s_max):
            raise BusyError("other statements are being read and take long; ask again in a second")
        try:
            asked = {"sql": sql, "tenant": principal.tenant, "role": principal.role, "tables": self._tables}
            question = json.dumps(asked).encode()
            try:
                answer = self._answer(question)
            except (EOFError, BrokenPipeError):  # it had just ended, having been idle; or this statement ends it
                self._end()
                answer = self._answer(question)
        except TimeoutError:
            self._end()
            raise UsageError(
                f"refused: reading the statement took more than {self._read_s_max:.0f} s; write it with less nested "
                "within each other"
            ) from None
        except (EOFError, BrokenPipeError):
            self._end()
            raise UsageError("refused: reading the statement took too much memory; write it shorter") from None
        except OSError as error:
            self._end()
            raise StoreError(f"the process that reads statements cannot be run: {error.strerror}") from error
        finally:
            self._turn.release()
        if "refused" in answer:
            raise UsageError(answer["refused"])
        return answer["safe"]

    def close(self) -> None:
        """End the process; whoever waits for an answer is answered first. The next statement begins another."""
        with self._turn:
            self._end()

    def _answer(self, question: bytes) -> dict[str, str]:
        child = self._child
        if child is None:
            child = self._child = self._begun()
        assert child.stdin is not None
        assert child.stdout is not None
        deadline = time.monotonic() + self._read_s_max
        _send(child.stdin.fileno(), _LENGTH.pack(len(question)) + question, deadline)
        handle = child.stdout.fileno()
        (length,) = _LENGTH.unpack(_exactly(handle, _LENGTH.size, deadline))
        answer: dict[str, str] = json.loads(_exactly(handle, length, deadline))
        return answer

    def _begun(self) -> subprocess.Popen[bytes]:
        limit = str(self._read_s_max + 1)
        child = subprocess.Popen(
            [*OWN_PYTHON, "-c", _COMMAND, limit], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert child.stdin is not None
        assert child.stdout is not None
        os.set_blocking(child.stdin.fileno(), False)
        try:
            _exactly(child.stdout.fileno(), 1, time.monotonic() + BEGIN_S_MAX)
        except (EOFError, TimeoutError):
            _ended(child)
            raise StoreError("the process that reads statements did not begin; its message is in the log") from None
        return child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            _ended(child)


def _ended(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        pipe.close()


def _send(handle: int, data: bytes, deadline: float) -> None:
    """All of it into a pipe that does not block. Errors: TimeoutError, BrokenPipeError."""
    left = memoryview(data)
    while left:
        if not _ready(handle, select.POLLOUT, deadline - time.monotonic()):
            raise TimeoutError
        left = left[os.write(handle, left) :]


def _ready(handle: int, events: int, wait_s: float | None) -> bool:
    """Whether a pipe can be read or written, or has ended, within a time."""
    # `select` refuses handles from 1,024 on, and a busy server has more.
    poll = select.poll()
    poll.register(handle, events)
    return bool(poll.poll(None if wait_s is None else max(0.0, wait_s) * 1000))


def _exactly(handle: int, size: int, deadline: float | None) -> bytes:
    """So many bytes from a pipe. Errors: EOFError if it ends before, TimeoutError."""
    found = bytearray()
    while len(found) < size:
        if not _ready(handle, select.POLLIN, None if deadline is None else deadline - time.monotonic()):
            raise TimeoutError
        piece = os.read(handle, size - len(found))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


# --- in the process ---------------------------------------------------------------------------------------------


def serve() -> None:
    """Answer statements from standard input until it ends, or none comes for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    limit_s = float(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from leadline.store.guard import rewrite

    os.write(1, b"+")
    while _ready(0, select.POLLIN, IDLE_S):
        try:
            (length,) = _LENGTH.unpack(_exactly(0, _LENGTH.size, None))
            asked = json.loads(_exactly(0, length, None))
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, limit_s)  # nothing handles the signal: it ends the process
        answer: dict[str, str] = {}
        try:
            principal = Principal(asked["tenant"], role=Role(asked["role"]))
            answer["safe"] = rewrite(asked["sql"], principal, {name: BY_NAME[name] for name in asked["tables"]})
        except UsageError as error:
            answer["refused"] = str(error)
        except Exception as error:  # of the parser, which is not ours: of memory, of a construct it does not expect
            answer["refused"] = f"refused: the statement cannot be read ({type(error).__name__})"
        signal.setitimer(signal.ITIMER_REAL, 0)
        told = json.dumps(answer).encode()
        message = memoryview(_LENGTH.pack(len(told)) + told)
        while message:
            message = message[os.write(1, message) :]
