"""One search over whatever has a name: entities, incidents, metrics, expectations, rules."""
