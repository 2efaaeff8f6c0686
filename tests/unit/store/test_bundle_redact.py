"""Redaction by example: what becomes of each kind of text. The laws are in tests/property/store/test_bundle.py."""

from __future__ import annotations

import json
from ipaddress import ip_address
from pathlib import Path

import pyarrow as pa
import pytest
from tests.builders.incident import Names, incident, truth_of, write_incident

from leadline.model.errors import DataError, WorldError
from leadline.model.ids import flow_id, link_id, parse_entity_id, series_id
from leadline.model.tables import BY_NAME, TABLES, Type
from leadline.store.bundle import read_bundle, write_bundle
from leadline.store.bundle_names import Pseudonyms, names_in
from leadline.store.bundle_redact import (
    COLUMNS,
    OF_TABLE,
    Kind,
    Redactor,
    draft_redacted,
    is_text,
    kind_of,
    read_truth,
    redacted_truth,
    truth_path,
    write_truth,
)

KEY = bytes(32)


def test_every_text_column_is_declared_and_no_other() -> None:
    declared = {(table.name, column.name) for table in TABLES for column in table.columns if is_text(column)}
    for table, column in declared:
        assert isinstance(kind_of(table, column), Kind), f"{table}.{column}: say in bundle_redact.COLUMNS what it holds"
    assert set(COLUMNS) <= {column for _, column in declared}
    assert set(OF_TABLE) <= declared
    maps = {column.name for table in TABLES for column in table.columns if column.type is Type.MAP}
    assert maps == {name for name, kind in COLUMNS.items() if kind is Kind.LABELS}


def test_parts_of_ids_become_the_same_wherever_they_stand() -> None:
    names = Pseudonyms(KEY, {"h3", "eth0", "leaf1", "bert-7"})
    host, port, leaf, job = (names.text(each) for each in ("h3", "eth0", "leaf1", "bert-7"))
    assert len({host, port, leaf, job, "h3", "eth0", "leaf1", "bert-7"}) == 8
    assert names.text("host:h3") == f"host:{host}"
    assert names.text("port:h3/eth0") == f"port:{host}/{port}"
    assert names.text("h3:9100") == f"{host}:9100"
    assert names.text("rank:bert-7/13") == f"rank:{job}/13"
    assert names.text("http://h3:9100/metrics").startswith(f"http://{host}:9100/")
    assert names.text("link:h3/eth0~leaf1/eth0") == link_id(f"port:{host}/{port}", f"swport:{leaf}/{port}")
    assert names.text("h3,leaf1") == f"{host},{leaf}"


def test_numbers_and_words_stay_unless_a_thing_is_called_so() -> None:
    names = Pseudonyms(KEY, {"17", "node"})
    for kept in ("0", "0.5", "+Inf", "NaN", "-3", "1e-05", "true", "idle", "default", "", "localhost:9100"):
        assert names.text(kept) == kept
    for replaced in ("17", "node", "1324020012345", "acme"):
        assert names.text(replaced) != replaced


def test_ids_keep_their_shape() -> None:
    names = Pseudonyms(KEY, ())
    gpu = names.text("GPU-5c1e0a2b-0000-4000-8000-000000000001")
    assert gpu.startswith("GPU-")
    assert len(gpu) == 40
    assert names.text(f"gpu:{gpu}") != f"gpu:{gpu}"
    assert len(names.text("5c1e0a2b-0000-4000-8000-000000000001")) == 36
    mac = names.text("52:54:00:12:34:56")
    assert mac.startswith("02:")
    assert len(mac) == 17


def test_addresses_keep_their_prefixes() -> None:
    addresses = ["10.1.2.3", "10.1.2.200", "10.1.9.1", "192.168.0.1", "fe80::1", "fe80::2"]
    names = Pseudonyms(KEY, (), addresses)
    made = [names.text(each) for each in addresses]
    assert len(set(made) | set(addresses)) == 2 * len(addresses)

    def shared(one: str, two: str) -> int:
        first, second = ip_address(one), ip_address(two)
        return first.max_prefixlen - (int(first) ^ int(second)).bit_length()

    for place, one in enumerate(addresses):
        for other in range(place):
            if ip_address(one).version == ip_address(addresses[other]).version:
                assert shared(one, addresses[other]) == shared(made[place], made[other])
    assert names.text("10.1.2.3:9400") == f"{made[0]}:9400"
    assert names.text("[fe80::1]:80") == f"[{made[4]}]:80"
    assert names.text("10.1.2.3/24") == f"{made[0]}/24"


def test_words_lose_only_the_names_inside_them() -> None:
    names = Pseudonyms(KEY, {"acme", "bert-7", "node"})
    acme, job = names.text("acme"), names.text("bert-7")
    assert names.word("DCGM_FI_DEV_GPU_TEMP") == "DCGM_FI_DEV_GPU_TEMP"
    assert names.word("node_cpu_seconds_total") == "node_cpu_seconds_total", "a word of Leadline's is no secret there"
    assert names.word("acme_loss.bert-7") == f"{acme}_loss.{job}"
    assert names.word("acmes") == "acmes"


