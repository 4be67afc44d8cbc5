"""WHERE: what changed between domains, and which edges there are, from recordings alone."""
