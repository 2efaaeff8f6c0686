"""Answers to questions about what is stored, by subject: rows in, plain data out. `server/routes` serves them."""
