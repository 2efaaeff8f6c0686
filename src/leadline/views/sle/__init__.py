"""How well expectations are met."""
