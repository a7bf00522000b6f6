"""The operator B = −½CDC, which is never formed: dense, of features, on a cluster."""
