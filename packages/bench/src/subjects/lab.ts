import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import type { CertificateSet } from "@reachback/cli";
import { LoadClient } from "../load/load-client.ts";
import type { Child, ChildProcesses } from "../processes/child-processes.ts";
import type { EndCores } from "../processes/end-cores.ts";
import { RoleProcess } from "../processes/role-process.ts";
import { UnavailableError } from "./subject.ts";
import type { LabSite, PerEndpoint, Subject, SubjectFamily, SubjectId } from "./subject.ts";

const LINK_TIMEOUT_MS = 5_000;

type LabLink = Pick<LabSite, "isDelayed" | "link">;

const UNDELAYED_LINK: LabLink = {
  isDelayed: false,
  link: (targetPort) => Promise.resolve(targetPort),
};

/** What labs are made of, the same for all of them. */
export interface LabMaterial {
  /** Labs make folders of their own in it. */
  readonly folder: string;
  readonly certificates: CertificateSet;
  readonly children: ChildProcesses;
  /** What each end keeps to; `undefined` if both use all cores. */
  readonly cores: EndCores | undefined;
  readonly families: readonly SubjectFamily[];
}

export interface LabRequest {
  readonly subjectIds: readonly SubjectId[];
  /** What the delay relay adds to a round trip over the link; `undefined` for no such relay. */
  readonly rttMs: number | undefined;
  /** Whether there are also {@link Lab.undelayed} paths. */
  readonly withUndelayed: boolean;
}

/** Why a subject is not there. */
export interface Unavailable {
  readonly reason: string;
  /** Whether it should be: it did not start, where others merely do not exist here. */
  readonly isFailure: boolean;
}

/** Load processes, endpoints and the paths between them, all of it running. */
export interface Lab {
  readonly loads: PerEndpoint<LoadClient>;
  readonly subjects: ReadonlyMap<SubjectId, Subject>;
  /** All of {@link subjects} once more, without the delay relay; empty unless asked for. */
  readonly undelayed: ReadonlyMap<SubjectId, Subject>;
  /** Subjects that were asked for and are not there. */
  readonly unavailable: ReadonlyMap<SubjectId, Unavailable>;
  /** Processes that measure: their CPU time is nobody's cost. */
  readonly harnessPids: readonly number[];
  stop(): Promise<void>;
}

/**
 * Start everything there is to start.
 *
 * @throws {Error} if the bench's own processes do not start; what has started is then stopped.
 */
export async function startLab(material: LabMaterial, request: LabRequest): Promise<Lab> {
  const { children, cores } = material;
  const started: Child[] = [];
  const stop = async () => {
    await Promise.all(started.map((child) => children.stop(child)));
  };
  try {
    const harness = await startHarness(material, request.rttMs);
    started.push(...harness.processes.map(({ child }) => child));
    const site = (link: LabLink): LabSite => ({
      ...link,
      folder: mkdtempSync(join(material.folder, "lab-")),
      certificates: material.certificates,
      endpointPorts: harness.endpointPorts,
      spawn: async (end, command, args) => {
        const child = await children.spawn(command, args, cores?.[end]);
        started.push(child);
        return child;
      },
      startRole: async (end, name, config) => {
        const role = await RoleProcess.start(children, name, config, cores?.[end]);
        started.push(role.child);
        return role;
      },
    });
    const { families } = material;
    const { subjectIds, withUndelayed } = request;
    const undelayed = withUndelayed
      ? await startSubjects(families, subjectIds, site(UNDELAYED_LINK))
      : undefined;
    const { subjects, unavailable } = await startSubjects(
      families,
      undelayed === undefined ? subjectIds : [...undelayed.subjects.keys()],
      site(harness.link),
    );
    return {
      loads: harness.loads,
      harnessPids: harness.processes.map(({ pid }) => pid),
      subjects,
      undelayed: undelayed?.subjects ?? new Map(),
      unavailable: new Map([...(undelayed?.unavailable ?? []), ...unavailable]),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** All paths of `lab`, those without the delay relay too. */
export function subjectsOf(lab: Lab): Subject[] {
  return [...lab.subjects.values(), ...lab.undelayed.values()];
}

async function startHarness({ children, cores }: LabMaterial, rttMs: number | undefined) {
  const [load, besideLoad, endpoint, besideEndpoint] = await Promise.all([
    RoleProcess.start(children, "load", undefined, cores?.near),
    RoleProcess.start(children, "load", undefined, cores?.near),
    RoleProcess.start(children, "endpoint", undefined, cores?.far),
    RoleProcess.start(children, "endpoint", undefined, cores?.far),
  ]);
  // The link is at neither end.
  const delayRelay =
    rttMs === undefined
      ? undefined
      : await RoleProcess.start(children, "delay-relay", { delayMs: rttMs / 2 });
  return {
    processes: [
      ...[load, besideLoad, endpoint, besideEndpoint],
      ...(delayRelay === undefined ? [] : [delayRelay]),
    ],
    loads: { main: new LoadClient(load), beside: new LoadClient(besideLoad) },
    endpointPorts: { main: endpoint.info.port, beside: besideEndpoint.info.port },
    link: delayRelay === undefined ? UNDELAYED_LINK : delayedLink(delayRelay),
  };
}

function delayedLink(delayRelay: RoleProcess<"delay-relay">): LabLink {
  return {
    isDelayed: true,
    link: (targetPort) => delayRelay.call("add", targetPort, LINK_TIMEOUT_MS),
  };
}

async function startSubjects(
  families: readonly SubjectFamily[],
  subjectIds: readonly SubjectId[],
  site: LabSite,
): Promise<Pick<Lab, "subjects" | "unavailable">> {
  const subjects = new Map<SubjectId, Subject>();
  const unavailable = new Map<SubjectId, Unavailable>();
  for (const family of families) {
    const wanted = family.ids.filter((id) => subjectIds.includes(id));
    if (wanted.length === 0) continue;
    try {
      for (const subject of await family.start(site)) {
        if (wanted.includes(subject.id)) subjects.set(subject.id, subject);
      }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const isFailure = !(error instanceof UnavailableError);
      for (const id of wanted) unavailable.set(id, { reason, isFailure });
    }
  }
  return { subjects, unavailable };
}
