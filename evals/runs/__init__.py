"""Parts of `evals.lab` and `evals.quiet`: recorded runs judged as in production, their truth, scores."""
