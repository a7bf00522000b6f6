"""What is known: any input becomes dense dissimilarities or listed pairs, checked once."""
