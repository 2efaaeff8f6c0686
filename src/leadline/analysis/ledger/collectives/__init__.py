"""The ledger from arrival and end of collectives."""
