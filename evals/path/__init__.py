"""Parts of `evals.paths`: cases, what is true of them, what was said, scores."""
