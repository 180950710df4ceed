/** What is wrong with the labels given to `--lease-label`, in upstream's words. */
export function leaseLabelProblem(labels: string): string | undefined {
  if (labels === "") return "empty string provided";
  const broken = labels.split(",").find((pair) => pair.split("=").length !== 2);
  return broken === undefined ? undefined : `invalid label format: ${broken}`;
}
