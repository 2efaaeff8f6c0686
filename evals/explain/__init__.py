"""How often the ranking, a language model, and both where they agree are right about a cause."""
