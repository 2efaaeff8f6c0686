"""Keep of a lab's recording what the ledger and what it reads are told from, few metrics, and nothing of the machine.

python tests/golden/lab_ledger/strip.py run.leadline bert-slow.leadline
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.tables import BY_NAME, Table
from leadline.store.bundle import Bundle, Draft, read_bundle, write_bundle

KEPT = ("relation", "step", "collective", "message_end", "event", "flow_sample")


def strip(source: Path, target: Path) -> int:
    """Write the kept tables of a bundle to another one. Returns: bytes."""
    with read_bundle(source) as bundle, Draft(replace(bundle.manifest, members={}), "{}\n", None) as draft:
        for table in bundle.tables:
            if table.name in KEPT:
                draft.add(BY_NAME[table.name], list(kept_rows(bundle, table)))
        return write_bundle(target, draft.chunks(), draft.size)


def kept_rows(bundle: Bundle, table: Table) -> Iterator[pa.Table]:
    """The rows of a table; of cables the inventory's word is enough."""
    for rows in bundle.groups(table):
        if table.name != "relation":
            yield rows
            continue
        yield rows.filter(pc.not_equal(rows["source"].cast(pa.string()), "agent/lldp"))


if __name__ == "__main__":
    print(strip(Path(sys.argv[1]), Path(sys.argv[2])))
