"""Bytes to columns, without sockets, clocks or state. Any bytes decode or raise `DataError`."""
