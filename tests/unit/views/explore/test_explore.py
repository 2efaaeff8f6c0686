"""Any metric by filter and label: lines, groups, rates, the band, the table's last, least and largest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.views.compare.compare_rows import row
from tests.unit.views.paths.path_rows import filled

from leadline.model.errors import UsageError
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.explore.matchers import Matcher, matchers
from leadline.views.explore.types import ExploreAnswer
from leadline.views.explore.view import Combine, Rate, Wanted, explore_answer

S = 10**9
T0 = 1_750_000_000 * S
END = T0 + 100 * S
ALL = Principal("acme", "default", Role.OPERATOR)
BETA = Principal("beta", "default", Role.TENANT_READ)


def stream(
    number: int, name: str, host: int, slope: float, entity: str = "", **labels: str
) -> dict[str, list[dict[str, Any]]]:
    """A counter (`_total`) or a gauge of a host, a sample every 10 s."""
    counter = name.endswith("_total")
    series = row(
        "series", series=number, name=name, entity=entity or f"host:h{host}", first_ns=T0, last_ns=END,
        entity_kind="host", source="scrape", type="counter" if counter else "gauge", unit=None,
        labels={"host.name": f"h{host}", **labels}, host=f"h{host}",
    )  # fmt: skip
    samples = [
        row("metric_sample", series=number, time_ns=T0 + place * 10 * S, value=slope * (place * 10 if counter else 1))
        for place in range(10)
    ]
    return {"series": [series], "metric_sample": samples}


PARTS = [
    *(stream(1 + host, "node_load1", host, 10.0 + host) for host in range(12)),
    *(stream(100 + 2 * host + place, "node_disk_read_bytes_total", host, 100.0 * (place + 1), device=f"vd{'ab'[place]}")
      for host in range(2) for place in range(2)),
    stream(200, "ifOperStatus", 0, 2.0),
    *(stream(300 + gpu, "DCGM_FI_DEV_GPU_TEMP", 1, 50.0, entity=f"gpu:GPU-{gpu}", gpu=str(gpu), Hostname="h1")
      for gpu in range(2)),
]  # fmt: skip
ROWS = {table: [each for part in PARTS for each in part[table]] for table in ("series", "metric_sample")}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with filled(tmp_path_factory.mktemp("explore"), ROWS) as made:
        yield made


def explored(store: Store, name: str, principal: Principal = ALL, **more: Any) -> dict[str, Any]:
    answer = explore_answer(store, Asked(principal, "", END), Wanted(name, **more), T0, points=10)
    ExploreAnswer.model_validate(json.loads(json.dumps(answer, allow_nan=False)))
    return answer


def test_streams_are_lines_by_what_tells_them_apart(store: Store) -> None:
    told = explored(store, "node_load1", where="host~=h[01]")
    assert [(line["label"], line["last"]) for line in told["lines"]] == [("host:h0", 10.0), ("host:h1", 11.0)]
    disks = explored(store, "node_disk_read_bytes_total")
    assert [line["label"] for line in disks["lines"]][:2] == ["host:h0 device=vda", "host:h0 device=vdb"]


def test_gpus_are_called_as_people_call_them(store: Store) -> None:
    assert [line["label"] for line in explored(store, "DCGM_FI_DEV_GPU_TEMP")["lines"]] == ["h1 GPU 0", "h1 GPU 1"]


def test_counters_are_rates_unless_asked_otherwise(store: Store) -> None:
    told = explored(store, "node_disk_read_bytes_total", where="entity=host:h0 device=vdb")
    assert (told["rate"], told["unit"], told["lines"][0]["last"]) == (True, "By/s", 200.0)
    raw = explored(store, "node_disk_read_bytes_total", where="entity=host:h0 device=vdb", rate=Rate.OFF)
    assert (raw["rate"], raw["unit"], raw["lines"][0]["most"]) == (False, "By", 200.0 * 90)


def test_a_label_groups_streams_rates_are_added_and_others_averaged(store: Store) -> None:
    by_device = explored(store, "node_disk_read_bytes_total", by="device")
    assert [(line["label"], line["streams"], line["last"]) for line in by_device["lines"]] == [
        ("vda", 2, 200.0), ("vdb", 2, 400.0)
    ]  # fmt: skip
    mean = explored(store, "node_load1", by="nothing")
    assert [(line["label"], line["last"]) for line in mean["lines"]] == [("(no nothing)", 15.5)]
    most = explored(store, "node_load1", by="nothing", combine=Combine.LARGEST)
    assert most["lines"][0]["last"] == 21.0


def test_the_band_is_of_all_lines_and_the_labels_fill_the_filters(store: Store) -> None:
    told = explored(store, "node_load1")
    assert (told["band"]["count"], told["lines_total"], told["streams_total"]) == (12, 12, 12)
    assert told["band"]["low"][0] == 11.0
    hosts = next(each for each in told["labels"] if each["name"] == "host.name")
    assert (hosts["values_total"], hosts["values"][0]) == (12, "h0")


def test_codes_have_words(store: Store) -> None:
    assert explored(store, "ifOperStatus")["lines"][0]["last_words"] == "down"


def test_what_is_not_there_is_said(store: Store) -> None:
    assert "did you mean node_load1" in explored(store, "node_load")["why"]
    assert "fits 'host=h77'" in explored(store, "node_load1", where="host=h77")["why"]
    assert explored(store, "node_load1", BETA)["lines"] == []


def test_filters_are_read_as_people_write_them() -> None:
    assert matchers('host=h3 gpu=~"0|1" mode!="a b" x!~y') == [
        Matcher("host", "=", "h3"), Matcher("gpu", "~=", "0|1"), Matcher("mode", "!=", "a b"), Matcher("x", "!~", "y")
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["host", "host~=(", 'host="h3', "host~=(?!a)b", "=x"])
def test_what_is_no_filter_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(UsageError):
        matchers(text)


def test_a_value_is_never_read_as_sql(store: Store) -> None:
    told = explored(store, "node_load1", where='"host=h0\' OR 1=1 --"')
    assert told["lines"] == []
