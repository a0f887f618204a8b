"""Kafka and Redis on this machine, for the demo and the tests: found, started, stopped, killed, frozen."""

from .errors import LocalServicesError
from .kafka_broker import LocalKafka
from .redis_server import LocalRedis
from .services import Services, Started, down, ensure, status

__all__ = ["LocalKafka", "LocalRedis", "LocalServicesError", "Services", "Started", "down", "ensure", "status"]
