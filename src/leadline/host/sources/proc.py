"""The machine from /proc: processor, memory, load, pressure, TCP, disks. Under node_exporter's names.

Processor time is the sum over all processors (no label `cpu`): what a host of 200 of them says is for its operator,
what slows a job is told by its ranks' own times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from leadline.host.found import Found, Sample, Stream
from leadline.host.sources.access import Access, Grant, opened
from leadline.host.sources.site import TICKS_PER_S, Site, read, read_if_there, whole_number
from leadline.host.sources.source import Source

CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MEMORY = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "Dirty", "Writeback", "Slab", "SwapTotal",
          "SwapFree", "Mlocked", "Unevictable", "HugePages_Total", "HugePages_Free")  # fmt: skip
NETSTAT = {
    "Tcp": ("ActiveOpens", "PassiveOpens", "AttemptFails", "EstabResets", "CurrEstab", "InSegs", "OutSegs",
            "RetransSegs", "InErrs", "OutRsts"),
    "TcpExt": ("TCPLostRetransmit", "TCPFastRetrans", "TCPSlowStartRetrans", "TCPTimeouts", "TCPLossProbes",
               "TCPSpuriousRTOs", "TCPSynRetrans", "TCPOFOQueue", "TCPOFODrop", "TCPRcvQDrop", "TCPBacklogDrop",
               "TCPAbortOnTimeout", "TCPAbortOnData", "ListenDrops", "ListenOverflows", "TCPMemoryPressures",
               "TCPSACKReorder", "TCPRcvCollapsed"),
    "IpExt": ("InCEPkts", "InECT0Pkts", "InECT1Pkts", "InNoRoutes"),
    "Udp": ("InDatagrams", "OutDatagrams", "NoPorts", "InErrors", "RcvbufErrors", "SndbufErrors"),
}  # fmt: skip
GAUGES = frozenset({"node_netstat_Tcp_CurrEstab"})
DISK = re.compile(r"(sd[a-z]+|vd[a-z]+|xvd[a-z]+|nvme\d+n\d+|md\d+|dm-\d+|mmcblk\d+)")
DISK_FIELDS = (  # field of /proc/diskstats after the name, metric, unit, what one is
    (0, "node_disk_reads_completed_total", "1", 1.0),
    (2, "node_disk_read_bytes_total", "bytes", 512.0),
    (4, "node_disk_writes_completed_total", "1", 1.0),
    (6, "node_disk_written_bytes_total", "bytes", 512.0),
    (9, "node_disk_io_time_seconds_total", "s", 0.001),
    (10, "node_disk_io_time_weighted_seconds_total", "s", 0.001),
)
Value = tuple[Stream, float]


def _machine(site: Site) -> str:
    """Read what is always there. Errors: OSError."""
    for name in ("stat", "meminfo", "diskstats", "net/snmp"):
        opened(site.config.proc_root / name)
    return str(site.config.proc_root)


def _pressure(site: Site) -> str:
    """Read the pressure of processors. Errors: OSError where the kernel does not measure it."""
    read(site.config.proc_root / "pressure" / "cpu")
    return str(site.config.proc_root / "pressure")


class Proc(Source):
    """What /proc says of the whole machine, and of the network namespace we are in."""

    name = "proc"
    reports = "processor, memory, load, pressure, TCP, disks"
    told_as = "`node_*` of the host"
    as_node_exporter = (
        "node_cpu_seconds_total",
        "node_procs_(running|blocked)",
        "node_context_switches_total",
        "node_boot_time_seconds",
        "node_load(1|5|15)",
        "node_pressure_(cpu|io|memory)_(waiting|stalled)_seconds_total",
        *(f"node_memory_{name}(_bytes)?" for name in MEMORY),
        *(f"node_netstat_{protocol}_({'|'.join(names)})" for protocol, names in NETSTAT.items()),
        *(name for _, name, _, _ in DISK_FIELDS),
    )
    accesses = (
        Access(
            "/proc of the machine",
            _machine,
            "load, memory, disks and TCP of this host are unknown",
            Grant(service="no ProcSubset=pid in its unit"),
            ("cpu-contended", "neighbour", "io-hang"),
        ),
        Access(
            "pressure (PSI)",
            _pressure,
            "how long tasks wait for CPU, memory and disks is unknown; load and free memory say less",
            Grant(
                service="`psi=1` on the kernel's command line", pod="`psi=1` on the command line of the node's kernel"
            ),
            ("cpu-contended", "memory-pressure", "io-hang", "cpu-throttled"),
        ),
    )

    def poll(self, now_ns: int) -> Found:
        root = self.site.config.proc_root
        found: list[Value] = []
        found += parse_stat(read_if_there(root / "stat"))
        found += parse_meminfo(read_if_there(root / "meminfo"))
        found += parse_loadavg(read_if_there(root / "loadavg"))
        for resource in ("cpu", "io", "memory"):
            found += parse_pressure(resource, read_if_there(root / "pressure" / resource))
        for file in ("snmp", "netstat"):
            found += parse_netstat(read_if_there(root / "net" / file))
        found += parse_diskstats(read_if_there(root / "diskstats"))
        return Found(samples=[Sample(stream, now_ns, value) for stream, value in found])


def parse_stat(text: bytes) -> Iterator[Value]:
    """/proc/stat: processor seconds by mode, context switches, forks, processes running and blocked."""
    for line in text.decode("latin-1").splitlines():
        name, _, rest = line.partition(" ")
        numbers = _numbers(rest, 8)
        if name == "cpu":
            for mode, ticks in zip(CPU_MODES, numbers, strict=False):
                yield Stream("node_cpu_seconds_total", (("mode", mode),), True, "s"), ticks / TICKS_PER_S
        elif name in ("procs_running", "procs_blocked") and numbers:
            yield Stream(f"node_{name}", unit="1"), numbers[0]
        elif name == "ctxt" and numbers:
            yield Stream("node_context_switches_total", counter=True, unit="1"), numbers[0]
        elif name == "btime" and numbers:
            yield Stream("node_boot_time_seconds", unit="s"), numbers[0]


def parse_meminfo(text: bytes) -> Iterator[Value]:
    """/proc/meminfo: the lines of `MEMORY`."""
    for line in text.decode("latin-1").splitlines():
        name, _, rest = line.partition(":")
        numbers = _numbers(rest, 1)
        if name in MEMORY and numbers:
            in_bytes = rest.rstrip().endswith("kB")
            full = f"node_memory_{name}" + ("_bytes" if in_bytes else "")
            yield Stream(full, unit="bytes" if in_bytes else "1"), numbers[0] * (1024 if in_bytes else 1)


def parse_loadavg(text: bytes) -> Iterator[Value]:
    """/proc/loadavg."""
    for minutes, number in zip((1, 5, 15), text.split(), strict=False):
        try:
            yield Stream(f"node_load{minutes}"), float(number)
        except ValueError:
            return


def parse_pressure(resource: str, text: bytes) -> Iterator[Value]:
    """/proc/pressure/<resource>: seconds in which some (`waiting`) or all (`stalled`) tasks waited for it."""
    for line in text.decode("latin-1").splitlines():
        match = re.fullmatch(r"(some|full) .*total=(\d{1,19})", line.strip())
        if match:
            how = "waiting" if match[1] == "some" else "stalled"
            name = f"node_pressure_{resource}_{how}_seconds_total"
            yield Stream(name, counter=True, unit="s"), int(match[2]) / 1e6


def parse_netstat(text: bytes) -> Iterator[Value]:
    """/proc/net/snmp and netstat: lines in pairs, names and values. Of them those of `NETSTAT`."""
    lines = text.decode("latin-1").splitlines()
    for names, values in zip(lines[::2], lines[1::2], strict=False):
        protocol = names.partition(":")[0]
        wanted = NETSTAT.get(protocol)
        if wanted is None or values.partition(":")[0] != protocol:
            continue
        for name, value in zip(names.split()[1:], values.split()[1:], strict=False):
            number = whole_number(value)
            if name in wanted and number is not None:
                full = f"node_netstat_{protocol}_{name}"
                yield Stream(full, counter=full not in GAUGES, unit="1"), number


def parse_diskstats(text: bytes) -> Iterator[Value]:
    """/proc/diskstats: whole disks, no partitions."""
    for line in text.decode("latin-1").splitlines():
        words = line.split()
        if len(words) < 14 or not DISK.fullmatch(words[2]):
            continue
        for place, name, unit, one in DISK_FIELDS:
            number = whole_number(words[3 + place])
            if number is not None:
                yield Stream(name, (("device", words[2]),), True, unit), number * one


def _numbers(text: str, count: int) -> list[int]:
    """The first whole numbers of a line, until something else comes."""
    found: list[int] = []
    for word in text.split()[:count]:
        number = whole_number(word)
        if number is None:
            break
        found.append(number)
    return found
