"""One file per process. Reading this folder tells what runs."""
