"""Replays: what is played is arithmetic that never goes back, every page tells the same, Leadline reads all of it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.faults import BY_NAME, FAULTS
from leadline.lab.faults.base import Fault
from leadline.lab.faults.hardware.replay import ABOUT, REPLAYS, parts_of
from leadline.lab.faults.hardware.wrong_dscp import marking_text
from leadline.lab.telemetry.exporters import HostGpus, NodePorts
from leadline.lab.telemetry.gpu_processes import GpuProcesses
from leadline.lab.telemetry.kernel_log import append_xid
from leadline.lab.telemetry.overlay import (
    COUNTERS,
    FILE,
    HEALTHY,
    PCI_WIDTH,
    RX_POWER,
    Claim,
    Overlay,
    OverlayFile,
    Slope,
    bump,
    card_metrics,
    overlay_from,
    port_metrics,
    replan,
    together,
)
from leadline.lab.telemetry.plan import PlannedNode, PlannedPort
from leadline.lab.telemetry.rtnetlink import Counters
from leadline.lab.telemetry.switch_sampler import SwitchAgent, SwitchPort
from leadline.lab.telemetry.sysfs_tree import nic_pci, replayed_files
from leadline.lab.topology import load
from leadline.model.errors import DataError, UsageError
from leadline.model.names import entity_of
from leadline.model.nic_counters import ETHTOOL_COUNTERS, HW_COUNTERS, SYSFS_COUNTERS
from leadline.wire.exposition.pages import decode_exposition
from leadline.wire.kernel_log.events import event_rows, recognise
from leadline.wire.kernel_log.kmsg import read_kmsg
from leadline.wire.sflow.counters import CounterStreams
from leadline.wire.sflow.datagrams import Switch, decode_sflow

S = 1_000_000_000
NIC, PORT = "port:h1/eth0", "swport:leaf1/Ethernet1"
UUID = "GPU-855c860a-277d-543a-8443-21197eabb7ae"
LINK = Counters(2, "eth0", True, "up", 3, 2, 1, 10, 11, 1200, 1300, 1, 2, 3, 4, 5)
REPLAYED = sorted(path.stem for path in REPLAYS.glob("*.yaml"))

names = st.sampled_from(sorted(COUNTERS))
claims = st.builds(Claim, st.dictionaries(st.sampled_from([NIC, PORT]), st.dictionaries(names, st.floats(0, 1e7))))


# -- arithmetic ---------------------------------------------------------------------------------------------------


def test_a_counter_grows_with_time_and_keeps_what_it_has() -> None:
    overlay = Overlay().claimed(Claim({NIC: {"tx_prio3_pause": 100.0}}), 10 * S)
    assert overlay.counter(NIC, "tx_prio3_pause", 10 * S) == 0
    assert overlay.counter(NIC, "tx_prio3_pause", 15 * S) == 500
    after = overlay.claimed(None, 20 * S)
    assert after.counter(NIC, "tx_prio3_pause", 20 * S) == after.counter(NIC, "tx_prio3_pause", 99 * S) == 1000
    assert after.counter(NIC, "rx_prio3_pause", 99 * S) == 0
    assert after.bumped(NIC, "tx_prio3_pause", 7, 50 * S).counter(NIC, "tx_prio3_pause", 60 * S) == 1007


@given(st.lists(st.tuples(st.one_of(st.none(), claims), st.integers(0, 60 * S)), max_size=12), names)
def test_no_counter_ever_goes_back_whatever_is_claimed(deeds: list[tuple[Claim | None, int]], name: str) -> None:
    overlay, now_ns, last = Overlay(), 0, 0
    for claim, passed_ns in deeds:
        overlay = overlay.claimed(claim, now_ns)
        for part in (0, passed_ns // 2, passed_ns):
            seen = overlay.counter(NIC, name, now_ns + part)
            assert seen >= last
            last = seen
        now_ns += passed_ns


@given(st.lists(claims, min_size=1, max_size=4))
def test_claims_together_grow_by_their_sum(several: list[Claim]) -> None:
    for entity, values in together(several).per_s.items():
        for name, per_s in values.items():
            wanted = sum(claim.per_s.get(entity, {}).get(name, 0.0) for claim in several)
            assert per_s == pytest.approx(wanted)


def test_a_gauge_slides_and_the_worst_of_two_shows() -> None:
    dim, dark = Slope(-5.5, 10.0, 0), Slope(-13.5, 10.0, 0)
    both = together([Claim(gauges={NIC: {RX_POWER: dark}}), Claim(gauges={NIC: {RX_POWER: dim}})])
    overlay = Overlay().claimed(both, 0)
    assert overlay.gauge(NIC, RX_POWER, 5 * S) == pytest.approx((HEALTHY[RX_POWER] - 13.5) / 2)
    assert overlay.gauge(NIC, RX_POWER, 60 * S) == -13.5
    assert overlay.claimed(None, 60 * S).gauge(NIC, RX_POWER, 60 * S) == HEALTHY[RX_POWER]


@pytest.mark.parametrize(
    "wrong", [{"per_s": {NIC: {"no_such": 1.0}}}, {"per_s": {NIC: {"rx_errors": -1.0}}}, {"gauges": {NIC: {"x": None}}}]
)
def test_what_nothing_would_show_is_refused(wrong: Mapping[str, object]) -> None:
    with pytest.raises(UsageError):
        Claim(**wrong)  # type: ignore[arg-type]


# -- the file -----------------------------------------------------------------------------------------------------


@given(claims)
def test_an_overlay_comes_back_from_its_file(claim: Claim) -> None:
    overlay = Overlay().claimed(dataclasses.replace(claim, gauges={NIC: {PCI_WIDTH: Slope(4, 0, 3)}}), 5)
    assert overlay_from(json.loads(json.dumps(overlay.as_json())), "here") == overlay


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.dictionaries(
            st.sampled_from(["counters", "gauges", NIC, "rx_errors", "base"]) | st.text(), inner
        ),
    )
)
def test_any_file_is_understood_or_refused(found: object) -> None:
    with contextlib.suppress(DataError):
        assert isinstance(overlay_from(found, "here"), Overlay)


def test_a_broken_file_is_told_and_the_last_good_one_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = OverlayFile(tmp_path)
    assert file.read() == Overlay()
    replan(tmp_path, Claim({NIC: {"rx_errors": 2.0}}), 0)
    assert file.read().counter(NIC, "rx_errors", 3 * S) == 6
    (tmp_path / FILE).write_text("{")
    assert file.read().counter(NIC, "rx_errors", 3 * S) == 6
    assert "not used" in capsys.readouterr().err


def test_jumps_and_claims_do_not_forget_each_other(tmp_path: Path) -> None:
    bump(tmp_path, NIC, "symbol_error", 5)
    replan(tmp_path, Claim({NIC: {"rx_errors": 0.0}}))
    bump(tmp_path, NIC, "symbol_error", 2)
    assert OverlayFile(tmp_path).read().counter(NIC, "symbol_error", 1 << 62) == 7
    with pytest.raises(UsageError):
        bump(tmp_path, NIC, "no_such")


# -- what shows it ------------------------------------------------------------------------------------------------


class OnePort:
    """Stands for a node's sockets: one interface, no queue."""

    def __init__(self, name: str) -> None:
        self._name = name

    def links(self) -> dict[str, Counters]:
        return {self._name: dataclasses.replace(LINK, name=self._name)}

    def queues(self) -> dict[int, object]:
        return {}


