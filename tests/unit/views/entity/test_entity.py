"""The page of an entity: facts, who uses it, plots beside peers, codes in words, what happened; of each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import filled

from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.entity.catalogue import HOW, PLOTS, Line, Sum
from leadline.views.entity.of_job import apart, hardware_answer
from leadline.views.entity.streams import Stream, fitting
from leadline.views.entity.types import EntityAnswer, HardwareAnswer
from leadline.views.entity.values import band, kept, together
from leadline.views.entity.view import entity_answer, state_of
from leadline.views.graph.view import Graphs
from leadline.views.jobs.rows import JobRows

S = 10**9
T0 = 1_750_000_000 * S
END = T0 + 100 * S
LINK = "link:h0/eth0~leaf1/Ethernet0"
ALL = Principal("acme", "default", Role.OPERATOR)
BETA = Principal("beta", "default", Role.TENANT_READ)
_numbers = iter(range(1, 10_000))


def stream(name: str, entity: str, values: list[float], **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A series and its samples, one every 10 s."""
    number = next(_numbers)
    owner = {"tenant": more.pop("tenant", "acme")}
    series = row(
        "series", series=number, name=name, entity=entity, entity_kind=entity.partition(":")[0], first_ns=T0,
        last_ns=END, source="scrape", **{"type": "gauge", "unit": None, "labels": {}, **more}, **owner,
    )  # fmt: skip
    return series, [
        row("metric_sample", series=number, time_ns=T0 + place * 10 * S, value=value, **owner)
        for place, value in enumerate(values)
    ]


def relation(child: str, kind: str, parent: str) -> dict[str, Any]:
    return row(
        "relation", child=child, parent=parent, kind=kind, from_ns=T0, to_ns=END + S, source="test", confidence=1.0
    )


