"""Words: ids, units, tables, counters, errors. Standard library only; imported by every layer."""
