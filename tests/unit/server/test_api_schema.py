"""The running server against its own /openapi.json: no input makes a 5xx, and every answer is as documented."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.senders.running import RunningLeadline

from leadline.ingest.http import PATHS

EXAMPLES = 234  # for all operations together
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = [
    ("GET", "/"),
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/metrics"),
    ("GET", "/api/v1/entities"),
    ("GET", "/api/v1/clusters"),
    ("GET", "/api/v1/fleet"),
    ("GET", "/api/v1/doctor"),
    ("GET", "/api/v1/telemetry"),
    ("GET", "/api/v1/whatif"),
    ("GET", "/api/v1/mesh"),
    ("GET", "/api/v1/mesh/pair"),
    ("GET", "/api/v1/clock"),
    ("GET", "/api/v1/config"),
    ("GET", "/api/v1/tables"),
    ("GET", "/api/v1/tables/{table}"),
    ("GET", "/api/v1/series"),
    ("POST", "/api/v1/sql"),
    ("GET", "/api/v1/anomalies"),
    ("GET", "/api/v1/bundle"),
    ("GET", "/api/v1/replay"),
    ("GET", "/api/v1/graph"),
    ("GET", "/api/v1/path"),
    ("GET", "/api/v1/flows"),
    ("GET", "/api/v1/compare"),
    ("GET", "/api/v1/messages"),
    ("GET", "/api/v1/jobs"),
    ("GET", "/api/v1/jobs/{job}"),
    ("GET", "/api/v1/jobs/{job}/steps"),
    ("GET", "/api/v1/jobs/{job}/lateness"),
    ("GET", "/api/v1/jobs/{job}/collectives"),
    ("GET", "/api/v1/jobs/{job}/calls"),
    ("GET", "/api/v1/jobs/{job}/hardware"),
    ("GET", "/api/v1/jobs/{job}/trace"),
    ("GET", "/api/v1/overlays"),
    ("GET", "/api/v1/ledger"),
    ("GET", "/api/v1/failures"),
    ("GET", "/api/v1/sle"),
    ("GET", "/api/v1/sle/minutes"),
    ("GET", "/api/v1/expectations"),
    ("GET", "/api/v1/incidents"),
    ("GET", "/api/v1/incidents/{incident}"),
    ("GET", "/api/v1/incidents/{incident}/similar"),
    ("GET", "/api/v1/incidents/{incident}/explanation"),
    ("GET", "/api/v1/incidents/{incident}/report"),
    ("GET", "/api/v1/names"),
    ("GET", "/api/v1/now"),
    ("GET", "/api/v1/samples"),
    ("GET", "/api/v1/search"),
    ("GET", "/api/v1/entity"),
    ("GET", "/api/v1/explore"),
    ("GET", "/api/v1/senders"),
    ("GET", "/api/v1/diagnosis"),
    ("GET", "/api/v1/symptoms"),
    ("GET", "/api/v1/alerts"),
    ("POST", "/api/v1/marks"),
    ("GET", "/api/v1/marks"),
    ("GET", "/api/v1/rules"),
    ("GET", "/api/v1/analyses"),
    ("POST", "/api/v1/backfill"),
    ("POST", "/api/v1/freeze"),
    ("GET", "/api/v1/session"),
    ("POST", "/api/v1/session"),
    ("DELETE", "/api/v1/session"),
]
ENDLESS = [("GET", "/api/v1/changes")]  # a stream: tests/unit/server/test_changes.py
# Bodies that a schema cannot describe: tests/unit/ingest, tests/property.
WAYS_IN = [("POST", path.replace("TABLE", "{table}")) for path in PATHS]
# Most of what can go wrong is in the operations that take something.
SHARE = {"/api/v1/tables/{table}": 20, "/api/v1/series": 12, "/api/v1/sql": 12, "/api/v1/bundle": 8,
         "/api/v1/graph": 6, "/api/v1/path": 6, "/api/v1/flows": 6, "/api/v1/compare": 6, "/api/v1/messages": 6,
         "/api/v1/sle": 8, "/api/v1/incidents": 4, "/api/v1/incidents/{incident}": 4, "/api/v1/diagnosis": 6,
         "/api/v1/marks": 6, "/api/v1/samples": 6, "/api/v1/fleet": 6, "/api/v1/backfill": 6,
         "/api/v1/entity": 6, "/api/v1/explore": 6}  # fmt: skip


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    """With analyses, so that their end points have something to say."""
    with RunningLeadline(tmp_path_factory.mktemp("schema"), {"LEADLINE_RUNNER__ENABLED": "true"}) as server:
        yield server


@pytest.fixture(scope="module")
def schema(leadline: RunningLeadline) -> Any:
    return schemathesis.openapi.from_url(f"{leadline.url}/openapi.json")


def test_list_is_complete(schema: Any) -> None:
    found = [result.ok() for result in schema.get_all_operations()]
    assert sorted((each.method.upper(), each.path) for each in found) == sorted([*OPERATIONS, *ENDLESS, *WAYS_IN])
    assert sum(SHARE.get(path, 2) for _, path in OPERATIONS) == EXAMPLES


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[path for _, path in OPERATIONS])
def test_operation(schema: Any, method: str, path: str) -> None:
    operation = schema[path][method]

    @given(data=st.data())
    @settings(
        max_examples=SHARE.get(path, 2),
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def holds(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        if path == "/api/v1/tables/{table}" and data.draw(st.booleans()):
            case.path_parameters["table"] = data.draw(st.sampled_from(["event", "step", "series", "metric_sample"]))
        answer = case.call(headers={"host": "localhost"})
        case.validate_response(answer, checks=CHECKS)

    holds()