def test_a_hosts_page_shows_its_nics_and_a_switchs_its_ports(tmp_path: Path) -> None:
    replan(tmp_path, Claim({NIC: {"rx_prio3_pause": 1e9, "rx_errors": 1e9}, PORT: {"tx_discards_phy": 1e9}}), 0)
    host = PlannedNode("h1", "", 1, "127.78.0.1", (PlannedPort("eth0", "", "", 8_000_000, 0),))
    ports = NodePorts(host, OnePort("eth0"), overlay=OverlayFile(tmp_path))  # type: ignore[arg-type]
    assert "ethtool" not in ports.page().decode()
    page = (ports.page() + ports.nic_page()).decode()
    values = {line.split()[0]: float(line.split()[1]) for line in page.splitlines() if not line.startswith("#")}
    assert values['node_ethtool_rx_prio3_pause{device="eth0"}'] > 1e9
    assert values['node_network_receive_errs_total{device="eth0"}'] > 1e9
    assert values['node_ethtool_tx_prio3_pause{device="eth0"}'] == 0
    slot = '{segment="0000",bus="21",device="00",function="0"}'
    assert values[f"node_pcidevice_current_link_width{slot}"] == 16
    leaf = PlannedNode("leaf1", "", 1, "127.79.0.1", (PlannedPort("Ethernet1", "", "", 8),), sflow="127.77.0.1")
    page = NodePorts(leaf, OnePort("Ethernet1"), overlay=OverlayFile(tmp_path)).page().decode()  # type: ignore[arg-type]
    assert 'node_ethtool_tx_discards_phy{device="Ethernet1"} 0' not in page
    assert "node_pcidevice" not in page
    assert b"ethtool" not in NodePorts(host, OnePort("eth0")).nic_page()  # type: ignore[arg-type]


