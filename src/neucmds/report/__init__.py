"""One page to look at: what D is like, the embedding, and how far to trust it."""