def test_both_ends_of_an_edge_are_ids() -> None:
    names = Pseudonyms(KEY, names_in("rank:bert-7/0>rank:bert-7/12"))
    job = names.text("bert-7")
    assert names.text("rank:bert-7/0>rank:bert-7/12") == f"rank:{job}/0>rank:{job}/12"
    assert names.text("a>b") == f"{names.text('a')}>{names.text('b')}"


def test_sentences_lose_the_names_in_their_ids_and_make_no_word_a_name(tmp_path: Path) -> None:
    """`step` stands in `baseline.what`: were it a name, every metric with that word would be called otherwise."""
    names = Names()
    rows = incident(names)
    job = "bert-7"
    whats = ["step", f"all_reduce 524288 B on 8 of {job}/0x9c"]
    owners = [f"no steps heard from rank:{job}/3, rank:{job}/4 and 2 more", f"rank:{job}/0>rank:{job}/1"]
    for table, column, texts in (("baseline", "what", whats), ("ledger", "owner", owners)):
        one = rows[table].slice(0, 1)
        some = pa.concat_tables([one] * len(texts))
        place = some.column_names.index(column)
        rows[table] = some.set_column(place, some.schema.field(place), pa.array(texts).dictionary_encode())
    path = write_incident(tmp_path / "a.leadline", rows, "")
    with read_bundle(path) as bundle:
        redactor = Redactor.of(bundle)
        made = [
            redactor.rows(BY_NAME[table], pa.concat_tables(list(bundle.groups(BY_NAME[table]))))[column].to_pylist()
            for table, column in (("baseline", "what"), ("ledger", "owner"))
        ]
    other = redactor.names.text(job)
    assert other != job
    comm = redactor.names.text("0x9c")
    assert sorted(made[0]) == sorted(["step", f"all_reduce 524288 B on 8 of {other}/{comm}"])
    assert sorted(made[1]) == sorted(text.replace(job, other) for text in owners)
    assert redactor.names.word("leadline_step_seconds") == "leadline_step_seconds"


def test_two_keys_give_two_sets_of_names() -> None:
    one, two = (Pseudonyms(bytes([key]) * 32, {"h3"}).text("h3") for key in (1, 2))
    assert one != two


def test_a_redacted_bundle_and_its_truth(tmp_path: Path) -> None:
    names = Names()
    path = write_incident(tmp_path / "a.leadline", incident(names), "server:\n  host: h1\n  port: 8440\n")
    with read_bundle(path) as bundle:
        redactor = Redactor.of(bundle, truth_of(names))
        with draft_redacted(bundle, redactor, tmp_path) as draft:
            write_bundle(tmp_path / "b.leadline", draft.chunks(), draft.size)
    with read_bundle(tmp_path / "b.leadline") as made:
        assert made.manifest.redacted
        assert made.manifest.rows() == {table.name: incident(names)[table.name].num_rows for table in TABLES}
        assert made.config_text.endswith("server:\n  port: 8440\n")
        event = made.rows(BY_NAME["event"]).to_pylist()[0]
        assert (event["message"], event["kind"], event["source"]) == ("redacted", "link-down", "netlink")
        assert parse_entity_id(event["entity"]).name.startswith(f"{event['host']}/")
        series = made.rows(BY_NAME["series"]).to_pylist()
        for row in series:
            assert int.from_bytes(row["series"], "little") == series_id([("__name__", row["name"]), *row["labels"]])
            assert dict(row["labels"])["instance"] == f"{row['host']}:9100"
            assert dict(row["labels"])["mode"] == "idle"
        used = set(made.rows(BY_NAME["metric_sample"])["series"].to_pylist())
        assert used == {row["series"] for row in series}
        for row in made.rows(BY_NAME["flow_sample"]).to_pylist():
            told = [row[each] for each in ("protocol", "src_ip", "dst_ip", "src_port", "dst_port", "dst_qp")]
            assert int.from_bytes(row["flow"], "little") == flow_id(*told)
        (suspect,) = made.rows(BY_NAME["suspect"]).to_pylist()
        truth = redacted_truth(truth_of(names), redactor)
        (link,) = truth["faults"][0]["component"]
        assert link in suspect["others"]
        assert json.loads(suspect["evidence"]) == [{"row": link, "n": 3}]
        assert (truth["seed"], truth["scenario"], truth["faults"][0]["layer"]) == (7, "lossy_link", "fabric")
        (cause,) = made.rows(BY_NAME["cause"]).to_pylist()
        assert (cause["entity"], cause["text"], cause["class"]) == (link, "redacted", "gray")
        assert dict(made.rows(BY_NAME["step"]).to_pylist()[0]["metrics"])["accuracy"] == "0.123456789"


def test_truth_lies_beside_the_bundle(tmp_path: Path) -> None:
    path = truth_path(tmp_path / "flap.leadline")
    assert path.name == "flap.truth.json"
    write_truth(path, truth_of(Names()))
    assert read_truth(path) == truth_of(Names())
    path.write_text("[]")
    with pytest.raises(DataError, match="faults"):
        read_truth(path)
    path.write_text("{")
    with pytest.raises(DataError, match="JSON"):
        read_truth(path)
    with pytest.raises(WorldError, match="cannot be read"):
        read_truth(tmp_path / "none.json")
