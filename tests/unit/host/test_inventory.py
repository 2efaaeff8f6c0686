"""Versions and settings of a host and its ports, as kernels tell them."""

from __future__ import annotations

import struct

from leadline.host.sources import inventory
from leadline.host.sources.inventory import Inventory, info_event

from .conftest import Site


def test_the_processor_memory_and_system() -> None:
    cpuinfo = b"processor\t: 0\nmodel name\t: AMD EPYC 9654\nmicrocode\t: 0xa1\nprocessor\t: 1\n"
    assert inventory.parse_processors(cpuinfo) == {"cpu_model": "AMD EPYC 9654", "cpu_microcode": "0xa1", "cpus": "2"}
    assert inventory.parse_memory(b"MemTotal:       25165824 kB\nMemFree: 1 kB\n") == {"memory": "24 GiB"}
    assert inventory.parse_os_release(b'NAME="x"\nPRETTY_NAME="Debian GNU/Linux 12"\n') == "Debian GNU/Linux 12"


def test_the_gpu_driver_in_both_spellings() -> None:
    old = b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version: 12\n"
    new = b"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  560.35.03  Release Build  (dvs-builder)\n"
    assert inventory.parse_gpu_driver(old) == {"gpu_driver": "535.104.05"}
    assert inventory.parse_gpu_driver(new) == {"gpu_driver": "560.35.03"}
    assert inventory.parse_gpu_driver(b"") == {}


def test_only_parameters_that_change_the_speed_are_told_of_the_command_line() -> None:
    line = b"root=/dev/sda1 iommu=pt cryptdevice=UUID=1:x intel_idle.max_cstate=1 quiet\n"
    assert inventory.parse_command_line(line) == {"kernel.iommu": "pt", "kernel.intel_idle.max_cstate": "1"}


def test_a_port_has_driver_firmware_rings_and_pause() -> None:
    driver = struct.pack("=I32s32s32s", 3, b"mlx5_core", b"24.01", b"28.39.1002 (MT_0000)") + bytes(96)
    assert inventory.parse_driver(driver) == {
        "driver": "mlx5_core", "driver_version": "24.01", "firmware": "28.39.1002 (MT_0000)",
    }  # fmt: skip
    assert inventory.parse_rings(struct.pack("=9I", 16, 8192, 0, 0, 8192, 1024, 0, 0, 2048)) == {
        "rx_ring": "1024", "tx_ring": "2048",
    }  # fmt: skip
    assert inventory.parse_rings(bytes(36)) == {}
    assert inventory.parse_pause(struct.pack("=4I", 18, 0, 1, 0)) == {"pause": "rx on, tx off", "pause_autoneg": "off"}
    assert inventory.parse_numbers({"mtu": b"9000\n", "speed": b"-1\n"}) == {"mtu": "9000"}


def test_told_at_the_start_and_then_only_when_something_changed(site: Site) -> None:
    source = Inventory(site)
    try:
        first = source.poll(1)
        assert {event.kind for event in first.events} >= {"host-info"}
        assert source.poll(2).events == []
        host = next(event for event in first.events if event.kind == "host-info")
        source._said[host.entity] = {**host.attributes, "kernel": "5.0"}
        (changed,) = source.poll(3).events
        assert changed.message == f"kernel: 5.0 -> {host.attributes['kernel']}"
    finally:
        source.close()


def test_an_event_says_what_changed() -> None:
    event = info_event("port:h3/eth0", {"mtu": "1500", "driver": "x"}, {"mtu": "9000", "driver": "x"}, 7)
    assert (event.kind, event.message) == ("port-info", "mtu: 9000 -> 1500")
