"""What `--help` shows besides what typer makes of a verb: its examples."""
