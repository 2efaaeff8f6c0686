"""The running server against its own /openapi.json: no input makes a 5xx, every answer is as documented, and what the
document does not allow is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Response
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.senders.running import RunningLeadline

from leadline.ingest.http import PATHS

EXAMPLES = 242  # for all operations together
WRONG_EXAMPLES = 4  # of input that the document does not allow, for each operation that takes any
BODIES = 12  # for each way in and type of content
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
    response_headers_conformance, allow_header_conformance,
]  # fmt: skip
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
    ("GET", "/api/v1/mesh/hosts"),
    ("GET", "/api/v1/mesh/host"),
    ("GET", "/api/v1/mesh/flows"),
    ("GET", "/api/v1/clock"),
    ("POST", "/api/v1/mesh/members"),
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
# They take nothing, so nothing can be wrong with it.
TAKE_NOTHING = {
    "/", "/health", "/ready", "/metrics", "/api/v1/alerts", "/api/v1/analyses", "/api/v1/clusters", "/api/v1/config",
    "/api/v1/doctor", "/api/v1/replay", "/api/v1/senders", "/api/v1/tables",
}  # fmt: skip
TAKING = [each for each in OPERATIONS if each[1] not in TAKE_NOTHING and each not in (
    ("GET", "/api/v1/session"), ("DELETE", "/api/v1/session"))]  # fmt: skip
# Bodies that a schema cannot describe: also tests/unit/ingest, tests/property, tests/fuzz.
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
    # The document is made at the first question, on a machine that compiles beside it: ten seconds were too few once.
    return schemathesis.openapi.from_url(f"{leadline.url}/openapi.json", timeout=100)


def test_list_is_complete(schema: Any) -> None:
    found = [result.ok() for result in schema.get_all_operations()]
    assert sorted((each.method.upper(), each.path) for each in found) == sorted([*OPERATIONS, *ENDLESS, *WAYS_IN])
    assert sum(SHARE.get(path, 2) for _, path in OPERATIONS) == EXAMPLES


def examples(count: int) -> settings:
    """So many examples, the same at every run."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[path for _, path in OPERATIONS])
def test_operation(schema: Any, method: str, path: str) -> None:
    operation = schema[path][method]

    @given(data=st.data())
    @examples(SHARE.get(path, 2))
    def holds(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        if path == "/api/v1/tables/{table}" and data.draw(st.booleans()):
            case.path_parameters["table"] = data.draw(st.sampled_from(["event", "step", "series", "metric_sample"]))
        answer = case.call(headers={"host": "localhost"})
        case.validate_response(answer, checks=CHECKS)

    holds()


@pytest.mark.parametrize(("method", "path"), TAKING, ids=[f"{method}-{path}" for method, path in TAKING])
def test_what_the_document_does_not_allow_is_refused(schema: Any, method: str, path: str) -> None:
    operation = schema[path][method]
    statuses = []

    @given(data=st.data())
    @examples(WRONG_EXAMPLES)
    def holds(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
        answer = case.call(headers={"host": "localhost"})
        statuses.append(answer.status_code)
        case.validate_response(answer, checks=[*CHECKS, negative_data_rejection])

    holds()
    assert statuses


def test_a_method_that_is_not_documented_is_refused(leadline: RunningLeadline, schema: Any) -> None:
    paths: dict[str, dict[str, Any]] = schema.raw_schema["paths"]
    with httpx.Client(base_url=leadline.url, trust_env=False) as client:
        for path, item in paths.items():
            for method in {"get", "put", "patch", "delete"} - item.keys():
                answer = client.request(method, re.sub(r"\{.*?\}", "a", path))
                assert answer.status_code == 405, (method, path)
                allowed = {each.strip().lower() for each in answer.headers["allow"].split(",")}
                assert allowed - {"head", "options"} == item.keys(), (method, path)
                assert answer.json()["error"].keys() == {"reason", "message"}


@pytest.mark.parametrize("path", [path for _, path in WAYS_IN])
def test_a_way_in_answers_any_bytes_as_documented(leadline: RunningLeadline, schema: Any, path: str) -> None:
    described = schema.raw_schema["paths"][path]["post"]
    operation = schema[path]["POST"]
    problem = {"error": {"reason", "message"}}

    @given(body=st.binary(max_size=80), table=st.sampled_from(["event", "step", "no-table", "ledger"]))
    @examples(BODIES)
    def holds(content_type: str, body: bytes, table: str) -> None:
        headers = {"content-type": content_type}
        answer = client.post(path.replace("{table}", table), content=body, headers=headers)
        assert str(answer.status_code) in described["responses"], (answer.status_code, answer.text)
        assert answer.status_code < 500, answer.text
        if answer.headers.get("content-type", "").startswith("application/json"):
            operation.validate_response(Response.from_any(answer))
        if answer.status_code >= 400 and not path.startswith("/v1/"):  # OTLP has a form of its own
            assert {name: set(inner) for name, inner in answer.json().items()} == problem

    with httpx.Client(base_url=leadline.url, trust_env=False) as client:
        for content_type in (*described["requestBody"]["content"], "text/plain"):
            holds(content_type)
