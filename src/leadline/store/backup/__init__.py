"""A copy of the embedded store that is whole: taken while it runs, brought back into an empty one."""
