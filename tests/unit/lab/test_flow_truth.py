"""The file of flows' truth, and what is read from it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leadline.lab.flow_truth import SCHEMA, FlowTruthFile, beside, read_flow_truth, volumes, ways
from leadline.lab.flow_truth.table import journal_of
from leadline.model.errors import DataError, UsageError
from leadline.model.ids import flow_id

S = 10**9
FLOW = flow_id(6, "10.1.1.1", "10.1.2.1", 40000, 5001).to_bytes(16, "little")
UP, DOWN = "link:h1/eth0~leaf1/Ethernet1", "link:h5/eth0~leaf2/Ethernet1"


def over(spine: int, end: int) -> str:
    return f"link:leaf{end}/Ethernet{4 + spine}~spine{spine}/Ethernet{end}"


def hop(switch: str, first: str | None, second: str | None, second_s: float, size: float) -> dict[str, object]:
    return {
        "flow": FLOW, "src_ip": "10.1.1.1", "dst_ip": "10.1.2.1", "protocol": 6, "src_port": 40000, "dst_port": 5001,
        "dst_qp": None, "switch": switch, "in_link": first, "out_link": second, "from_ns": int(second_s * S),
        "to_ns": int((second_s + 1) * S), "packets": size / 1000, "bytes": size, "sprayed": False,
    }  # fmt: skip


def crossing(spine: int, second_s: float, size: float, arrived: float | None = None) -> list[dict[str, object]]:
    """Rows of one span of a flow over one spine; `arrived`: what the spine and the leaf behind it saw."""
    arrived = size if arrived is None else arrived
    return [
        hop("leaf1", UP, over(spine, 1), second_s, size),
        hop(f"spine{spine}", over(spine, 1), over(spine, 2), second_s, arrived),
        hop("leaf2", over(spine, 2), DOWN, second_s, arrived),
    ]


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def bytes_of(truth: pa.Table, begin_s: float, end_s: float) -> dict[str, float]:
    found = volumes(truth, int(begin_s * S), int(end_s * S)).to_pylist()
    return {each["link"]: each["bytes"] for each in found}


def test_a_flow_has_its_bytes_on_each_link_of_its_path() -> None:
    truth = table(*crossing(1, 0, 1e6), *crossing(1, 1, 3e6))
    assert bytes_of(truth, 0, 2) == {UP: 4e6, over(1, 1): 4e6, over(1, 2): 4e6, DOWN: 4e6}


def test_a_window_takes_its_part_of_the_spans_that_it_cuts() -> None:
    truth = table(*crossing(1, 0, 1e6), *crossing(1, 1, 3e6))
    assert bytes_of(truth, 0.5, 1.5)[UP] == pytest.approx(2e6)
    assert bytes_of(truth, 5, 6) == {}


def test_what_got_lost_on_a_link_did_not_cross_it() -> None:
    found = bytes_of(table(*crossing(1, 0, 1e6, arrived=9e5)), 0, 1)
    assert (found[UP], found[over(1, 1)], found[DOWN]) == (1e6, 9e5, 9e5)


def test_a_flow_that_stays_has_one_way() -> None:
    [way] = ways(table(*crossing(2, 0, 1e6), *crossing(2, 1, 1e6)), 0, 2 * S)[FLOW]
    assert way.links == (UP, over(2, 1), over(2, 2), DOWN)
    assert (way.share, way.bytes, way.from_ns, way.to_ns) == (1.0, 2e6, 0, 2 * S)


def test_a_flow_that_moved_has_two_and_the_latest_tells_where_it_is() -> None:
    truth = table(*crossing(1, 0, 3e6), *crossing(2, 1, 1e6))
    first, second = ways(truth, 0, 2 * S)[FLOW]
    assert (first.links[1], first.share, first.to_ns) == (over(1, 1), 0.75, S)
    assert (second.links[1], second.share, second.to_ns) == (over(2, 1), 0.25, 2 * S)


def test_switches_that_are_read_one_after_the_other_make_no_way_of_their_own() -> None:
    assert len(ways(table(*crossing(1, 0, 1e6, arrived=0.997e6)), 0, S)[FLOW]) == 1


def test_bytes_that_are_lost_have_a_way_that_ends_there() -> None:
    whole, lost = ways(table(*crossing(1, 0, 1e6, arrived=9e5)), 0, S)[FLOW]
    assert (whole.share, len(whole.links)) == (0.9, 4)
    assert lost.links == (UP, over(1, 1))
    assert lost.share == pytest.approx(0.1)


def test_a_loop_ends() -> None:
    there, back = over(1, 1), over(1, 2)
    truth = table(hop("leaf1", there, back, 0, 1e6), hop("spine1", back, there, 0, 1e6))
    [way] = ways(truth, 0, S)[FLOW]
    assert len(way.links) == 2


def test_a_port_without_a_link_is_no_part_of_a_way() -> None:
    truth = table(hop("leaf1", None, DOWN, 0, 1e6))
    assert ways(truth, 0, S) == {}
    assert bytes_of(truth, 0, 1) == {DOWN: 1e6}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = beside(tmp_path / "run.leadline")
    assert path.name == "run.flows.parquet"
    with FlowTruthFile(path) as file:
        file.add(table(*crossing(1, 0, 1e6)))
        file.add(table(*crossing(1, 1, 2e6)))
        file.tell("late_ns_max", 17)
        file.finish()
    read = read_flow_truth(path)
    assert read.to_pylist() == [*crossing(1, 0, 1e6), *crossing(1, 1, 2e6)]
    assert read.schema.metadata[b"leadline.late_ns_max"] == b"17"
    assert [each.name for each in tmp_path.iterdir()] == ["run.flows.parquet"]


def test_without_a_row_it_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "run.flows.parquet"
    with FlowTruthFile(path) as file:
        file.finish()
    assert read_flow_truth(path).num_rows == 0
    assert ways(read_flow_truth(path), 0, S) == {}
    assert volumes(read_flow_truth(path), 0, S).num_rows == 0


@pytest.mark.parametrize("torn_bytes", [0, 1, 200])
def test_what_a_killed_run_wrote_can_be_read(tmp_path: Path, torn_bytes: int) -> None:
    path = tmp_path / "run.flows.parquet"
    file = FlowTruthFile(path)
    for second in range(3):
        file.add(table(*crossing(1, second, 1e6)))
    journal = journal_of(path)
    left = journal.read_bytes()
    file.close()
    journal.write_bytes(left[: len(left) - torn_bytes])
    assert read_flow_truth(path).num_rows == (9 if not torn_bytes else 6)


def test_what_is_no_truth_of_flows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.flows.parquet"
    with pytest.raises(UsageError, match="--flow-truth"):
        read_flow_truth(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="Parquet"):
        read_flow_truth(path)
    pq.write_table(table(*crossing(1, 0, 1.0)).drop_columns(["switch", "bytes"]), path)
    with pytest.raises(DataError, match="none of these: switch, bytes"):
        read_flow_truth(path)
    with pytest.raises(UsageError, match=r"NAME\.flows\.parquet"):
        FlowTruthFile(tmp_path / "run.parquet")
