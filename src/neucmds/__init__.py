"""Dissimilarities in, coordinates with a signature out."""

__version__ = "0.1.0"
