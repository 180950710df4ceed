import type { Plan } from "../plan.ts";
import { measurePath, measuredValues } from "../run/measure-path.ts";
import type { Metric } from "../run/metric.ts";
import type { Sample } from "../run/sample.ts";
import type { Lab } from "../subjects/lab.ts";
import { SUBJECT_IDS } from "../subjects/subject.ts";
import type { Subject } from "../subjects/subject.ts";
import type { Scenario } from "./scenario.ts";

const MIB = 1024 * 1024;

const ECHO_CONNECTIONS = 20;
/** Some 1,000 echoes in a second: enough to see, too few to take the CPU from the download. */
const ECHO_PAUSE_MS = 20;
const DIAL_PAUSE_MS = 20;
const DIAL_TIMEOUT_MS = 2_000;
const SLACK_MS = 10_000;

/** More than fits into the time. */
const ENDLESS_BYTES = 2 ** 50;

/** Until the download runs at full speed. */
const LEAD_MS = 200;

const METRICS: readonly Metric[] = [
  { id: "p99Alone", title: "p99 alone", unit: "ms", better: "lower", isCompared: false },
  { id: "p50", title: "p50 beside", unit: "ms", better: "lower", isCompared: false },
  { id: "p99", title: "p99 beside", unit: "ms", better: "lower", isCompared: true },
  { id: "dialP99Alone", title: "dial p99 alone", unit: "ms", better: "lower", isCompared: false },
  { id: "dialP99", title: "beside", unit: "ms", better: "lower", isCompared: true },
  { id: "bulkRate", title: "bulk", unit: "MiB/s", better: "higher", isCompared: false },
  { id: "bulkKept", title: "bulk kept", unit: "%", better: "higher", isCompared: false },
  { id: "failed", title: "failed", unit: "", better: "lower", isCompared: false },
];

export const beside: Scenario = {
  name: "beside",
  summary: "one download beside 20 echo connections and new dials",
  isQuick: false,
  cases: (plan) => [
    {
      id: "beside-download",
      title: `One bulk download beside ${ECHO_CONNECTIONS} echo connections and new dials`,
      metrics: METRICS,
      subjectIds: SUBJECT_IDS,
      // A bulk transfer takes CPU whatever carries it. So the measure is what echoes suffer that
      // share the machine with such a transfer, but not the tunnel.
      referenceId: "direct",
      rowTitles: { direct: "direct TCP beside the relay's bulk" },
      labLifetime: "shared",
      maxRounds: plan.besideRounds,
      measure: (lab, subject) => measureBeside(lab, subject, plan),
    },
  ],
};

async function measureBeside(lab: Lab, subject: Subject, plan: Plan): Promise<Sample> {
  const durationMs = plan.besideMs;
  const limitMs = durationMs + SLACK_MS;
  const route = subject.routes.main;
  const echoSpec = { route, connections: ECHO_CONNECTIONS, durationMs, pauseMs: ECHO_PAUSE_MS };
  const dialsSpec = {
    route,
    parallel: 1,
    durationMs,
    pauseMs: DIAL_PAUSE_MS,
    byteCount: 64,
    timeoutMs: DIAL_TIMEOUT_MS,
  };
  const bulkCarrier = subject.id === "direct" ? lab.subjects.get("relay") : subject;
  if (bulkCarrier === undefined) throw new Error("the relay is not there to carry the download");
  /** Download for `bulkMs`; once it runs, do something beside it. */
  const runBulk = <Outcome>(bulkMs: number, besideIt: () => Promise<Outcome>) =>
    lab.loads.beside.withTask(
      "bulk",
      {
        route: bulkCarrier.routes.beside,
        direction: "download",
        connections: 1,
        byteCount: ENDLESS_BYTES,
        limitMs: bulkMs,
      },
      async (task) => {
        const [{ byteCount, seconds }, outcome] = await Promise.all([
          task.run(bulkMs + SLACK_MS),
          besideIt(),
        ]);
        return { rate: byteCount / MIB / seconds, outcome };
      },
    );

  const aloneBulk = await runBulk(durationMs, () => Promise.resolve());
  return lab.loads.main.withTask("echo", echoSpec, async (echo) => {
    const runBoth = () =>
      lab.loads.main.withTask("dials", dialsSpec, (dials) =>
        Promise.all([echo.run(limitMs), dials.run(limitMs)]),
      );
    const [aloneEcho, aloneDials] = await runBoth();
    const { result, processes, harnessCpuSeconds } = await measurePath(lab, subject, () =>
      runBulk(durationMs + 2 * LEAD_MS, async () => {
        await new Promise((resolve) => setTimeout(resolve, LEAD_MS));
        return runBoth();
      }),
    );
    const [besideEcho, besideDials] = result.outcome;
    return {
      values: measuredValues({
        p99Alone: aloneEcho.p99Ms,
        p50: besideEcho.p50Ms,
        p99: besideEcho.p99Ms,
        dialP99Alone: aloneDials.p99Ms,
        dialP99: besideDials.p99Ms,
        bulkRate: result.rate,
        bulkKept: (result.rate / aloneBulk.rate) * 100,
        failed: besideEcho.failed + besideDials.failed,
      }),
      processes,
      harnessCpuSeconds,
    };
  });
}
