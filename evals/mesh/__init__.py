"""The probe mesh against simulated truth: which hosts share a machine, which link or card is bad."""
