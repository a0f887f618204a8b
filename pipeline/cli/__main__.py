"""`python -m pipeline.cli` is `tamis`."""

from pipeline.cli import main

main()
