"""Metrics of simulated fleets: names of the lab, and what faults do to them, at what is broken and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from leadline.model.names import entity_of
from leadline.simulator.effects import EFFECTS, effect_of
from leadline.simulator.fleet import Fleet
from leadline.simulator.metrics.catalogue import BY_KEY, FEW, chosen, metric_of
from leadline.simulator.metrics.streams import Load, Streams
from leadline.simulator.targets import Befallen
from leadline.store.bundle import read_bundle

FLEET = Fleet(64, 8, 4)
AT_S = np.arange(24.0) * 10
BEGIN, END = 6, 12  # places in it, of a fault from 60 to 120 s
INCIDENTS = Path(__file__).resolve().parents[3] / "src" / "leadline" / "lab" / "incidents"
# What the recordings that ship are too old to have; later ones of the lab have it (exporters of replayed hardware).
REPLAYED = {"pcie", "optic"}


def values(*faults: Befallen, busy: float = 0.5) -> tuple[Streams, np.ndarray]:
    streams = Streams(FLEET, chosen(everything=True, rest=True), 0, 1)
    shape = (FLEET.hosts, len(AT_S))
    load = Load(np.full(shape, busy), np.full(shape, 5e9), np.full(shape, 0.5))
    return streams, streams.values(load, AT_S, 10.0, list(faults))


def fault(name: str, **where: object) -> Befallen:
    return Befallen(effect_of(name), "medium", 60.0, 120.0, **where)  # type: ignore[arg-type]


def rows(streams: Streams, out: np.ndarray, key: str) -> np.ndarray:
    return out[streams.places[key]]


def test_every_name_is_one_of_the_labs_recordings_with_its_way_in() -> None:
    seen: set[tuple[str, str, str, str]] = set()
    for path in sorted(INCIDENTS.glob("*.leadline")):
        with read_bundle(path) as bundle:
            table = next(each for each in bundle.tables if each.name == "series")
            series = pa.concat_tables(bundle.groups(table)).select(["name", "entity_kind", "source", "type"])
        seen |= {tuple(row.values()) for row in series.to_pylist()}  # type: ignore[misc]
    recent = {name for name, *_ in seen}
    told = {(each.name, each.of, each.source, each.kind) for each in BY_KEY.values() if each.of not in REPLAYED}
    assert len({name for name, *_ in told}) > 100
    assert not {each for each in told - seen if each[0] in recent and not each[0].startswith("node_ethtool")}


@pytest.mark.parametrize("metric", BY_KEY.values(), ids=lambda metric: metric.key)
def test_a_stream_is_of_the_entity_that_its_name_and_labels_say(metric) -> None:  # type: ignore[no-untyped-def]
    streams = Streams(FLEET, (metric,), 0, 1)
    kind, entities, _ = streams.entities(metric)
    labels = {
        name: (value if isinstance(value, str) else value[0].as_py()) for name, value in streams._label_columns(metric)
    }
    mapped = entity_of({"__name__": metric.name, **labels})
    assert (mapped.entity_kind, mapped.entity) == (kind, entities[0].as_py())


def test_a_sound_fleet_counts_no_errors_and_all_its_links_are_up() -> None:
    streams, out = values()
    for metric in BY_KEY.values():
        found = rows(streams, out, metric.key)
        assert np.isfinite(found).all(), metric.key
        if metric.kind == "counter":
            assert (np.diff(found, axis=1) >= 0).all(), metric.key
        if any(word in metric.name for word in ("drop", "errs", "Errors", "Discards", "symbol", "carrier_changes")):
            assert not found.any(), metric.key
    assert (rows(streams, out, "swport ifOperStatus") == 1).all()


@pytest.mark.parametrize("name", [name for name, effect in EFFECTS.items() if effect.counters or effect.holds])
def test_a_fault_shows_where_it_is_while_it_lasts(name: str) -> None:
    befallen = fault(name, gpus=(9,), links=_links(name), hosts=(1,), switches=(17,), beside=(0,))
    streams, sound = values()
    _, out = values(befallen)
    changed = {key for key in streams.places if (rows(streams, out, key) != rows(streams, sound, key)).any()}
    effect = befallen.effect
    wanted = {metric_of(each.metric, each.of).key for each in effect.counters if each.per_s[1]}
    wanted |= {metric_of(each.metric, each.of).key for each in effect.holds}
    assert wanted <= changed
    for key in changed:
        now, usual = rows(streams, out, key), rows(streams, sound, key)
        assert (now[:, :BEGIN] == usual[:, :BEGIN]).all(), key
        if BY_KEY[key].name == "DCGM_FI_DEV_XID_ERRORS":
            continue  # the last one stays
        if BY_KEY[key].kind == "gauge":
            assert (now[:, END:] == usual[:, END:]).all(), key
        else:
            grown = np.diff(now - usual, axis=1)[:, END + 1 :]
            assert (np.abs(grown) <= 1).all(), f"{key} goes on growing"
        assert int((now != usual).any(axis=1).sum()) < len(now), f"{key} shows everywhere"


def _links(name: str) -> tuple[int, ...]:
    scope = EFFECTS[name].scope
    return (FLEET.host_links + 3,) if scope == "uplink" else (9,) if scope == "link" else ()


def test_a_queue_stands_at_both_ends_of_the_link_and_is_gone_afterwards() -> None:
    link = FLEET.host_links + 3
    streams, out = values(fault("ecmp-collision", links=(link,)))
    backlog = rows(streams, out, "swport node_qdisc_backlog")
    ports = np.flatnonzero(FLEET.swports.link == link)
    assert len(ports) == 2
    during = (np.arange(len(AT_S)) >= BEGIN) & (np.arange(len(AT_S)) < END)
    assert (backlog[np.ix_(ports, np.flatnonzero(during))] > 0).all()
    assert not backlog[:, ~during].any()
    assert np.flatnonzero(backlog.any(axis=1)).tolist() == ports.tolist()
    octets, sound = rows(streams, out, "swport ifOutOctets"), rows(*values(), "swport ifOutOctets")
    assert ((octets - sound)[ports][:, during].max(axis=1) > 1e9).all(), "others send there"


def test_a_link_that_a_job_hardly_uses_hardly_queues() -> None:
    streams, out = values(fault("slow-link", links=(9,)), busy=0.0)
    little = Load(*(np.full((FLEET.hosts, len(AT_S)), each) for each in (0.1, 1e7, 0.5)))
    quiet = Streams(FLEET, chosen(everything=True, rest=True), 0, 1)
    few = rows(quiet, quiet.values(little, AT_S, 10.0, [fault("slow-link", links=(9,))]), "swport node_qdisc_backlog")
    assert (few > 0).sum() <= 1
    assert (rows(streams, out, "swport node_qdisc_backlog") > 0).sum() > 2


def test_a_dead_spine_takes_the_carrier_of_all_its_links() -> None:
    streams, out = values(fault("dead-spine", switches=(FLEET.leaves,)))
    status = rows(streams, out, "swport ifOperStatus")
    down = np.isin(FLEET.swports.link, FLEET.swports.link[FLEET.swports.switch == FLEET.leaves])
    during = (np.arange(len(AT_S)) >= BEGIN) & (np.arange(len(AT_S)) < END)
    assert not status[np.ix_(down, during)].any()
    assert status[~down].all()
    assert status[:, ~during].all()


def test_a_fleet_that_tells_little_tells_the_few_names() -> None:
    assert chosen(everything=False, rest=True) == tuple(each for each in FEW if each.of != "swport")
    assert len(chosen(everything=True, rest=True)) > 4 * len(FEW)
