"""Many objects: landmarks, near landmarks and sampled pairs."""
