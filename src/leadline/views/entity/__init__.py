"""The page of one entity: what it is, what stands on it, what it measured beside its peers, what happened to it."""
