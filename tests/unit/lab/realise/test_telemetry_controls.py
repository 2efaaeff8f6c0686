"""Control files of exporters and samplers: what they say is obeyed, what makes no sense is refused and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.telemetry.controls import (
    PARTS,
    ControlFile,
    ExporterControl,
    SwitchControl,
    ToldPage,
    exporter_control,
    switch_control,
    without_labels,
)
from leadline.lab.telemetry.exposition import Family
from leadline.lab.telemetry.exposition import page as exposition_page
from leadline.lab.telemetry.nflog import Packet
from leadline.lab.telemetry.switch_sampler import SwitchAgent, SwitchPort
from leadline.model.errors import DataError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["frozen", "silent", "drop_labels", "x"]), inner)
    ),
    max_leaves=6,
)


def test_what_a_host_may_be_told() -> None:
    assert exporter_control({}, "f") == ExporterControl()
    assert exporter_control({"frozen": True}, "f").frozen == PARTS
    assert exporter_control({"frozen": ["sys"], "drop_labels": ["UUID"]}, "f") == ExporterControl(("UUID",), ("sys",))
    with pytest.raises(DataError, match="frozen parts of gpu, ports, sys"):
        exporter_control({"frozen": ["disk"]}, "f")
    with pytest.raises(DataError, match="an object with drop_labels"):
        exporter_control({"frosen": True}, "f")


def test_what_a_switch_may_be_told() -> None:
    assert switch_control({"silent": True}, "f") == SwitchControl("all")
    assert switch_control({"silent": "flows"}, "f") == SwitchControl("flows")
    assert switch_control({}, "f") == SwitchControl("")
    with pytest.raises(DataError, match="silent: true, flows or all"):
        switch_control({"silent": "loudly"}, "f")


@given(JSON)
def test_any_file_is_a_control_or_told_why_not(found: object) -> None:
    for parse in (exporter_control, switch_control):
        try:
            parse(found, "f")
        except DataError as error:
            assert str(error).startswith("f")  # noqa: PT017 (some are controls)


def test_a_file_is_read_when_it_changes_and_a_broken_one_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "control.json"
    control = ControlFile(path, switch_control)
    assert control.read().silent == ""
    path.write_text('{"silent": "flows"}')
    assert control.read().silent == "flows"
    path.write_text('{"silent": ')
    assert control.read().silent == "flows"
    assert "not used" in capsys.readouterr().err
    path.unlink()
    assert control.read().silent == ""


def test_a_frozen_page_repeats_and_a_silent_one_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "exporter_control.json"
    numbers = iter(range(100))
    told = ToldPage("gpu", ControlFile(path, exporter_control), lambda: b'power{UUID="GPU-1"} %d\n' % next(numbers))
    assert [told.page(), told.page()] == [b'power{UUID="GPU-1"} 0\n', b'power{UUID="GPU-1"} 1\n']
    path.write_text(json.dumps({"frozen": ["gpu"], "drop_labels": ["UUID"]}))
    assert [told.page(), told.page()] == [b"power 1\n"] * 2
    path.write_text(json.dumps({"silent": True, "frozen": []}))
    with pytest.raises(ConnectionAbortedError):
        told.page()
    path.write_text("{ }")
    assert told.page() == b'power{UUID="GPU-1"} 2\n'


NAMES = st.sampled_from(["UUID", "gpu", "Hostname", "device", "le"])
VALUES = st.text(max_size=6)


@given(st.lists(st.dictionaries(NAMES, VALUES), min_size=1, max_size=4), st.sets(NAMES))
def test_a_page_without_labels_is_the_page_that_never_had_them(series: list[dict[str, str]], lost: set[str]) -> None:
    def told(labels: list[dict[str, str]]) -> bytes:
        values = tuple((tuple(each.items()), 1.5) for each in labels)
        return exposition_page([Family("m", "gauge", 'a {UUID="x",} in the help', values)])

    kept = [{name: value for name, value in each.items() if name not in lost} for each in series]
    assert without_labels(told(series), sorted(lost)) == told(kept)


def test_a_switch_that_was_silent_has_neither_samples_nor_losses_of_that_time() -> None:
    agent = SwitchAgent("127.0.0.1", [SwitchPort(1, "Ethernet1", 10**9, "10.0.0.1")], 100, [], 0)
    agent.take([_packet(0), _packet(1)], 1)
    assert agent.pass_over([_packet(2), _packet(3), _packet(4)]) == 3
    agent.take([_packet(5)], 2)
    assert (agent.samples, agent.lost) == (3, 0)
    agent.take([_packet(7)], 3)
    assert agent.lost == 1


def _packet(sequence: int) -> Packet:
    return Packet(header=bytes(64), frame_bytes=1514, in_port=1, out_port=1, sequence=sequence, prefix="")
