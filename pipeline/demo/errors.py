"""Why a demo can't go on."""


class DemoFailed(Exception):
    """The text says what happened, and what to do."""


class ProcessFailed(DemoFailed):
    """A consumer ended for good; the text has the end of its log."""
