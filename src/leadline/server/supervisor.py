"""`leadline up`: a small supervisor. It owns no data, only processes: it starts them, restarts one that crashed,
and passes on the wish to stop."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from leadline.host.bound import bound_to_parent
from leadline.model.errors import WorldError
from leadline.model.programs import OWN_PYTHON
from leadline.server.config import Flag
from leadline.server.memory import allocators

# A crash that comes again (an out-of-memory kill under a load that lasts) ends when its reason does, and nobody may be
# there to start Leadline by hand. So it is always started again, each time later, up to once a minute.
FIRST_WAIT_S = 0.2
WAIT_S_MAX = 60.0
LIVED_S = 120.0  # one that ran so long has recovered: the next crash waits FIRST_WAIT_S again
STOP_WAIT_S = 30.0  # the server's own grace is 15 s for requests, then the lanes drain
READY_S_MAX = 600.0  # a first start compiles scanners and kernels: minutes of two cores, more on a busy machine
CANNOT_START = 2  # exit code of an error before the server was ready: restarting would not help
CRASHED = 1  # exit code of one afterwards: it has lived with this configuration, so it is started again

# Container objects that are made before the collector looks at the young ones. With Python's 700 it took a seventh of
# the CPU of taking in 2 M samples of 20,000 streams (1.31 us a sample, 1.12 with 20,000), and a third where all streams
# are new (7.2, 4.9): those wait for the store, and are looked at again and again. 20,000 of them are some 10 MB.
YOUNG_OBJECTS = 20_000

# There are as many workers as there is room for. With a thread a core in each, those of a busy machine wait for each
# other in loops: two of torch beside two busy processes took 30 s of CPU for 7 (two cores, 2026-11-29).
ONE_CORE = {"OPENBLAS_NUM_THREADS": "1"}  # of a product of matrices, unless the environment says otherwise

# Nothing that is imported is garbage: looking for some meanwhile takes a fifth of the 1.5 s of CPU.
_SERVER = (
    "import gc; gc.disable(); "
    "import json, os, sys; from pathlib import Path; from leadline.server.config import Flag; "
    # What this process is called by whoever asks who has the store: as it was typed.
    "from leadline.server.main import run_server; path, flags, sys.argv = json.loads(sys.argv[1]); "
    f"gc.freeze(); gc.set_threshold({YOUNG_OBJECTS}); gc.enable(); "
    "code = run_server(Path(path) if path else None, os.environ, [Flag(*flag) for flag in flags]); "
    # Everything is stored and closed here; taking the engine's library down in order costs another second.
    "sys.stdout.flush(); sys.stderr.flush(); os._exit(code)"
)


def _typed() -> list[str]:
    """The command of this process: `leadline up --port 9440`."""
    return ["leadline", *sys.argv[1:]]


class CannotStartError(WorldError):
    """The server ended before it was ready; `code` is its exit code. It has said why on standard error."""

    def __init__(self, code: int) -> None:
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        super().__init__(f"the server ended with {how} before it was ready; its message is above")
        self.code = code


class Supervisor:
    """Runs the server process. Construction is inert."""

    def __init__(
        self, path: Path | None, flags: Sequence[Flag], environ: Mapping[str, str], url: str, certificate: str = ""
    ) -> None:
        self._command = [
            *OWN_PYTHON,
            "-c",
            _SERVER,
            json.dumps([str(path) if path else None, [list(flag) for flag in flags], _typed()]),
        ]
        self._environ = {**ONE_CORE, **allocators.environ(environ)}
        self._url = url
        self._certificate = certificate
        self._child: subprocess.Popen[bytes] | None = None
        self._crashes = 0  # in a row
        self._started = 0.0
        self.compiling: list[int] | None = None  # steps done and all, while a ready server compiles
        self._start_again: float | None = None  # when, while a crashed server waits for it

    @property
    def pid(self) -> int | None:
        """Process id of the server, while it runs."""
        return self._child.pid if self._child else None

    def start(self) -> None:
        """Start the server process. It ends with us, even if we are killed."""
        self._started, self._start_again = time.monotonic(), None
        self._child = subprocess.Popen(bound_to_parent(self._command), env=self._environ, start_new_session=True)

    def wait_ready(self, timeout_s: float = READY_S_MAX, stopping: Callable[[], bool] = lambda: False) -> float:
        """Wait until the server answers /ready (or `stopping` says so); returns the seconds it took.

        Errors: CannotStartError if it ends, having said why; WorldError if it does not get ready in time.
        """
        began = time.monotonic()
        with self._client() as client:
            while time.monotonic() - began < timeout_s:
                if stopping():
                    break
                if self._child is not None and self._child.poll() is not None:
                    raise CannotStartError(self._child.returncode)
                if self._answers(client):
                    return time.monotonic() - began
                time.sleep(0.05)
        if stopping():
            return time.monotonic() - began
        raise WorldError(f"the server was not ready after {timeout_s:.0f} s; is the machine very busy?")

    def look(self) -> None:
        """Ask once how far it is with compiling; `compiling` stays as it is where nobody answers."""
        with self._client() as client:
            self._answers(client)

    def _client(self) -> httpx.Client:
        verify = _trusting(self._certificate) if self._certificate else True
        return httpx.Client(trust_env=False, timeout=2.0, verify=verify)

    def _answers(self, client: httpx.Client) -> bool:
        """Whether our own server is ready; another one may have the port."""
        try:
            answer = client.get(f"{self._url}/ready")
            found = answer.json()
            self.compiling = found.get("compiling")
            return answer.status_code == 200 and found.get("pid") == self.pid
        except (httpx.HTTPError, ValueError, AttributeError):
            return False

    def watch(self) -> int | None:
        """Look after the server once: restart it if it crashed, after a wait that doubles with each crash in a row.

        Returns: an exit code when it is over, else None. Never waits itself, so that a wish to stop is obeyed at once.
        """
        assert self._child is not None, "start() comes first"
        code = self._child.poll()
        if code is None:
            return None
        if code in (0, CANNOT_START):
            return code
        now = time.monotonic()
        if self._start_again is None:
            self._crashes = 1 if now - self._started >= LIVED_S else self._crashes + 1
            wait_s = min(WAIT_S_MAX, FIRST_WAIT_S * 2 ** min(self._crashes - 1, 20))
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            print(
                f"leadline: the server ended with {how}; starting it again in {wait_s:.1f} s",
                file=sys.stderr,
                flush=True,
            )
            self._start_again = now + wait_s
        if now >= self._start_again:
            self.start()
        return None

    def stop(self) -> int:
        """Ask the server to stop, wait for it, and return its exit code."""
        if self._child is None:
            return 0
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                print("leadline: the server did not stop in time and is killed", file=sys.stderr)
                self._child.kill()
                self._child.wait()
        return self._child.returncode


def _trusting(certificate: str) -> ssl.SSLContext:
    """For who asks a server of this machine whose certificate is this file: it is trusted for any name, and no other.

    The supervisor asks at 127.0.0.1, which no certificate names. Errors: OSError, ssl.SSLError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(str(Path(certificate).expanduser()))
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be signed by itself
    return context
