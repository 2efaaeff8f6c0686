"""Event rings of ranks: format, writer, decoder of segments."""
