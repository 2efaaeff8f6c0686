"""Ways in: listen, decode, check, append, acknowledge. Owns back-pressure."""