def test_what_pages_show_has_the_entity_of_what_it_speaks_of() -> None:
    switch = {"device": "Ethernet1", "instance": "127.79.0.1:9100", "switch": "leaf1"}
    host = {"device": "eth0", "instance": "127.78.0.1:9100", "nodename": "h1"}
    for metric in port_metrics(Overlay(), NIC, 0):
        kind = "xcvr" if metric == RX_POWER else "port"
        assert entity_of({"__name__": metric, **host}).entity == f"{kind}:h1/eth0"
        kind = "xcvr" if metric == RX_POWER else "swport"
        assert entity_of({"__name__": metric, **switch}).entity == f"{kind}:leaf1/Ethernet1"
    for metric in card_metrics(Overlay(), NIC, 0):
        assert entity_of({"__name__": metric, "bus": "21", "nodename": "h1"}).entity == "host:h1"


def test_files_of_a_nic_have_its_drivers_names() -> None:
    overlay = Overlay().claimed(Claim({NIC: {"symbol_error": 2.0}}, {NIC: {PCI_WIDTH: Slope(4, 0, 0)}}), 0)
    files = replayed_files(1, overlay, NIC, 10 * S)
    assert files["class/infiniband/mlx5_1/ports/1/counters/symbol_error"] == "20"
    assert files["class/infiniband/mlx5_1/device/current_link_width"] == "4"
    assert files["class/infiniband/mlx5_1/device/max_link_speed"] == "16.0 GT/s PCIe"
    assert len({nic_pci(rail) for rail in range(16)}) == 16


def test_a_gpu_page_shows_the_replay_and_forgets_a_lost_gpu(tmp_path: Path) -> None:
    control = tmp_path / "gpu_control.json"
    gpus = HostGpus("h1", (UUID,), control, GpuProcesses(0, (UUID,), tmp_path))
    field = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
    before = decode_exposition(gpus.page(0.0), "text/plain; version=0.0.4", 1_000)
    replan(tmp_path, Claim({f"gpu:{UUID}": {field: 1e9}}), 0)
    page = gpus.page(1.0).decode()
    shown = next(line for line in page.splitlines() if line.startswith(field))
    assert UUID in shown
    assert float(shown.split()[-1]) > 1e9
    assert len(decode_exposition(page.encode(), "text/plain; version=0.0.4", 1_000).value) == len(before.value)
    control.write_text(json.dumps({UUID: {"lost": True}}))
    assert UUID not in gpus.page(2.0).decode()
    control.write_text(json.dumps({UUID: {}}))
    assert UUID in gpus.page(3.0).decode()


def test_sflow_tells_the_errors_of_a_port_and_leadline_reads_them() -> None:
    ports = [SwitchPort(7, "Ethernet1", 250_000_000, "10.1.1.1")]
    agent = SwitchAgent("127.77.0.1", ports, 100, [], 0)
    link = dataclasses.replace(LINK, name="Ethernet1", index=7)
    [datagram] = agent.counters({"Ethernet1": link}, {}, 1000, {7: {"dot3StatsSymbolErrors": 25}})
    batch = decode_sflow(datagram, [len(datagram)])
    switch = Switch("leaf1", {7: "Ethernet1"})
    samples = CounterStreams().counters(batch, [switch], np.array([1_000], dtype=np.int64))
    assert 25.0 in list(samples.value)


# -- data of the replays ------------------------------------------------------------------------------------------


def test_every_replayed_fault_has_its_data_and_no_data_is_left_over() -> None:
    assert [each for each in REPLAYED if each not in {kind.name for kind in FAULTS}] == []
    assert {kind.name for kind in FAULTS if kind.seen_in == "replay"} - set(REPLAYED) == {"xid"}


