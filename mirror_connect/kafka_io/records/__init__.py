"""Record batches as bytes: read, checked, cut, merged, built; no I/O."""
