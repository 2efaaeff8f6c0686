"""What lines of a kernel log mean: GPU errors, links, memory, hardware errors, crashes; as rows of table `event`.

Each recogniser is one line of `RECOGNISERS`: words that a line must contain, the form, what it means. Only lines that
name their subject are taken: "link becomes ready" of IPv6 is not, because it does not say in which network
namespace, and bridges and containers write thousands of them.

Standard library only: the agent imports this. Sources of the forms: NVIDIA's XID documentation and logs of real
machines (tests/golden/gpu_kernel_logs); Linux 6 drivers/net, mm/oom_kill.c, drivers/pci/pcie/aer.c, drivers/edac.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from leadline.model.errors import UsageError
from leadline.model.ids import entity_id
from leadline.wire.kernel_log.kmsg import LogLine

SOURCE = "kernel-log"
LOG = "log"  # kind of a line that nothing recognises
SEVERITIES = ("fatal", "fatal", "fatal", "error", "warning", "info", "info", "debug")  # of levels 0 to 7


class Finding(NamedTuple):
    """What a line says. `port` is an interface, `pci` the address of a GPU; both may be empty."""

    kind: str
    severity: str
    code: str = ""
    port: str = ""
    pci: str = ""
    attributes: Mapping[str, str] = {}


_Reader = Callable[[re.Match[str]], Finding | None]


def event_rows(
    lines: Iterable[LogLine], host: str, clock: str, gpus: Mapping[str, str] | None = None, log_level_max: int = 3
) -> list[dict[str, Any]]:
    """Rows of `event` for `POST /api/v1/rows/event`.

    Inputs: lines in order; the host and its clock; UUIDs of its GPUs (`GPU-509665ad-...`) by PCI address (as
    `pci_key` writes it), as far as known: what the lines themselves say is added; up to which level (3: errors)
    lines that nothing recognises become rows of kind `log`, -1 for none.
    """
    known = dict(gpus or {})
    rows = []
    for line in lines:
        known.update(gpu_named(line.text))
        finding = recognise(line.text)
        if finding is None:
            if not 0 <= line.level <= log_level_max:
                continue
            finding = Finding(LOG, SEVERITIES[line.level])
        rows.append(_row(line, finding, host, clock, known))
    return rows


def recognise(text: str) -> Finding | None:
    """What a line means, None if it is none of ours."""
    for words, form, reader in RECOGNISERS:
        if words in text and (match := form.search(text)) and (finding := reader(match)):
            return finding
    return None


def gpu_named(text: str) -> dict[str, str]:
    """PCI address and UUID of a GPU, where the driver's line tells both (`NVRM: GPU at PCI:0000:9b:00: GPU-...`)."""
    match = _GPU_AT.search(text) if "NVRM: GPU at" in text else None
    return {pci_key(match[1]): match[2]} if match else {}


def pci_key(address: str) -> str:
    """A PCI address without its function, in small letters, as in XID lines: `0000:9b:00`."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"


def xid_line(pci: str, code: int, words: str, pid: int | None = None, name: str = "") -> str:
    """A GPU error as NVIDIA's driver writes it; `pid` None where the driver does not know the process."""
    process = f"pid={pid}, name={name}" if pid is not None else "pid='<unknown>', name=<unknown>"
    return f"NVRM: Xid (PCI:{pci_key(pci)}): {code}, {process}, {words}"


def _row(line: LogLine, finding: Finding, host: str, clock: str, gpus: Mapping[str, str]) -> dict[str, Any]:
    attributes = {name: value for name, value in finding.attributes.items() if value}
    if finding.pci:
        attributes["pci"] = finding.pci
    if line.sequence >= 0:
        attributes["sequence"] = str(line.sequence)
    attributes.update({f"kmsg.{name}"[:64]: value for name, value in line.fields.items()})
    entity_kind, entity = _entity(finding, host, gpus)
    return {
        "time_ns": line.time_ns,
        "entity_kind": entity_kind,
        "entity": entity,
        "kind": finding.kind,
        "severity": finding.severity,
        "code": finding.code or None,
        "message": line.text,
        "attributes": attributes,
        "source": SOURCE,
        "host": host,
        "clock": clock,
    }


def _entity(finding: Finding, host: str, gpus: Mapping[str, str]) -> tuple[str, str]:
    """The GPU whose UUID is known, the port, else the host; nothing without a host."""
    gpu = gpus.get(pci_key(finding.pci)) if finding.pci else None
    try:
        if gpu:
            return "gpu", entity_id("gpu", gpu)
        if finding.port and host:
            return "port", entity_id("port", host, finding.port)
        return "host", entity_id("host", host)
    except UsageError:
        return "", ""


# --- what the lines look like --------------------------------------------------------------------------------

_PCI = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_PORT = r"[A-Za-z][\w.@-]{0,14}"
_GPU_AT = re.compile(rf"NVRM: GPU at PCI:({_PCI}): (GPU-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})")

_XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?({_PCI})(?: GPU-I:(\w+))?[^)]{{0,40}}\): (\d{{1,5}})"
    r"(?:, pid=(\d+|'?<unknown>'?))?(?:, name=([^,]{0,64}))?(?:, (.*))?"
)


def _xid(match: re.Match[str]) -> Finding:
    pci, instance, code, pid, name, words = match.groups("")
    process = {"pid": pid if pid.isdigit() else "", "process": "" if name == "<unknown>" else name}
    return Finding("xid", "error", code, pci=pci, attributes={**process, "gpu_instance": instance, "text": words})


_SXID = re.compile(
    rf"(nvidia-nvswitch\d+): SXid \(PCI:({_PCI})\): (\d{{1,6}}), (Fatal|Non-fatal), (?:Link (\d+) )?(.*)"
)


def _sxid(match: re.Match[str]) -> Finding:
    device, pci, code, severity, link, words = match.groups("")
    how = "fatal" if severity == "Fatal" else "warning"
    return Finding("sxid", how, code, attributes={"device": device, "pci": pci, "link": link, "text": words})


_GPU_LOST = re.compile(rf"NVRM: GPU ({_PCI}): GPU has fallen off the bus")
_DRIVER = re.compile(r"NVRM: loading NVIDIA UNIX (?:Open )?(?:\w+ )?Kernel Module(?: for \w+)?\s+(\d[\w.]{0,31})")
_NIC = re.compile(
    rf"(?:^|\s)(?:(\w{{1,24}}) ({_PCI}) )?({_PORT}): (?:\w{{1,15}}: {_PORT} )?"
    r"(?:NIC )?[Ll]ink (?:is )?([Dd]own|[Uu]p)(?:[ ,]+(.*))?$"
)
_E1000 = re.compile(rf"^(\w{{1,24}}): ({_PORT}) NIC Link is (Down|Up)(?: (.*))?$")
_BOND = re.compile(rf"^({_PORT}): (?:\(slave ({_PORT})\): |)link status (?:definitely (down|up)|up again)")
_TX_TIMEOUT = re.compile(
    rf"(?:({_PORT}): )?NETDEV WATCHDOG: (?:CPU: \d+: )?(?:({_PORT}) \((\w+)\): )?transmit queue (\d+) timed out"
)


def _nic(match: re.Match[str]) -> Finding:
    driver, pci, port, state, words = match.groups("")
    return _link(state, port, {"driver": driver, "pci": pci, "text": words})


def _e1000(match: re.Match[str]) -> Finding:
    driver, port, state, words = match.groups("")
    return _link(state, port, {"driver": driver, "text": words})


def _bond(match: re.Match[str]) -> Finding | None:
    bond, port, state = match.groups("")
    return _link(state or "up", port, {"bond": bond}) if port else None


def _link(state: str, port: str, attributes: Mapping[str, str]) -> Finding:
    down = state.lower() == "down"
    return Finding("link-down" if down else "link-up", "error" if down else "info", port=port, attributes=attributes)


def _tx_timeout(match: re.Match[str]) -> Finding:
    now, before, driver, queue = match.groups("")  # Linux 6.7 moved the port to the front
    return Finding("tx-timeout", "error", port=now or before, attributes={"driver": driver, "queue": queue})


_KILLED = re.compile(
    r"(Memory cgroup out of memory|Out of memory[^:]{0,40}): Kill(?:ed)? process (\d+) \((.{0,32}?)\)(.*)"
)
_OOM = re.compile(r"oom-kill:constraint=(\w+),")
_OOM_FIELD = re.compile(r"(oom_memcg|task_memcg|task|pid|uid)=([^,]{1,512})")


def _killed(match: re.Match[str]) -> Finding:
    why, pid, name, rest = match.groups("")
    rss = re.search(r"anon-rss:(\d+)kB", rest)
    scope = "cgroup" if why.startswith("Memory cgroup") else "host"
    attributes = {"pid": pid, "process": name, "scope": scope, "anon_rss_kb": rss[1] if rss else ""}
    return Finding("oom-kill", "error", attributes=attributes)


def _oom(match: re.Match[str]) -> Finding:
    """The line before the kill: which control group was over its limit. No kill itself: that would count twice."""
    fields = dict(_OOM_FIELD.findall(match.string))
    attributes = {"process" if name == "task" else name: value for name, value in fields.items()}
    return Finding("oom", "info", attributes={**attributes, "constraint": match[1]})


