"""A topology made real: network namespaces as hosts and switches, veth pairs as cables. Needs root."""
