"""Times of a job's rows as the mesh's fits map them: judged live, from a store after a restart, and offline alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.builders.incident import Names, rows_of
from tests.builders.mesh import ALL, BASE, FROM, REAL, edge, row
from tests.builders.stores import opened_store
from tests.unit.runner.toy_rows import BEGIN_NS, S
from tests.unit.runner.toy_world import World

from leadline.analysis.clock.clock import clock
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.tables import BY_NAME
from leadline.model.tables.accounts import LEDGER
from leadline.model.tables.training import STEP
from leadline.runner.offline import judge_rows
from leadline.store.bundle_rows import in_order
from leadline.views.rows import rows_where

SECONDS = 40
OWNER = {"tenant": "acme", "cluster": "lab"}


@analysis(
    name="toy-spread", version=1, reads=(Read(STEP, ("tenant", "start_ns"), look_back_ns=10 * S),), writes=(LEDGER,),
    window_s=10, grace_s=2, late_s=60,
)  # fmt: skip
def spread(step: pa.Table, *, window: Window) -> Verdicts:
    """How far apart the ranks of a step say that it began, and how well that is known."""
    if not step.num_rows:
        return {}
    known = step.filter(pc.is_valid(step["bound_ns"]))
    starts = sorted(known["start_ns"].to_pylist())
    return {
        "ledger": {
            "tenant": ["acme"], "job": ["bert"], "end_ns": [window.to_ns], "window_ns": [window.window_ns],
            "category": ["compute"], "owner": [None], "seconds": [(starts[3] - starts[0]) / S if starts else -1.0],
            "gpu_seconds": [float(pc.max(known["bound_ns"]).as_py() or 0) / S], "confidence": [len(known) / len(step)],
            "lost_seconds": [0.0], "lost_gpu_seconds": [0.0], "depth": ["steps"],
        }
    }  # fmt: skip


LANES = (clock, spread)


def story() -> dict[str, list[dict[str, Any]]]:
    """Each host tells its edges and a step each second; clocks are milliseconds off."""
    probes, steps = [], []
    for second in range(SECONDS):
        at_ns = FROM + second * S + S // 2
        probes += [edge(one, other, at_ns, BASE[other] - BASE[one], 0.0) for one, other in ALL]
        probes += [row(host, host, at_ns) | {"state": "self", "src_port": 0} for host in REAL]
        for rank, (host, ahead_ns) in enumerate(sorted(REAL.items())):
            start_ns = BEGIN_NS + second * S + ahead_ns + S // 4
            steps.append({
                "job": "bert", "rank": rank, "step": second, "start_ns": start_ns, "end_ns": start_ns + S // 2,
                "host": host, "clock": f"{host}/1", "batch": 7, "batch_row": second * 4 + rank,
            })  # fmt: skip
    by_ns = BEGIN_NS - FROM
    moved = [{**each, "end_ns": each["end_ns"] + by_ns, "probe_ns": each["probe_ns"] + by_ns} for each in probes]
    numbered = [{**each, **OWNER, "batch": 8, "batch_row": place} for place, each in enumerate(moved)]
    return {"edge_fit": numbered, "step": [{**each, **OWNER} for each in steps]}


def table(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    return rows_of(BY_NAME[name], rows, Names())


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    names = [name for name in rows.column_names if name not in ("revision", "cluster")]
    found = in_order(BY_NAME["ledger"], rows).select(names).to_pylist()
    return [each for each in found if each["end_ns"] <= BEGIN_NS + SECONDS * S]


def live(path: Path, *, restart_s: int | None = None) -> list[dict[str, Any]]:
    """Rows come five seconds at a time, a second after; perhaps the server begins anew in between."""
    told = story()
    with opened_store(path) as store:
        world = World(store, LANES, from_ns=BEGIN_NS)
        for second in range(0, SECONDS, 5):
            if second == restart_s:
                world.runner.stop()
                world = World(store, LANES, at_s=second)
                world.runner._resume()
            world.go(5)
            for name, rows in told.items():
                ends = [BEGIN_NS + (second + more) * S for more in (0, 5)]
                some = [each for each in rows if ends[0] <= each["end_ns"] < ends[1] + (S if name == "step" else 0)]
                mine = [each for each in some if name != "step" or second <= each["step"] < second + 5]
                world.come(name, table(name, mine))
            world.go(0)
        world.go(30)
        columns = ", ".join(f"`{column.name}`" for column in LEDGER.columns)
        return plain(store.query(f"SELECT {columns} FROM ({rows_where(LEDGER)})"))


def test_times_are_mapped_alike_live_after_a_restart_and_offline(tmp_path: Path) -> None:
    told = {name: table(name, rows) for name, rows in story().items()}
    offline = plain(judge_rows(told, BEGIN_NS, BEGIN_NS + SECONDS * S, LANES)["ledger"])
    assert live(tmp_path / "live") == offline
    assert live(tmp_path / "restarted", restart_s=20) == offline
    last = offline[-1]
    assert last["confidence"] == 1.0, "all clocks are known"
    assert last["seconds"] < 1e-6, "ranks that began at one moment do, though their clocks are milliseconds apart"
    assert 1e-6 < last["gpu_seconds"] < 1e-4, "the bound has grown for 15 to 20 s"
    assert offline[0]["confidence"] == 0.0, "nothing was known then"
