"""Many runs of the lab with their truth: faults x magnitudes x workloads x seeds, each one bundle.

`plan` says which cells there are and writes the scenario of each, `journal` remembers what is done and what is left,
`report` shows for each fault the raw signal that proves that it happened. Who runs a cell is `leadline lab matrix`.
"""
