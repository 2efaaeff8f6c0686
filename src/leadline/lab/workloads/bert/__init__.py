"""The `bert` workload: masked language modelling."""
