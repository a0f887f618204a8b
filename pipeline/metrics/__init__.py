"""The numbers that Prometheus may scrape: of the run from the monitor, of each process from itself."""
