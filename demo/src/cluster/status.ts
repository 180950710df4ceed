/** A `metav1.Status`: what Kubernetes says of a request that failed, or of a command that ended. */
export interface Status {
  readonly kind: "Status";
  readonly apiVersion: "v1";
  readonly metadata: object;
  readonly status: "Success" | "Failure";
  readonly message?: string;
  readonly reason?: string;
  readonly details?: object;
  readonly code?: number;
}

const HEAD = { kind: "Status", apiVersion: "v1", metadata: {} } as const;

export const SUCCESS: Status = { ...HEAD, status: "Success" };

/** @param reason - In Kubernetes' words, such as `NotFound`; kubectl prints it if there is one. */
export function failure(code: number, message: string, reason?: string): Status {
  return {
    ...HEAD,
    status: "Failure",
    message,
    ...(reason === undefined ? {} : { reason }),
    code,
  };
}

export function notFound(resource: string, name: string): Status {
  return failure(404, `${resource} "${name}" not found`, "NotFound");
}

/** What the error channel of `exec` says of a command that exited with another code than 0. */
export function nonZeroExit(exitCode: number): Status {
  return {
    ...failure(
      500,
      `command terminated with non-zero exit code: exit status ${exitCode}`,
      "NonZeroExitCode",
    ),
    details: { causes: [{ reason: "ExitCode", message: String(exitCode) }] },
  };
}
