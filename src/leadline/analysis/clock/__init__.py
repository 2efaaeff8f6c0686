"""One time for all hosts: lines through probe delays, the mesh of them, and the filter that lives on it."""
