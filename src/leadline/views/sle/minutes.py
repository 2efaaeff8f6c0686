"""The minutes of one expectation of one entity: which seconds were lost, and to what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.model.errors import UsageError
from leadline.model.metric_words import in_words
from leadline.model.tables.accounts import SLE, SLE_LOSS
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where
from leadline.views.sle.spans import MINUTE_NS

MINUTES_MAX = 1440  # a day


def minutes_answer(
    store: Store, asked: Asked, expectation: str, entity: str, span: tuple[int, int], most: int = MINUTES_MAX
) -> dict[str, Any]:
    """What `/api/v1/sle/minutes` says of the minutes that end in `span` (ns; its end included), the newest `most`.

    Errors: UsageError without both names, StoreError.
    """
    if not expectation or not entity:
        raise UsageError("expected expectation and entity, as `leadline show sle` lists them; one is empty")
    where = [
        *asked.conditions(), f"window_ns = {MINUTE_NS}", f"end_ns > {int(span[0])}", f"end_ns <= {int(span[1])}",
        "expectation = {expectation:String}", "entity = {entity:String}",
    ]  # fmt: skip

    def rows(table: str, columns: str) -> list[dict[str, Any]]:
        sql = f"SELECT {columns} FROM ({table}) ORDER BY end_ns DESC"
        names = {"expectation": expectation, "entity": entity}
        return json_rows(store.query(sql, asked.parameters(sql) | names))

    condition = " AND ".join(where)
    columns = "end_ns, good_s, bad_s, missing_s, toString(why_missing) AS why_missing, lost_gpu_seconds"
    found = rows(rows_where(SLE, condition), columns)
    lost = rows(rows_where(SLE_LOSS, condition), "end_ns, classifier, metric, culprit, bound, seconds")
    by_minute: dict[int, list[dict[str, Any]]] = {}
    for row in lost:
        by_minute.setdefault(row.pop("end_ns"), []).append(row | {"classifier": in_words(row["classifier"])})
    told = [_told(row, by_minute.get(row["end_ns"], ())) for row in reversed(found[:most])]
    return {
        "schema": SCHEMA_VERSION, "expectation": expectation, "entity": entity, "minutes": told,
        "more": len(found) > most,
    }  # fmt: skip


def _told(row: Mapping[str, Any], lost: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {**row, "classifiers": sorted(lost, key=lambda each: (-each["seconds"], each["classifier"]))}