@pytest.mark.parametrize("name", REPLAYED)
def test_a_replay_says_where_its_forms_come_from_and_plays_only_what_is_shown(name: str) -> None:
    text = (REPLAYS / f"{name}.yaml").read_text()
    assert all(f"\n{word}:" in text for word in ABOUT)
    for part in parts_of(name).values():
        for shown in part.names:
            assert shown in COUNTERS or shown in HEALTHY
            known = (*ETHTOOL_COUNTERS, *HW_COUNTERS, *SYSFS_COUNTERS)
            nvidia, mib, own = shown.startswith("DCGM_FI_"), shown.startswith("dot3Stats"), shown in HEALTHY
            linux = shown in ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped")
            driver = any(re.fullmatch(each.name, shown) for each in known)
            assert nvidia or mib or own or linux or driver, f"{shown} is no name of a driver"


PLACE = {
    "pci": "0000:21:00.0", "upstream": "0000:20:01.1", "port": "eth0", "nvlink": "3", "turn": 0, "uuid": UUID,
    "available": "63.012 Gb/s", "limited": "16.0 GT/s PCIe x4 link",
    "capable": "252.048 Gb/s with 16.0 GT/s PCIe x16 link",
}  # fmt: skip


@pytest.mark.parametrize("name", REPLAYED)
def test_leadline_recognises_every_line(name: str, tmp_path: Path) -> None:
    for role, part in parts_of(name).items():
        words = {**PLACE, "pci": "0000:9b:00"} if role == "gpu" else PLACE
        for line in part.lines:
            if not line.text:
                continue
            text = line.text.format(**words)
            if not line.xid:
                assert recognise(text) is not None, text
                continue
            append_xid(tmp_path, "h1", UUID, line.xid, 41, text)
    log = tmp_path / "hosts/h1/kmsg"
    rows = event_rows(read_kmsg(log.read_bytes(), 0).lines, "h1", "h1/b", log_level_max=-1) if log.exists() else []
    assert all(row["kind"] == "xid" and row["entity"] == f"gpu:{UUID}" for row in rows)


def test_a_card_in_a_narrow_slot_is_a_finding() -> None:
    # As Linux prints it (drivers/pci/pci.c); the second is a card that has all it can use, which is none.
    text = (
        "mlx5_core 0000:41:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at "
        "0000:40:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)"
    )
    found = recognise(text)
    assert found is not None
    assert (found.kind, found.code, found.attributes["lanes_max"]) == ("pcie-width", "x8", "16")
    assert recognise("mlx5_core 0000:63:00.0: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)") is None


@pytest.mark.parametrize("name", ["pfc-storm", "pcie-width", "wrong-dscp"])
def test_what_befalls_a_nic_is_refused_between_switches(name: str) -> None:
    topology = load("clos8")
    BY_NAME[name](link="h1~leaf1").check(topology)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="leaf1~spine1 has none"):
        BY_NAME[name](link="leaf1~spine1").check(topology)  # type: ignore[call-arg]
    BY_NAME["marginal-optic"](link="leaf1~spine1").check(topology)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (BY_NAME["pfc-storm"](rate_ratio=1.0), "rate_ratio"),  # type: ignore[call-arg]
        (BY_NAME["pcie-width"](lanes=3), "lanes"),  # type: ignore[call-arg]
        (BY_NAME["wrong-dscp"](dscp=64), "dscp"),  # type: ignore[call-arg]
        (BY_NAME["wrong-gid"](loss_ratio=0.0), "loss_ratio"),  # type: ignore[call-arg]
        (BY_NAME["marginal-optic"](loss_ratio=2.0), "loss_ratio"),  # type: ignore[call-arg]
        (BY_NAME["nvlink-errors"](share=0.0), "share"),  # type: ignore[call-arg]
        (BY_NAME["row-remaps"](rows=0), "rows"),  # type: ignore[call-arg]
        (BY_NAME["gpu-lost"](reset_s=-1.0), "reset_s"),  # type: ignore[call-arg]
        (BY_NAME["gpu-throttle"](clock_factor=1.5), "clock_factor"),  # type: ignore[call-arg]
        (BY_NAME["duplicate-uuid"](hosts=0), "hosts"),  # type: ignore[call-arg]
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_parameters_that_make_no_sense_are_refused(fault: Fault, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        fault.check(load("tiny"))


def test_marking_is_a_table_of_its_own_that_goes_again() -> None:
    assert 'oifname "eth0" counter ip dscp set 8' in marking_text("eth0", 8)
    assert "set" not in marking_text("eth0", None)
    assert marking_text("eth0", None).count("delete table") == 1