_MCE = re.compile(
    r"\[Hardware Error\]: "
    r"(?:CPU (\d+): Machine Check(?: Exception)?: (\w+) Bank (\d+): (\w+)|(Machine check.*))"
)
_THROTTLED = re.compile(r"CPU(\d+): (Core|Package) temperature (?:is )?above threshold, cpu clock (?:is )?throttled")
_EDAC = re.compile(r"EDAC (MC\d+): (\d+) (CE|UE)\b ?(.*)")
_AER = re.compile(
    rf"(\S{{1,24}}) ({_PCI}): (?:"
    r"AER: (?:Multiple )?(Correct\w+|Uncorrect\w+(?: \([\w-]+\))?) error (?:message )?received(?: from)?"
    rf":? ?({_PCI})?|"
    r"(?:AER: )?PCIe Bus Error: severity=([\w -]{1,32}?(?: \([\w-]+\))?),? .*type=([\w ]{1,40}))"
)
_WIDTH = re.compile(
    rf"(\S{{1,24}}) ({_PCI}): ([\d.]{{1,12}} [GM]b/s) available PCIe bandwidth, limited by "
    rf"([\d.]{{1,8}} GT/s) PCIe x(\d{{1,2}}) link at (\S{{1,16}}) \(capable of .* x(\d{{1,2}}) link\)"
)
_DPC = re.compile(rf"(\S{{1,24}}) ({_PCI}): DPC: containment event")
_SEGFAULT = re.compile(r"(.{1,32})\[(\d+)\]:? (segfault at|general protection fault|trap [\w ]+ ip:)")
_HUNG = re.compile(r"INFO: task (.{1,32}):(\d+) blocked for more than (\d+) seconds")


def _mce(match: re.Match[str]) -> Finding:
    cpu, _, bank, status, words = match.groups("")
    return Finding("mce", "error", attributes={"cpu": cpu, "bank": bank, "status": status, "text": words})


def _throttled(match: re.Match[str]) -> Finding:
    return Finding("cpu-throttle", "warning", attributes={"cpu": match[1], "sensor": match[2].lower()})


def _edac(match: re.Match[str]) -> Finding:
    controller, count, kind, words = match.groups("")
    severity = "error" if kind == "UE" else "warning"
    return Finding("edac", severity, kind, attributes={"controller": controller, "count": count, "text": words})


def _aer(match: re.Match[str]) -> Finding:
    driver, port, received, device, severity, layer = match.groups("")
    how = (received or severity).lower()
    # "Uncorrected (Non-Fatal)", "Uncorrectable (Fatal)", "Corrected"
    code = "corrected" if how.startswith("correct") else "non-fatal" if "non-fatal" in how else "fatal"
    attributes = {"driver": driver, "pci": device or port, "reported_by": port, "layer": layer.strip()}
    return Finding("pcie-aer", "warning" if code == "corrected" else "error", code, attributes=attributes)


def _width(match: re.Match[str]) -> Finding:
    """A card that could do more than its slot gives; `pci` is no GPU's, so it stays among the attributes."""
    driver, pci, bandwidth, speed, lanes, port, most = match.groups()
    attributes = {"driver": driver, "pci": pci, "bandwidth": bandwidth, "speed": speed, "lanes": lanes, "at": port}
    return Finding("pcie-width", "warning", f"x{lanes}", attributes={**attributes, "lanes_max": most})


def _dpc(match: re.Match[str]) -> Finding:
    return Finding("pcie-aer", "error", "dpc", attributes={"driver": match[1], "pci": match[2]})


def _segfault(match: re.Match[str]) -> Finding:
    name = match[1].removeprefix("traps: ")
    return Finding("segfault", "error", attributes={"process": name, "pid": match[2]})


def _hung(match: re.Match[str]) -> Finding:
    return Finding("hung-task", "error", attributes={"process": match[1], "pid": match[2], "seconds": match[3]})


RECOGNISERS: tuple[tuple[str, re.Pattern[str], _Reader], ...] = (
    ("NVRM: Xid", _XID, _xid),
    ("SXid", _SXID, _sxid),
    ("NVRM: loading NVIDIA", _DRIVER, lambda match: Finding("gpu-driver-loaded", "info", match[1])),
    ("fallen off the bus", _GPU_LOST, lambda match: Finding("gpu-lost", "fatal", pci=match[1])),
    ("ink is", _E1000, _e1000),
    ("ink ", _NIC, _nic),
    ("link status", _BOND, _bond),
    ("NETDEV WATCHDOG", _TX_TIMEOUT, _tx_timeout),
    ("Kill", _KILLED, _killed),
    ("oom-kill:", _OOM, _oom),
    ("temperature", _THROTTLED, _throttled),
    ("[Hardware Error]", _MCE, _mce),
    ("EDAC MC", _EDAC, _edac),
    ("error", _AER, _aer),
    ("PCIe Bus Error", _AER, _aer),
    ("DPC: containment", _DPC, _dpc),
    ("available PCIe bandwidth, limited", _WIDTH, _width),
    ("]", _SEGFAULT, _segfault),
    ("blocked for more than", _HUNG, _hung),
)
