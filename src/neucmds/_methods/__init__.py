"""From a spectrum to coordinates: which pairs, which weights, and coordinates set free."""
