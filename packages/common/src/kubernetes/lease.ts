import { listOf, recordOf, textOf } from "./json.ts";

/** What matters of a `coordination.k8s.io/v1` Lease. */
export interface Lease {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly labels: Readonly<Record<string, string>>;
  /**
   * When it ends unless it is renewed, in milliseconds since 1970; `undefined` if it does not say,
   * because it has neither a renew nor an acquire time, or no duration.
   */
  readonly expiresAtMs: number | undefined;
}

/** Whether a lease stands: it ends later than now. One that does not say when it ends does not. */
export function isLeaseValid({ expiresAtMs }: Lease, nowMs: number): boolean {
  return expiresAtMs !== undefined && expiresAtMs > nowMs;
}

/** Path of the leases of a namespace, or of one of them. */
export function leasePath(namespace: string, name?: string): string {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases`;
  return name === undefined ? path : `${path}/${encodeURIComponent(name)}`;
}

/** A Lease in an answer of the apiserver. */
export function leaseFrom(object: unknown): Lease {
  const metadata = recordOf(recordOf(object)["metadata"]);
  const spec = recordOf(recordOf(object)["spec"]);
  const labels = Object.entries(recordOf(metadata["labels"]));
  const heldSinceMs = Date.parse(textOf(spec["renewTime"]) || textOf(spec["acquireTime"]));
  const durationSeconds = spec["leaseDurationSeconds"];
  const hasEnd = !Number.isNaN(heldSinceMs) && typeof durationSeconds === "number";
  return {
    name: textOf(metadata["name"]),
    uid: textOf(metadata["uid"]),
    resourceVersion: textOf(metadata["resourceVersion"]),
    labels: Object.fromEntries(labels.map(([key, value]) => [key, textOf(value)])),
    expiresAtMs: hasEnd ? heldSinceMs + durationSeconds * 1000 : undefined,
  };
}

/** A list of leases, and the version at which a watch goes on from it. */
export function leaseListFrom(answer: unknown): {
  readonly leases: readonly Lease[];
  readonly resourceVersion: string;
} {
  const list = recordOf(answer);
  return {
    leases: listOf(list["items"]).map(leaseFrom),
    resourceVersion: textOf(recordOf(list["metadata"])["resourceVersion"]),
  };
}

/** A time as Kubernetes' `MicroTime` wants it. */
export function microTime(wallTimeMs: number): string {
  return new Date(wallTimeMs).toISOString().replace("Z", "000Z");
}
