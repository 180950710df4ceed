import { Readable } from "node:stream";
import { getHeapSnapshot } from "node:v8";
import type { Clock } from "../clock.ts";
import type { Logger } from "../log/logger.ts";
import { errorAnswer, redirectAnswer } from "./go-answers.ts";
import type { OpsHandler, OpsRequest, OpsResponse, OpsRoute } from "./ops-route.ts";
import { recordCpuProfile, recordHeapProfile } from "./profiler.ts";

/** The longest recording, in seconds. */
export const MAX_PROFILE_SECONDS = 300;
const DEFAULT_CPU_SECONDS = 30;
const DEFAULT_HEAP_SECONDS = 10;

const INDEX = `<html>
<head><title>/debug/pprof/</title></head>
<body>
<p>Profiles of the V8 engine, one at a time. Chrome DevTools opens each of them; go tool pprof does not.</p>
<ul>
<li><a href="profile?seconds=${DEFAULT_CPU_SECONDS}">profile</a>: where the time goes, over <code>seconds</code> (${DEFAULT_CPU_SECONDS}, at most ${MAX_PROFILE_SECONDS}); save as .cpuprofile</li>
<li><a href="heap?seconds=${DEFAULT_HEAP_SECONDS}">heap</a>: who allocates what is still held after <code>seconds</code> (${DEFAULT_HEAP_SECONDS}, at most ${MAX_PROFILE_SECONDS}); save as .heapprofile</li>
<li><a href="heapsnapshot">heapsnapshot</a>: every object; stops the process, and with it all connections, for about a second per 100 MB of heap; save as .heapsnapshot</li>
</ul>
</body>
</html>
`;

export interface ProfilingOptions {
  /** `--enable-profiling`: without it there are no routes. */
  readonly enabled: boolean;

  /** `--enable-contention-profiling`: V8 has nothing like it, so it is only remarked on. */
  readonly contention: boolean;
}

export interface ProfilingPorts {
  readonly clock: Clock;
  readonly logger: Logger;
}

/** `/debug/pprof/` of the admin ports: upstream's paths, the profiles of V8. */
export function profilingRoutes(
  options: ProfilingOptions,
  { clock, logger }: ProfilingPorts,
): readonly OpsRoute[] {
  if (!options.enabled) return [];
  if (options.contention) logger.warn("flag.ignored", { flags: "--enable-contention-profiling" });

  const one = new OneAtATime();
  const timed =
    (defaultSeconds: number, file: string, record: typeof recordCpuProfile): OpsHandler =>
    async ({ query, signal }) => {
      const seconds = readSeconds(query, defaultSeconds);
      if (seconds === undefined) {
        return errorAnswer(400, `seconds must be a whole number from 1 to ${MAX_PROFILE_SECONDS}`);
      }
      return await one.run(async () => download(file, await record(clock, seconds * 1000, signal)));
    };
  return [
    {
      path: "/debug/pprof",
      handler: ({ method }) => redirectAnswer(301, "/debug/pprof/", method),
    },
    { path: "/debug/pprof/", handler: index },
    {
      path: "/debug/pprof/profile",
      handler: timed(DEFAULT_CPU_SECONDS, "reachback.cpuprofile", recordCpuProfile),
    },
    {
      path: "/debug/pprof/heap",
      handler: timed(DEFAULT_HEAP_SECONDS, "reachback.heapprofile", recordHeapProfile),
    },
    {
      path: "/debug/pprof/heapsnapshot",
      handler: () => one.run(() => download("reachback.heapsnapshot", getHeapSnapshot())),
    },
  ];
}

/** Also for the profiles that only Go has. */
function index({ path }: OpsRequest): OpsResponse {
  if (path !== "/debug/pprof/") return errorAnswer(404, "Unknown profile");
  return {
    status: 200,
    body: INDEX,
    headers: { "Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff" },
  };
}

function readSeconds(query: URLSearchParams, defaultSeconds: number): number | undefined {
  const text = query.get("seconds");
  if (text === null) return defaultSeconds;
  const seconds = /^[0-9]{1,9}$/.test(text) ? Number(text) : 0;
  return seconds >= 1 && seconds <= MAX_PROFILE_SECONDS ? seconds : undefined;
}

function download(file: string, body: OpsResponse["body"]): OpsResponse {
  return {
    status: 200,
    body,
    headers: {
      "Content-Disposition": `attachment; filename="${file}"`,
      "Content-Type": "application/json",
      "X-Content-Type-Options": "nosniff",
    },
  };
}

/** Two profiles at a time would measure each other. */
class OneAtATime {
  #isTaken = false;

  async run(take: () => OpsResponse | Promise<OpsResponse>): Promise<OpsResponse> {
    if (this.#isTaken) return errorAnswer(503, "another profile is being taken");
    this.#isTaken = true;
    try {
      const answer = await take();
      if (answer.body instanceof Readable) {
        answer.body.once("close", () => {
          this.#isTaken = false;
        });
      } else {
        this.#isTaken = false;
      }
      return answer;
    } catch (error) {
      this.#isTaken = false;
      throw error;
    }
  }
}
