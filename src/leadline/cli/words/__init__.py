"""Answers of the API in words, for several verbs."""
