"""OpenTelemetry metrics and logs."""
