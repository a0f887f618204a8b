"""What can go wrong while Kafka and Redis are brought up."""


class LocalServicesError(Exception):
    """Kafka or Redis is not there and can't be started; the text says why and what to do."""
