/** The labels given to `--lease-label`, which must have been checked. */
export function leaseLabelsFrom(labels: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    labels.split(",").map((pair) => pair.split("=", 2).map((part) => part.trim())),
  ) as Record<string, string>;
}

/** What is wrong with the labels given to `--lease-label`, in upstream's words. */
export function leaseLabelProblem(labels: string): string | undefined {
  if (labels === "") return "empty string provided";
  const broken = labels.split(",").find((pair) => pair.split("=").length !== 2);
  return broken === undefined ? undefined : `invalid label format: ${broken}`;
}
