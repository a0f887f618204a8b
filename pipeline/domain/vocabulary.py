"""The closed sets of words that events use. Avro enums, JSON, the command line and metrics all use these names."""

from enum import StrEnum


class Purpose(StrEnum):
    TRAIN = "train"
    EVAL = "eval"


class Grading(StrEnum):
    """What is known of a response's worth. A reward of 0 means wrong; it never means `ungraded`."""

    GRADED = "graded"
    UNGRADED = "ungraded"
    FAILED = "failed"


class Failure(StrEnum):
    """Why a response came to nothing."""

    TIMEOUT = "timeout"
    ENV_FAILED = "env_failed"
    ABORTED = "aborted"
    EMPTY = "empty"
    TOO_LONG = "too_long"
    PAYLOAD_EXPIRED = "payload_expired"


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


class DiscardReason(StrEnum):
    """Why one response won't be a member of its group."""

    LATE = "late"
    DUPLICATE = "duplicate"
    FILTERED = "filtered"
    FAILED = "failed"
    UNKNOWN_GROUP = "unknown_group"


class Category(StrEnum):
    INVALID = "invalid"
    LOW_INFORMATION = "low_information"
    SYSTEM = "system"


class Reason(StrEnum):
    """Why a group was rejected. The category is in `CATEGORY_OF`."""

    TIMEOUT = "timeout"
    ENV_FAILED = "env_failed"
    FORMAT = "format"
    EMPTY = "empty"
    UNGRADED = "ungraded"
    NON_FINITE_REWARD = "non_finite_reward"
    RESPONSE_RETRIES_EXHAUSTED = "response_retries_exhausted"
    PROVENANCE = "provenance"
    ABORTED = "aborted"
    FILTER_ERROR = "filter_error"
    ZERO_STD = "zero_std"
    INSUFFICIENT_FINISHED_RESPONSES = "insufficient_finished_responses"
    STD = "std"
    MEAN_LOW = "mean_low"
    MEAN_HIGH = "mean_high"
    BAND = "band"
    DROP_FLAG = "drop_flag"
    CUSTOM = "custom"
    DEADLINE = "deadline"
    UNDECODABLE = "undecodable"


_LOW = {
    Reason.ZERO_STD,
    Reason.INSUFFICIENT_FINISHED_RESPONSES,
    Reason.STD,
    Reason.MEAN_LOW,
    Reason.MEAN_HIGH,
    Reason.BAND,
    Reason.CUSTOM,
}
_SYSTEM = {Reason.DEADLINE, Reason.UNDECODABLE}


def category_of(reason: Reason) -> Category:
    """Whether a rejection says that the group was broken, taught nothing, or fell to the machinery."""
    if reason in _SYSTEM:
        return Category.SYSTEM
    return Category.LOW_INFORMATION if reason in _LOW else Category.INVALID


class ConstantClass(StrEnum):
    """What all members of a constant group have in common."""

    ALL_ZERO = "all_zero"
    ALL_MAX = "all_max"
    CONSTANT = "constant"


class ExpiryReason(StrEnum):
    STALE = "stale"
    PAYLOAD_MISSING = "payload_missing"
    RUN_OVER = "run_over"


class WaiverReason(StrEnum):
    """Why an ended group gets no replacement."""

    SURPLUS = "surplus"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    SOURCE_EXHAUSTED = "source_exhausted"
    RUN_COMPLETE = "run_complete"


class ShortReason(StrEnum):
    """Why a batch has fewer groups than its quotas ask for."""

    STARVATION = "starvation"
    SOURCE_EXHAUSTED = "source_exhausted"
    PAYLOADS_LOST = "payloads_lost"
    SELECTION = "selection"


class SkipReason(StrEnum):
    EMPTY_AFTER_FILTER = "empty_after_filter"
    NOTHING_ACCEPTED = "nothing_accepted"


class ReturnReason(StrEnum):
    """Why a formed batch was not trained on."""

    LOST = "lost"
    RUN_OVER = "run_over"
    FAILED = "failed"


class StarvationCause(StrEnum):
    REJECTIONS_IN_A_ROW = "rejections_in_a_row"
    LOW_ACCEPTANCE = "low_acceptance"
    NO_PROGRESS = "no_progress"
    SOURCE_EXHAUSTED = "source_exhausted"
    EMPTY_SELECTIONS = "empty_selections"
    REWARD_VARIANCE_COLLAPSE = "reward_variance_collapse"


class StarvationPolicy(StrEnum):
    RAISE = "raise"
    WAIT = "wait"
    SHORT_BATCH = "short_batch"


class Outcome(StrEnum):
    """How a run ended."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    STARVED = "starved"
    FAILED = "failed"


class SkippedPrompt(StrEnum):
    TOO_LONG = "too_long"
    INVALID = "invalid"


class DropReason(StrEnum):
    """What ended the life of payloads."""

    DISCARDED = "discarded"
    REJECTED = "rejected"
    DESELECTED = "deselected"
    EXPIRED = "expired"
    EVALUATED = "evaluated"
    TRAINED = "trained"
    SWEPT = "swept"


class DeadLetterReason(StrEnum):
    NULL_VALUE = "null_value"
    EMPTY_VALUE = "empty_value"
    NO_MARKER = "no_marker"
    TRUNCATED = "truncated"
    TRAILING_BYTES = "trailing_bytes"
    BAD_TEXT = "bad_text"
    NEGATIVE_LENGTH = "negative_length"
    WRONG_TYPE = "wrong_type"
    WRONG_TOPIC = "wrong_topic"
    WRONG_PARTITION = "wrong_partition"
