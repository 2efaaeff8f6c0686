"""The description of the API, and the page that shows it to people."""
