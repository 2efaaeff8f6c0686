"""Rows and sites for tests, built by subject: a job, a fabric, a fault, a verdict."""
