"""The model of a GPU, and the page that shows it."""

from __future__ import annotations

import contextlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.telemetry.exporters import HostGpus
from leadline.lab.telemetry.gpu_model import (
    REASONS,
    Control,
    Gpu,
    GpuSpec,
    controls_from,
    idle_gpu,
    later,
    pci_address,
)
from leadline.lab.telemetry.gpu_pages import Shown, gpu_page
from leadline.lab.telemetry.gpu_processes import GpuProcesses, Use, visible_devices, wanted_cpu_ns
from leadline.model.errors import DataError
from leadline.model.names import entity_of
from leadline.wire.exposition.pages import decode_exposition

SPEC = GpuSpec()
UUID, OTHER = "GPU-855c860a-277d-543a-8443-21197eabb7ae", "GPU-11111111-2222-5333-8444-555555555555"
NOTHING = Control()


def run(gpu: Gpu, seconds: float, busy_ratio: float, control: Control = NOTHING, steps: int = 1) -> Gpu:
    for _ in range(steps):
        gpu = later(SPEC, gpu, gpu.at_s + seconds / steps, busy_ratio, 2**30, control)
    return gpu


def test_an_idle_gpu_stays_as_it_is() -> None:
    gpu = run(idle_gpu(SPEC, 0.0), 1000.0, 0.0)
    assert gpu.temperature_c == pytest.approx(SPEC.ambient_c + SPEC.resistance_c_per_w * SPEC.idle_w)
    assert (gpu.power_w, gpu.sm_mhz, gpu.reasons) == (SPEC.idle_w, SPEC.sm_idle_mhz, REASONS["idle"])


def test_full_load_settles_at_the_arithmetic_of_the_model() -> None:
    gpu = run(idle_gpu(SPEC, 0.0), 600.0, 1.0)
    assert gpu.power_w == SPEC.power_max_w
    assert gpu.temperature_c == pytest.approx(SPEC.ambient_c + SPEC.resistance_c_per_w * SPEC.power_max_w, abs=0.01)
    assert gpu.reasons == 0
    assert gpu.memory_mib == 1024


def test_temperature_after_one_time_constant() -> None:
    cold = idle_gpu(SPEC, 0.0)
    settled = SPEC.ambient_c + SPEC.resistance_c_per_w * SPEC.power_max_w
    warm = run(cold, SPEC.tau_s, 1.0)
    assert (settled - warm.temperature_c) / (settled - cold.temperature_c) == pytest.approx(math.exp(-1))


@given(st.floats(0.1, 500.0), st.floats(0.0, 1.0), st.integers(2, 20))
def test_how_often_one_looks_does_not_matter(seconds: float, busy_ratio: float, steps: int) -> None:
    once, often = (
        run(idle_gpu(SPEC, 0.0), seconds, busy_ratio),
        run(idle_gpu(SPEC, 0.0), seconds, busy_ratio, NOTHING, steps),
    )
    assert often.temperature_c == pytest.approx(once.temperature_c)
    assert often.energy_mj == pytest.approx(once.energy_mj)


@given(st.lists(st.tuples(st.floats(0.0, 60.0), st.floats(-1.0, 3.0), st.sampled_from(["", *REASONS])), max_size=30))
def test_it_stays_within_its_bounds_whatever_is_measured(readings: list[tuple[float, float, str]]) -> None:
    gpu = idle_gpu(SPEC, 0.0)
    for seconds, busy_ratio, throttle in readings:
        before = gpu
        gpu = later(SPEC, gpu, gpu.at_s + seconds, busy_ratio, 2**40, Control(throttle, 0.5))
        assert SPEC.idle_w <= gpu.power_w <= SPEC.power_max_w
        assert SPEC.ambient_c <= gpu.temperature_c <= 95
        assert 0 <= gpu.busy_ratio <= 1
        assert gpu.energy_mj >= before.energy_mj
        assert gpu.memory_mib <= SPEC.memory_mib


def test_a_thermal_throttle_is_hot_and_slow_and_counted() -> None:
    gpu = run(idle_gpu(SPEC, 0.0), 300.0, 1.0, Control("thermal", 0.5))
    assert gpu.sm_mhz == SPEC.sm_max_mhz * 0.5
    assert gpu.power_w < SPEC.power_max_w * 0.4
    assert gpu.temperature_c > SPEC.slowdown_c
    assert gpu.reasons == REASONS["thermal"]
    assert (gpu.thermal_violation_ns, gpu.power_violation_ns) == (pytest.approx(300e9), 0)
    after = run(gpu, 300.0, 1.0)
    assert after.reasons == 0
    assert after.thermal_violation_ns == gpu.thermal_violation_ns


def test_the_last_xid_stays() -> None:
    gpu = run(run(idle_gpu(SPEC, 0.0), 1.0, 0.0, Control(xid=79)), 1.0, 0.0)
    assert gpu.xid == 79


