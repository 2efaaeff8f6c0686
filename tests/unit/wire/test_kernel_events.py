"""Lines of kernel logs and what they mean. The lines are in the forms of the drivers' sources and of public reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.wire.kernel_log.events import Finding, event_rows, gpu_named, pci_key, recognise, xid_line
from leadline.wire.kernel_log.kmsg import LogLine

UUID = "GPU-509665ad-b600-ac93-3616-d754b23d636d"


def found(text: str) -> Finding:
    finding = recognise(text)
    assert finding is not None, text
    return finding


@pytest.mark.parametrize(
    ("text", "code", "pci", "attributes"),
    [
        (
            "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting",
            "119", "0000:9b:00", {"pid": "2024380", "process": "nvidia-smi", "text": "Timeout after 6s of waiting"},
        ),
        (
            "NVRM: Xid (PCI:0000:05:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "79", "0000:05:00", {"text": "GPU has fallen off the bus."},
        ),
        ("NVRM: Xid (PCI:0000:05:00): 79, GPU has fallen off the bus.", "79", "0000:05:00",
         {"text": "GPU has fallen off the bus."}),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "14", "0000:03:00", {"text": "Channel 00000001"}),
        ("NVRM: Xid (PCI:0000:cb:00): 13, pid=123, Graphics Exception: ESR 0x1", "13", "0000:cb:00",
         {"pid": "123", "text": "Graphics Exception: ESR 0x1"}),
        ("NVRM: Xid (PCI:0000:9b:00 GPU-I:05): 31, pid=77, name=python3, Ch 00000008", "31", "0000:9b:00",
         {"pid": "77", "process": "python3", "gpu_instance": "05", "text": "Ch 00000008"}),
        ("[12.5] NVRM: Xid (PCI:0009:01:00): 63", "63", "0009:01:00", {}),
    ],
)  # fmt: skip
def test_xid(text: str, code: str, pci: str, attributes: dict[str, str]) -> None:
    finding = found(text)
    assert (finding.kind, finding.severity, finding.code, finding.pci) == ("xid", "error", code, pci)
    assert {name: value for name, value in finding.attributes.items() if value} == attributes


@pytest.mark.parametrize("pid", [None, 7])
def test_our_own_xid_lines_read_as_such(pid: int | None) -> None:
    finding = found(xid_line("0000:9B:00.0", 79, "GPU has fallen off the bus.", pid, "python"))
    assert (finding.code, finding.pci, finding.attributes["text"]) == (
        "79",
        "0000:9b:00",
        "GPU has fallen off the bus.",
    )
    assert (finding.attributes["pid"], finding.attributes["process"]) == (("7", "python") if pid else ("", ""))


def test_sxid_says_how_bad_it_is_and_its_data_lines_are_no_events() -> None:
    fatal = found("nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 44 sourcetrack timeout error (First)")
    assert (fatal.kind, fatal.severity, fatal.code) == ("sxid", "fatal", "24007")
    assert fatal.attributes["link"] == "44"
    mild = found("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error")
    assert mild.severity == "warning"
    for line in ("Severity 0 Engine instance 32 Sub-engine instance 00", "Data {0x00140004, 0x00000000}"):
        assert recognise(f"nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, {line}") is None


@pytest.mark.parametrize(
    ("text", "kind", "port"),
    [
        ("mlx5_core 0000:5e:00.0 ens1f0np0: Link down", "link-down", "ens1f0np0"),
        ("mlx5_core 0000:5e:00.0 ens1f0np0: Link up", "link-up", "ens1f0np0"),
        ("igb 0000:01:00.0 eth0: igb: eth0 NIC Link is Down", "link-down", "eth0"),
        ("igb 0000:01:00.0: eth0: igb: eth0 NIC Link is Up 1000 Mbps Full Duplex", "link-up", "eth0"),
        ("ixgbe 0000:03:00.0 eth2: NIC Link is Up 10 Gbps, Flow Control: RX/TX", "link-up", "eth2"),
        ("bnxt_en 0000:04:00.0 eth0: NIC Link is Up, 100000 Mbps full duplex, Flow control: none", "link-up", "eth0"),
        ("bnxt_en 0000:04:00.0 eth0: NIC Link is Down", "link-down", "eth0"),
        ("e1000e: eth0 NIC Link is Down", "link-down", "eth0"),
        ("tg3 0000:02:00.0 eth0: Link is down", "link-down", "eth0"),
        ("r8169 0000:03:00.0 enp3s0: Link is Up - 1Gbps/Full - flow control rx/tx", "link-up", "enp3s0"),
        ("bond0: (slave eth0): link status definitely down, disabling slave", "link-down", "eth0"),
        ("bond0: (slave eth0): link status definitely up, 25000 Mbps full duplex", "link-up", "eth0"),
        ("NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 3 timed out", "tx-timeout", "eth0"),
        ("mlx5_core 0000:5e:00.0 eth0: NETDEV WATCHDOG: CPU: 12: transmit queue 5 timed out 5024 ms", "tx-timeout",
         "eth0"),
    ],
)  # fmt: skip
def test_links(text: str, kind: str, port: str) -> None:
    finding = found(text)
    assert (finding.kind, finding.port) == (kind, port)
    assert finding.severity == ("info" if kind == "link-up" else "error")


@pytest.mark.parametrize(
    "text",
    [
        "IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
        "IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready",
        "br0: port 1(veth0) entered disabled state",
        "pcieport 0000:00:1d.0: pciehp: Slot(7): Link Down",
        "ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)",
        "audit: type=1400 audit(1.2:3): apparmor=\"DENIED\"",
        "usb 1-1: device descriptor read/64, error -71",
        "nvidia-nvswitch2: open (major=510)",
        "oom_reaper: reaped process 12 (python), now anon-rss:0kB",
        "",
    ],
)  # fmt: skip
def test_lines_that_are_no_events(text: str) -> None:
    assert recognise(text) is None


def test_an_oom_kill_is_one_event_and_its_reason_another_kind() -> None:
    reason = found(
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/lab/h3,"
        "task_memcg=/lab/h3/bert,task=python,pid=123,uid=0"
    )
    assert (reason.kind, reason.severity) == ("oom", "info")
    assert reason.attributes == {
        "constraint": "CONSTRAINT_MEMCG", "oom_memcg": "/lab/h3", "task_memcg": "/lab/h3/bert", "process": "python",
        "pid": "123", "uid": "0",
    }  # fmt: skip
    kill = found("Memory cgroup out of memory: Killed process 123 (python) total-vm:9kB, anon-rss:55kB, file-rss:0kB")
    assert (kill.kind, kill.severity) == ("oom-kill", "error")
    assert kill.attributes == {"pid": "123", "process": "python", "scope": "cgroup", "anon_rss_kb": "55"}
    for whole in ("Out of memory: Killed process 9 (a b) total-vm:1kB", "Out of memory: Kill process 9 (a b) score 9"):
        assert found(whole).attributes["scope"] == "host"


@pytest.mark.parametrize(
    ("text", "kind", "severity", "code"),
    [
        ("mce: [Hardware Error]: Machine check events logged", "mce", "error", ""),
        ("mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 5: be00000000800400", "mce", "error", ""),
        ("mce: CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)", "cpu-throttle",
         "warning", ""),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0", "edac", "warning", "CE"),
        ("EDAC MC1: 1 UE memory scrubbing error on DIMM_A1", "edac", "error", "UE"),
        ("pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0", "pcie-aer", "warning", "corrected"),
        ("pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0", "pcie-aer", "error", "fatal"),
        ("pcieport 0000:00:1c.5: AER: Multiple Correctable error message received from 0000:00:1c.5", "pcie-aer",
         "warning", "corrected"),
        ("nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", "pcie-aer",
         "warning", "corrected"),
        ("mlx5_core 0000:5e:00.0: AER: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (X)",
         "pcie-aer", "error", "non-fatal"),
        ("pcieport 0000:00:02.0: DPC: containment event, status:0x1f01 source:0x0000", "pcie-aer", "error", "dpc"),
        ("NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.", "gpu-lost", "fatal", ""),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023",
         "gpu-driver-loaded", "info", "535.104.05"),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  535.54.03  Release Build",
         "gpu-driver-loaded", "info", "535.54.03"),
        ("INFO: task python:123 blocked for more than 120 seconds.", "hung-task", "error", ""),
    ],
)  # fmt: skip
def test_hardware_and_hangs(text: str, kind: str, severity: str, code: str) -> None:
    finding = found(text)
    assert (finding.kind, finding.severity, finding.code) == (kind, severity, code)


def test_a_crash_names_its_process() -> None:
    for text in ("python[123]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so.6[7f+1]",
                 "traps: python[123] general protection fault ip:7f sp:7f error:0 in libtorch.so[7f+1]"):  # fmt: skip
        finding = found(text)
        assert (finding.kind, finding.attributes) == ("segfault", {"process": "python", "pid": "123"})


def test_rows_are_about_the_gpu_the_port_or_the_host() -> None:
    lines = [
        LogLine(1, 3, xid_line("0000:9b:00", 79, "GPU has fallen off the bus.", 7, "python"), 11, {"DEVICE": "c1"}),
        LogLine(2, 6, f"NVRM: GPU at PCI:0000:9b:00: {UUID}", 12),
        LogLine(3, 3, xid_line("0000:9b:00", 79, "GPU has fallen off the bus."), 13),
        LogLine(4, 3, xid_line("0000:aa:00", 31, "MMU Fault"), 14),
        LogLine(5, 6, "mlx5_core 0000:5e:00.0 eth0: Link down", 15),
        LogLine(6, 4, "something odd", 16),
        LogLine(7, 3, "something worse", 17),
        LogLine(8, -1, "something without a level"),
    ]
    rows = event_rows(lines, "n12", "n12/7f3a", {"0000:aa:00": "GPU-2"})
    assert [(row["time_ns"], row["kind"], row["entity_kind"], row["entity"]) for row in rows] == [
        (1, "xid", "host", "host:n12"),
        (3, "xid", "gpu", f"gpu:{UUID}"),
        (4, "xid", "gpu", "gpu:GPU-2"),
        (5, "link-down", "port", "port:n12/eth0"),
        (7, "log", "host", "host:n12"),
    ]
    assert rows[0] == {
        "time_ns": 1, "entity_kind": "host", "entity": "host:n12", "kind": "xid", "severity": "error", "code": "79",
        "message": lines[0].text, "source": "kernel-log", "host": "n12", "clock": "n12/7f3a",
        "attributes": {"pid": "7", "process": "python", "text": "GPU has fallen off the bus.", "pci": "0000:9b:00",
                       "sequence": "11", "kmsg.DEVICE": "c1"},
    }  # fmt: skip
    assert [row["severity"] for row in event_rows(lines, "", "", log_level_max=4)][-2:] == ["warning", "error"]
    assert event_rows(lines[-2:], "", "")[0]["entity"] == ""


def test_pci_addresses_are_compared_in_one_spelling() -> None:
    assert pci_key("00000000:9B:00.0") == pci_key("0000:9b:00") == "0000:9b:00"
    assert gpu_named(f"NVRM: GPU at PCI:0000:9b:00: {UUID}") == {"0000:9b:00": UUID}
    assert gpu_named("NVRM: GPU at PCI:0000:9b:00: somewhere") == {}


@given(text=st.text("NVRM:Xid(PC0123456789abcdef.), linkdow[]-eOukp<>'=", max_size=400))
def test_any_text_is_an_event_or_not(text: str) -> None:
    recognise(text)
    for words in (
        "NVRM: Xid ",
        "SXid",
        " Link ",
        "link status",
        "Killed process",
        "oom-kill:",
        "AER: error",
        "EDAC MC",
    ):
        recognise(words + text)
        recognise(text + words)


@pytest.mark.parametrize(
    "text", ["a " * 2000 + "link", "[" * 4000 + "]", "(" * 2000 + "error" + ":" * 2000, "x: " * 1300 + "Link is Down z"]
)
def test_no_line_takes_long(text: str) -> None:
    """Each takes below 5 ms; a form whose search explodes would run into the suite's time limit."""
    recognise(text)
