"""One module a file format: text (CSV, TSV, lsmat), PHYLIP, npy, npz and parquet."""
