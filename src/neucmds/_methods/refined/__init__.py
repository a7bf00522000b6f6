"""Free coordinates: objectives, the descent, its starts, and gaps."""
