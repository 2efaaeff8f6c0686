"""The parts of `bench.live`: what a simulated fleet sends, who sends it, and what it costs the server."""
