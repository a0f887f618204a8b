"""The settings of a one-node broker that Tamis can rely on, on the local JVM and in Docker alike."""

MESSAGE_MAX_BYTES = 16 * 1024 * 1024


def broker_settings(listeners: str, advertised: str, voter: str, log_dir: str) -> dict[str, str]:
    """KRaft, broker and controller in one. The broker talks to itself on INTERNAL, so that transaction markers reach
    it whatever address the clients use."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": listeners,
        "advertised.listeners": advertised,
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{voter}",
        "log.dirs": log_dir,
        **_ONE_NODE,
        **_CONTRACT,
        **_SMALL,
    }


_ONE_NODE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a crash the old session must expire before the broker may come back.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}

# What the pipeline's promises rest on: an event-sourced log forgets nothing, and offsets least of all.
_CONTRACT = {
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.bytes": "-1",
    "offsets.retention.minutes": "2147483647",
    "message.max.bytes": str(MESSAGE_MAX_BYTES),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.min.session.timeout.ms": "1000",
}

_SMALL = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.segment.bytes": str(256 * 1024 * 1024),
    "log.index.size.max.bytes": str(1024 * 1024),
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
}
