"""What runs in the server beside its requests: kept running whatever it raises, watched, and told of by `doctor`."""
