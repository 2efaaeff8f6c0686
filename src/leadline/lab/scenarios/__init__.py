"""Scenarios: topology, workloads and faults on a time line. To add one: a YAML file in this folder."""
