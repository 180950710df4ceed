import type { FlagType } from "@reachback/common";

/** Hosts, separated by commas or given by repeating the flag; upstream's flag of the name takes one. */
export const serverHostsType: FlagType<readonly string[]> = {
  name: "string",
  placeholder: "host",
  parse: (text) => text.split(","),
  format: (value) => value.join(","),
  append: (earlier, later) => [...earlier, ...later],
};
