"""`leadline diagnose`: of a running server, or of a recording."""
