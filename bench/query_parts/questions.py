"""The questions, each in the language of each system, and answers as one shape, so that they can be compared.

An answer is a mapping: a row's labels, minute or quantile to its value. Each question is asked as the system's own
manual has it, of the interface that its users have: `POST /api/v1/sql` of Leadline, `/api/v1/query` and
`/api/v1/query_range` of the others. Nobody compresses answers, and VictoriaMetrics is told not to answer from what it
remembers (`nocache`), as nobody else does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPConnection
from time import perf_counter
from typing import Any
from urllib.parse import urlencode

from bench.peers import Peer
from bench.query_parts.data import DAY_MINUTES, HOUR_S, MINUTE_NS, Data
from leadline.model.units import S

GAUGE, COUNTER = "DCGM_FI_DEV_GPU_UTIL", "node_network_receive_bytes_total"
GPUS = 8  # of a host: streams that a metric has there
RATE_S = 300
LOOK_BACK_S = 300  # how old a last value may be: Prometheus' own look-back
QUANTILES = (0.5, 0.99)
TOP = 10
ANSWER_S_MAX = 120.0
# Sums of 2,000 values in another order differ in their last digits, and Prometheus extrapolates rates.
RELATIVE = 1e-9

Answer = Mapping[Hashable, float]


@dataclass(frozen=True, slots=True)
class Question:
    """One question. `rows`: values that its answer has. `promql`, `metricsql`: expression; `span_ns`: the first and
    last minute of a range, or the one time of an instant."""

    name: str
    rows: int
    sql: str
    promql: str
    span_ns: tuple[int, int]
    of_sql: Callable[[Mapping[str, Any]], list[tuple[Hashable, float]]]
    of_series: Callable[[Mapping[str, str], float], Hashable]
    metricsql: str = ""

    def requests(self, peer: Peer) -> tuple[str, str, bytes, dict[str, str]]:
        """Method, path, body and headers that ask it."""
        if peer.name == "leadline":
            body = json.dumps({"sql": self.sql}).encode()
            return "POST", "/api/v1/sql", body, {"content-type": "application/json"}
        first, last = (at // S for at in self.span_ns)
        victoria = peer.name == "victoriametrics"
        asked: dict[str, Any] = {"query": self.metricsql if victoria and self.metricsql else self.promql}
        asked |= {"time": last} if first == last else {"start": first, "end": last, "step": MINUTE_NS // S}
        asked |= {"nocache": 1} if victoria else {}
        path = "/api/v1/query" if first == last else "/api/v1/query_range"
        return "GET", f"{path}?{urlencode(asked)}", b"", {}

    def answer(self, peer: Peer, body: bytes) -> Answer:
        """What a body says. Errors: ValueError if it names something twice."""
        told = json.loads(body)
        pairs: list[tuple[Hashable, float]] = []
        if peer.name == "leadline":
            pairs = [pair for row in told["rows"] for pair in self.of_sql(row)]
        else:
            for one in told["data"]["result"]:
                values = one["values"] if "values" in one else [one["value"]]
                pairs += [(self.of_series(one["metric"], at_s), float(value)) for at_s, value in values]
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(f"{peer.name} answers {self.name} twice for the same")
        return found


def questions(data: Data) -> list[Question]:
    """All of them, about these data."""
    begin_ns, end_ns = data.ends_ns - HOUR_S * S, data.ends_ns
    minutes = (begin_ns + MINUTE_NS, end_ns)
    hour = f"m.time_ns > {begin_ns} AND m.time_ns <= {end_ns}"
    streams = data.hosts * GPUS
    of_hour = f"metric_sample AS m WHERE m.series IN (SELECT series FROM series WHERE name = '{GAUGE}') AND {hour}"
    minute = "toStartOfMinute(fromUnixTimestamp64Nano(m.time_ns)) AS minute"
    by_host = f"avg by (instance) (avg_over_time({GAUGE}[1m]))"
    day = data.day_labels
    day_from_ns = data.day_ends_ns - DAY_MINUTES * MINUTE_NS
    return [
        Question(
            "last_value", streams,
            "SELECT s.labels AS labels, n.newest AS newest FROM ("
            "SELECT series, argMax(value, time_ns) AS newest FROM metric_sample "
            f"WHERE series IN (SELECT series FROM series WHERE name = '{GAUGE}') "
            f"AND time_ns > {end_ns - LOOK_BACK_S * S} AND time_ns <= {end_ns} GROUP BY series"
            ") AS n JOIN series AS s USING (series)",
            GAUGE, (end_ns, end_ns),
            lambda row: [(_labels(row["labels"]), row["newest"])], lambda labels, _: _labels(labels),
        ),
        Question(
            "average_by_minute", HOUR_S // 60,
            f"SELECT {minute}, avg(m.value) AS mean FROM {of_hour} GROUP BY minute ORDER BY minute",
            f"avg(avg_over_time({GAUGE}[1m]))", minutes,
            lambda row: [(_minute(row), row["mean"])], lambda _, at_s: at_s,
        ),
        Question(
            "quantiles_by_minute", HOUR_S // 60 * len(QUANTILES),
            f"SELECT minute, quantiles({', '.join(map(str, QUANTILES))})(mean) AS q FROM ("
            f"SELECT {minute}, s.host AS host, avg(m.value) AS mean FROM metric_sample AS m "
            f"JOIN (SELECT series, labels['instance'] AS host FROM series WHERE name = '{GAUGE}') AS s USING (series) "
            f"WHERE m.series IN (SELECT series FROM series WHERE name = '{GAUGE}') AND {hour} GROUP BY minute, host"
            ") GROUP BY minute ORDER BY minute",
            " or ".join(f'label_replace(quantile({q}, {by_host}), "phi", "{q}", "", "")' for q in QUANTILES), minutes,
            lambda row: [((q, _minute(row)), value) for q, value in zip(QUANTILES, row["q"], strict=True)],
            lambda labels, at_s: (float(labels["phi"]), at_s),
            metricsql=f'quantiles("phi", {", ".join(map(str, QUANTILES))}, {by_host})',
        ),
        Question(
            "top_ten_by_rate", TOP,
            "SELECT s.labels AS labels, r.rate AS rate FROM ("
            "SELECT series, deltaSumTimestamp(value, time_ns) / ((max(time_ns) - min(time_ns)) / 1e9) AS rate "
            f"FROM metric_sample WHERE series IN (SELECT series FROM series WHERE name = '{COUNTER}') "
            f"AND time_ns > {end_ns - RATE_S * S} AND time_ns <= {end_ns} GROUP BY series "
            f"ORDER BY rate DESC LIMIT {TOP}) AS r JOIN series AS s USING (series)",
            f"topk({TOP}, rate({COUNTER}[{RATE_S}s]))", (end_ns, end_ns),
            lambda row: [(_labels(row["labels"]), row["rate"])], lambda labels, _: _labels(labels),
            # Its own rate() counts from the sample before the span on; this one as Prometheus does.
            metricsql=f"topk({TOP}, increase_prometheus({COUNTER}[{RATE_S}s]) / {RATE_S - 15})",
        ),
        Question(
            "single_series", DAY_MINUTES,
            "SELECT m.time_ns AS time_ns, m.value AS value FROM metric_sample AS m WHERE m.series IN ("
            f"SELECT series FROM series WHERE name = '{GAUGE}' AND labels['UUID'] = '{day['UUID']}') "
            f"AND m.time_ns > {day_from_ns} AND m.time_ns <= {data.day_ends_ns} ORDER BY time_ns",
            f'{GAUGE}{{UUID="{day["UUID"]}"}}', (day_from_ns + MINUTE_NS, data.day_ends_ns),
            lambda row: [(-(-row["time_ns"] // MINUTE_NS) * 60, row["value"])], lambda _, at_s: at_s,
        ),
    ]  # fmt: skip


class Asker:
    """One connection to one system."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._connection = HTTPConnection("127.0.0.1", peer.port, timeout=ANSWER_S_MAX)

    def ask(self, question: Question) -> tuple[float, bytes]:
        """Seconds until all of the answer is here, and its body. Errors: RuntimeError for a refusal."""
        method, path, body, headers = question.requests(self.peer)
        began = perf_counter()
        self._connection.request(method, path, body or None, headers)
        answer = self._connection.getresponse()
        text = answer.read()
        took_s = perf_counter() - began
        if answer.status != 200:
            raise RuntimeError(f"{self.peer.name} refused {question.name}: {answer.status} {text[:500]!r}")
        return took_s, text

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def differences(question: Question, answers: Mapping[str, Answer]) -> str:
    """How answers differ from what they must be: as many values as the data have, and the same of all; empty if not."""
    for name, answer in answers.items():
        if len(answer) != question.rows:
            return f"{name} answers {question.name} with {len(answer)} values; the data have {question.rows}"
    (first, ours), *others = answers.items()
    for name, theirs in others:
        if odd := sorted(map(repr, ours.keys() ^ theirs.keys())):
            return f"{name} and {first} answer {question.name} of different things, such as {odd[0]}"
        for key, value in ours.items():
            if not math.isclose(value, theirs[key], rel_tol=RELATIVE, abs_tol=RELATIVE):
                return f"{name} answers {question.name} of {key!r} with {theirs[key]!r}, {first} with {value!r}"
    return ""


def _labels(labels: Mapping[str, str]) -> Hashable:
    """Without the metric's name, which a rate has not."""
    return frozenset((name, value) for name, value in labels.items() if name != "__name__")


def _minute(row: Mapping[str, Any]) -> float:
    """When a row's minute ends, in seconds: Prometheus names a span by its end."""
    return datetime.fromisoformat(row["minute"]).timestamp() + MINUTE_NS // S
