"""Which entities there are, what one measured, and all that its page shows."""
