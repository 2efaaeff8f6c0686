"""The probe mesh, as the server keeps it: who takes part, and whom each host probes."""
