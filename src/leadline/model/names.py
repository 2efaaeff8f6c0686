"""From names as they come to the entities we know: one table, read top to bottom, first match wins.

A rule says which metric names it is for, which labels name the entity, and which label names the host. Names and
labels are never changed by it: what it finds goes into columns of their own (`entity_kind`, `entity`, `host`), and
what it does not know stays empty. It never invents: a rule whose label is missing leaves the entity empty rather than
falling back to something near it (a GPU's temperature is not its host's).

Spelling: dots in metric names and labels are read as underscores (`hw.gpu.io` is `hw_gpu_io`, `host.name` is
`host_name`), because OpenTelemetry's names change so on their way through Prometheus. Labels that say "nothing" in
words (`unknown`, `unknown_service:python`) count as missing.

Host: `instance` is the address of a scrape target; its port is taken off and the rest is the host as it stands, never
resolved. A loopback target is therefore the host `localhost`, unless a label such as `nodename` names it; give scrape
targets on the own machine such a label. `instance` counts only for programs that describe the machine they run on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import NamedTuple

from leadline.model.errors import UsageError
from leadline.model.ids import entity_id, parse_entity_id
from leadline.model.metric_units import unit_of
from leadline.model.nic_counters import ETHTOOL_COUNTERS, HW_COUNTERS, SYSFS_COUNTERS, NicCounter

__all__ = ["EVENT_RULES", "RULES", "Mapped", "Part", "Rule", "When", "entity_of", "event_entity", "unit_of"]


class Mapped(NamedTuple):
    """What a name was recognised as: the entity (empty if none), its host (None if not told), the family of names."""

    entity_kind: str
    entity: str
    host: str | None
    family: str


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an entity's name: the labels that give it, best first. `usual` is the value that is left out."""

    labels: tuple[str, ...]
    usual: str | None = None


@dataclass(frozen=True, slots=True)
class When:
    """A rule counts only when one of these labels has a value that fits the expression."""

    labels: tuple[str, ...]
    value: str = ".+"


@dataclass(frozen=True, slots=True)
class Rule:
    """Metric names of one family, the entity they speak of and the labels that name it."""

    family: str
    name: str  # regular expression for the whole metric name, dots as underscores
    entity_kind: str
    entity: tuple[Part, ...]
    host: tuple[str, ...]
    doc: str
    when: tuple[When, ...] = ()


# Labels that name a host wherever they occur.
SAID = ("host.name", "Hostname", "hostname", "nodename", "k8s.node.name", "kubernetes_node")
# Looser ones, and the scrape address: for programs known to describe the machine they run on.
TARGET = (*SAID, "node", "host", "instance")
WITHOUT_NODE = (*SAID, "host", "instance")
WITHOUT_NODENAME = tuple(label for label in TARGET if label != "nodename")

HOST = Part(())  # stands for the host that the rule found
UUID = Part(("UUID", "uuid"))
RDMA_DEVICE = Part(("device", "ibdev", "hca"))
# Ports are named by their device alone where it has one port, as all recent NICs do.
RDMA_PORT = Part(("port",), usual="1")
INTERFACE = Part(("device", "network.interface.name", "interface", "ifname"))
JOB_ID = Part(("leadline.job", "slurm_job_id", "slurm.job.id", "job_id", "job.id"))
RANK = Part(("leadline.rank", "global_rank", "rank"))
NAMESPACE = Part(("k8s.namespace.name", "namespace"))
POD = Part(("k8s.pod.name", "pod"))

SWITCH = Part(("switch",))
SWITCH_PORT = Part(("port",))
SWITCH_PORT_COUNTERS = (
    "if(In|Out)[A-Z].*|if(Speed|Direction|AdminStatus|OperStatus|PromiscuousMode)|dot3Stats[A-Z].*|sflow_sample_.*"
)

LOOPBACK = When(INTERFACE.labels, "lo|lo0")
NVIDIA_UUID = "(GPU|MIG)-.+"


def _any_of(counters: tuple[NicCounter, ...], prefix: str) -> str:
    return f"(?:{prefix})?(?:{'|'.join(counter.name for counter in counters)})(?:_total)?"


