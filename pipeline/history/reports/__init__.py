"""A run, or several, as HTML files that need nothing else."""
