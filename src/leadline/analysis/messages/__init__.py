"""Messages: the two ends of each transfer joined, and what collectives waited for, by edge."""
