"""Which way flows go: hops from partial samples, whose flows they are, and how much they carry."""
