"""The parts that tables are made of, as the engine tells them, and those that it put aside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# ClickHouse's numbers of errors that say a part cannot be read: NO_FILE_IN_DATA_PART (226) is left out, since it also
# comes of a part that was just merged away. ATTEMPT_TO_READ_AFTER_EOF, CANNOT_READ_ALL_DATA, CHECKSUM_DOESNT_MATCH,
# CANNOT_READ_FROM_FILE_DESCRIPTOR, CORRUPTED_DATA; CANNOT_DECOMPRESS and UNKNOWN_CODEC, seen where one write of several
# had failed, so that what followed lay in the wrong place.
UNREADABLE = frozenset({32, 33, 40, 74, 246, 271, 432})

PARTS_SQL = """
SELECT table, name, partition_id, rows, bytes_on_disk, path, level, min_block_number AS first, max_block_number AS last
FROM system.parts WHERE active AND database = 'leadline' ORDER BY modification_time
"""
ASIDE_SQL = """
SELECT table, name, partition_id, reason, path, min_block_number AS first, max_block_number AS last
FROM system.detached_parts WHERE database = 'leadline' AND reason != '' ORDER BY path
"""


@dataclass(frozen=True, slots=True)
class DataPart:
    """A part that queries read."""

    table: str
    name: str
    partition_id: str
    rows: int
    bytes_on_disk: int
    path: str
    level: int  # how often its rows were merged
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class AsidePart:
    """A part that the engine put aside because it could not read it. `rows`: None where nobody knows how many."""

    table: str
    name: str
    path: str
    rows: int | None
    lost: bool  # False: the parts that it was merged from are read in its place


def sizes(parts: Iterable[DataPart]) -> dict[tuple[str, str], int]:
    """Bytes of each partition of each table: the most that a merge there can make."""
    found: dict[tuple[str, str], int] = {}
    for part in parts:
        key = part.table, part.partition_id
        found[key] = found.get(key, 0) + part.bytes_on_disk
    return found


def put_aside(
    rows: Iterable[Mapping[str, object]], parts: Iterable[DataPart], known_rows: Mapping[str, int]
) -> list[AsidePart]:
    """What was put aside (rows of ASIDE_SQL), beside the parts that are read.

    `known_rows`: rows of parts seen earlier, by `table/part`. Lost is what no part that is read has the blocks of.
    """
    held = list(parts)
    found = []
    for row in rows:
        table, name, path = str(row["table"]), str(row["name"]), str(row["path"])
        first, last = int(str(row["first"])), int(str(row["last"]))
        lost = not any(
            (part.table, part.partition_id) == (table, row["partition_id"])
            and part.first <= last
            and first <= part.last
            for part in held
        )
        plain = name.removeprefix(f"{row['reason']}_")
        found.append(AsidePart(table, name, path, known_rows.get(f"{table}/{plain}", _counted(Path(path))), lost))
    return found


def _counted(path: Path) -> int | None:
    """Rows of a part by its own word, if that can still be read."""
    try:
        return int((path / "count.txt").read_text())
    except (OSError, ValueError):
        return None
