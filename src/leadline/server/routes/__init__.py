"""The end points of the API, a file for each subject: who asks for what, and the view that answers."""
