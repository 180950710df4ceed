import type { CertificateSet } from "@reachback/cli";
import type { Route } from "../load/route.ts";
import type { Child } from "../processes/child-processes.ts";
import type { End } from "../processes/end-cores.ts";
import type { RoleProcess } from "../processes/role-process.ts";
import type { RoleName, Roles } from "../processes/roles.ts";

export const SUBJECT_IDS = [
  "direct",
  "relay",
  "reachback",
  "reachback-grpc",
  "openssh",
  "peer",
] as const;

/** One of the paths that are compared. */
export type SubjectId = (typeof SUBJECT_IDS)[number];

/** What they are called in reports. */
export const SUBJECT_TITLES: Readonly<Record<SubjectId, string>> = {
  direct: "direct TCP",
  relay: "Node TLS relay",
  reachback: "Reachback, CONNECT",
  "reachback-grpc": "Reachback, gRPC",
  openssh: "OpenSSH -L",
  peer: "peer, CONNECT",
};

/** There are two of them, so that what happens beside a measurement does not slow its far end. */
export const ENDPOINT_NAMES = ["main", "beside"] as const;
export type EndpointName = (typeof ENDPOINT_NAMES)[number];

export type PerEndpoint<Value> = Readonly<Record<EndpointName, Value>>;

/** A process whose CPU time and memory are part of what a path costs. */
export interface PathProcess {
  readonly name: string;
  readonly pid: number;
}

/** A path from the load process to the endpoints that is up. */
export interface Subject {
  readonly id: SubjectId;
  readonly routes: PerEndpoint<Route>;
  readonly processes: readonly PathProcess[];
}

/** What paths are built on: a folder, ports, processes that end with the lab. */
export interface LabSite {
  /** Exists, and is this lab's own. */
  readonly folder: string;
  readonly certificates: CertificateSet;
  readonly endpointPorts: PerEndpoint<number>;
  /** Whether {@link link} delays. What cannot be led through it must then be left out. */
  readonly isDelayed: boolean;
  /** The port to use for the long way to `targetPort`: the way that would be between two sites. */
  readonly link: (targetPort: number) => Promise<number>;
  readonly spawn: (end: End, command: string, args: readonly string[]) => Promise<Child>;
  readonly startRole: <Name extends RoleName>(
    end: End,
    name: Name,
    config: Roles[Name]["config"],
  ) => Promise<RoleProcess<Name>>;
}

/** Subjects that are made of the same processes. */
export interface SubjectFamily {
  readonly ids: readonly SubjectId[];
  /** @throws {UnavailableError} if this machine or this lab cannot have it. */
  start(site: LabSite): Promise<readonly Subject[]>;
}

/** A path cannot be measured here, which is no failure; the message says why. */
export class UnavailableError extends Error {}
