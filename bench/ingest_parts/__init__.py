"""The parts of `bench.ingest`: what is sent, and what it costs the system that takes it."""
