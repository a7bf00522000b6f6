"""Read files: text (CSV, TSV, lsmat), PHYLIP, npy, npz and parquet."""
