#!/usr/bin/env -S node --max-semi-space-size=8
// Starts the build of this package; its source is src/main.ts.
//
// New objects get 8 MiB before they are looked through, not Node's 16: those pages stay, and weigh
// 3 KB on each of 5,000 idle connections. It can be set nowhere but on the command line.

import { fileURLToPath } from "node:url";

try {
  await import("../dist/main.js");
} catch (error) {
  if (error?.code !== "ERR_MODULE_NOT_FOUND") throw error;
  const root = fileURLToPath(new URL("../../../", import.meta.url));
  console.error(`reachback-server is not built: ${error.message.split("\n")[0]}`);
  console.error(`Run \`npm ci\`, or \`npm run build\` if dependencies are installed, in ${root}`);
  process.exit(1);
}
