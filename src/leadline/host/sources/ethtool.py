"""Driver statistics (`ethtool -S`) by ioctl, for drivers that have them. Names are data: `node_ethtool_<name>`.

Only names that the setting `agent.ethtool` fits are told: a driver may have thousands, most of them per queue.
Source: linux/ethtool.h, ETHTOOL_GSSET_INFO, ETHTOOL_GSTRINGS, ETHTOOL_GSTATS.
"""

from __future__ import annotations

import array
import fcntl
import re
import socket
import struct
from contextlib import closing
from typing import NamedTuple

from leadline.host.found import Found, Sample, Stream
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source
from leadline.model.errors import WorldError

SIOCETHTOOL = 0x8946
GSTRINGS, GSTATS, GSSET_INFO = 0x1B, 0x1D, 0x37
SS_STATS = 1
NAME_BYTES = 32
STATS_MAX = 16_384
EVERY_S_MIN = 5.0  # some drivers ask their firmware, which takes milliseconds


class Chosen(NamedTuple):
    """The statistics of one interface that are told: how many it has, and (place, metric) of each."""

    total: int
    places: tuple[tuple[int, str], ...]


def _statistics(site: Site) -> str:
    """Ask every driver for its statistics. Errors: PermissionError, WorldError where none has any that fit."""
    with closing(Ethtool(site)) as source:
        samples = source.poll(0).samples
    if not samples:
        raise WorldError("no driver here has statistics that agent.ethtool fits")
    return f"{len(samples)} statistics"


class Ethtool(Source):
    """Driver statistics of every interface."""

    name = "ethtool"
    reports = "driver statistics whose names the setting `ethtool` fits"
    told_as = "`node_ethtool_<name>` of the port"
    accesses = (
        Access(
            "driver statistics (ethtool)",
            _statistics,
            "pauses, discards by priority, symbol errors and PCIe stalls of NICs are unknown",
            Grant(service="a driver that has them; agent.ethtool chooses by name"),
            ("pfc-storm", "wrong-dscp", "marginal-optic", "pcie-width"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._wanted = re.compile(site.config.ethtool or "(?!)")
        self._chosen: dict[str, Chosen] = {}
        self._asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    @property
    def every_s(self) -> float:
        return max(self.site.config.interval_s, EVERY_S_MIN)

    def poll(self, now_ns: int) -> Found:
        samples: list[Sample] = []
        names = [name for _, name in socket.if_nameindex() if self.site.counts_interface(name)]
        self._chosen = {name: chosen for name, chosen in self._chosen.items() if name in names}
        for name in names:
            try:
                chosen = self._chosen.get(name) or self._choose(name)
                if chosen.places:
                    samples += parse_stats(self._stats(name, chosen.total), chosen, name, now_ns)
            except OSError:
                self._chosen[name] = Chosen(0, ())  # the driver has none
        return Found(samples=samples)

    def close(self) -> None:
        self._asked.close()

    def _choose(self, interface: str) -> Chosen:
        info = self._ask(interface, struct.pack("=IIQI", GSSET_INFO, 0, 1 << SS_STATS, 0))
        count = min(struct.unpack_from("=I", info, 16)[0], STATS_MAX)
        if not count:
            raise OSError("no statistics")
        names = self._ask(interface, struct.pack("=III", GSTRINGS, SS_STATS, count) + bytes(count * NAME_BYTES))
        chosen = self._chosen[interface] = parse_names(names[12:], self._wanted)
        return chosen

    def _stats(self, interface: str, count: int) -> bytes:
        return self._ask(interface, struct.pack("=II", GSTATS, count) + bytes(count * 8))[8:]

    def _ask(self, interface: str, request: bytes) -> bytes:
        """One ioctl; the kernel writes the answer where the request lies. Errors: OSError."""
        memory = array.array("B", request + bytes(64))  # spare room: a driver may have grown a name meanwhile
        pointer, _ = memory.buffer_info()
        fcntl.ioctl(self._asked, SIOCETHTOOL, struct.pack("16sP16x", interface.encode()[:15], pointer))
        return memory.tobytes()[: len(request)]


def parse_names(strings: bytes, wanted: re.Pattern[str]) -> Chosen:
    """Which of the driver's statistics are told, from its table of names of 32 bytes each."""
    count = len(strings) // NAME_BYTES
    places = []
    for place in range(count):
        name = strings[place * NAME_BYTES : (place + 1) * NAME_BYTES].partition(b"\0")[0].decode("latin-1").strip()
        if wanted.fullmatch(name):
            places.append((place, "node_ethtool_" + re.sub(r"\W+", "_", name)))
    return Chosen(count, tuple(places))


def parse_stats(values: bytes, chosen: Chosen, interface: str, now_ns: int) -> list[Sample]:
    """The samples of one interface from the kernel's table of 64-bit values."""
    numbers = struct.unpack(f"={chosen.total}Q", values[: chosen.total * 8])
    labels = (("device", interface),)
    return [Sample(Stream(name, labels, True), now_ns, numbers[place]) for place, name in chosen.places]
