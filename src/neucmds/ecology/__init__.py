"""Ordination tests, environmental fits, corrections and metadata."""
