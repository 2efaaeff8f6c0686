"""Jobs: their list, one job, and the series that its plots show."""
