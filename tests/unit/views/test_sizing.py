"""Sizes: from constants that stand in docs/figures.yaml, and told for what they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from leadline.model.tables import BY_NAME
from leadline.views.sizing import (
    DAY_S,
    LIVE,
    MACHINE,
    RATES,
    ROW_BYTES,
    STREAMS_OF_HOST,
    TRAFFIC,
    Basis,
    Fleet,
    size_of,
)

ROOT = Path(__file__).resolve().parents[3]


def figures() -> list[dict[str, str]]:
    """Every figure of docs/figures.yaml with what its section says of it."""
    told = yaml.safe_load((ROOT / "docs/figures.yaml").read_text())
    return [{**part["defaults"], **each} for part in told["sections"] for each in part["figures"]]


def figure(words: str, command: str) -> dict[str, str]:
    (found,) = [each for each in figures() if words in each["figure"] and each["command"] == command]
    return found


def test_constants_are_the_figures_that_stand_in_the_docs() -> None:
    """Who measures anew changes docs/figures.yaml and `leadline.views.sizing` together, then runs `make docs`."""
    live = {each.hosts: each for each in LIVE}
    at_64, at_256 = "python -m bench.live --hosts 64 256", "python -m bench.live --hosts 256 --seconds 60"
    assert f"({live[64].cores:g} cores" in figure("the same at 64 hosts", at_64)["figure"]
    assert f"({live[256].cores:g} cores" in figure("`hosts_per_core`", at_256)["figure"]
    assert figure("`lag_p95_s_64`", at_64)["value"] == f"{live[64].late_s:.2f} s"
    assert figure("`lag_p95_s`:", at_256)["value"] == f"{live[256].late_s:g} s"
    assert live[256].private_bytes
    assert figure("`private_mb_256`", at_256)["value"] == f"{live[256].private_bytes / 1e9:g} GB"
    for hosts, command in ((64, at_64), (256, at_256)):
        assert live[hosts].by == command
        assert live[hosts].date == str(figure(f"lag_p95_s{'_64' if hosts == 64 else '`'}", command)["date"])
    machine = yaml.safe_load((ROOT / "docs/figures.yaml").read_text())["machine"]
    assert "two" in machine
    assert "24 GB" in machine
    assert "two shared cores and 24 GB" in MACHINE


def test_rates_are_of_tables_and_add_up_to_the_streams_that_were_counted() -> None:
    assert all(each.table in BY_NAME and each.table in ROW_BYTES for each in RATES)
    streams = 0
    for each in RATES:
        if named := re.search(r"\((\d+) streams(?: every (\d+) s)?\)", each.what):
            streams += int(named[1])
            assert each.per_s == pytest.approx(int(named[1]) / float(named[2] or 15), rel=0.01), each.what
    assert streams == STREAMS_OF_HOST


def test_what_was_measured_is_told_as_measured() -> None:
    live = {each.hosts: each for each in LIVE}
    few, many = live[64].cores, live[256].cores
    assert few
    assert many
    for hosts, cores in ((64, few), (256, many)):
        need = size_of(Fleet(hosts)).need("CPU")
        assert (need.value, need.basis) == (cores, Basis.MEASURED)
    between = size_of(Fleet(160)).need("CPU")
    assert (between.value, between.basis) == (pytest.approx((few + many) / 2), Basis.BETWEEN)
    below = size_of(Fleet(8)).need("CPU")
    assert (below.value, below.basis) == (few, Basis.BELOW)
    beyond = size_of(Fleet(1024))
    assert beyond.need("CPU").basis is Basis.BEYOND
    assert beyond.need("CPU").value == pytest.approx(many + (many - few) * 768 / 192)
    late = beyond.need("verdicts late by (p95)")
    assert (late.value, late.basis) == (live[256].late_s, Basis.ABOVE)  # a backlog that grows has no line


def test_a_server_that_will_be_behind_is_told_so() -> None:
    def about_late(hosts: int) -> str:
        return " ".join(note for note in size_of(Fleet(hosts)).notes if " s late" in note)

    assert about_late(64) == ""
    assert "the line between them is a guess" in about_late(65)
    assert "Beyond 256 hosts nothing was measured" in about_late(257)
    assert "give each cluster a server" in about_late(257)


def test_disk_is_rates_times_bytes_for_as_long_as_tables_keep_them() -> None:
    one = size_of(Fleet(1, retention_d=1))
    a_day = sum(each.per_s * ROW_BYTES[each.table].value for each in RATES) * DAY_S
    assert one.need("disk, a day").value == pytest.approx(a_day)
    assert one.need("disk, 1 d").value > a_day  # the newest minutes are not merged yet
    flows = sum(each.per_s * 8 * DAY_S for each in RATES if each.table == "flow_sample")
    three, four = (size_of(Fleet(1, retention_d=days)) for days in (3, 4))
    grown = four.need("disk, 4 d").value - three.need("disk, 3 d").value
    assert grown == pytest.approx(a_day - flows)  # sampled flows are kept for three days
    long, longer = (size_of(Fleet(1, retention_d=days)).needs[4].value for days in (90, 400))
    assert long == longer  # nothing of it is kept for more than 90 days
    assert any("5-minute means" in note for note in size_of(Fleet(1, retention_d=90)).notes)


def test_load_is_what_comes_not_how_many_hosts_there_are() -> None:
    half = size_of(Fleet(128, gpus_per_host=4))
    assert half.load_hosts == pytest.approx(64)
    assert half.need("CPU").value == pytest.approx(size_of(Fleet(64)).need("CPU").value)
    busy = size_of(Fleet(64, interval_s=1.0))
    scraped = sum(each.per_s for each in RATES if each.scraped)
    whole = sum(each.per_s for each in RATES)
    assert busy.load_hosts == pytest.approx(64 * (whole + 14 * scraped) / whole)
    assert busy.need("network, of a host").value == size_of(Fleet(64)).need("network, of a host").value
    assert busy.need("network, received").value - size_of(Fleet(64)).need("network, received").value == pytest.approx(
        64 * 14 * sum(each.bytes_per_s for each in TRAFFIC if each.scraped)
    )
