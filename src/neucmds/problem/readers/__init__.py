"""Read files: text (CSV, TSV, lsmat), PHYLIP, npy and npz."""
