// What is looked at, as the part of the address behind #: a link to it opens the same run, group, rollout, rule and filters.

export const FILTERS = ["query", "state", "criterion", "score", "value", "step", "rule_filter", "sort"];
const ADDRESS_KEYS = ["view", "run", "group", "rollout", "rule", ...FILTERS];

/** {view: "groups", run: 0, group: 17, …}; keys that the address does not have are left out. */
export function readAddress(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, "")), found = {};
  for (const key of ADDRESS_KEYS) if (given.has(key)) found[key] = given.get(key);
  for (const key of ["run", "group", "rollout"]) {
    if (key in found) found[key] = /^\d{1,12}$/.test(found[key]) ? Number(found[key]) : undefined;
  }
  if (found.group !== undefined && !found.view) found.view = "groups";
  return { run: 0, ...Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)) };
}

export function writeAddress(address) {
  const given = ADDRESS_KEYS.filter((key) => address[key] !== undefined && address[key] !== "" && address[key] !== null && !(key === "run" && address.run === 0));
  return `#${new URLSearchParams(given.map((key) => [key, address[key]]))}`;
}
