import type { ServerResponse } from "node:http";
import { parseLabelSelector } from "@reachback/common";

interface StoredLease {
  metadata: {
    name: string;
    namespace: string;
    uid: string;
    resourceVersion: string;
    labels?: Record<string, string>;
    [field: string]: unknown;
  };
  spec: Record<string, unknown>;
  [field: string]: unknown;
}

interface Watch {
  readonly namespace: string;
  readonly matches: (lease: StoredLease) => boolean;
  readonly response: ServerResponse;
}

/** The leases of an apiserver, with versions, conflicts, selectors and watches. */
export class LeaseStore {
  readonly #leases = new Map<string, StoredLease>();
  readonly #watches = new Set<Watch>();
  /** Whether watches hear of changes; if not they are as dead as a connection can be. */
  deliversEvents = true;
  #version = 100;

  get watchCount(): number {
    return this.#watches.size;
  }

  names(namespace = "kube-system"): string[] {
    return [...this.#leases.values()]
      .filter(({ metadata }) => metadata.namespace === namespace)
      .map(({ metadata }) => metadata.name)
      .sort();
  }

  get(name: string, namespace = "kube-system"): StoredLease | undefined {
    return this.#leases.get(`${namespace}/${name}`);
  }

  /** Write a lease from within; `spec` replaces the default of one that has just been renewed. */
  put(
    name: string,
    spec: Record<string, unknown> = {},
    labels: Record<string, string> = { "k8s-app": "konnectivity-server" },
    namespace = "kube-system",
  ): void {
    this.#store(namespace, {
      metadata: { name, namespace, uid: `uid-${name}`, resourceVersion: "", labels },
      spec: { leaseDurationSeconds: 30, renewTime: new Date().toISOString(), ...spec },
    });
  }

  delete(name: string, namespace = "kube-system"): void {
    const lease = this.get(name, namespace);
    if (lease === undefined) return;
    this.#leases.delete(`${namespace}/${name}`);
    lease.metadata.resourceVersion = String(++this.#version);
    this.#tell("DELETED", lease);
  }

  /** End all watches, in an orderly way or by a reset. */
  endWatches(how: "end" | "reset" = "reset"): void {
    for (const { response } of this.#watches) {
      if (how === "end") response.end();
      else response.destroy();
    }
    this.#watches.clear();
  }

  /** Tell all watches that they are too far behind. */
  expireWatches(): void {
    const object = { kind: "Status", code: 410, reason: "Expired", message: "too old" };
    for (const { response } of this.#watches) {
      response.write(`${JSON.stringify({ type: "ERROR", object })}\n`);
    }
  }

  watch(namespace: string, query: URLSearchParams, response: ServerResponse): void {
    const selector = parseLabelSelector(query.get("labelSelector") ?? "");
    const watch: Watch = {
      namespace,
      matches: ({ metadata }) => selector.matches(metadata.labels ?? {}),
      response,
    };
    this.#watches.add(watch);
    response.once("close", () => this.#watches.delete(watch));
    const since = Number(query.get("resourceVersion") ?? 0);
    for (const lease of this.#leases.values()) {
      if (Number(lease.metadata.resourceVersion) > since) this.#tellOne(watch, "MODIFIED", lease);
    }
  }

  perform(
    method: string,
    namespace: string,
    name: string | undefined,
    query: URLSearchParams,
    body: unknown,
  ): { readonly status: number; readonly body?: unknown } {
    if (method === "GET" && name === undefined)
      return { status: 200, body: this.#list(namespace, query) };
    if (method === "POST") return this.#create(namespace, body as StoredLease);
    const known = this.get(name ?? "", namespace);
    if (known === undefined) return { status: 404 };
    switch (method) {
      case "GET":
        return { status: 200, body: known };
      case "PUT": {
        const lease = body as StoredLease;
        if (lease.metadata.resourceVersion !== known.metadata.resourceVersion)
          return { status: 409 };
        return { status: 200, body: this.#store(namespace, lease) };
      }
      case "DELETE": {
        const { preconditions = {} } = (body ?? {}) as {
          preconditions?: Record<string, string>;
        };
        const { uid, resourceVersion } = known.metadata;
        const current: Record<string, string> = { uid, resourceVersion };
        if (Object.entries(preconditions).some(([key, value]) => current[key] !== value)) {
          return { status: 409 };
        }
        this.delete(known.metadata.name, namespace);
        return { status: 200, body: {} };
      }
      default:
        return { status: 405 };
    }
  }

  #create(namespace: string, lease: StoredLease) {
    if (this.get(lease.metadata.name, namespace) !== undefined) return { status: 409 };
    lease.metadata.uid = `uid-${this.#version}`;
    return { status: 201, body: this.#store(namespace, lease) };
  }

  #list(namespace: string, query: URLSearchParams): unknown {
    const selector = parseLabelSelector(query.get("labelSelector") ?? "");
    const items = [...this.#leases.values()].filter(
      ({ metadata }) => metadata.namespace === namespace && selector.matches(metadata.labels ?? {}),
    );
    return { kind: "LeaseList", metadata: { resourceVersion: String(this.#version) }, items };
  }

  #store(namespace: string, lease: StoredLease): StoredLease {
    const key = `${namespace}/${lease.metadata.name}`;
    const type = this.#leases.has(key) ? "MODIFIED" : "ADDED";
    // Stored as text would be: nobody shares it.
    const stored = structuredClone(lease);
    stored.metadata.resourceVersion = String(++this.#version);
    this.#leases.set(key, stored);
    this.#tell(type, stored);
    return stored;
  }

  #tell(type: string, lease: StoredLease): void {
    for (const watch of this.#watches) this.#tellOne(watch, type, lease);
  }

  #tellOne({ namespace, matches, response }: Watch, type: string, lease: StoredLease): void {
    if (!this.deliversEvents || namespace !== lease.metadata.namespace || !matches(lease)) return;
    response.write(`${JSON.stringify({ type, object: lease })}\n`);
  }
}
