"""What of a suite stands in files? Cases, finished trials, cassettes."""
