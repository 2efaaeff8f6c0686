"""`GET /api/v1/entities`, `/api/v1/clusters`: the names of what there is, for boxes that complete or choose them."""

from __future__ import annotations

from pydantic import BaseModel, Field

from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import SERIES
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import SCHEMA_VERSION

MOST = 5000


class EntitiesAnswer(BaseModel):
    """Ids of entities, by kind and name; `total` counts those that match."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    entities: list[str]
    total: int


class ClustersAnswer(BaseModel):
    """Names of clusters, sorted; one where nobody told of several."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    clusters: list[str]


def clusters_answer(store: Store, asked: Asked) -> ClustersAnswer:
    """The clusters that relations and metrics of the principal tell of."""
    mine = f"WHERE {' AND '.join(where)}" if (where := asked.conditions()) else ""
    sql = " UNION DISTINCT ".join(
        f"SELECT DISTINCT toString(cluster) AS cluster FROM leadline.{table.name} {mine}"
        for table in (RELATION, SERIES)
    )
    found = store.query(f"SELECT cluster FROM ({sql}) ORDER BY cluster LIMIT {MOST}", asked.parameters(sql))
    return ClustersAnswer(schema=SCHEMA_VERSION, clusters=found.column("cluster").to_pylist())


def entities_answer(store: Store, asked: Asked, match: str, limit: int) -> EntitiesAnswer:
    """What the relations of the principal name, that has `match` in its id (any case)."""
    where = [*asked.conditions(), "entity != ''"]
    if match:
        where.append("positionCaseInsensitive(entity, {match:String}) > 0")
    sql = (
        "SELECT entity, count() OVER () AS total FROM (SELECT DISTINCT tenant, cluster, "
        f"toString(arrayJoin([child, parent])) AS entity FROM leadline.{RELATION.name}) "
        f"WHERE {' AND '.join(where)} GROUP BY entity ORDER BY entity LIMIT {limit}"
    )
    parameters = asked.parameters(sql) | ({"match": match} if match else {})
    found = store.query(sql, parameters)
    total = int(found.column("total")[0].as_py()) if found.num_rows else 0
    return EntitiesAnswer(schema=SCHEMA_VERSION, entities=found.column("entity").to_pylist(), total=total)
