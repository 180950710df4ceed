import { packageVersion, runService } from "@reachback/common";
import { Agent } from "./agent.ts";
import { agentProgram } from "./options.ts";

const version = packageVersion(import.meta.url);

await runService(process, agentProgram(version), {
  start: async (options, ports) => {
    const agent = await Agent.start(options, { ...ports, version, env: process.env });
    return {
      stop: async () => {
        await agent.drain();
        await agent.stop();
      },
    };
  },
  secondSignalExitCode: 0,
});
