"""Runs and hosts beside each other, from hand-made telemetry in a store."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console
from tests.unit.views.compare.compare_rows import END, FIRST, OTHER, SECOND, SIZE, S, all_rows
from tests.unit.views.paths.path_rows import filled

from leadline.cli.compare import tell
from leadline.model.errors import UnknownNameError, UsageError
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.compare.sides import runs_of
from leadline.views.compare.times import bus_bytes
from leadline.views.compare.types import CompareAnswer
from leadline.views.compare.view import compare_answer


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("compare"), all_rows()) as store:
        yield store


def compared(store: Store, a: str, b: str = "", principal: Principal | None = None) -> dict[str, Any]:
    found = compare_answer(store, Asked(principal or Principal(), "default", END, latest=True), a, b)
    CompareAnswer.model_validate(found)  # as its type says
    return found


def test_a_job_that_restarted_under_its_name_is_compared_with_itself(store: Store) -> None:
    found = compared(store, f"bert-7@{FIRST + 60 * S}", "bert-7")
    assert found["a"]["from_ns"] == FIRST
    assert found["b"]["from_ns"] == SECOND
    different = {each["setting"]: (each["a"], each["b"], each["strength"]) for each in found["settings"]["different"]}
    assert different == {
        "DCGM_FI_DRIVER_VERSION": ({"535": 5}, {"550": 5}, 1.0),
        "nccl": ({"2.20": 5}, {"2.21": 5}, 1.0),
    }
    assert found["settings"]["equal"] >= 3  # torch, kernel, MTU; each rank's own CUDA_VISIBLE_DEVICES
    times = {each["what"]: each for each in found["times"]}
    step = times["step time, median"]
    assert step["verdict"] == "more"
    assert step["low"] < 1.2 < step["high"]
    assert step["ratio"] == pytest.approx(1.2, abs=0.02)
    assert times["tokens"]["verdict"] == "less"
    assert times[f"all_reduce {SIZE} B on 5"]["verdict"] == "less"


def test_equal_runs_do_not_differ_beyond_noise(store: Store) -> None:
    found = compared(store, f"bert-7@{FIRST + 60 * S}", "bert-8")
    step = next(each for each in found["times"] if each["what"] == "step time, median")
    assert step["verdict"] == "same"
    assert "cause" not in found["note"]


def test_a_host_is_held_against_its_peers(store: Store) -> None:
    found = compared(store, f"host:h4@{OTHER}..{END}")
    assert found["b"]["title"] == "4 peers of host:h4"
    assert found["b"]["hosts"] == ["h1", "h2", "h3", "h5"]
    different = {each["setting"]: (each["a"], each["b"]) for each in found["settings"]["different"]}
    assert different == {"eth0 node_network_mtu_bytes": ({"1500": 1}, {"9000": 4})}
    assert [each["metric"] for each in found["metrics"]["different"]] == ["node_network_receive_drop_total eth0"]
    waits = next(each for each in found["times"] if each["what"].startswith("in all_reduce"))
    assert waits["verdict"] == "more"  # its peers wait longer: it is late


def test_a_host_like_its_peers_does_not_stand_out(store: Store) -> None:
    found = compared(store, "host:h2")
    assert found["metrics"]["different"] == []
    assert all(each["strength"] < 1 for each in found["settings"]["different"])


def test_a_gpu_and_its_peers(store: Store) -> None:
    found = compared(store, "gpu:GPU-1")
    assert found["b"]["title"] == "4 peers of gpu:GPU-1"
    assert found["times"] == []
    assert found["metrics"] == {"different": [], "missing": ""}


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ("bert-7", "", "give two runs"),
        ("bert-7", "bert-7", "same span"),
        ("bert-7", "host:h1", "like is compared with like"),
        ("nobody", "bert-7", "no job 'nobody' is known; the newest are "),
        ("host:h99", "", "no entity 'host:h99' is known"),
        ("switch:leaf1", "", "compared are jobs"),
        ("bert-7@2020-01-01", "bert-7", "did not run at"),
        (f"bert-7@{END}..{FIRST}", "bert-7", "FROM before TO"),
        (f"host:h3@{END}..{FIRST}", "", "FROM before TO"),
        ("bert7", "bert-7", r"no job 'bert7' is known; did you mean bert-7"),
        ("bert-7@tomorrow", "bert-7", "a time is"),
    ],
)
def test_what_cannot_be_compared_is_told(store: Store, a: str, b: str, words: str) -> None:
    with pytest.raises((UsageError, UnknownNameError), match=words):
        compared(store, a, b)


def test_no_tenant_compares_anothers_jobs(store: Store) -> None:
    with pytest.raises(UnknownNameError, match="is known"):
        compared(store, "bert-7", "bert-8", Principal("acme", "default", Role.TENANT_READ))


def test_the_terminal_tells_all_of_it(store: Store) -> None:
    out = io.StringIO()
    tell(Console(file=out, width=200), compared(store, f"bert-7@{FIRST + 60 * S}", "bert-7"))
    text = out.getvalue()
    for words in ("DCGM_FI_DRIVER_VERSION", "550", "step time, median", "no window of A", "settings are equal"):
        assert words in text
    out = io.StringIO()
    tell(Console(file=out, width=200), compared(store, "host:h4"))
    assert "node_network_receive_drop_total eth0" in out.getvalue()


def test_runs_end_where_a_job_is_silent_or_counts_anew() -> None:
    def told(begin_s: int, low: int | None, high: int | None) -> dict[str, Any]:
        return {"begin_ns": begin_s * S, "end_ns": (begin_s + 4) * S, "low": low, "high": high}

    assert runs_of([]) == []
    going = [told(at * 5, at, at + 1) for at in range(4)]
    assert len(runs_of(going)) == 1
    assert len(runs_of([*going, told(200, 20, 21)])) == 2
    assert len(runs_of([*going, told(20, 0, 1)])) == 2
    assert len(runs_of([*going, told(20, None, None)])) == 1


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    assert bus_bytes("all_reduce", 100, 4) == 150
    assert bus_bytes("all_gather", 100, 4) == 300
    assert bus_bytes("reduce_scatter", 100, 4) == 75
    assert bus_bytes("broadcast", 100, 4) == 100


def test_the_ledger_is_told_per_step_with_late_ranks_by_number(store: Store) -> None:
    found = compared(store, "bert-8", "bert-7")["ledger"]
    told = {each["category"]: each for each in found["categories"]}
    assert told["straggler"]["share"]["verdict"] == "more"
    assert told["compute"]["share"]["verdict"] == "less"
    assert told["straggler"]["a_s_per_step"] == pytest.approx(11 / 120)
    (late,) = found["late"]
    assert late == {"rank": "3", "a_s_per_step": pytest.approx(11 / 120), "b_s_per_step": pytest.approx(44 / 120)}
