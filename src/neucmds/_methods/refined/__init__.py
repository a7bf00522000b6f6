"""Coordinates set free: objectives, the descent, where it starts, and what to do about gaps."""
