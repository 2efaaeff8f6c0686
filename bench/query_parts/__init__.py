"""The parts of `bench.query`: the data, the questions in each language, and the page while it is written to."""
