"""One clock for all hosts, from probes between them."""
