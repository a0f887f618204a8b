"""Faults that somebody could have made, each as one replacement in one file. The simulator must find every one."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """`old` stands in the file exactly once. `config`: a configuration that shows it."""

    name: str
    file: str
    old: str
    new: str
    config: str = "drawn"


DOMAIN = "pipeline/domain/"
SHELL = "tests/simulator/"

MUTANTS = (
    Mutant(
        "replacement_skipped",
        DOMAIN + "scheduling.py",
        "yield from self._answer(state, event.group_id, group, self.rules.replacement, event.at)",
        "yield from ()",
    ),
    Mutant(
        "expired_group_answered_twice",
        DOMAIN + "scheduling.py",
        "            yield from self._answer(state, event.group_id, group, self.rules.expired_replacement, event.at)\n",
        "            yield from self._answer(state, event.group_id, group, self.rules.expired_replacement, event.at)\n"
        "            yield from self._answer(state, event.group_id, group, self.rules.expired_replacement, event.at)\n",
    ),
    Mutant(
        "expired_answered_by_the_wrong_policy",
        DOMAIN + "scheduling.py",
        "yield from self._answer(state, event.group_id, group, self.rules.expired_replacement, event.at)",
        "yield from self._answer(state, event.group_id, group, self.rules.replacement, event.at)",
    ),
    Mutant(
        "rejected_answered_by_the_wrong_policy",
        DOMAIN + "scheduling.py",
        "yield from self._answer(state, event.group_id, group, self.rules.replacement, event.at)",
        "yield from self._answer(state, event.group_id, group, self.rules.expired_replacement, event.at)",
    ),
    Mutant(
        "attempt_limit_off_by_one",
        DOMAIN + "scheduling.py",
        "group.attempt >= self.rules.max_attempts:",
        "group.attempt > self.rules.max_attempts:",
    ),
    Mutant(
        "attempts_exhausted_one_too_early",
        DOMAIN + "scheduling.py",
        "group.attempt >= self.rules.max_attempts:",
        "group.attempt >= self.rules.max_attempts - 1:",
    ),
    Mutant(
        "run_complete_called_surplus",
        DOMAIN + "scheduling.py",
        "return WaiverReason.RUN_COMPLETE",
        "return WaiverReason.SURPLUS",
    ),
    Mutant(
        "new_seed_keeps_the_seed",
        DOMAIN + "issuing.py",
        "seed_of(rules.seed, n)",
        "seed_of(rules.seed, int(root.split('@')[0]))",
    ),
    Mutant(
        "solved_prompt_issued_again",
        DOMAIN + "issuing.py",
        "if (rate := share.solved.get(drawn.ref.id)) is not None:",
        "if (rate := None) is not None:",
        "answered_by_next_prompt",
    ),
    Mutant(
        "solved_at_a_lower_rate",
        DOMAIN + "issuing.py",
        "rate is None or not rate >= least:",
        "rate is None or not rate >= least / 2:",
        "answered_by_next_prompt",
    ),
    Mutant(
        "starved_one_rejection_late",
        DOMAIN + "starvation.py",
        "share.rejected_in_a_row >= rules.rejections_in_a_row:",
        "share.rejected_in_a_row > rules.rejections_in_a_row:",
    ),
    Mutant(
        "who_waits_is_ended",
        DOMAIN + "scheduling.py",
        "if policy is StarvationPolicy.RAISE:",
        "if policy is not StarvationPolicy.SHORT_BATCH:",
        "starved_waits",
    ),
    Mutant(
        "outage_called_lack_of_signal",
        DOMAIN + "filters/unknown.py",
        "if len(known) == len(members):",
        "if True:",
        "outage_zero",
    ),
    Mutant(
        "one_group_over_the_lead",
        DOMAIN + "issuing.py",
        "if share.open >= open_target(missing, share.acceptance, rules.oversample_max):",
        "if share.open > open_target(missing, share.acceptance, rules.oversample_max):",
    ),
    Mutant(
        "formed_groups_left_out_of_the_lead",
        DOMAIN + "issuing.py",
        "self._left(state, domain)) - share.pool - share.formed",
        "self._left(state, domain)) - share.pool",
    ),
    Mutant(
        "training_before_the_first_evaluation",
        DOMAIN + "scheduling.py",
        "elif not (state.evaluations and state.evaluations[0].step == 0):",
        "else:",
    ),
    Mutant(
        "late_response_counted",
        DOMAIN + "assembly.py",
        "if slot is None or event.round != slot.round or slot.state is SlotState.ANSWERED:",
        "if slot is None:",
    ),
    Mutant(
        "group_closed_twice",
        DOMAIN + "assembly.py",
        "            yield Output(Topic.PROMPTS, state.partition, e.GroupClosed(group.opened.group_id, at))\n",
        "            yield Output(Topic.PROMPTS, state.partition, e.GroupClosed(group.opened.group_id, at))\n"
        "            yield Output(Topic.PROMPTS, state.partition, e.GroupClosed(group.opened.group_id, at))\n",
    ),
    Mutant(
        "one_response_asked_too_many",
        DOMAIN + "assembly.py",
        "else self.rules.assembly.max_rounds)[:missing]",
        "else self.rules.assembly.max_rounds)[: missing + 1]",
    ),
    Mutant(
        "one_round_too_many",
        DOMAIN + "open_groups.py",
        "and s.round < rounds",
        "and s.round <= rounds",
    ),
    Mutant(
        "a_slot_with_a_round_left_forgotten",
        DOMAIN + "open_groups.py",
        "and s.round < rounds",
        "and s.round < rounds - 1",
    ),
    Mutant(
        "highest_slot_first",
        DOMAIN + "open_groups.py",
        "key=lambda i: (self.slots[i].round, i))",
        "key=lambda i: (self.slots[i].round, -i))",
    ),
    Mutant(
        "highest_round_first",
        DOMAIN + "open_groups.py",
        "key=lambda i: (self.slots[i].round, i))",
        "key=lambda i: (-self.slots[i].round, i))",
    ),
    Mutant(
        "lease_asks_for_the_next_round",
        DOMAIN + "assembly.py",
        "group.slots[i] = Slot(slot.round, now",
        "group.slots[i] = Slot(slot.round + 1, now",
    ),
    Mutant(
        "lease_asks_again_and_again",
        DOMAIN + "assembly.py",
        "            if slot.asked_again:\n",
        "            if slot.asked_again and now >= group.deadline:\n",
    ),
    Mutant(
        "training_leases_run_during_an_evaluation",
        DOMAIN + "open_groups.py",
        "        if self.evals_open == 0:\n",
        "        if self.evals_open >= 0:\n",
        "evaluation_while_full",
    ),
    Mutant(
        "group_assembled_one_short",
        DOMAIN + "assembly.py",
        "if len(group.members) == group.opened.group_size:",
        "if len(group.members) >= group.opened.group_size - 1:",
    ),
    Mutant(
        "deadline_forgotten",
        DOMAIN + "assembly.py",
        "        if now >= group.deadline:\n"
        "            yield from self._end_broken(state, n, group, Reason.DEADLINE, at)\n"
        "            return\n"
        "        state.reschedule(n, group)\n"
        "        yield from self._make_up(state, n, group, at)\n",
        "        state.reschedule(n, group)\n",
    ),
    Mutant(
        "refused_response_made_a_member",
        DOMAIN + "assembly.py",
        'self.rules.assembly.count == "any" and event.discard is not DiscardReason.FILTERED',
        'self.rules.assembly.count == "any"',
        "counting_any",
    ),
    Mutant(
        "cancelled_group_forgotten",
        DOMAIN + "assembly.py",
        "yield Output(Topic.LEDGER, 0, expired)",
        "yield from ()",
        "stopped",
    ),
    Mutant(
        "failed_evaluation_sample_not_counted",
        DOMAIN + "filters/stage.py",
        "failed=len([m for m in members if m.grading is Grading.FAILED]),",
        "failed=0,",
        "evaluation_while_full",
    ),
    Mutant(
        "constant_group_kept",
        DOMAIN + "filters/variance.py",
        "if std > tol:",
        "if std >= 0:",
    ),
    Mutant(
        "staleness_off_by_one",
        DOMAIN + "batching.py",
        "follows - group.oldest_version > self.rules.max_staleness",
        "follows - group.oldest_version > self.rules.max_staleness + 1",
    ),
    Mutant(
        "batches_ahead_left_out_of_staleness",
        DOMAIN + "batching.py",
        "follows = state.version + state.untrained()",
        "follows = state.version",
        "async_2",
    ),
    Mutant(
        "batch_of_less_than_its_quota",
        DOMAIN + "batching.py",
        "if all(len(state.pools[d.name]) >= d.quota for d in self.rules.domains):",
        "if all(len(state.pools[d.name]) >= d.quota - 1 for d in self.rules.domains):",
    ),
    Mutant(
        "lost_group_put_back",
        DOMAIN + "batching.py",
        "[g for g in batch.groups if g.domain == domain and g.group_id not in lost]",
        "[g for g in batch.groups if g.domain == domain]",
    ),
    Mutant(
        "returned_groups_put_at_the_end",
        DOMAIN + "batching.py",
        "pool[:0] = [g for",
        "pool[:] = pool[::-1] + [g for",
    ),
    Mutant(
        "deselected_group_not_answered",
        DOMAIN + "scheduling.py",
        "yield from self._on_spent(state, event)",
        "list(self._on_spent(state, event))",
        "selected",
    ),
    Mutant(
        "deselected_groups_left_out_of_the_lead",
        DOMAIN + "scheduling.py",
        "share.formed += (target in (Phase.FORMED, Phase.SPENT))",
        "share.formed += (target is Phase.FORMED)",
        "selected",
    ),
    Mutant(
        "deselected_payloads_counted_for_ever",
        DOMAIN + "scheduling.py",
        "        self._move(state, event.group_id, Phase.POOL, Phase.SPENT)\n"
        "        state.held_bytes -= event.payload_bytes\n",
        "        self._move(state, event.group_id, Phase.POOL, Phase.SPENT)\n",
        "selected",
    ),
    Mutant(
        "window_spent_twice",
        DOMAIN + "windows.py",
        "        del windows.standing[:size]\n",
        "",
        "selected",
    ),
    Mutant(
        "weights_dropped",
        DOMAIN + "windows.py",
        "[replace(g, weight=w) for g, w in zip(groups, weights, strict=True)]",
        "list(groups)",
        "selected",
    ),
    Mutant(
        "loss_scaled_by_what_was_left_out",
        DOMAIN + "windows.py",
        "loss_scale(self.settings.loss_rescale, kept / candidates)",
        "loss_scale(self.settings.loss_rescale, 1.0 - kept / candidates)",
        "selected",
    ),
    Mutant(
        "payload_dropped_before_the_checkpoint",
        DOMAIN + "reaping.py",
        "            case e.CheckpointSaved():\n                for batch in event.batches:\n",
        "            case e.BatchTrained():\n                for batch in (event.batch,):\n",
    ),
    Mutant(
        "young_groups_swept",
        DOMAIN + "reaping.py",
        "return group_id in self.live or number_of(group_id) >= self.highest",
        "return group_id in self.live",
    ),
    Mutant(
        "one_discard_kept",
        DOMAIN + "reaping.py",
        "                if event.payload_key is not None:\n",
        "                if event.payload_key is not None and event.slot:\n",
    ),
    Mutant(
        "batch_trained_again_with_an_event",
        DOMAIN + "training.py",
        "    if batch.trained:\n        return Train(number, True, published, ())\n",
        "",
    ),
    Mutant(
        "checkpoint_covers_its_own_batch_only",
        DOMAIN + "training.py",
        "covered = (*[n for n, p in book.pending.items() if p.applied], number)",
        "covered = (number,)",
    ),
    Mutant(
        "trainer_forgets_what_is_pending",
        DOMAIN + "training.py",
        "places = [(p.offset, p.steps_before) for p in book.pending.values()]",
        "places = list[tuple[int, int]]()",
    ),
    Mutant(
        "evaluated_policy_deleted",
        DOMAIN + "training.py",
        "return book.oldest_wanted >= version + 2 and path not in named",
        "return book.oldest_wanted >= version + 1",
        "evaluation_while_full",
    ),
    Mutant(
        "offset_one_too_far",
        SHELL + "stages.py",
        "        self.committed = start + len(taken)\n",
        "        self.committed = start + len(taken) + 1\n",
    ),
    Mutant(
        "one_record_forgotten_after_a_snapshot",
        SHELL + "stages.py",
        "start, state = self.snapshot[0], self.codec.decode(self.snapshot[1])",
        "start, state = self.snapshot[0] + 1, self.codec.decode(self.snapshot[1])",
    ),
)
