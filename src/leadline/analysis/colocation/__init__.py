"""Which virtual hosts share a machine, by their clocks."""
