/** What resolv.conf(5) says about names; its servers are read by whoever asks them. */
export interface ResolverConfig {
  /** Domains in which a name is looked for. */
  readonly search: readonly string[];
  /** A name with fewer dots than this is looked for in them first. */
  readonly ndots: number;
}

const DEFAULT_NDOTS = 1;
const MAX_NDOTS = 15;

/** Longest name in DNS, without its final dot. */
const MAX_NAME_LENGTH = 253;

export function parseResolverConfig(text: string): ResolverConfig {
  let search: readonly string[] = [];
  let ndots = DEFAULT_NDOTS;
  for (const line of text.split("\n")) {
    const [keyword, ...values] = line.trim().split(/\s+/);
    if (keyword === "search") {
      search = values;
    } else if (keyword === "domain") {
      search = values.slice(0, 1);
    } else if (keyword === "options") {
      for (const value of values) {
        const dots = /^ndots:(\d+)$/.exec(value)?.[1];
        if (dots !== undefined) ndots = Math.min(Number(dots), MAX_NDOTS);
      }
    }
  }
  return { search: search.map((domain) => domain.replace(/\.$/, "")), ndots };
}

/** The full names that `name` may stand for, in the order in which to ask for them; none is too long. */
export function candidateNames(name: string, { search, ndots }: ResolverConfig): string[] {
  if (name.endsWith(".")) return [name.slice(0, -1)].filter(isPossible);
  const inDomains = search.map((domain) => (domain === "" ? name : `${name}.${domain}`));
  const hasEnoughDots = name.split(".").length > ndots;
  const all = hasEnoughDots ? [name, ...inDomains] : [...inDomains, name];
  return [...new Set(all)].filter(isPossible);
}

function isPossible(name: string): boolean {
  return name !== "" && name.length <= MAX_NAME_LENGTH;
}
