"""What machines around say: sFlow, netlink, the kernel's log, LLDP, requests over HTTP."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import struct
import zlib
from typing import Any

import uvicorn
from tests.oracle.agreement import sflow_datagrams_agree
from uvicorn.server import ServerState

from leadline.host.frames import MAGIC, MAGIC_1, frames, to_frame
from leadline.host.sources.lldp import parse_neighbours
from leadline.model.errors import DataError
from leadline.server.connections.bodies import BoundedBodies
from leadline.server.connections.protocol import Connections
from leadline.wire.kernel_log.events import event_rows
from leadline.wire.kernel_log.kmsg import Lines, read_dmesg, read_kmsg
from leadline.wire.netlink.connections import parse_connections
from leadline.wire.netlink.framing import is_last, messages, refusal
from leadline.wire.netlink.links import parse_addresses, parse_links

WORDS = {
    "http": ["GET ", "POST ", "HEAD ", " HTTP/1.1\r\n", " HTTP/1.0\r\n", "\r\n\r\n", "transfer-encoding: chunked\r\n",
             "content-length: ", "connection: close\r\n", "connection: keep-alive\r\n", "connection: upgrade\r\n",
             "upgrade: websocket\r\n", "upgrade: h2c\r\n", "expect: 100-continue\r\n", "0\r\n\r\n", "PRI * HTTP/2.0"],
    "kernel_log": ["NVRM: Xid (PCI:0000:3b:00): ", "mlx5_core 0000:3b:00.0", "Link down", "Link up", "Out of memory: ",
                   "oom-kill:", "EDAC MC0: ", "AER: ", " SUBSYSTEM=", " DEVICE=", "[Sun Feb 29 ", "T16:24:18,",
                   "+24:00 ",
                   "Call Trace", "watchdog: BUG: soft lockup", "<3>", "kern  :err   : ", "\\x", "mce: "],
    "lldp": ['"lldp":[', '"interface":[', '"chassis":[', '"port":[', '"id":[', '"descr":[', '"capability":[',
             '"enabled":true', '"type":"ifname"', '"type":"Router"', '"value":', '"name":'],
}  # fmt: skip
BOOT_NS = 1_760_000_000 * 10**9


def sflow(data: bytes) -> None:
    """Two datagrams; the first byte says where one ends. Each says the same alone and beside the other."""
    if data:
        cut = 1 + data[0] * (len(data) - 1) // 255
        sflow_datagrams_agree([data[1:cut], data[cut:]])


def netlink(data: bytes) -> None:
    """A datagram of rtnetlink or sock_diag."""
    for read in (parse_links, parse_addresses, parse_connections, is_last):
        with contextlib.suppress(DataError):
            read(data)
    with contextlib.suppress(DataError):
        for each in messages(data):
            refusal(each.body)


def kernel_log(data: bytes) -> None:
    """Records of /dev/kmsg, and lines of dmesg. In two reads they are the same lines."""
    for read in (lambda raw: read_kmsg(raw, BOOT_NS), lambda raw: read_dmesg(raw, BOOT_NS)):
        whole: Lines = read(data)
        assert 0 <= whole.consumed <= len(data)
        assert whole.consumed == len(data) or b"\n" not in data[whole.consumed :]
        for row in event_rows(whole.lines, "n1", "n1/7f3a90b1", log_level_max=7):
            str(row).encode()
    lines = data.split(b"\n")
    half = b"".join(line + b"\n" for line in lines[: len(lines) // 2])
    begin, rest = read_dmesg(half, BOOT_NS), read_dmesg(data[len(half) :], BOOT_NS)
    whole = read_dmesg(data, BOOT_NS)
    assert begin.lines + rest.lines == whole.lines
    assert begin.skipped + rest.skipped == whole.skipped


def lldp(data: bytes) -> None:
    """What lldpcli prints: the names in it are the neighbours' own words."""
    with contextlib.suppress(DataError):
        for edge in parse_neighbours(data, "n1"):
            str(edge).encode()


def spool(data: bytes) -> None:
    """What an agent finds in its spool after a crash: a frame whose check sum happens to fit, then one cut short."""
    frame = struct.pack("<II", len(data), zlib.crc32(data)) + data
    for magic in (MAGIC, MAGIC_1):
        whole = magic + frame
        found = list(frames(whole + frame[: len(frame) // 2], magic=magic))
        assert len(found) <= 1
        for item, end in found:
            assert end == len(whole)
            assert [each.item for each in frames(MAGIC + to_frame(item))] == [item]


# --- HTTP --------------------------------------------------------------------------------------------------------


class _Wire(asyncio.Transport):
    """A transport whose other end is the fuzzer; what is written is kept."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"socket": self, "peername": self.getpeername(), "sockname": self.getsockname()}.get(name, default)

    def fileno(self) -> int:
        return 3

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 4711

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 80

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        raise AssertionError("it was upgraded to another protocol")


class _Http:
    """The server's own connections, with an application that answers with what it was asked."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        atexit.register(self.loop.close)
        self.asked: list[Any] = []
        self.failed: list[BaseException] = []
        self.limits = Connections(100, lambda _: None)
        app = BoundedBodies(self._app, lambda: None)
        config = uvicorn.Config(app, http=self.limits.protocol, lifespan="off", log_config=None, access_log=False)
        config.load()
        self.config = config

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await self._answer(scope, receive, send)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self.failed.append(error)
            raise

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            more = message["more_body"]
        asked = [scope[name] for name in ("method", "raw_path", "query_string", "headers", "http_version")]
        self.asked.append([*asked, body])
        text = b"%d bytes" % len(body)
        headers = [(b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})

    async def _talk(self, pieces: list[bytes]) -> tuple[list[Any], bytes]:
        self.asked = []
        state, wire = ServerState(), _Wire()
        made: Any = self.config.http_protocol_class
        one = made(config=self.config, server_state=state, app_state={}, _loop=self.loop)
        one.connection_made(wire)
        for piece in pieces:
            if wire.closed:
                break
            one.data_received(piece)
        for _ in range(200):  # pipelined requests are answered one after the other
            await asyncio.sleep(0)
            if not state.tasks:
                break
        one.connection_lost(None)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not state.tasks, "a request whose connection is gone goes on"
        assert not len(self.limits.gate), "a connection that is gone is counted"
        return self.asked, bytes(wire.written)

    def talk(self, pieces: list[bytes]) -> tuple[list[Any], bytes]:
        """What the application was asked and what was written. Errors: whatever the application raised."""
        self.failed = []
        found = self.loop.run_until_complete(self._talk(pieces))
        if self.failed:
            raise self.failed[0]
        return found


_http: list[_Http] = []


def http(data: bytes) -> None:
    """Bytes of a connection; the first says in which pieces they come. Pieces change nothing."""
    if not data:
        return
    if not _http:
        _http.append(_Http())
    piece, sent = data[0] % 32 + 1, data[1:]
    whole = _http[0].talk([sent])
    pieces = _http[0].talk([sent[at : at + piece] for at in range(0, len(sent), piece)])
    if not sent:
        return
    assert whole == pieces, f"whole {whole}, in pieces of {piece} {pieces}"