@pytest.mark.parametrize(
    "wrong",
    [
        [], {"GPU-a": 1}, {"GPU-a": {"speed": 1}}, {"GPU-a": {"throttle": "cold"}}, {"GPU-a": {"clock_factor": 0}},
        {"GPU-a": {"clock_factor": True}}, {"GPU-a": {"clock_factor": "1"}}, {"GPU-a": {"xid": "79"}},
        {"GPU-a": {"duplicate_of": 3}}, {"GPU-a": {"throttle": []}},
    ],
)  # fmt: skip
def test_a_control_file_that_makes_no_sense_is_refused(wrong: object) -> None:
    with pytest.raises(DataError):
        controls_from(wrong, "gpu_control.json")


@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner))
)
def test_any_control_is_understood_or_refused(found: object) -> None:
    with contextlib.suppress(DataError):
        assert all(isinstance(each, Control) for each in controls_from(found, "here").values())


def test_a_pci_address_has_the_form_of_the_kernel_log() -> None:
    assert pci_address(UUID) == "0085:5c:00"
    assert pci_address(UUID) == pci_address(UUID) != pci_address(OTHER)


def test_the_page_is_read_as_dcgm_exporters_is() -> None:
    gpu = run(idle_gpu(SPEC, 0.0), 60.0, 0.5, Control(xid=79))
    body = gpu_page("h3", SPEC, [Shown(0, UUID, pci_address(UUID), gpu)])
    samples = decode_exposition(body, "text/plain; version=0.0.4", 1_000)
    assert len(samples.value) == 13
    text = body.decode()
    assert f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{UUID}",pci_bus_id="00000085:5C:00.0",device="nvidia0",' in text
    assert 'err_code="79",err_msg="GPU has fallen off the bus."} 79' in text
    assert "# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter" in text
    labels = {"__name__": "DCGM_FI_DEV_GPU_TEMP", "UUID": UUID, "Hostname": "h3", "instance": "127.78.0.3:9400"}
    assert entity_of(labels).entity == f"gpu:{UUID}"


def test_visible_devices() -> None:
    assert visible_devices(b"A=1\0CUDA_VISIBLE_DEVICES=GPU-a, GPU-b\0B=2\0") == ["GPU-a", "GPU-b"]
    assert visible_devices(b"NOT_CUDA_VISIBLE_DEVICES=GPU-a\0") == []


def fake_process(proc: Path, pid: int, uuid: str, busy_ns: int, pages: int) -> None:
    """A directory like /proc/PID; the namespace is this file's own inode."""
    directory = proc / str(pid)
    for thread in (pid, pid + 1):
        (directory / "task" / str(thread)).mkdir(parents=True, exist_ok=True)
        (directory / "task" / str(thread) / "schedstat").write_text(f"{busy_ns // 4} {busy_ns // 4} 7\n")
    (directory / "ns").mkdir(exist_ok=True)
    namespace = directory / "ns" / "net"
    if not namespace.exists():
        namespace.hardlink_to(proc / "namespace")
    (directory / "environ").write_bytes(f"HOME=/\0CUDA_VISIBLE_DEVICES={uuid}\0".encode())
    (directory / "statm").write_text(f"999 {pages} 3\n")


def test_processes_are_found_by_what_they_were_given(tmp_path: Path) -> None:
    (tmp_path / "namespace").touch()
    inode = (tmp_path / "namespace").stat().st_ino
    fake_process(tmp_path, 41, UUID, 1_000_000_000, 256)
    fake_process(tmp_path, 51, OTHER, 1_000_000_000, 256)
    processes = GpuProcesses(inode, (UUID,), tmp_path)
    assert processes.read(0.0)[UUID] == Use(0.0, 256 * 4096)  # the first reading only begins to count
    fake_process(tmp_path, 41, UUID, 3_000_000_000, 512)
    assert processes.read(1.0)[UUID] == Use(pytest.approx(2.0), 512 * 4096)
    assert wanted_cpu_ns(tmp_path, 41) == 3_000_000_000
    assert wanted_cpu_ns(tmp_path, 99) is None
    assert GpuProcesses(inode + 1, (UUID,), tmp_path).read(0.0)[UUID] == Use()


def test_a_host_shows_what_its_control_file_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    control = tmp_path / "gpu_control.json"
    gpus = HostGpus("h1", (UUID,), control, GpuProcesses(0, (UUID,), tmp_path))
    assert f'UUID="{UUID}"' in gpus.page(0.0).decode()
    control.write_text(json.dumps({UUID: {"duplicate_of": OTHER, "xid": 48}}))
    page = gpus.page(1.0).decode()
    assert UUID not in page
    assert f'UUID="{OTHER}"' in page
    assert 'err_code="48"' in page
    control.write_text("{")
    assert OTHER in gpus.page(2.0).decode()  # what was understood last holds
    assert "not used" in capsys.readouterr().err
    control.unlink()
    assert UUID in gpus.page(3.0).decode()
