"""Looking back at a run, live or archived: view, audit, replay, trace and report. All of it reads, nothing writes."""