RULES: tuple[Rule, ...] = (
    # NVIDIA dcgm-exporter; labels by release: Hostname or hostname, UUID or uuid
    Rule("dcgm", "DCGM_(FI|EXP)_.*", "nvlink", (UUID, Part(("nvlink",))), TARGET, "one NVLink of a GPU", (When(UUID.labels), When(("nvlink",)))),
    Rule("dcgm", "DCGM_(FI|EXP)_.*", "nvlink", (HOST, Part(("nvswitch",)), Part(("nvlink",))), TARGET, "one NVLink of an NVSwitch", (When(("nvswitch",)), When(("nvlink",)))),
    Rule("dcgm", "DCGM_(FI|EXP)_.*", "switch", (HOST, Part(("nvswitch",))), TARGET, "an NVSwitch", (When(("nvswitch",)),)),
    Rule("dcgm", "DCGM_(FI|EXP)_.*", "host", (HOST,), TARGET, "a CPU or core, mapped to its host", (When(("cpu", "cpucore")),)),
    Rule("dcgm", "DCGM_(FI|EXP)_.*", "gpu", (UUID,), TARGET, "a GPU, by its UUID and never by its index"),
    # RDMA counters: node_exporter's infiniband collector, then the bare sysfs names of other exporters
    Rule("infiniband", "node_infiniband_.*", "port", (HOST, RDMA_DEVICE, RDMA_PORT), TARGET, "a port of an RDMA device"),
    Rule("hw_counters", _any_of(SYSFS_COUNTERS + HW_COUNTERS, "infiniband_|rdma_|ib_|hw_counters_"), "port", (HOST, RDMA_DEVICE, RDMA_PORT), TARGET, "sysfs counters/ and hw_counters/ of an RDMA port", (When(RDMA_DEVICE.labels),)),
    # Ethernet; bare names are no family's own, so they count only with a device beside them
    Rule("ethtool", "node_ethtool_.*", "swport", (SWITCH, INTERFACE), (), "driver statistics of a switch's port; its scrape target has a label `switch`", (When(SWITCH.labels), When(INTERFACE.labels))),
    Rule("ethtool", "node_ethtool_.*", "port", (HOST, INTERFACE), TARGET, "driver statistics of an interface"),
    Rule("ethtool", _any_of(ETHTOOL_COUNTERS, "ethtool_"), "port", (HOST, INTERFACE), TARGET, "driver statistics of an interface, bare names", (When(INTERFACE.labels),)),
    Rule("node_exporter", "node_(network|qdisc)_.*", "swport", (SWITCH, INTERFACE), (), "a port of a switch that runs node_exporter; its scrape target has a label `switch`", (When(SWITCH.labels), When(INTERFACE.labels, "(?!lo0?$).+"))),
    Rule("node_exporter", "node_network_.*", "host", (HOST,), TARGET, "the loopback interface belongs to the host", (LOOPBACK,)),
    Rule("node_exporter", "node_network_.*", "port", (HOST, INTERFACE), TARGET, "a network interface"),
    # optics, as exporters that read `ethtool -m` name them
    Rule("transceiver", "transceiver_.*", "xcvr", (SWITCH, INTERFACE), (), "the transceiver in a port of a switch", (When(SWITCH.labels), When(INTERFACE.labels))),
    Rule("transceiver", "transceiver_.*", "xcvr", (HOST, INTERFACE), TARGET, "the transceiver of a network interface", (When(INTERFACE.labels),)),
    # the rest of node_exporter; `node` of the NUMA metrics and `nodename` of uname are no names of targets
    Rule("node_exporter", "node_memory_numa_.*", "host", (HOST,), WITHOUT_NODE, "memory by NUMA node"),
    Rule("node_exporter", "node_uname_info", "host", (HOST,), TARGET, "uname, where the target has a label nodename", (When(("exported_nodename",)),)),
    Rule("node_exporter", "node_uname_info", "host", (HOST,), WITHOUT_NODENAME, "uname; its own nodename is a value, not the target's name"),
    Rule("node_exporter", "node_.*", "host", (HOST,), TARGET, "the machine, its disks and file systems"),
    # sFlow: counters of a switch and its ports, under the names of IF-MIB and EtherLike-MIB; `wire.sflow_counters` writes the labels
    Rule("sflow", SWITCH_PORT_COUNTERS, "swport", (SWITCH, SWITCH_PORT), (), "a port of a switch, by sFlow", (When(SWITCH.labels), When(SWITCH_PORT.labels))),
    Rule("sflow", "sflow_(processor|vlan)_.*", "switch", (SWITCH,), (), "a switch, by sFlow: its processor and VLANs"),
    # NCCL Inspector: `rank` is the rank in the communicator, so it never names a rank of the job
    Rule("nccl", "nccl_.*", "rank", (JOB_ID, Part(("global_rank", "leadline.rank"))), TARGET, "a rank of the job", (When(JOB_ID.labels), When(("global_rank", "leadline.rank")))),
    Rule("nccl", "nccl_.*", "comm", (JOB_ID, Part(("comm_id", "comm_hash", "comm_name", "comm"))), TARGET, "a communicator", (When(JOB_ID.labels), When(("comm_id", "comm_hash", "comm_name", "comm")))),
    Rule("nccl", "nccl_.*", "job", (JOB_ID,), TARGET, "a job, where the communicator has no name"),
    # OpenTelemetry: hardware
    Rule("otel_hw", "hw_.*", "gpu", (Part(("hw.id",)),), SAID, "a GPU that has a UUID", (When(("hw.id",), NVIDIA_UUID),)),
    Rule("otel_hw", "hw_.*", "gpu", (Part(("hw.parent",)),), SAID, "a sensor of a GPU that has a UUID", (When(("hw.parent",), NVIDIA_UUID),)),
    Rule("otel_hw", "hw_gpu_.*", "gpu", (HOST, Part(("hw.id",))), SAID, "another GPU; hw.id is unique within its host"),
    Rule("otel_hw", "hw_.*", "gpu", (HOST, Part(("hw.id",))), SAID, "the same, by type", (When(("hw.type",), "gpu"),)),
    Rule("otel_hw", "hw_network_.*", "port", (HOST, Part(("network.interface.name", "hw.name", "hw.id"))), SAID, "a network adapter"),
    Rule("otel_hw", "hw_.*", "port", (HOST, Part(("network.interface.name", "hw.name", "hw.id"))), SAID, "the same, by type", (When(("hw.type",), "network"),)),
    Rule("otel_hw", "hw_.*", "host", (HOST,), SAID, "fans, power supplies, memory, enclosures"),
    # OpenTelemetry: operating system and processes
    Rule("otel_system", "system_network_.*", "host", (HOST,), SAID, "the loopback interface belongs to the host", (LOOPBACK,)),
    Rule("otel_system", "system_network_.*", "port", (HOST, INTERFACE), SAID, "a network interface", (When(INTERFACE.labels),)),
    Rule("otel_system", "system_.*", "host", (HOST,), SAID, "the machine"),
    Rule("otel_process", "process_.*", "process", (HOST, Part(("process.pid",))), SAID, "a process", (When(("process.pid",)),)),
    # Kubernetes: OpenTelemetry's k8s.*, kube-state-metrics, cAdvisor
    Rule("k8s", "k8s_node_.*", "host", (HOST,), ("k8s.node.name", "host.name"), "a node"),
    Rule("k8s", "kube_node_.*", "host", (HOST,), ("node",), "a node; `instance` is kube-state-metrics itself"),
    Rule("k8s", "kube_pod_.*", "pod", (NAMESPACE, POD), ("node", "k8s.node.name"), "a pod; `instance` is kube-state-metrics itself"),
    Rule("k8s", "k8s_(pod|container)_.*", "pod", (NAMESPACE, POD), ("k8s.node.name", "host.name"), "a pod"),
    Rule("k8s", "container_.*", "pod", (NAMESPACE, POD), TARGET, "a container, mapped to its pod", (When(POD.labels),)),
    # a Prometheus target's own metrics: `job` here is the scrape job, not a training job
    Rule("target", "up|scrape_.*|(process|go|python|promhttp|net_conntrack|leadline)_.*", "service", (Part(("service.name", "job")),), TARGET, "the program that was scraped"),
    # any name whose labels say what it is about
    Rule("labelled", ".*", "gpu", (UUID,), TARGET, "a GPU's UUID is unmistakable", (When(UUID.labels, NVIDIA_UUID),)),
    Rule("labelled", ".*", "rank", (JOB_ID, RANK), SAID, "a rank of a job", (When(JOB_ID.labels), When(RANK.labels))),
    Rule("labelled", ".*", "service", (Part(("service.name",)),), SAID, "a program that names its service", (When(("service.name",)),)),
    Rule("labelled", ".*", "pod", (Part(("k8s.namespace.name",)), Part(("k8s.pod.name",))), SAID, "a pod", (When(("k8s.pod.name",)),)),
    Rule("labelled", ".*", "host", (HOST,), ("host.name",), "a host", (When(("host.name",)),)),
)  # fmt: skip

