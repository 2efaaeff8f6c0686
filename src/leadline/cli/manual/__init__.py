"""The command line as data, and what is made of it: man pages and the completion of shells."""
