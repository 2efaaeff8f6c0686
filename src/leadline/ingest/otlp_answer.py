"""OTLP's answers: everything taken, or a partial success that says how much was refused and why."""

from __future__ import annotations

import json

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from leadline.ingest.intake import Receipt


def protobuf_answer(path: str, receipt: Receipt) -> bytes:
    """ExportMetricsServiceResponse or ExportLogsServiceResponse, serialised."""
    if path.endswith("logs"):
        return bytes(ExportLogsServiceResponse().SerializeToString())
    answer = ExportMetricsServiceResponse()
    if receipt.wrong:
        answer.partial_success.rejected_data_points = receipt.wrong
        answer.partial_success.error_message = "; ".join(receipt.messages[:3])
    return bytes(answer.SerializeToString())


def json_answer(path: str, receipt: Receipt) -> bytes:
    """The same in OTLP/JSON."""
    if path.endswith("logs") or not receipt.wrong:
        return b"{}\n"
    partial = {"rejectedDataPoints": str(receipt.wrong), "errorMessage": "; ".join(receipt.messages[:3])}
    return json.dumps({"partialSuccess": partial}).encode() + b"\n"
