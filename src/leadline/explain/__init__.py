"""The explanation of an incident by a language model, checked against facts."""