# Log records have no metric name: the most particular thing that their attributes name.
EVENT_RULES: tuple[Rule, ...] = (
    Rule("event", ".*", "gpu", (UUID,), SAID, "a GPU", (When(UUID.labels, NVIDIA_UUID),)),
    Rule("event", ".*", "gpu", (Part(("gpu.uuid", "hw.id")),), SAID, "a GPU", (When(("gpu.uuid", "hw.id"), NVIDIA_UUID),)),
    Rule("event", ".*", "port", (HOST, Part(("network.interface.name", "rdma.device")), RDMA_PORT), SAID, "a network port", (When(("network.interface.name", "rdma.device")),)),
    Rule("event", ".*", "rank", (JOB_ID, RANK), SAID, "a rank of a job", (When(JOB_ID.labels), When(RANK.labels))),
    Rule("event", ".*", "job", (JOB_ID,), SAID, "a job", (When(JOB_ID.labels),)),
    Rule("event", ".*", "pod", (NAMESPACE, Part(("k8s.pod.name",))), SAID, "a pod", (When(("k8s.pod.name",)),)),
    Rule("event", ".*", "service", (Part(("service.name",)),), SAID, "a program that names its service", (When(("service.name",)),)),
    Rule("event", ".*", "host", (HOST,), SAID, "a host", (When(SAID),)),
)  # fmt: skip

