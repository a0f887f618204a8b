"""What can go wrong while Kafka and Redis are brought up."""


class LocalServicesError(Exception):
    """Kafka or Redis is not there and can't be started; the text says why and what to do."""

    exit_code = 2


class NothingListens(LocalServicesError):
    """An address that was given accepts no connection."""

    exit_code = 3
