"""Pictures as SVG files: what `--svg` of the show verbs writes."""