def gpu(host: int, name: str, values: list[float], **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    labels = {"modelName": "H100", "gpu": "0", "Hostname": f"h{host}"}
    return stream(name, f"gpu:GPU-{host}", values, **{"labels": labels, **more})


STREAMS = [
    *(gpu(host, "DCGM_FI_DEV_POWER_USAGE", [100.0 * (host + 1)] * 10) for host in range(5)),
    gpu(0, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", [0, 0, 0, 0, 0x40, 0x40, 0x40, 0, 0, 0]),
    gpu(0, "DCGM_FI_DEV_XID_ERRORS", [0] * 5 + [79] * 5),
    gpu(0, "DCGM_FI_DEV_THERMAL_VIOLATION", [place * 5e9 for place in range(10)], type="counter"),
    gpu(0, "DCGM_FI_SOMETHING_ELSE", [1.0] * 10),
    stream("DCGM_FI_DEV_POWER_USAGE", "gpu:GPU-9", [7.0] * 10, tenant="beta"),
    stream("node_network_transmit_bytes_total", "port:h0/eth0", [1e3 * place for place in range(10)], type="counter"),
    stream("ifInOctets", "swport:leaf1/Ethernet0", [0, 1e3, 2e3, 3e3, 4e3, 0, 1e3, 2e3, 3e3, 4e3], type="counter"),
    stream("ifInOctets", "swport:leaf1/Ethernet1", [2e3 * place for place in range(10)], type="counter"),
    stream("ifOperStatus", "swport:leaf1/Ethernet0", [1, 1, 1, 2, 2, 1, 1, 1, 1, 1]),
    *(stream("node_cpu_seconds_total", "host:h0", [each * 10.0 * place for place in range(10)], type="counter",
             labels={"mode": mode}) for mode, each in (("user", 1.5), ("system", 0.5), ("idle", 6.0))),
    *(stream(f"node_network_{way}_drop_total", "port:h0/eth0", [each * 10.0 * place for place in range(10)],
             type="counter") for way, each in (("receive", 1.0), ("transmit", 2.0))),
    stream("my_app_depth", "service:app", [3.0] * 10),
]  # fmt: skip

ROWS = {
    "series": [each for each, _ in STREAMS],
    "metric_sample": [sample for _, some in STREAMS for sample in some],
    "relation": [
        *(relation(f"rank:bert-1/{host}", "in", "job:bert-1") for host in range(5)),
        *(relation(f"rank:bert-1/{host}", "runs-on", f"gpu:GPU-{host}") for host in range(5)),
        *(relation(f"gpu:GPU-{host}", "in", f"host:h{host}") for host in range(5)),
        relation("port:h0/eth0", "in", "host:h0"),
        relation("port:h0/eth0", "linked", "swport:leaf1/Ethernet0"),
    ],
    "event": [
        row("event", time_ns=T0 + 50 * S, entity_kind="gpu", entity="gpu:GPU-0", kind="xid", severity="error",
            code="79", message="", attributes={}, source="kmsg", host="h0"),
        row("event", time_ns=T0 + 60 * S, entity_kind="gpu", entity="gpu:GPU-3", kind="xid", severity="error",
            code="13", message="", attributes={}, source="kmsg", host="h3"),
    ],
    "failure": [
        row("failure", entity_kind="gpu", entity="gpu:GPU-0", kind="xid", job="bert-1", gpus=1.0, start_ns=T0 + 50 * S,
            end_ns=None, evidence="", **{"class": "gpu"}),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("entity"), ROWS) as made:
        yield made


def page(store: Store, entity: str, principal: Principal = ALL, latest: bool = False) -> dict[str, Any]:
    asked = Asked(principal, "default", END, latest)
    answer = entity_answer(store, Graphs(store, lambda: END), asked, entity, T0, points=10)
    EntityAnswer.model_validate(json.loads(json.dumps(answer, allow_nan=False)))
    return answer


def plot(answer: dict[str, Any], title: str) -> dict[str, Any]:
    return next(each for each in answer["plots"] if each["title"] == title)


def test_a_gpu_is_told_with_what_it_is_and_who_uses_it(store: Store) -> None:
    told = page(store, "gpu:GPU-0")
    assert told["name"] == "h0 GPU 0"
    facts = {fact["name"]: fact["value"] for fact in told["facts"]}
    assert facts["model"] == "H100"
    assert facts["host"] == "h0"
    assert told["jobs"] == [{"job": "bert-1", "ranks": [0], "ranks_total": 1}]
    assert {(each["entity"], each["above"]) for each in told["near"]} == {("rank:bert-1/0", True), ("host:h0", False)}


def test_what_it_measured_stands_beside_its_peers_on_the_job(store: Store) -> None:
    told = page(store, "gpu:GPU-0")
    power = plot(told, "Power")
    assert power["lines"][0]["mean"] == [100.0] * 10
    assert power["peers"]["count"] == 4
    assert (power["peers"]["low"][5], power["peers"]["high"][5]) == (200.0, 500.0)
    assert told["peers_of"] == "the other GPUs of bert-1"


def test_codes_are_told_in_words_with_what_is_good(store: Store) -> None:
    told = page(store, "gpu:GPU-0")
    spans = [(each["text"], each["state"]) for each in plot(told, "Clocks held down by")["states"]]
    assert spans == [("nothing", "good"), ("hardware thermal slowdown", "bad"), ("nothing", "good")]
    last = plot(told, "Last XID")["states"][-1]
    assert (last["text"], last["state"]) == ("XID 79 (GPU has fallen off the bus)", "bad")
    assert (
        state_of("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 0x4) == "good"
    )  # its power cap, which a loaded GPU has in health
    assert state_of("node_infiniband_state_id", 4) == "good"


def test_counters_are_rates_in_the_unit_of_the_plot(store: Store) -> None:
    heat = plot(page(store, "gpu:GPU-0"), "Slowed down")
    assert (heat["unit"], heat["lines"][0]["label"], heat["lines"][0]["mean"][1:]) == ("ratio", "by heat", [0.5] * 9)


def test_a_plot_of_which_nothing_is_stored_says_what_would_tell_it(store: Store) -> None:
    told = page(store, "gpu:GPU-0")
    nvlink = plot(told, "NVLink")
    assert nvlink["lines"] == []
    assert (nvlink["source"], nvlink["page"]) == ("dcgm-exporter", "docs/how-to/connect-dcgm-exporter.md")
    assert [bool(each["source"]) for each in told["plots"]] == sorted(bool(each["source"]) for each in told["plots"])
    assert told["others"] == [{"name": "DCGM_FI_SOMETHING_ELSE", "streams": 1}]


def test_every_plot_without_data_leads_to_a_page_that_there_is(request: pytest.FixtureRequest) -> None:
    for where, _ in HOW.values():
        assert (request.config.rootpath / where).is_file(), where


def test_what_happened_to_it_and_its_failures(store: Store) -> None:
    told = page(store, "gpu:GPU-0")
    assert [(each["kind"], each["entity"]) for each in told["moments"]] == [("xid", "gpu:GPU-0")]
    assert [(each["kind"], each["job"]) for each in told["failures"]] == [("xid", "bert-1")]
    host = page(store, "host:h0")
    assert [each["entity"] for each in host["moments"]] == ["gpu:GPU-0"]  # what is in the host is of the host


def test_a_host_adds_the_modes_of_its_cpus_that_are_work(store: Store) -> None:
    busy = plot(page(store, "host:h0"), "CPUs busy")["lines"][0]
    assert (busy["streams"], busy["mean"][1:]) == (2, [2.0] * 9)


def test_a_link_has_the_lines_of_both_ends(store: Store) -> None:
    told = page(store, LINK)
    traffic = {line["label"]: line["mean"][2] for line in plot(told, "Traffic")["lines"]}
    assert traffic == {"h0/eth0 sent": 100.0, "leaf1/Ethernet0 in": 100.0}
    assert [each["text"] for each in plot(told, "leaf1/Ethernet0: port is")["states"]] == ["up", "down", "up"]
    assert [each["job"] for each in told["jobs"]] == ["bert-1"]


def test_a_switch_is_the_sum_of_its_ports_with_the_busiest_by_themselves(store: Store) -> None:
    traffic = plot(page(store, "switch:leaf1"), "Traffic")
    lines = {line["label"]: line["mean"][2] for line in traffic["lines"]}
    assert lines == {"in": 300.0, "Ethernet1 in": 200.0, "Ethernet0 in": 100.0}
    assert traffic["peers"]["count"] == 2


def test_a_counter_that_begins_again_is_no_negative_rate(store: Store) -> None:
    rates = plot(page(store, "swport:leaf1/Ethernet0"), "Traffic")["lines"][0]["mean"]
    assert [each for each in rates[1:] if each < 0] == []
    assert rates[5] == 0.0


def test_a_kind_without_a_table_is_drawn_by_the_names_of_its_metrics(store: Store) -> None:
    assert [each["title"] for each in page(store, "service:app")["plots"]] == ["my_app_depth"]


def test_plots_of_the_present_begin_with_the_first_sample(store: Store) -> None:
    asked = Asked(ALL, "default", END, latest=True)
    told = entity_answer(store, Graphs(store, lambda: END), asked, "gpu:GPU-0", T0 - 3600 * S)
    assert told["from_ns"] == T0


def test_another_tenants_parts_are_not_seen(store: Store) -> None:
    told = page(store, "gpu:GPU-0", BETA)
    assert (told["jobs"], told["near"], told["moments"], told["failures"]) == ([], [], [], [])
    assert all(each["source"] for each in told["plots"])
    assert page(store, "gpu:GPU-9", BETA)["plots"][0]["lines"][0]["mean"][0] == 7.0


def test_what_nobody_tells_of_is_said(store: Store) -> None:
    assert "nothing is stored about host:h77" in page(store, "host:h77")["why"]
    with pytest.raises(UsageError, match="gpu:"):
        page(store, "GPU-0")


@pytest.mark.parametrize("kind", PLOTS)
def test_lines_of_a_plot_have_one_label_each_for_one_thing(kind: str) -> None:
    titles = [each.title for each in PLOTS[kind]]
    assert len(titles) == len(set(titles))
    assert all(each.lines for each in PLOTS[kind])


def test_a_job_has_a_band_of_its_gpus_and_names_the_one_that_is_apart(store: Store) -> None:
    asked = Asked(ALL, "default", END)
    told = hardware_answer(JobRows(store, asked, "bert-1", "acme", T0), Graphs(store, lambda: END), 10)
    HardwareAnswer.model_validate(json.loads(json.dumps(told, allow_nan=False)))
    power = plot(told, "Power")
    assert (power["members"], power["count"], power["median"][5]) == (5, 5, 300.0)
    assert power["apart"] == []  # evenly spread: nobody is
    assert plot(told, "Discards")["median"][2] == 1.0 + 2.0  # received and sent together
    assert plot(told, "Errors")["source"] != ""
    assert plot(told, "Traffic")["count"] == 1


def test_who_is_apart_is_far_from_the_rest_and_not_by_a_hair() -> None:
    alike = np.full((6, 4), 100.0) + np.arange(6)[:, None] * 0.01
    assert apart(alike) == []
    alike[4] = 40.0
    assert apart(alike) == [4]


def test_values_are_kept_until_the_next_is_due_and_no_longer() -> None:
    nan = float("nan")
    values = np.array([[1, nan, 2, nan, 3, nan, nan, nan], [nan, 5, nan, 6, nan, 7, nan, 8]])
    assert np.array_equal(kept(values)[0], [1, 1, 2, 2, 3, 3, nan, nan], equal_nan=True)
    # Of two streams that are read in turn the sum is that of both, and none where one is gone.
    added = together(values, Line("x", ("x",), sum=Sum.ADD))
    assert np.array_equal(added, [nan, 6, 7, 8, 9, 10, nan, nan], equal_nan=True)


def test_a_band_is_of_the_peers_that_are_known() -> None:
    values = np.array([[1.0], [2.0], [3.0], [float("nan")], [100.0]])
    median, low, high = band(values)
    assert (low[0], high[0]) == (1.0, 100.0)
    assert median[0] in (2.0, 3.0)


def test_what_an_agent_and_an_exporter_both_tell_counts_once() -> None:
    def told(number: int, name: str, **labels: str) -> Stream:
        return Stream(number, name, "host:h0", labels, False, "bytes", T0)

    line = Line("total", ("node_memory_MemTotal_bytes",))
    agent = told(1, "node_memory_MemTotal_bytes", **{"host.name": "h0"})
    exporter = told(2, "node_memory_MemTotal_bytes", job="node", instance="10.0.0.7:9100", nodename="h0")
    assert fitting(line, [agent, exporter]) == (agent,), "the one that was heard last"
    cpus = Line("busy", ("node_cpu_seconds_total",), sum=Sum.ADD)
    some = [told(10 + n, "node_cpu_seconds_total", cpu=str(n), instance="a:9100") for n in range(2)]
    others = [told(20 + n, "node_cpu_seconds_total", cpu=str(n), nodename="h0") for n in range(3)]
    assert fitting(cpus, [*some, *others]) == (others[0], others[1], others[2]), "the one that tells more"
    assert fitting(cpus, some) == tuple(some)
    assert [each.number for each in fitting(cpus, [*some, others[2]])] == [10, 11, 22], (
        "what only one tells is not lost"
    )
