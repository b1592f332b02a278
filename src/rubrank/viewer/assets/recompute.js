// Rewards of a group with other weights, or without some hard gates, computed in the page: a report has no server.
// Only for rules for which that is exact: the reward is a weighted sum of values in the file, stretched to 0…1, then gated.

import { isNumber, sum } from "./numbers.js";

const CLOSE = 1e-5; // numbers in a report are rounded to seven decimals
const SMALLEST_SPREAD = 1e-9; // relative to the largest term: below it only rounding separates rollouts
const LIFTS = [0.25, 0]; // of our gates: the usual one, and the paper's
const NEEDS_SERVER = "A report cannot compute this. Open the records with `rubrank view`.";

/** The lift of the gate that gives the recorded rewards; null if none does, and then nothing can be recomputed. */
export function findLift(group) {
  if (!group.values) return null;
  const weights = group.criteria.slice(0, group.ranked).map((criterion) => criterion.weight);
  const reproduces = (lift) => computeRewards(group, weights, [], lift)
    .every((reward, i) => Math.abs(reward - group.reward[i]) < CLOSE);
  return LIFTS.find(reproduces) ?? null;
}

/** The group with the changes, as the server would answer; its notes name what cannot be computed here. */
export function recomputeGroup(group, changes) {
  const ranked = group.criteria.slice(0, group.ranked);
  const recorded = {
    rule: group.rule,
    reward: group.reward,
    weights: ranked.map((criterion) => criterion.weight),
    layers: Object.fromEntries(group.criteria.map((criterion) => [criterion.name, criterion.layer])),
  };
  const unchanged = { ...group, recorded, is_changed: false, notes: [] };
  if (!Object.keys(changes).length) return unchanged;

  const weights = ranked.map((criterion) => changes.weights?.[criterion.name] ?? criterion.weight);
  const layerChanges = Object.entries(changes.layers || {});
  const isGateSwitchedOff = ([name, layer]) => recorded.layers[name] === "global_quality" && layer === "watch";
  const lift = findLift(group);
  const isPossible = lift !== null && !changes.rule && changes.lam === undefined && layerChanges.every(isGateSwitchedOff);
  if (!isPossible || sum(weights) === 0) return { ...unchanged, notes: [NEEDS_SERVER] };

  const gatesOff = layerChanges.map(([name]) => name);
  const reward = computeRewards(group, weights, gatesOff, lift);
  const stoppedBy = group.gate?.stopped_by.map((names) => names.filter((name) => !gatesOff.includes(name)));
  return {
    ...unchanged,
    reward,
    criteria: group.criteria.map((criterion, k) => (k < group.ranked ? { ...criterion, weight: weights[k] } : criterion)),
    gate: group.gate && { ...group.gate, stopped_by: stoppedBy, passed: stoppedBy.map((names) => names.length === 0) },
    is_changed: true,
    notes: ["Computed in this page. Explanations are those of the recorded rewards."],
  };
}

/** Weighted sums of the values, stretched to 0…1; then the gate: 0 if stopped, else lift…1 times its factor. */
function computeRewards(group, weights, gatesOff, lift) {
  const terms = group.values.map((row) => row.map((value, k) => weights[k] * (value ?? 0)));
  const totals = terms.map(sum);
  const largest = Math.max(0, ...terms.flat().map(Math.abs));
  const ranking = stretch(totals, totals.map(() => true), SMALLEST_SPREAD * largest);
  if (!group.gate) return ranking;
  const passed = group.gate.stopped_by.map((names) => names.every((name) => gatesOff.includes(name)));
  const lifted = lift ? stretch(ranking, passed, 1e-12).map((share) => lift + (1 - lift) * share) : ranking;
  return lifted.map((value, i) => (passed[i] ? value * group.gate.factor[i] : 0));
}

/** Values moved to 0…1, with the ends set by the marked ones; 0.5 if those are equal. */
function stretch(values, isMarked, smallest) {
  const marked = values.filter((value, i) => isMarked[i] && isNumber(value));
  const low = Math.min(...marked);
  const high = Math.max(...marked);
  if (!(high - low > smallest)) return values.map(() => 0.5);
  return values.map((value) => Math.max(0, Math.min(1, (value - low) / (high - low))));
}
