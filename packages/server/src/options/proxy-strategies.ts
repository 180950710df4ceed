/** A way to pick the agent for a connection; a server tries its strategies in order. */
export type ProxyStrategy = "default" | "destHost" | "defaultRoute";

const STRATEGIES: readonly ProxyStrategy[] = ["default", "destHost", "defaultRoute"];

/** The strategies in the list, repeats kept. What is not one is left to the problems below. */
export function proxyStrategiesFrom(list: string): ProxyStrategy[] {
  return itemsOf(list).flatMap((item) => STRATEGIES.find((known) => known === item) ?? []);
}

/** What is wrong with the list given to `--proxy-strategies`, in upstream's words. */
export function proxyStrategyProblems(list: string): string[] {
  if (list === "") return ["ProxyStrategies cannot be empty"];
  const items = itemsOf(list);
  if (items.length === 0) return ["invalid proxy strategies: proxy strategies cannot be empty"];
  return items
    .filter((item) => !STRATEGIES.some((known) => known === item))
    .map((item) => `invalid proxy strategies: unknown proxy strategy: ${item}`);
}

function itemsOf(list: string): string[] {
  return list.split(",").filter((item) => item !== "");
}
