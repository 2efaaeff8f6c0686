"""What failed: one row for each thing that stopped a job or took a part out of service, until it was back."""
