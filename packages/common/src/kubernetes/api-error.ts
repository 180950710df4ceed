import { recordOf, textOf } from "./json.ts";

/** Why the apiserver did not do what it was asked. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** HTTP status; 0 if no answer came. */
  readonly status: number;
  /** Kubernetes' word for it, e.g. `Forbidden`; `Unreachable` if no answer came. */
  readonly reason: string;
  /** How long the apiserver asks to be left alone, in milliseconds. */
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    status: number,
    reason: string,
    options: ErrorOptions & { readonly retryAfterMs?: number | undefined } = {},
  ) {
    super(message, options);
    this.status = status;
    this.reason = reason;
    this.retryAfterMs = options.retryAfterMs;
  }

  /** Whether the same request may succeed later, with nothing changed at this end. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** The error in an answer other than 2xx; Kubernetes' body is a `Status`, a proxy's is anything. */
export function answeredError(
  request: string,
  status: number,
  body: string,
  retryAfter: string | undefined,
): ApiError {
  const said = statusObject(body);
  const reason = textOf(said["reason"]) || `HTTP${status}`;
  const message = textOf(said["message"]) || body.trim().slice(0, 200) || "no reason given";
  const retryAfterSeconds = Number(retryAfter ?? NaN);
  return new ApiError(`${request}: ${status} ${reason}: ${message}`, status, reason, {
    retryAfterMs: Number.isFinite(retryAfterSeconds) ? retryAfterSeconds * 1000 : undefined,
  });
}

function statusObject(body: string): Readonly<Record<string, unknown>> {
  try {
    const object = recordOf(JSON.parse(body));
    return object["kind"] === "Status" ? object : {};
  } catch {
    return {};
  }
}

/**
 * What an operator can do about a request that failed.
 *
 * @param permission - The verbs and the resource that are needed, e.g. `create tokenreviews`.
 */
export function apiErrorHint(error: unknown, permission: string): string {
  const status = error instanceof ApiError ? error.status : 0;
  if (status === 401)
    return "the apiserver does not accept our credentials: check --kubeconfig, or the pod's service account";
  if (status === 403) return `allow our identity by RBAC to ${permission}`;
  if (status === 404) return "check that the namespace exists and that the URL is an apiserver's";
  if (status === 429 || status >= 500)
    return "the apiserver is overloaded or not ready; it is asked again";
  if (status !== 0) return "the apiserver takes the request for a mistake: see its message";
  return "check that the apiserver is up and that its address, CA and our credentials are right; it is asked again";
}
