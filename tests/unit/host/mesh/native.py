"""The parts of native/prober that a test can call: the packet and the fit, by ctypes; and the programs, built once."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from leadline.host.mesh.fit import Fitted
from leadline.host.mesh.packet import Packet, Refusal, Stamp, Told

SOURCE = Path(__file__).resolve().parents[4] / "native" / "prober"
STATES = ("valid", "few-points", "few-corners", "torn", "no-overlap")
REFUSALS = [None, *Refusal]


def build(out: Path, *targets: str) -> Path:
    """Compile; skips where there is no compiler."""
    if not shutil.which("cc") or not shutil.which("make"):
        pytest.skip("needs cc and make (Debian: build-essential)")
    make = ["make", "-s", "-C", SOURCE, f"OUT={out}", *targets]
    done = subprocess.run(make, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


class _Point(ctypes.Structure):
    _fields_ = [("t", ctypes.c_int64), ("d", ctypes.c_int64)]


class _Fit(ctypes.Structure):
    _fields_ = [
        ("offset_ns", ctypes.c_int64),
        ("rate_ppb", ctypes.c_double),
        ("bound_ns", ctypes.c_double),
        ("width_ns", ctypes.c_double),
        ("noise_ns", ctypes.c_double),
        ("upper", ctypes.c_int32),
        ("lower", ctypes.c_int32),
        ("upper_hull", ctypes.c_int32),
        ("lower_hull", ctypes.c_int32),
        ("state", ctypes.c_int32),
    ]


class _Told(ctypes.Structure):
    _fields_ = [("ns", ctypes.c_int64), ("back", ctypes.c_uint64)]


class _Packet(ctypes.Structure):
    _fields_ = [
        ("sender", ctypes.c_uint64),
        ("seq", ctypes.c_uint64),
        ("base_ns", ctypes.c_int64),
        ("boot", ctypes.c_uint32),
        ("newest", ctypes.c_uint16),
        ("count", ctypes.c_uint16),
        ("position", ctypes.c_uint8),
        ("traffic_class", ctypes.c_uint8),
        ("label", ctypes.c_uint8),
        ("tx_kind", ctypes.c_uint8),
        ("rx_kind", ctypes.c_uint8),
        ("is_hello", ctypes.c_uint8),
        ("sent", _Told * 4),
        ("received", _Told * 4),
    ]


class Native:
    """The shared library."""

    def __init__(self, path: Path) -> None:
        self._lib = ctypes.CDLL(str(path))

    def fit(
        self,
        upper: Sequence[tuple[int, int]],
        lower: Sequence[tuple[int, int]],
        end_ns: int,
        window_ns: int,
        soft: float,
    ) -> Fitted:
        found = _Fit()
        points = [(_Point * len(each))(*each) for each in (upper, lower)]
        end, window = ctypes.c_int64(end_ns), ctypes.c_int64(window_ns)
        self._lib.fit_edge(
            points[0], len(upper), points[1], len(lower), end, window, ctypes.c_double(soft), ctypes.byref(found)
        )
        state, corners = STATES[found.state], (found.upper_hull, found.lower_hull)
        if state == "no-overlap" or not upper or not lower:
            return Fitted(state, *corners)
        return Fitted(state, *corners, found.offset_ns, found.rate_ppb, found.bound_ns, found.width_ns, found.noise_ns)

    def encode(self, packet: Packet, key: bytes, receiver: int, receiver_boot: int) -> bytes:
        out = (ctypes.c_uint8 * 83)()
        given = _Packet(
            packet.sender, packet.seq, packet.base_ns, packet.boot, packet.newest, packet.arrived, packet.position,
            packet.traffic_class, packet.label, packet.tx_kind, packet.rx_kind, 0,
        )  # fmt: skip
        for name in ("sent", "received"):
            for index, told in enumerate(getattr(packet, name)):
                getattr(given, name)[index] = _Told(told.ns, told.back)
        self._lib.wire_encode(ctypes.byref(given), key, ctypes.c_uint64(receiver), ctypes.c_uint32(receiver_boot), out)
        return bytes(out)

    def decode(self, data: bytes, key: bytes, own: int, own_boot: int) -> Packet | Refusal:
        found = _Packet()
        refusal = self._lib.wire_decode(
            data, ctypes.c_size_t(len(data)), key, ctypes.c_uint64(own), ctypes.c_uint32(own_boot), ctypes.byref(found)
        )
        if (why := REFUSALS[refusal]) is not None:
            return why
        sent, received = (
            tuple(Told(each.back, each.ns) for each in getattr(found, name) if each.back)
            for name in ("sent", "received")
        )
        return Packet(
            found.sender, found.boot, found.seq, found.position, found.traffic_class, found.label, Stamp(found.tx_kind),
            Stamp(found.rx_kind), found.base_ns, found.newest, found.count, sent, received, bool(found.is_hello),
        )  # fmt: skip
