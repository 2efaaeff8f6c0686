"""`leadline show ...`: what the store holds, and what was concluded from it."""
