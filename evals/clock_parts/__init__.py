"""Parts of the clock's figures: a mesh that is followed step by step over simulated traces, and how far off it was."""
