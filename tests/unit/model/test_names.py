"""The mapping from names as they come to entities: on recorded pages, on real label sets, and its laws."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.ids import ENTITY_KINDS, parse_entity_id
from leadline.model.names import EVENT_RULES, RULES, Mapped, entity_of, event_entity, unit_of

RECORDED = Path(__file__).parent / "recorded"
GPU = "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"


def page(name: str, **added: str) -> list[dict[str, str]]:
    """Streams of a recorded page, with the labels that a scraper adds."""
    streams = []
    for line in (RECORDED / name).read_text().splitlines():
        match = re.match(r"(\w+)(?:\{(.*)\})? ", line)
        assert match, line
        labels = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
        streams.append({"__name__": match[1], **labels, **added})
    return streams


def test_every_stream_of_node_exporter_is_recognised() -> None:
    mapped = [(stream, entity_of(stream)) for stream in page("node_exporter.prom", instance="n12:9100", job="node")]
    assert len(mapped) > 30
    for stream, found in mapped:
        name, device = stream["__name__"], stream.get("device", "")
        if name.startswith("node_network_") and device != "lo":
            assert found == Mapped("port", f"port:n12/{device}", "n12", "node_exporter")
        elif name.startswith("node_"):
            assert found == Mapped("host", "host:n12", "n12", "node_exporter"), stream
        else:
            assert found == Mapped("service", "service:node", "n12", "target"), stream


def test_dcgm_page_belongs_to_its_gpu_even_without_a_host() -> None:
    for stream in page("dcgm_exporter.prom"):
        assert entity_of(stream) == Mapped("gpu", f"gpu:{GPU}", None, "dcgm")


# Each is a label set as the named program sends it; values shortened.
CASES: list[tuple[dict[str, str], tuple[str, str | None]]] = [
    # dcgm-exporter, both spellings; a pod's labels do not make it the pod's
    ({"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0", "UUID": "GPU-a", "device": "nvidia0", "Hostname": "n12", "instance": "10.0.0.7:9400"}, ("gpu:GPU-a", "n12")),
    ({"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0", "uuid": "GPU-a", "hostname": "n12", "pod": "train-0", "namespace": "ml"}, ("gpu:GPU-a", "n12")),
    ({"__name__": "DCGM_FI_DEV_GPU_TEMP", "gpu": "0", "Hostname": "n12"}, ("", "n12")),
    ({"__name__": "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "nvlink": "3", "gpu": "0", "UUID": "GPU-a", "Hostname": "n12"}, ("nvlink:GPU-a/3", "n12")),
    ({"__name__": "DCGM_FI_DEV_NVSWITCH_LINK_THROUGHPUT_TX", "nvlink": "0", "nvswitch": "nvswitch1", "Hostname": "n12"}, ("nvlink:n12/nvswitch1/0", "n12")),
    ({"__name__": "DCGM_FI_DEV_NVSWITCH_TEMPERATURE_CURRENT", "nvswitch": "nvswitch1", "Hostname": "n12"}, ("switch:n12/nvswitch1", "n12")),
    ({"__name__": "DCGM_FI_DEV_CPU_UTIL_TOTAL", "cpu": "0", "Hostname": "n12"}, ("host:n12", "n12")),
    ({"__name__": "DCGM_EXP_XID_ERRORS_COUNT", "UUID": "GPU-a", "xid": "79", "Hostname": "n12"}, ("gpu:GPU-a", "n12")),
    # node_exporter
    ({"__name__": "node_infiniband_port_data_received_bytes_total", "device": "mlx5_3", "port": "1", "instance": "n12:9100"}, ("port:n12/mlx5_3", "n12")),
    ({"__name__": "node_infiniband_port_data_received_bytes_total", "device": "mlx4_0", "port": "2", "instance": "n12:9100"}, ("port:n12/mlx4_0/2", "n12")),
    ({"__name__": "node_infiniband_info", "device": "mlx5_3", "board_id": "MT_1", "instance": "n12:9100"}, ("port:n12/mlx5_3", "n12")),
    ({"__name__": "node_infiniband_port_data_received_bytes_total", "port": "1", "instance": "n12:9100"}, ("", "n12")),
    ({"__name__": "node_infiniband_port_data_received_bytes_total", "device": "mlx5_3", "port": "1"}, ("", None)),
    ({"__name__": "node_ethtool_received_bytes_total", "device": "eth0", "instance": "n12:9100"}, ("port:n12/eth0", "n12")),
    ({"__name__": "node_network_up", "device": "lo", "instance": "n12:9100"}, ("host:n12", "n12")),
    ({"__name__": "node_memory_numa_MemFree", "node": "0", "instance": "n12:9100"}, ("host:n12", "n12")),
    ({"__name__": "node_cpu_seconds_total", "cpu": "0", "node": "n12", "instance": "10.0.0.7:9100"}, ("host:n12", "n12")),
    ({"__name__": "node_uname_info", "nodename": "vm", "instance": "n12:9100"}, ("host:n12", "n12")),
    ({"__name__": "node_uname_info", "exported_nodename": "vm", "nodename": "n12", "instance": "localhost:9100"}, ("host:n12", "n12")),
    ({"__name__": "node_load1", "instance": "localhost:9100"}, ("host:localhost", "localhost")),
    ({"__name__": "node_load1", "instance": "localhost:9100", "nodename": "n12"}, ("host:n12", "n12")),
    ({"__name__": "node_load1", "instance": "[fe80::1]:9100"}, ("host:fe80::1", "fe80::1")),
    ({"__name__": "node_load1", "instance": "fe80::1"}, ("host:fe80::1", "fe80::1")),
    ({"__name__": "node_load1"}, ("", None)),
    # sysfs and ethtool names without a prefix
    ({"__name__": "out_of_sequence", "device": "mlx5_3", "port": "1", "hostname": "n12"}, ("port:n12/mlx5_3", "n12")),
    ({"__name__": "rdma_np_cnp_sent_total", "device": "mlx5_3", "instance": "n12:9500"}, ("port:n12/mlx5_3", "n12")),
    ({"__name__": "rp_cnp_handled", "ibdev": "mlx5_3", "Hostname": "n12"}, ("port:n12/mlx5_3", "n12")),
    ({"__name__": "infiniband_local_ack_timeout_err", "device": "mlx5_3", "port": "1", "host": "n12"}, ("port:n12/mlx5_3", "n12")),
    ({"__name__": "roce_slow_restart_cnps", "device": "mlx5_3", "host": "n12"}, ("port:n12/mlx5_3", "n12")),
    ({"__name__": "out_of_sequence", "hostname": "n12"}, ("", "n12")),
    ({"__name__": "duplicate_request", "service.name": "shop", "host.name": "n12"}, ("service:shop", "n12")),
    ({"__name__": "rx_prio3_pause_duration", "interface": "eth2", "hostname": "n12"}, ("port:n12/eth2", "n12")),
    ({"__name__": "ethtool_tx_prio3_pause", "interface": "eth2", "host": "n12"}, ("port:n12/eth2", "n12")),
    ({"__name__": "rx_prio9_pause", "interface": "eth2", "host": "n12"}, ("", None)),
    # NCCL Inspector: by node_exporter's textfile, and by OTLP; "unknown" is no name
    ({"__name__": "nccl_bus_bandwidth_gbs", "slurm_job_id": "1670760", "node": "nvl-T01", "gpu": "GPU0", "comm_name": "unknown", "nranks": "64", "instance": "10.0.0.7:9100"}, ("job:1670760", "nvl-T01")),
    ({"__name__": "nccl_p2p_exec_time_microseconds", "slurm_job_id": "7", "node": "n12", "comm_name": "dp", "comm_id": "0x9c"}, ("comm:7/0x9c", "n12")),
    ({"__name__": "nccl_bus_bandwidth_gbs", "slurm_job_id": "7", "hostname": "n12", "rank": "4", "comm_name": "dp"}, ("comm:7/dp", "n12")),
    ({"__name__": "nccl_collectives_total", "node": "n12", "gpu": "GPU0", "service.name": "nccl"}, ("", "n12")),
    ({"__name__": "nccl_bus_bandwidth_gbs", "slurm_job_id": "unknown", "node": "n12", "comm_name": "dp"}, ("", "n12")),
    # OpenTelemetry, dots and underscores
    ({"__name__": "hw.gpu.utilization", "hw.id": "GPU-a", "hw.type": "gpu", "host.name": "n12"}, ("gpu:GPU-a", "n12")),
    ({"__name__": "hw_gpu_utilization_ratio", "hw_id": "0", "host_name": "n12"}, ("gpu:n12/0", "n12")),
    ({"__name__": "hw.errors", "hw.id": "0", "hw.type": "gpu", "host.name": "n12"}, ("gpu:n12/0", "n12")),
    ({"__name__": "hw.temperature", "hw.id": "t1", "hw.parent": "GPU-a", "host.name": "n12"}, ("gpu:GPU-a", "n12")),
    ({"__name__": "hw.network.io", "hw.id": "7", "hw.name": "eth0", "host.name": "n12"}, ("port:n12/eth0", "n12")),
    ({"__name__": "hw.status", "hw.id": "fan1", "hw.type": "fan", "host.name": "n12"}, ("host:n12", "n12")),
    ({"__name__": "hw.gpu.io", "hw.id": "0"}, ("", None)),
    ({"__name__": "system.network.io", "network.interface.name": "eth0", "host.name": "n12", "service.name": "agent"}, ("port:n12/eth0", "n12")),
    ({"__name__": "system.network.io", "device": "lo", "host.name": "n12"}, ("host:n12", "n12")),
    ({"__name__": "system.cpu.time", "cpu": "cpu0", "host.name": "n12"}, ("host:n12", "n12")),
    ({"__name__": "process.cpu.time", "process.pid": "4711", "host.name": "n12"}, ("process:n12/4711", "n12")),
    ({"__name__": "k8s.node.cpu.usage", "k8s.node.name": "n12"}, ("host:n12", "n12")),
    ({"__name__": "k8s.pod.cpu.usage", "k8s.pod.name": "train-0", "k8s.namespace.name": "ml", "k8s.node.name": "n12"}, ("pod:ml/train-0", "n12")),
    ({"__name__": "kube_pod_status_phase", "pod": "train-0", "namespace": "ml", "node": "n12", "instance": "10.1.1.1:8080"}, ("pod:ml/train-0", "n12")),
    ({"__name__": "kube_node_status_condition", "node": "n12", "instance": "10.1.1.1:8080"}, ("host:n12", "n12")),
    ({"__name__": "container_cpu_usage_seconds_total", "pod": "train-0", "namespace": "ml", "instance": "n12"}, ("pod:ml/train-0", "n12")),
    # a program's own metrics
    ({"__name__": "up", "job": "dcgm", "instance": "n12:9400"}, ("service:dcgm", "n12")),
    ({"__name__": "python_gc_collections_total", "instance": "n12:8000"}, ("", "n12")),
    ({"__name__": "train.loss", "service.name": "trainer", "host.name": "n12"}, ("service:trainer", "n12")),
    ({"__name__": "train.loss", "service.name": "unknown_service:python", "host.name": "n12"}, ("host:n12", "n12")),
    ({"__name__": "train_loss", "job_id": "bert-7", "rank": "13", "hostname": "n12"}, ("rank:bert-7/13", "n12")),
    ({"__name__": "train_loss", "job": "scrape", "rank": "13"}, ("", None)),
    # unknown: kept under its own name, attributed to nothing
    ({"__name__": "my_metric", "instance": "n12:1234", "job": "mine"}, ("", None)),
    ({"__name__": "my_metric", "hostname": "n12"}, ("", "n12")),
    ({}, ("", None)),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "expected"), CASES, ids=lambda value: None)
def test_label_sets(labels: dict[str, str], expected: tuple[str, str | None]) -> None:
    found = entity_of(labels)
    assert (found.entity, found.host) == expected
    assert found.entity_kind == found.entity.partition(":")[0]


@pytest.mark.parametrize(
    ("attributes", "entity"),
    [
        ({"leadline.entity": "port:n12/mlx5_3", "host.name": "n12"}, "port:n12/mlx5_3"),
        ({"leadline.entity": "nonsense", "host.name": "n12"}, "host:n12"),
        ({"gpu.uuid": "GPU-a", "host.name": "n12", "service.name": "dcgm"}, "gpu:GPU-a"),
        ({"network.interface.name": "eth0", "host.name": "n12"}, "port:n12/eth0"),
        ({"network.interface.name": "eth0"}, ""),
        ({"job.id": "bert-7", "rank": "13", "service.name": "trainer"}, "rank:bert-7/13"),
        ({"slurm.job.id": "7", "host.name": "n12"}, "job:7"),
        ({"k8s.pod.name": "train-0", "k8s.namespace.name": "ml", "service.name": "x"}, "pod:ml/train-0"),
        ({"service.name": "trainer", "host.name": "n12"}, "service:trainer"),
        ({"host.name": "n12"}, "host:n12"),
        ({"exception.type": "ValueError"}, ""),
    ],
)
def test_log_records(attributes: dict[str, str], entity: str) -> None:
    found = event_entity(attributes)
    assert found.entity == entity
    assert found.host == attributes.get("host.name")


NAMES = sorted({case[0].get("__name__", "") for case in CASES})
LABELS = sorted({label for rule in (*RULES, *EVENT_RULES) for part in rule.entity for label in part.labels} | {"instance", "host.name"})  # fmt: skip


@given(st.sampled_from(NAMES), st.dictionaries(st.sampled_from(LABELS), st.text(max_size=8)))
def test_never_raises_and_never_invents(name: str, labels: dict[str, str]) -> None:
    for found in (entity_of({"__name__": name, **labels}), event_entity(labels)):
        if found.entity:
            kind, rest = parse_entity_id(found.entity)
            assert kind == found.entity_kind
            said = "\0".join(labels.values())
            assert all(word in said for word in rest.split("/")), "a word that no label said"
        else:
            assert found.entity_kind == ""


@given(st.sampled_from([case[0] for case in CASES]))
def test_dots_and_underscores_mean_the_same(labels: dict[str, str]) -> None:
    spelled = {name.replace(".", "_"): value for name, value in labels.items() if name != "__name__"}
    name = labels.get("__name__", "").replace(".", "_")
    assert entity_of({"__name__": name, **spelled}) == entity_of(labels)


@pytest.mark.parametrize("rule", [*RULES, *EVENT_RULES], ids=lambda rule: f"{rule.family}-{rule.entity_kind}")
def test_every_rule_is_sound_and_reachable(rule: object) -> None:
    from leadline.model.names import Rule

    assert isinstance(rule, Rule)
    assert rule.entity_kind in ENTITY_KINDS
    assert rule.doc
    re.compile(rule.name)
    same = [other for other in (*RULES, *EVENT_RULES) if other.family == rule.family and other.name == rule.name]
    before = same[: same.index(rule)]
    assert all(other.when for other in before), "an earlier rule without a condition hides this one"


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("node_cpu_seconds_total", "s"),
        ("node_network_receive_bytes_total", "bytes"),
        ("node_network_speed_bytes", "bytes/s"),
        ("node_timex_frequency_adjustment_ratio", "ratio"),
        ("http_request_duration_seconds_sum", "s"),
        ("http_request_duration_seconds_count", "1"),
        ("http_request_duration_seconds_bucket", "1"),
        ("DCGM_FI_DEV_SM_CLOCK", "MHz"),
        ("DCGM_FI_DEV_MEMORY_TEMP", "Cel"),
        ("DCGM_FI_DEV_POWER_USAGE", "W"),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "mJ"),
        ("DCGM_FI_DEV_FB_USED", "MiB"),
        ("DCGM_FI_DEV_GPU_UTIL", "%"),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "ratio"),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", "bytes/s"),
        ("DCGM_FI_DEV_XID_ERRORS", None),  # the last XID, not a quantity
        ("nccl_collective_exec_time_microseconds", "us"),
        ("nccl_p2p_bus_bandwidth_gbs", "GB/s"),
        ("port_xmit_data", "4 bytes"),
        ("rx_prio3_pause_duration", "us"),
        ("rx_prio3_bytes", "bytes"),
        ("np_cnp_sent", "packets"),
        ("node_uname_info", None),
        ("node_load1", None),
        ("process.cpu.seconds", "s"),
        ("", None),
    ],
)
def test_unit_of(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit
