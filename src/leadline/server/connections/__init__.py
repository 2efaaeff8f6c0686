"""Connections to the server: how many there may be, how long each may take, and who makes room when all are taken."""