UNKNOWN = Mapped("", "", None, "")

# Values by which senders say that they have none.
_NOTHING = re.compile("|unknown|unknown_service(:.*)?")


def entity_of(labels: Mapping[str, str]) -> Mapped:
    """The entity that a metric stream speaks of, from its labels (`__name__` among them).

    Returns: `Mapped`; entity and kind are empty if no rule knows the name or a label is missing. The host may be known
    where the entity is not. Never raises.
    """
    for rule in _rules_for(labels.get("__name__", "")):
        if _applies(rule, labels):
            return _apply(rule, labels)
    return UNKNOWN._replace(host=_host(SAID, labels))


def event_entity(attributes: Mapping[str, str]) -> Mapped:
    """The entity that a log record speaks of, from its attributes (resource, scope and record together).

    An attribute `leadline.entity` that holds an entity id (`gpu:GPU-5c1e`) is believed before anything else.
    """
    said = attributes.get("leadline.entity", "")
    try:
        return Mapped(parse_entity_id(said).kind, said, _host(SAID, attributes), "event")
    except UsageError:
        pass  # absent, or not an id: the rest of the attributes decide
    for rule in EVENT_RULES:
        if _applies(rule, attributes):
            return _apply(rule, attributes)
    return UNKNOWN


@lru_cache(maxsize=8192)  # names, not streams; 20,000 streams have some hundred names
def _rules_for(name: str) -> tuple[Rule, ...]:
    spelled = name.replace(".", "_")
    return tuple(rule for rule in RULES if re.fullmatch(rule.name, spelled))


def _applies(rule: Rule, labels: Mapping[str, str]) -> bool:
    for condition in rule.when:
        value = _first(condition.labels, labels)
        if value is None or (condition.value != ".+" and not _pattern(condition.value).fullmatch(value)):
            return False
    return True


def _apply(rule: Rule, labels: Mapping[str, str]) -> Mapped:
    host = _host(rule.host, labels)
    parts: list[str] = []
    for part in rule.entity:
        value = _first(part.labels, labels) if part.labels else host
        if part.usual is not None and (value is None or value == part.usual):
            continue
        if value is None:
            return Mapped("", "", host, rule.family)
        parts.append(value)
    return Mapped(rule.entity_kind, entity_id(rule.entity_kind, *parts), host, rule.family)


def _first(names: tuple[str, ...], labels: Mapping[str, str]) -> str | None:
    """The value of the first of these labels that has one, in either spelling."""
    for name, spelled in _spellings(names):
        value = labels.get(name) or labels.get(spelled)
        if value and not (value.startswith("unknown") and _NOTHING.fullmatch(value)):
            return value
    return None


@cache  # of the rules' own
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


@cache  # of the rules' own names
def _spellings(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, name.replace(".", "_")) for name in names)


def _host(names: tuple[str, ...], labels: Mapping[str, str]) -> str | None:
    for name in names:
        value = _first((name,), labels)
        if value is not None:
            return _without_port(value) if name == "instance" else value
    return None


def _without_port(instance: str) -> str | None:
    """`n12:9100` is `n12`, `[fe80::1]:9100` is `fe80::1`; an address without a port stays as it is."""
    bracketed = re.fullmatch(r"\[(.+)\](:\d+)?", instance)
    if bracketed:
        return bracketed[1]
    name, colon, port = instance.rpartition(":")
    if colon and port.isdigit() and ":" not in name:
        return name or None
    return instance
