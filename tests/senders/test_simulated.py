"""A simulated fleet told to a running Leadline: every row arrives, under the names that its bundle would have."""

from __future__ import annotations

from pathlib import Path

from tests.senders.running import RunningLeadline, wait_for

from leadline.simulator.run import Simulation
from leadline.simulator.spec import SimulationSpec, planned_of
from leadline.simulator.write import ServerSink

TABLES = ("relation", "metric_sample", "step", "collective", "event", "flow_sample")


def test_a_server_gets_the_rows_of_a_fleet(tmp_path: Path) -> None:
    with RunningLeadline(tmp_path) as leadline:
        now_ns = int(leadline.sql("SELECT toUnixTimestamp64Nano(now64(9)) AS now")[0]["now"])
        spec = SimulationSpec(
            gpus=32, minutes=2, seed=7, planned=planned_of("xid,slow-link", 120, 7), start_ns=now_ns - 120 * 10**9
        )
        simulation = Simulation(spec)
        sink = ServerSink(leadline.url)
        try:
            for _ in simulation.write(sink):
                pass
        finally:
            sink.close()
        sent = simulation.outcome.rows

        def arrived() -> dict[str, int]:
            return {name: int(leadline.sql(f"SELECT count() AS n FROM {name}")[0]["n"]) for name in TABLES}

        wait_for("all rows", lambda: arrived() == {name: sent[name] for name in TABLES} or None)
        assert leadline.refused() == {}
        streams = leadline.sql("SELECT entity_kind, count() AS n, uniqExact(entity) AS entities FROM series GROUP BY 1")
        assert sum(int(each["n"]) for each in streams) == sent["series"]
        entities = {each["entity_kind"]: int(each["entities"]) for each in streams}
        assert entities["gpu"] == 32
        assert entities["host"] == 4
        counters = leadline.sql("SELECT DISTINCT type FROM series WHERE name = 'node_network_transmit_bytes_total'")
        assert counters == [{"type": "counter"}]
        dead = leadline.sql("SELECT entity FROM event WHERE kind = 'xid'")
        assert {each["entity"] for each in dead} <= {
            part for entry in simulation.outcome.truth["faults"] for part in entry["component"]
        }
        assert dead
