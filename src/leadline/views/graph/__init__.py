"""What a job stands on."""
