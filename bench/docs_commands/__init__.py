"""Whether the commands of README and docs do what the pages say: run where a test can, parsed where it cannot.

with serve.replayed(directory) as server:
    failures = run.failing([ROOT / "README.md"], server)
"""
