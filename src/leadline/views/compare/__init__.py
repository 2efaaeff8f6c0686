"""Two runs or hosts side by side."""
