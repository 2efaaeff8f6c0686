"""The HTTP API, and the processes that `leadline up` runs."""
