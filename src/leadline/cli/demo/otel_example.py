"""A small real program with the OpenTelemetry SDK, as `leadline up --demo` starts it.

It multiplies matrices once a second, and tells how long that took (histogram), how often (counter), how large its
memory is (gauge), and a log line for every tenth. Run it by hand: `python -m leadline.cli.demo.otel_example HOST:PORT`.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterable

import numpy as np
import psutil
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

SIZE = 256
EXPORT_EVERY_MS = 2000
RUN_S_MAX = 30 * 24 * 3600  # a month: it is no service


def main(endpoint: str) -> None:
    """Work and tell until stopped."""
    resource = Resource.create({"service.name": "matmul-example", "host.name": socket.gethostname()})
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint, insecure=True), export_interval_millis=EXPORT_EVERY_MS
    )
    meters = MeterProvider(resource=resource, metric_readers=[reader])
    loggers = LoggerProvider(resource=resource)
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(endpoint, insecure=True)))
    meter, logger = meters.get_meter("example"), loggers.get_logger("example")

    duration = meter.create_histogram("example.matmul.duration", unit="s", description="One multiplication.")
    done = meter.create_counter("example.matmul.count", unit="1", description="Multiplications done.")
    process = psutil.Process()

    def memory(_: CallbackOptions) -> Iterable[Observation]:
        return [Observation(process.memory_info().rss)]

    meter.create_observable_gauge("process.memory.usage", [memory], unit="By", description="Resident memory.")

    matrix = np.random.default_rng(0).standard_normal((SIZE, SIZE))
    end = time.monotonic() + RUN_S_MAX
    count = 0
    while time.monotonic() < end:
        began = time.perf_counter()
        np.linalg.matrix_power(matrix, 2)
        duration.record(time.perf_counter() - began)
        done.add(1)
        count += 1
        if count % 10 == 1:
            logger.emit(
                severity_number=SeverityNumber.INFO,
                body=f"{count} multiplications done",
                attributes={"example.count": count},
            )
        time.sleep(1.0)


if __name__ == "__main__":
    main(sys.argv[1])
