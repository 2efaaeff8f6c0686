"""One time for all hosts: lines through probe delays of each edge, the mesh of edges, and the filter that lives on it."""
