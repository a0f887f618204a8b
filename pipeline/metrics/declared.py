"""Every metric, declared once: name, kind, unit, meaning, labels. docs/metrics.md is made of this.

A counter's samples end in `_total`. Labels are bounded: by the run's configuration, by the vocabulary, or by a cap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Declared:
    """`served_by`: the monitor (numbers of the run, from its log), each other consumer (its own), or each scorer."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    served_by: Literal["monitor", "consumer", "scorer"] = "monitor"


def _gauge(name: str, unit: str, meaning: str, *labels: str) -> Declared:
    return Declared(name, "gauge", unit, meaning, labels)


def _counter(name: str, unit: str, meaning: str, *labels: str) -> Declared:
    return Declared(name, "counter", unit, meaning, labels)


def _own(name: str, kind: Kind, unit: str, meaning: str, *labels: str) -> Declared:
    return Declared(name, kind, unit, meaning, labels, "consumer")


def _of_scorer(name: str, kind: Kind, unit: str, meaning: str, *labels: str) -> Declared:
    return Declared(name, kind, unit, meaning, labels, "scorer")


METRICS: Final = (
    # how the run comes along
    _gauge("tamis_step", "steps", "Steps done."),
    _gauge("tamis_steps", "steps", "Steps that the run is to take."),
    _gauge("tamis_step_seconds", "seconds", "Median duration of the latest steps."),
    _gauge("tamis_policy_version", "version", "Version of the policy last trained."),
    _gauge("tamis_checkpoint_version", "version", "Version of the policy in the newest checkpoint."),
    _gauge("tamis_finished", "0 or 1", "1 once the run is finished."),
    _gauge("tamis_reward", "reward", "Mean reward of the groups judged since the last step."),
    _gauge("tamis_accuracy", "reward", "Mean reward of the last evaluation."),
    _gauge("tamis_staleness", "versions", "Mean staleness of the last batch."),
    _gauge("tamis_staleness_max", "versions", "Staleness of the oldest group in the last batch."),
    _gauge("tamis_learner", "any", "What the learner measured in the last step; its first 50 names.", "metric"),
    _counter("tamis_batches_skipped", "batches", "Steps without a batch.", "reason"),
    _counter("tamis_batches_returned", "batches", "Formed batches that were not trained on.", "reason"),
    _counter("tamis_starvation", "times", "Starvation raised.", "domain", "cause"),
    _counter("tamis_stage_failures", "failures", "Pieces of work that failed for good and end the run.", "stage"),
    # groups
    _gauge("tamis_groups_per_second", "groups/s", "Groups ended a second over the last 30 s."),
    _counter("tamis_groups_opened", "groups", "Training groups opened.", "domain"),
    _gauge("tamis_groups_open", "groups", "Training groups that wait for responses or a verdict.", "domain"),
    _gauge("tamis_straggler_age_seconds", "seconds", "Age of the oldest open training group; 0: none is open."),
    _gauge("tamis_assembly_seconds", "seconds", "From opening to completeness, all groups.", "domain", "quantile"),
    _counter("tamis_groups_accepted", "groups", "Groups that the filter kept.", "domain"),
    _counter("tamis_groups_kept_by_guard", "groups", "Of these, kept against a filter that rejects them.", "domain"),
    _counter("tamis_groups_rejected", "groups", "Groups rejected.", "domain", "category", "reason", "filter"),
    _counter("tamis_groups_deselected", "groups", "Accepted groups that selection left out.", "domain"),
    _counter("tamis_groups_expired", "groups", "Training groups ended unused.", "domain", "reason"),
    _counter("tamis_replacements", "prompts", "Prompts issued in answer to an ended group.", "domain"),
    _counter("tamis_replacements_waived", "groups", "Ended groups without a replacement.", "domain", "reason"),
    _gauge("tamis_groups_untrained", "groups", "Accepted groups in no trained batch: the lead in use.", "domain"),
    _gauge("tamis_lead", "groups", "Groups that the scheduler wants accepted and untrained at most; those "
           "that were open already may take the run beyond it.", "domain"),
    _gauge("tamis_guard", "groups", "What the guard remembers, by its own counters.", "domain", "counter"),
    _counter("tamis_shadow_groups", "groups", "What shadow filters said, by what was decided.",
             "domain", "shadow", "said", "decided"),
    _counter("tamis_field", "groups", "Counters by the names that the field has: scheduler/group_filter_count, "
             "rollout/dynamic_filter/drop_<reason>; at most 50 names of drops a domain.", "domain", "name"),
    # responses and payloads
    _counter("tamis_responses", "responses", "Training responses that did not fail, as members or discarded, copies "
             "left out.", "use"),
    _counter("tamis_response_tokens", "tokens", "Their tokens.", "use"),
    _counter("tamis_responses_discarded", "responses", "Responses not used, evaluations included.", "reason"),
    _counter("tamis_responses_graded", "responses", "Members of training groups with a verdict, by what is known of "
             "their worth: `ungraded` ones stand in by a verifier's policy `zero`, or by `assembly.count: any`.",
             "domain", "grading"),
    _counter("tamis_responses_failed", "responses", "Training responses, members or not, that came to nothing by this "
             "failure, or that nobody judged (`ungraded`).", "failure"),
    _gauge("tamis_payload_keys", "keys", "Payload keys of the run in Redis."),
    _gauge("tamis_payload_held_bytes", "bytes", "Payloads of accepted groups that no checkpoint covers."),
    _gauge("tamis_payload_budget_bytes", "bytes", "Most that payloads may take."),
    _gauge("tamis_redis_used_bytes", "bytes", "Memory that Redis uses."),
    _counter("tamis_payloads_dropped", "keys", "Payload keys dropped.", "reason"),
    # the log
    _counter("tamis_dead_letters", "records", "Records that couldn't be read.", "reason"),
    _gauge("tamis_lag_records", "records", "Records that a stage but the trainer has not handled.", "stage"),
    _gauge("tamis_snapshot_age_seconds", "seconds", "Age of the oldest of a stage's newest snapshots.", "stage"),
    _gauge("tamis_snapshot_bytes", "bytes", "Size of a stage's newest snapshots together.", "stage"),
    # of each consumer
    _own("tamis_transactions", "counter", "transactions", "Transactions committed.", "stage"),
    _own("tamis_transactions_aborted", "counter", "transactions", "Transactions that came to nothing.", "stage"),
    _own("tamis_transaction_seconds", "histogram", "seconds", "How long transactions were open.", "stage"),
    _own("tamis_records_handled", "counter", "records", "Records handled until the last commit.", "stage"),
    _own("tamis_records_written", "counter", "records", "Records written and committed.", "stage"),
    _own("tamis_restores", "counter", "times", "States rebuilt after an assignment.", "stage"),
    _own("tamis_restore_seconds", "gauge", "seconds", "How long the last of these took.", "stage"),
    # of a scorer
    _of_scorer("tamis_verifier_calls", "counter", "calls", "Calls of a verifier.", "verifier"),
    _of_scorer("tamis_verifier_responses", "counter", "responses", "Responses put to a verifier.", "verifier"),
    _of_scorer("tamis_verifier_failures", "counter", "responses", "Responses without a score, timeouts included.",
         "verifier"),
    _of_scorer("tamis_verifier_timeouts", "counter", "responses", "Responses that it took too long for.", "verifier"),
    _of_scorer("tamis_verifier_seconds", "counter", "seconds", "Seconds that its calls took, together.", "verifier"),
    _of_scorer("tamis_verifier_recent_responses", "gauge", "responses", "Put to it in the last 60 s.", "verifier"),
    _of_scorer("tamis_verifier_recent_failures", "gauge", "responses", "Of these, left without a score.", "verifier"),
    _of_scorer("tamis_verifier_recent_timeouts", "gauge", "responses", "Of these, for lack of time.", "verifier"),
    _of_scorer("tamis_verifier_latency_seconds", "gauge", "seconds", "Mean of its calls in the last 60 s.", "verifier"),
    _of_scorer("tamis_verifier_out", "gauge", "0 or 1", "1 while it leaves most responses without a score.",
               "verifier"),
)  # fmt: skip
DECLARED: Final = {metric.name: metric for metric in METRICS}
