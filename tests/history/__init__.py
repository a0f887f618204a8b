"""Views, audits, replays, traces and reports of a run that a small driver makes in memory."""
