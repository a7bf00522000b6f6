"""Compare methods, diagnose D, measure quality, resample."""
