"""The dcgm_scrape case: pages in, what is left after blanks are removed out."""

from __future__ import annotations

import csv
from pathlib import Path

from leadline.wire.blank import is_dcgm_blank
from leadline.wire.exposition.pages import decode_exposition

CASE = Path(__file__).parent / "dcgm_scrape"
NOW_NS = 1_700_000_000_000_000_000


def _rows(path: Path) -> list[dict[str, str]]:
    samples = decode_exposition(path.read_bytes(), "text/plain; version=0.0.4", NOW_NS)
    assert samples.time_ns.tolist() == [NOW_NS] * 3
    assert samples.dropped == {}
    blank = is_dcgm_blank(samples.value)
    assert blank.sum() == 1
    rows = []
    for n in range(len(samples.value)):
        labels = samples.labels(int(samples.sample_series[n]))
        name = labels.pop("__name__")
        if name.startswith("DCGM_") and blank[n]:
            continue
        told = samples.metadata[name]
        text = " ".join(f"{key}={value}" for key, value in sorted(labels.items()))
        values = (path.name, name, text, repr(float(samples.value[n])), told.type, told.help)
        rows.append(dict(zip(("page", "name", "labels", "value", "type", "help"), values, strict=True)))
    return rows


def test_pages_without_blanks() -> None:
    with (CASE / "out.csv").open() as file:
        expected = list(csv.DictReader(file))
    got = [row for path in sorted(CASE.glob("*.prom")) for row in _rows(path)]
    assert got == expected
